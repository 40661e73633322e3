"""Shows the demo while it runs: a table that changes on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TextIO

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from anarchon.cli.output import clock_time, duration

SAID = 10
"""How many of the latest lines the table shows below it."""

SECONDS = 7
"""How many of the latest slots of the fast task a process shows."""


@dataclass(slots=True)
class Actor:
    """One process as it is shown."""

    name: str
    state: str = "starting"
    fast: deque[int] = field(default_factory=lambda: deque[int](maxlen=SECONDS))
    minute: str = ""
    long: str = ""
    long_since_ms: int | None = None
    """Since when the long handler has been at work here; None while it is not."""


@dataclass(slots=True)
class Scene:
    """All that is shown."""

    actors: dict[str, Actor]
    long_takes_ms: int
    started_at_ms: int
    until_ms: int | None = None
    said: deque[tuple[str, str]] = field(default_factory=lambda: deque[tuple[str, str]](maxlen=SAID))


class Stage(ABC):
    """Where the demo is shown."""

    @abstractmethod
    def __enter__(self) -> Stage: ...

    @abstractmethod
    def __exit__(self, *_: object) -> None: ...

    @abstractmethod
    def set(self, scene: Scene) -> None:
        """Begin with this scene, which changes by and by."""

    @abstractmethod
    def say(self, at_ms: int, text: str, *, style: str = "", detail: bool = False) -> None:
        """Something happened. A detail is what the table shows in its cells."""


class LineStage(Stage):
    """One line for each thing that happens."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def __enter__(self) -> LineStage:
        return self

    def __exit__(self, *_: object) -> None:
        self._out.flush()

    def set(self, scene: Scene) -> None:
        """Nothing: lines tell it all."""

    def say(self, at_ms: int, text: str, *, style: str = "", detail: bool = False) -> None:
        """Write the line."""
        self._out.write(f"{moment(at_ms)}  {text}\n")
        self._out.flush()


class LiveStage(Stage):
    """A table of the processes with the latest lines below it."""

    def __init__(self, console: Console, now_ms: Callable[[], int]) -> None:
        self._console = console
        self._now_ms = now_ms
        self._scene: Scene | None = None
        self._live = Live(
            console=console, get_renderable=self._show, refresh_per_second=4, transient=False, redirect_stderr=False
        )

    def __enter__(self) -> LiveStage:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def set(self, scene: Scene) -> None:
        """Show this scene from now on."""
        self._scene = scene

    def say(self, at_ms: int, text: str, *, style: str = "", detail: bool = False) -> None:
        """Add the line, unless the table shows it already."""
        if self._scene is not None and not detail:
            self._scene.said.append((f"{moment(at_ms)}  {text}", style))

    def _show(self) -> RenderableType:
        scene = self._scene
        if scene is None:
            return Text("starting")
        now_ms = self._now_ms()
        table = Table(box=box.SIMPLE_HEAD, expand=True, padding=(0, 1), pad_edge=False)
        table.add_column("process", no_wrap=True, width=9)
        table.add_column("fast, every second", no_wrap=True, ratio=3)
        table.add_column("minute", no_wrap=True, width=8)
        table.add_column("long", no_wrap=True, ratio=2)
        for actor in list(scene.actors.values()):
            table.add_row(
                Text.assemble(f"{actor.name} ", (actor.state, _STATES.get(actor.state, ""))),
                " ".join(f":{slot_ms // 1_000 % 60:02}" for slot_ms in list(actor.fast)),
                actor.minute,
                _long(actor, scene, now_ms),
            )
        said = [Text(line, style=style, no_wrap=True, overflow="ellipsis") for line, style in list(scene.said)]
        return Group(_headline(scene, now_ms), table, *said)


def stage_for(console: Console, now_ms: Callable[[], int], out: TextIO | None = None) -> Stage:
    """The table on a terminal that can redraw, lines on everything else."""
    if out is None and console.is_terminal and not console.is_dumb_terminal:
        return LiveStage(console, now_ms)
    return LineStage(sys.stdout if out is None else out)


def moment(at_ms: int) -> str:
    """Time of day in UTC to a tenth of a second."""
    return f"{clock_time(at_ms // 60_000 * 60_000)}:{at_ms // 1_000 % 60:02}.{at_ms // 100 % 10}"


def slot_text(slot_ms: int) -> str:
    """The time of day of a slot in UTC, always with seconds."""
    return f"{clock_time(slot_ms // 60_000 * 60_000)}:{slot_ms // 1_000 % 60:02}"


_STATES = {"up": "green", "killed": "bold red", "stopped": "dim"}


def _headline(scene: Scene, now_ms: int) -> Text:
    went = f"{max(0, now_ms - scene.started_at_ms) // 1_000} s"
    if scene.until_ms is not None:
        went += f" of about {duration((scene.until_ms - scene.started_at_ms) // 1_000 * 1_000)}"
    return Text.assemble(("three processes, one schedule, no leader", "bold"), f"   {slot_text(now_ms)} UTC   {went}")


def _long(actor: Actor, scene: Scene, now_ms: int) -> Text:
    if actor.long_since_ms is None:
        return Text(actor.long, style="red" if actor.state == "killed" else "")
    done = min(1.0, max(0.0, (now_ms - actor.long_since_ms) / scene.long_takes_ms))
    return Text.assemble(f"{actor.long} ", (f"{'#' * round(done * 6):.<6}", "cyan"))
