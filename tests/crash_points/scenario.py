"""A rich few seconds of a cluster: everything that an engine asks of a store, in little time, on any lease backend.

One-shots and short grids; runs that return, raise, time out, outlast their lease, close slots; a slot caught up at the
start; one instance cut off with what it holds; one stopped without grace; two that come later.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any, Literal

from anarchon.clock import Clock
from anarchon.context import RunContext
from anarchon.engine import Engine, EngineTask
from anarchon.host.inline import InlineHost
from anarchon.model.events import ClaimLost, Event, SchedulerStarted, SlotSkipped
from anarchon.model.settings import SchedulerSettings
from anarchon.model.words import SkipReason
from anarchon.protocol import LeaseBackend
from anarchon.testing.faulty import FaultyLeaseBackend
from anarchon.times.schedule import At, Every, at, every
from tests.crash_points.watching import Point, PointedWay, Watched
from tests.support.cluster import make_task
from tests.support.history import ClockPiece, History, InstanceFacts, Note, Said, Span, TaskFacts
from tests.support.recording import Log

LEASE_MS = 2_000
LONG_MS = 2_600

Handler = Callable[[RunContext[Any]], Coroutine[Any, Any, None]]


class Member:
    """One instance of the scenario."""

    def __init__(self, name: str, scenario: Scenario) -> None:
        self.scenario = scenario
        tasks = scenario.tasks()
        self.facts = InstanceFacts(
            id=name,
            tasks={task.name: TaskFacts(task.name, task.schedule, task.settings) for task in tasks},
            started_ms=0,
            start_wall_ms=0,
        )
        self.way = PointedWay(scenario.clock, scenario.now_ms, scenario.point, self.facts)
        host = InlineHost()
        host.start()
        self.engine = Engine(
            backend=FaultyLeaseBackend(Watched(scenario.make_backend(), scenario.log, scenario.now_ms), self.way),
            host=host,
            clock=scenario.clock,
            settings=SchedulerSettings(
                namespace="points",
                instance_id=name,
                lease_ms=LEASE_MS,
                shutdown_grace_ms=0,
                max_concurrent_runs=None,
            ),
            tasks=tasks,
            emit=self._hear,
            on_fatal=scenario.fatal.append,
            rng=random.Random(f"points/{name}"),
        )
        scenario.history.instances.append(self.facts)

    def _hear(self, event: Event) -> None:
        now = self.scenario.now_ms()
        if isinstance(event, SchedulerStarted):
            self.facts.up = Span(now)
        elif isinstance(event, SlotSkipped):
            self._said(event.task, event.slot_ms, event.reason, event.until_ms)
        elif isinstance(event, ClaimLost):
            self._said(event.task, event.slot_ms, "lost")

    def _said(self, task: str, slot_ms: int, reason: SkipReason | Literal["lost"], until_ms: int | None = None) -> None:
        now = self.scenario.now_ms()
        self.scenario.history.said.append(
            Said(at_ms=now, instance=self.facts.id, task=task, slot_ms=slot_ms, reason=reason, until_ms=until_ms)
        )

    async def start(self) -> None:
        """By the clock of this moment."""
        now = self.scenario.now_ms()
        self.facts.started_ms = self.facts.start_wall_ms = now
        self.facts.clock = [ClockPiece(now, now)]
        await self.engine.start()

    def leave(self) -> None:
        """It no longer claims."""
        if self.facts.up is not None:
            self.facts.up = Span(self.facts.up.start_ms, self.scenario.now_ms())

    async def stop(self) -> None:
        """Without grace."""
        self.leave()
        await self.engine.stop(0)
        await self.engine.wait_ended()
        self.facts.alive_until_ms = self.scenario.now_ms()

    def die(self) -> None:
        """As if killed: nothing that it does reaches anybody."""
        self.leave()
        self.way.die()


class Scenario:
    """Told once, with at most one call that goes wrong."""

    def __init__(self, clock: Clock, make_backend: Callable[[], LeaseBackend], point: Point) -> None:
        self.clock = clock
        self.now_ms = clock.now_ms
        self.make_backend = make_backend
        self.point = point
        self.log = Log()
        self.fatal: list[BaseException] = []
        self.start_ms = clock.now_ms()
        self.history = History(lease_ms=LEASE_MS, ended_ms=0, round_trip_ms=GIVEN_MS)

    def tasks(self) -> list[EngineTask]:
        """Anew for each instance: slots are counted from the scenario's start."""
        start = self.start_ms

        def task(
            name: str, schedule: Every | At, work_ms: float, *, fails: bool = False, **settings: Any
        ) -> EngineTask:
            overlap = settings.pop("overlap", "allow" if isinstance(schedule, At) else "skip")
            return make_task(name, schedule, self._handler(work_ms, fails), overlap=overlap, **settings)

        return [
            task("beat", every(500, offset_ms=start % 500), 30, max_late_ms=20_000, jitter_ms=200),
            task("closing", every(1_000, offset_ms=(start + 150) % 1_000), 1_250, max_late_ms=20_000),
            task("missed", at(start - 5_000), 50),
            *(task(f"long-{n}", at(start + 650 + n), LONG_MS, jitter_ms=100) for n in range(4)),
            task("once", at(start + 700), 2_500, max_attempts=1),
            task("raises", at(start + 750), 100, fails=True),
            task("timed", at(start + 800), 5_000, timeout_ms=300),
        ]

    def _handler(self, work_ms: float, fails: bool) -> Handler:
        async def work(ctx: RunContext[Any]) -> None:
            self._note("began", ctx)
            ctx.signal._subscribe(lambda: self._note("told", ctx))
            try:
                await self.clock.sleep_ms(work_ms)
                if fails:
                    raise ValueError("as planned")
            finally:
                self._note("ended", ctx)

        return work

    def _note(self, what: Any, ctx: RunContext[Any]) -> None:
        self.history.notes.append(
            Note(
                at_ms=self.now_ms(),
                what=what,
                instance=ctx.instance_id,
                task=ctx.task,
                run_id=ctx.run_id,
                attempt=ctx.attempt,
                fence=ctx.fence or 0,
            )
        )

    async def tell(self) -> History:
        """From the first start to the last outcome."""
        first, second = Member("a", self), Member("b", self)
        await first.start()
        await second.start()
        await self.clock.sleep_ms(1_500)
        third = Member("c", self)
        await third.start()
        await self.clock.sleep_ms(700)
        first.die()
        # A moment after a slot of the beat, which may still wait out its jitter.
        await self.clock.sleep_ms(340)
        await second.stop()
        fourth = Member("d", self)
        await fourth.start()
        await self.clock.sleep_ms(2 * LEASE_MS + 2 * LONG_MS)
        await self._close_book([third, fourth])
        await asyncio.gather(third.stop(), fourth.stop())
        await first.engine.leave()
        return self.history

    async def _close_book(self, members: list[Member]) -> None:
        self.history.ended_ms = self.now_ms()
        self.history.writes = sorted(self.log.writes, key=lambda write: write.at_ms)
        reader = self.make_backend()
        await reader.open("points", None)
        try:
            runs = [run for name in await reader.task_names() for run in await reader.history(name, 1_000)]
        finally:
            await reader.close()
        self.history.stored = {run.run_id: run.status for run in runs}


GIVEN_MS = 50.0
"""How long an undisturbed call takes at most."""
