"""The stories behind the timelines of the documentation: the real engine in virtual time, on the memory backend.

Where the engine has changed for good, `python -m tests.docs.timelines` writes them anew into the pages. Then read the
sentences around them again.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from anarchon.context import RunContext
from anarchon.engine import EngineTask
from anarchon.model.events import (
    BackendAway,
    BackendBack,
    Event,
    HandlerEnded,
    HandlerOutlived,
    LeaseLost,
    RunEvent,
    RunFailed,
    RunHandedOver,
    RunInterrupted,
    RunStarted,
    RunSucceeded,
    SlotSkipped,
)
from anarchon.protocol import Backend
from anarchon.testing.clock import VirtualClock
from anarchon.testing.faulty import Faults, FaultyLeaseBackend
from anarchon.testing.vloop import run_virtual
from anarchon.times.instants import parse_instant
from anarchon.times.schedule import every
from tests.support.cluster import Cluster, Instance, make_task

START = "2026-12-01T09:58:00Z"
SECOND = 1_000
MINUTE = 60_000


class Stage:
    """A cluster, and the lines of what happens on it."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.notes: list[tuple[int, str]] = []

    def say(self, text: str) -> None:
        """Something that the story does and no event tells."""
        self.notes.append((self.cluster.now_ms(), text))

    async def to(self, time: str) -> None:
        """Let virtual time pass until this time of the day."""
        await self.cluster.advance_to(at(time))

    async def start(self, *tasks: EngineTask, count: int = 2, **options: Any) -> list[Instance]:
        return await self.cluster.start(count, *tasks, **options)

    def holder(self) -> Instance:
        """The instance that has started the one run so far."""
        (started,) = self.cluster.told(RunStarted)
        return next(each for each in self.cluster.instances if each.id == started.instance_id)

    def lines(self, left_out: tuple[type[Event], ...], to_the: str) -> str:
        told = [
            (event.at_ms, words)
            for event in self.cluster.told(Event)
            if not isinstance(event, left_out) and (words := in_words(event))
        ]
        ordered = sorted([*self.notes, *told], key=lambda line: line[0])
        digits = len("00:00:00.000" if to_the == "ms" else "00:00:00")
        return "".join(f"{clock_time(at_ms)[:digits]}  {words}\n" for at_ms, words in ordered)


Story = Callable[[Stage], Awaitable[None]]


def at(time: str) -> int:
    """A time of the day of the stories."""
    return parse_instant(f"2026-12-01T{time}Z")


def clock_time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1_000, UTC).strftime("%H:%M:%S.%f")[:-3]


def slot_time(slot_ms: int | None) -> str:
    return clock_time(slot_ms or 0).removesuffix(".000").removesuffix(":00")


def in_words(event: Event) -> str | None:
    """How a timeline shows an event; None: not at all."""
    who = event.instance_id
    if isinstance(event, SlotSkipped):
        until = f" to {slot_time(event.until_ms)}" if event.until_ms is not None else ""
        return f"{who} skips {slot_time(event.slot_ms)}{until}: {event.reason}"
    if isinstance(event, BackendAway):
        return f"{who} cannot reach the store"
    if isinstance(event, BackendBack):
        return f"{who} reaches the store again"
    if not isinstance(event, RunEvent):
        return None
    run = slot_time(event.slot_ms)
    return {
        RunStarted: f"{who} starts {run} (attempt {event.attempt}, {event.reason})",
        RunSucceeded: f"{who} ends {run}: succeeded",
        RunFailed: f"{who} ends {run}: failed, {getattr(event, 'error', '')}",
        RunInterrupted: f"{who} finds {run} at its end: interrupted",
        RunHandedOver: f"{who} hands {run} over",
        LeaseLost: f"{who} has lost its lease on {run}: signal 'lease-lost'",
        HandlerOutlived: f"{who} reports that the handler of {run} still runs",
        HandlerEnded: f"{who} reports that the handler of {run} has ended",
    }.get(type(event))


def told(name: str) -> str:
    """The lines of one story."""
    story, left_out, to_the = STORIES[name]

    async def play() -> str:
        stage = Stage()
        await story(stage)
        lines = stage.lines(left_out, to_the)
        await stage.cluster.stop()
        return lines

    return run_virtual(play, start_at_ms=at("09:58:00"), limit_ms=24 * 60 * MINUTE)


def works(stage: Stage, *durations_ms: float) -> Callable[[RunContext[Any]], Coroutine[Any, Any, None]]:
    """A handler that works so long, the n-th start for the n-th duration and later ones for the last."""
    starts: list[RunContext[Any]] = []

    async def work(ctx: RunContext[Any]) -> None:
        starts.append(ctx)
        await stage.cluster.clock.sleep_ms(durations_ms[min(len(starts), len(durations_ms)) - 1])

    return work


async def jitter(stage: Stage) -> None:
    await stage.start(make_task("t", every("5m"), works(stage, 400), jitter_ms=2_000))
    await stage.to("10:11:00")


async def late(stage: Stage) -> None:
    faults = Faults(stage.cluster.clock)

    def cut_off(backend: Any, clock: VirtualClock) -> Backend:
        return FaultyLeaseBackend(backend, faults)

    await stage.start(make_task("t", every("5m"), works(stage, 400)), count=1, wrap=cut_off)
    await stage.to("09:59:50")
    faults.outage = True
    await stage.to("10:02:30")
    faults.outage = False
    await stage.to("10:06:00")


async def timeout(stage: Stage) -> None:
    async def stubborn(ctx: RunContext[Any]) -> None:
        until = stage.cluster.now_ms() + 90 * SECOND
        while (left := until - stage.cluster.now_ms()) > 0:
            try:
                await stage.cluster.clock.sleep_ms(left)
            except BaseException:
                stage.say("the handler swallows its cancellation")

    await stage.start(make_task("t", every("5m"), stubborn, timeout_ms=60_000), count=1)
    await stage.to("10:02:00")


async def overlap_skip(stage: Stage) -> None:
    await stage.start(make_task("t", every("5m"), works(stage, 7 * MINUTE, 10 * SECOND)))
    await stage.to("10:11:00")


async def overlap_allow(stage: Stage) -> None:
    await stage.start(make_task("t", every("5m"), works(stage, 7 * MINUTE, 10 * SECOND), overlap="allow"))
    await stage.to("10:11:00")


async def _killed(stage: Stage, **options: Any) -> None:
    await stage.start(make_task("t", every("5m"), works(stage, 60 * SECOND), **options))
    await stage.to("10:00:20")
    victim = stage.holder()
    victim.kill()
    stage.say(f"the process of {victim.id} is killed")
    await stage.to("10:02:00")


async def attempts_three(stage: Stage) -> None:
    await _killed(stage, max_attempts=3)


async def attempts_one(stage: Stage) -> None:
    await _killed(stage, max_attempts=1)


async def catch_up(stage: Stage) -> None:
    tasks = [make_task("t", every("5m"), works(stage, 10 * SECOND))]
    (first,) = await stage.start(*tasks, count=1)
    await stage.to("09:59:00")
    await first.stop()
    stage.say("a is stopped; nothing runs")
    await stage.to("10:08:00")
    stage.say("b is started")
    await stage.start(*tasks, count=1)
    await stage.to("10:11:00")


async def busy(stage: Stage) -> None:
    slow = make_task("t", every("30s"), works(stage, 50 * SECOND, 10 * SECOND), overlap="allow", max_late_ms=15_000)
    await stage.to("09:59:45")
    await stage.start(slow, count=1, max_concurrent_runs=1)
    await stage.to("10:01:45")


async def hand_over(stage: Stage) -> None:
    await stage.start(make_task("t", every("5m"), works(stage, 60 * SECOND)))
    await stage.to("10:00:05")
    holder = stage.holder()
    stage.say(f"{holder.id} is told to stop, grace 10 s")
    await holder.stop(10_000)
    await stage.to("10:02:00")


async def short_outage(stage: Stage) -> None:
    await _outage(stage, "10:00:04.500")


async def long_outage(stage: Stage) -> None:
    await _outage(stage, "10:00:20.500")


async def _outage(stage: Stage, until: str) -> None:
    faults = Faults(stage.cluster.clock)
    await stage.to("10:00:00.500")
    await stage.start(
        make_task("t", every("1s"), works(stage, 1), overlap="allow"),
        count=1,
        wrap=lambda backend, _: FaultyLeaseBackend(backend, faults),
    )
    await stage.to("10:00:01.500")
    faults.outage = True
    await stage.to(until)
    faults.outage = False
    # How fast a backlog is worked off is random, and nobody's business.
    await stage.cluster.advance(20 * SECOND)
    ran = [slot_time(event.slot_ms) for event in stage.cluster.told(RunStarted) if (event.slot_ms or 0) < at(until)]
    stage.notes.append((at(until) + 2 * SECOND, f"in all, these slots have run: {' '.join(ran)}"))


STORIES: dict[str, tuple[Story, tuple[type[Event], ...], str]] = {
    "jitter": (jitter, (), "ms"),
    "late": (late, (), "ms"),
    "timeout": (timeout, (), "ms"),
    "overlap-skip": (overlap_skip, (), "ms"),
    "overlap-allow": (overlap_allow, (), "ms"),
    "attempts-three": (attempts_three, (), "ms"),
    "attempts-one": (attempts_one, (), "ms"),
    "catch-up": (catch_up, (), "ms"),
    "busy": (busy, (), "ms"),
    "hand-over": (hand_over, (), "ms"),
    "short-outage": (short_outage, (RunStarted, RunSucceeded), "s"),
    "long-outage": (long_outage, (RunStarted, RunSucceeded), "s"),
}
"""Each with the events that are left out, and how finely its times are shown."""


def rewrite(path: Path) -> None:
    """Put what the stories tell now into a page."""
    text = path.read_text(encoding="utf-8")
    block = re.compile(r"(<!-- timeline: ([\w-]+) -->\n```text\n).*?(?=```)", re.DOTALL)
    path.write_text(block.sub(lambda match: match[1] + told(match[2]), text), encoding="utf-8")


if __name__ == "__main__":
    for name in sorted((Path(__file__).parents[2] / "docs").rglob("*.md")):
        rewrite(name)
