"""One process of a simulated cluster: an engine, its clock, its way to the store, and what is known of it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

from anarchon.engine import Engine, EngineTask
from anarchon.host.inline import InlineHost
from anarchon.model.events import ClaimLost, Event, SchedulerStarted, SlotSkipped
from anarchon.model.settings import SchedulerSettings
from anarchon.testing.clock import VirtualClock
from anarchon.testing.faulty import FaultyLeaseBackend
from tests.simulation.network import Way
from tests.simulation.plans import MachinePlan, TaskPlan
from tests.simulation.work import Diary, handler
from tests.support.history import FOREVER, ClockPiece, History, InstanceFacts, Said, Span, TaskFacts
from tests.support.recording import OnRecord, RecordingStore


class Process:
    """Started once; stopped or killed once."""

    def __init__(
        self,
        instance_id: str,
        machine: MachinePlan,
        clock: VirtualClock,
        tasks: Sequence[TaskPlan],
        *,
        world_clock: VirtualClock,
        store: RecordingStore,
        history: History,
        diary: Diary,
        seed: int,
    ) -> None:
        self.id = instance_id
        self.clock = clock
        self._world = world_clock
        self._history = history
        self._drift = 1 + machine.drift_ppm / 1e6
        now = world_clock.now_ms()
        self.facts = InstanceFacts(
            id=instance_id,
            tasks={plan.name: TaskFacts(plan.name, plan.schedule, plan.settings, plan.work.is_async) for plan in tasks},
            started_ms=now,
            start_wall_ms=clock.now_ms(),
            clock=[ClockPiece(now, clock.now_ms(), self._drift)],
            limited=machine.most_runs is not None,
        )
        history.instances.append(self.facts)
        self.way = Way(world_clock, clock, self.facts, random.Random(f"{seed}/way/{instance_id}"))
        self.host = InlineHost()
        self.host.start()
        self.fatal: list[BaseException] = []
        self.engine = Engine(
            backend=FaultyLeaseBackend(OnRecord(store), self.way),
            host=self.host,
            clock=clock,
            settings=SchedulerSettings(
                namespace="sim",
                instance_id=instance_id,
                lease_ms=history.lease_ms,
                shutdown_grace_ms=10_000,
                max_concurrent_runs=machine.most_runs,
            ),
            tasks=[
                EngineTask(
                    name=plan.name,
                    schedule=plan.schedule,
                    settings=plan.settings,
                    fn=handler(plan.work, clock, diary, seed),
                    is_async=plan.work.is_async,
                    takes_context=True,
                )
                for plan in tasks
            ],
            emit=self._hear,
            on_fatal=self.fatal.append,
            rng=random.Random(f"{seed}/engine/{instance_id}"),
        )
        self._frozen_since: tuple[float, bool] | None = None
        self.lingering: asyncio.Task[None] | None = None

    def _hear(self, event: Event) -> None:
        now = self._world.now_ms()
        if isinstance(event, SlotSkipped):
            self._said(now, event.task, event.slot_ms, event)
        elif isinstance(event, ClaimLost):
            self._history.said.append(
                Said(at_ms=now, instance=self.id, task=event.task, slot_ms=event.slot_ms, reason="lost")
            )
        elif isinstance(event, SchedulerStarted):
            self.facts.up = Span(now, FOREVER)

    def _said(self, now: float, task: str, slot_ms: int, event: SlotSkipped) -> None:
        self._history.said.append(
            Said(at_ms=now, instance=self.id, task=task, slot_ms=slot_ms, reason=event.reason, until_ms=event.until_ms)
        )

    # ---------------------------------------------------------------- what is done to it

    def stand_still(self, *, suspend: bool) -> None:
        """Freeze the process, or suspend the machine."""
        self._frozen_since = (self._world.now_ms(), suspend)
        if suspend:
            self.clock.suspend()
        else:
            self.clock.freeze()

    def go_on(self) -> None:
        """End that."""
        if self._frozen_since is None:
            return
        since, suspended = self._frozen_since
        self._frozen_since = None
        span = Span(since, self._world.now_ms())
        self.facts.frozen.append(span)
        if suspended:
            self.facts.suspended.append(span)
        self.clock.thaw()

    def jump(self, ms: int) -> None:
        """Set its wall clock."""
        self.clock.jump(ms)
        self.facts.clock.append(ClockPiece(self._world.now_ms(), self.clock.now_ms(), self._drift))

    async def lag(self, ms: float) -> None:
        """Its application's loop does not answer."""
        since = self._world.now_ms()
        self.host.lag = 5_000
        await self._world.sleep_ms(ms)
        self.host.lag = 0
        # A slot that was kept back is looked at again a moment later.
        self.facts.lagging.append(Span(since, self._world.now_ms() + 300))

    def kill(self) -> None:
        """As `kill -9` does; what it has sent still arrives."""
        now = self._world.now_ms()
        self.clock.freeze()
        self.facts.frozen.append(Span(now, FOREVER))
        self._leave(now)
        self.facts.alive_until_ms = now

    async def stop(self, grace_ms: int) -> None:
        """Stop as a deploy does. Handlers that will not end linger."""
        self._leave(self._world.now_ms())
        await self.engine.stop(grace_ms)
        self.lingering = asyncio.get_running_loop().create_task(self._linger())

    async def _linger(self) -> None:
        await self.engine.wait_ended()
        self.facts.alive_until_ms = self._world.now_ms()

    def _leave(self, now: float) -> None:
        if self.facts.up is not None and self.facts.up.end_ms == FOREVER:
            self.facts.up = Span(self.facts.up.start_ms, now)

    def close_book(self) -> None:
        """Write down what is still going on."""
        now = self._world.now_ms()
        if self._frozen_since is not None:
            self.facts.frozen.append(Span(self._frozen_since[0], now))
        self.way.turn("calm")
