"""Starts the processes of the demo, kills one, ends them all, and looks at what they have left."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from anarchon.cli.demo.check import Problem, Recovery, TaskCount, check, count, recovery
from anarchon.cli.demo.evidence import Evidence, Kill, read_evidence
from anarchon.cli.demo.instance import parameters
from anarchon.cli.demo.plan import FAST, LONG, MINUTE, PROCESSES, Pace, make_scheduler
from anarchon.cli.demo.stage import Actor, Scene, Stage, slot_text
from anarchon.cli.output import clean, duration
from anarchon.clock import SystemClock
from anarchon_sqlite import SQLiteBackend

UP_WITHIN_MS: Final = 30_000
"""How long the processes may take to start."""

STORY_WITHIN_MS: Final = 60_000
"""How long kill and recovery may take, beyond which the demo ends without them."""

ENDED_WITHIN_MS: Final = 30_000
"""How long the processes may take to end."""

SETTLE_MS: Final = 500
"""How long beyond the longest jitter the processes stay up for the last due slots."""

AFTER_MINUTE_MS: Final = 1_500
"""How long the demo goes on after the minute's slot."""


class DemoFailedError(Exception):
    """The demo could not be played to its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """How it went."""

    evidence: Evidence
    problems: list[Problem]
    counts: list[TaskCount]
    recovery: Recovery | None
    began_ms: int
    ended_ms: int
    """Slots after `began_ms` and up to `ended_ms` are due."""

    @property
    def ok(self) -> bool:
        """Whether all was as promised."""
        return not self.problems


class _Instance:
    """One process, from the outside."""

    def __init__(self, name: str, process: Process, actor: Actor) -> None:
        self.name = name
        self.process = process
        self.actor = actor
        self.instance_id = f"{name}-{process.pid}"
        self.up_at_ms: int | None = None
        self.expected_to_end = False


class Play:
    """One run of the demo."""

    def __init__(self, *, store: Path, folder: Path, pace: Pace, stage: Stage) -> None:
        self._store = store
        self._folder = folder
        self._pace = pace
        self._stage = stage
        self._clock = SystemClock()
        self._instances: dict[str, _Instance] = {}
        self._listening: list[asyncio.Task[None]] = []
        self._broken = asyncio.Event()
        self._broken_because = ""
        self._all_up = asyncio.Event()
        self._long_began = asyncio.Event()
        self._long_on: tuple[_Instance, int, int] | None = None
        self._recovered = asyncio.Event()
        self._kill: Kill | None = None
        self._scene = Scene(
            actors={name: Actor(name) for name in PROCESSES},
            long_takes_ms=pace.long_takes_ms,
            started_at_ms=self._clock.now_ms(),
        )
        # Never started: asked for its slots and settings.
        self._schedule = make_scheduler(store, pace)

    async def run(
        self, *, seconds: float, until_minute: bool, before_check: Callable[[Path], object] | None = None
    ) -> Report:
        """Play for about `seconds`; longer where the story, or the minute's slot if asked for, needs it.

        `before_check` gets the folder once all processes have ended and before anything is read. Raises
        DemoFailedError where the demo cannot go on. No process is left in any case.
        """
        self._stage.set(self._scene)
        try:
            await self._start()
            began_ms = min(each.up_at_ms for each in self._instances.values() if each.up_at_ms is not None)
            least_ms = began_ms + round(seconds * 1_000)
            if until_minute:
                due_ms = self._schedule.task(MINUTE).schedule.next(began_ms) or began_ms
                if due_ms + AFTER_MINUTE_MS > least_ms:
                    least_ms = due_ms + AFTER_MINUTE_MS
                    self._say(
                        f"going on until {slot_text(least_ms)}, since {MINUTE!r} is due at {slot_text(due_ms)}",
                        style="dim",
                    )
            self._scene.until_ms = least_ms
            await self._kill_one()
            await self._sleep(least_ms - self._clock.now_ms())
            ended_ms = self._clock.now_ms()
            # What was due up to now may still be waiting for its jitter.
            jitters = [self._schedule.task(task).settings.jitter_ms for task in (FAST, MINUTE, LONG)]
            await self._sleep(max(jitters) + SETTLE_MS)
            await self._stop()
        finally:
            await self._end_all()
        if before_check is not None:
            before_check(self._folder)
        return await report_on(
            store=self._store,
            folder=self._folder,
            pace=self._pace,
            began_ms=began_ms,
            ended_ms=ended_ms,
            kill=self._kill,
        )

    # ---------------------------------------------------------------- start and end

    async def _start(self) -> None:
        for name in PROCESSES:
            with _new_file(self._folder / f"{name}.log") as log:
                process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-m",
                    "anarchon.cli.demo.instance",
                    parameters(name, self._store, self._folder, self._pace),
                    stdin=PIPE,
                    stdout=PIPE,
                    stderr=log,
                    # A Ctrl-C is for this process alone; the others end when it says so, or when it is gone.
                    start_new_session=True,
                )
            started = _Instance(name, process, self._scene.actors[name])
            self._instances[name] = started
            self._listening.append(asyncio.create_task(self._listen(started), name=f"listen-{name}"))
        await self._until(self._all_up, UP_WITHIN_MS, "the processes are not up")

    async def _stop(self) -> None:
        """Ask those that are left to stop, and wait until they have."""
        self._say("asking the others to stop: they finish what they run", style="dim")
        for each in self._instances.values():
            each.expected_to_end = True
            if each.process.stdin is not None:
                each.process.stdin.close()
        done, late = await asyncio.wait(self._listening, timeout=ENDED_WITHIN_MS / 1_000)
        if late:
            raise DemoFailedError(f"a process did not end within {duration(ENDED_WITHIN_MS)}")
        for task in done:
            task.result()

    async def _end_all(self) -> None:
        """Leave no process, whatever happened."""
        # First all of them, before anything can interrupt the waiting.
        for each in self._instances.values():
            each.expected_to_end = True
            if each.process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    each.process.kill()
        for each in self._instances.values():
            if each.process.stdin is not None:
                each.process.stdin.close()
            await each.process.wait()
        await asyncio.gather(*self._listening, return_exceptions=True)

    # ---------------------------------------------------------------- the story

    async def _kill_one(self) -> None:
        """Kill the process that runs the long task, and wait until another has brought that run to its end."""
        await self._until(self._long_began, STORY_WITHIN_MS, f"no process began {LONG!r}")
        if self._long_on is None:
            raise DemoFailedError(f"no process began {LONG!r}")
        victim, slot_ms, began_ms = self._long_on
        await self._sleep(began_ms + self._pace.kill_after_ms - self._clock.now_ms())
        victim.expected_to_end = True
        self._kill = Kill(instance_id=victim.instance_id, task=LONG, slot_ms=slot_ms, at_ms=self._clock.now_ms())
        victim.actor.state, victim.actor.long_since_ms = "killed", None
        victim.process.kill()
        await victim.process.wait()
        victim.actor.long = f"{slot_text(slot_ms)} lost"
        self._say(f"{victim.name} killed (SIGKILL) while it ran {LONG} {slot_text(slot_ms)}", style="bold red")
        self._say(f"  its lease of {duration(self._pace.lease_ms)} has to run out first", style="dim")
        await self._until(self._recovered, STORY_WITHIN_MS, f"nobody finished {LONG} {slot_text(slot_ms)}", fatal=False)

    async def _listen(self, to: _Instance) -> None:
        stdout = to.process.stdout
        if stdout is None:
            raise DemoFailedError(f"process {to.name} has no stdout")
        async for line in stdout:
            with contextlib.suppress(ValueError):
                self._heard(to, cast("dict[str, Any]", json.loads(line)))
        code = await to.process.wait()
        if to.expected_to_end:
            if to.actor.state != "killed":
                to.actor.state = "stopped"
                self._say(f"{to.name} stopped", style="dim")
        else:
            self._break(f"process {to.name} ended by itself with code {code}{self._last_words(to.name)}")

    def _heard(self, of: _Instance, told: Mapping[str, Any]) -> None:
        what, at_ms = told.get("what"), told.get("at_ms", 0)
        if what == "up":
            of.up_at_ms, of.actor.state = at_ms, "up"
            self._say(f"{of.name} is up, as instance {of.instance_id}", at_ms=at_ms)
            if sum(each.up_at_ms is not None for each in self._instances.values()) == len(PROCESSES):
                self._all_up.set()
        elif what == "began":
            self._heard_begin(of, told["task"], told["slot_ms"], told["attempt"], at_ms)
        elif what == "ended":
            self._heard_end(of, told["task"], told["slot_ms"], at_ms)
        elif what == "skipped":
            reason = told["reason"]
            why = "the run before it is still in progress" if reason == "overlap" else reason
            slot = f"{told['task']} {slot_text(told['slot_ms'])}"
            self._say(f"{of.name} skips {slot}: {why}", at_ms=at_ms, style="yellow")
        elif what == "trouble":
            self._say(f"{of.name}: {clean(told['text'])}", at_ms=at_ms, style="red")

    def _heard_begin(self, of: _Instance, task: str, slot_ms: int, attempt: int, at_ms: int) -> None:
        actor = of.actor
        what = f"{task} {slot_text(slot_ms)}"
        again = attempt > 1
        if task == FAST:
            actor.fast.append(slot_ms)
        elif task == MINUTE:
            actor.minute = slot_text(slot_ms)
        else:
            actor.long, actor.long_since_ms = slot_text(slot_ms), at_ms
            if self._all_up.is_set() and not self._long_began.is_set():
                self._long_on = of, slot_ms, at_ms
                self._long_began.set()
        self._say(
            f"{of.name} begins {what} again, as attempt {attempt}" if again else f"{of.name} runs {what}",
            at_ms=at_ms,
            style="bold green" if again else "",
            detail=task == FAST and not again,
        )

    def _heard_end(self, of: _Instance, task: str, slot_ms: int, at_ms: int) -> None:
        if task == LONG:
            of.actor.long, of.actor.long_since_ms = f"{slot_text(slot_ms)} done", None
            self._say(f"{of.name} has finished {task} {slot_text(slot_ms)}", at_ms=at_ms)
            if self._kill is not None and slot_ms == self._kill.slot_ms:
                self._recovered.set()

    # ---------------------------------------------------------------- helpers

    def _say(self, text: str, *, at_ms: int | None = None, style: str = "", detail: bool = False) -> None:
        self._stage.say(self._clock.now_ms() if at_ms is None else at_ms, text, style=style, detail=detail)

    def _break(self, because: str) -> None:
        if not self._broken.is_set():
            self._broken_because = because
            self._broken.set()

    def _last_words(self, name: str) -> str:
        lines = (self._folder / f"{name}.log").read_text("utf-8", errors="replace").split("\n")
        said = [clean(line) for line in lines if line.strip()][-3:]
        return f"; its log ends with: {' | '.join(said)}" if said else ""

    async def _sleep(self, duration_ms: float) -> None:
        """Wait; raise as soon as a process ends by itself."""
        await self._first(self._clock.sleep_ms(duration_ms))

    async def _until(self, event: asyncio.Event, within_ms: float, otherwise: str, *, fatal: bool = True) -> None:
        """Wait for something named; raise when it does not come in time, or when a process ends by itself."""
        await self._first(self._either(event, within_ms))
        if fatal and not event.is_set():
            raise DemoFailedError(f"{otherwise} within {duration(within_ms)}")

    async def _either(self, event: asyncio.Event, within_ms: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(event.wait(), within_ms / 1_000)

    async def _first(self, waiting: Coroutine[Any, Any, None]) -> None:
        tasks: set[asyncio.Future[Any]] = {asyncio.ensure_future(waiting), asyncio.ensure_future(self._broken.wait())}
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if self._broken.is_set():
            raise DemoFailedError(self._broken_because)


async def report_on(
    *, store: Path, folder: Path, pace: Pace, began_ms: int, ended_ms: int, kill: Kill | None
) -> Report:
    """Read what a run of the demo has left and check it."""
    schedule = make_scheduler(store, pace)
    due = {task: due_slots(schedule.task(task).schedule.next, began_ms, ended_ms) for task in (FAST, MINUTE, LONG)}
    evidence = await read_evidence(SQLiteBackend(store), folder, due=due, kill=kill)
    return Report(
        evidence=evidence,
        problems=check(evidence),
        counts=count(evidence),
        recovery=recovery(evidence),
        began_ms=began_ms,
        ended_ms=ended_ms,
    )


def _new_file(path: Path) -> BinaryIO:
    return path.open("wb")


def due_slots(following: Callable[[int], int | None], began_ms: int, ended_ms: int) -> list[int]:
    """The slots after the first instance was up, up to the end. One at the start itself belongs to catch-up."""
    found: list[int] = []
    slot_ms = following(began_ms)
    while slot_ms is not None and slot_ms <= ended_ms:
        found.append(slot_ms)
        slot_ms = following(slot_ms)
    return found
