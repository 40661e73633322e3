"""A store that is away for long, again and again, under load: memory stays flat and nothing is left over.

After https://github.com/celery/celery/issues/3436 and https://github.com/agronholm/apscheduler/issues/109.
"""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from anarchon.engine.recorder import MOST_SKIPS
from anarchon.model.asks import Claim, Finish, LeaseOutcome, LeaseTerms
from anarchon.model.events import BackendAway, BackendBack, RunStarted, SchedulerStopped, SlotSkipped
from anarchon.protocol import ClaimBackend, LeaseBackend
from anarchon.testing import Call, Fault, Faults, FaultyClaimBackend, FaultyLeaseBackend
from anarchon.times.schedule import every
from tests.scenarios.dates import HOUR, MINUTE, SECOND
from tests.support.cluster import START_MS, Cluster, Instance, in_virtual_time, make_task

TASKS = 50


def behind(cluster: Cluster, faults: Faults, tasks: int = TASKS, **options: Any) -> Instance:
    """An instance with some tasks that are due every second, on a way to the store that can be cut."""

    def wrap(backend: LeaseBackend | ClaimBackend, _: object) -> FaultyLeaseBackend | FaultyClaimBackend:
        if isinstance(backend, LeaseBackend):
            return FaultyLeaseBackend(backend, faults)
        return FaultyClaimBackend(backend, faults)

    settings: dict[str, Any] = {"overlap": "allow", "max_attempts": 1, "catch_up_ms": 0} if cluster.claim_only else {}
    made = [make_task(f"t{n}", every("1s"), history_size=5, **settings, **options) for n in range(tasks)]
    return cluster.make(made, wrap=wrap)


def held_by_the_engine(instance: Instance) -> Counter[str]:
    """How many objects of each of anarchon's own classes there are, without the events that the test keeps."""
    instance.events.clear()
    gc.collect()
    kinds = (type(each) for each in gc.get_objects())
    found = Counter(kind.__qualname__ for kind in kinds if kind.__module__.startswith("anarchon."))
    # The store keeps a number of skips for each task, the engine gathers a number of its own; see MOST_SKIPS.
    del found["Skip"]
    return found


REFUSED = Fault(kind="refused")
UNANSWERED = Fault(kind="lost", delay_ms=2_000)


@pytest.mark.parametrize("fault", [REFUSED, UNANSWERED], ids=["refused", "unanswered"])
@pytest.mark.parametrize("claim_only", [False, True], ids=["lease", "claim-only"])
def test_memory_is_flat_while_the_store_is_away_and_the_first_slot_after_it_runs(
    claim_only: bool, fault: Fault
) -> None:
    async def story() -> None:
        cluster = Cluster(claim_only=claim_only, slot_ttl_ms=61_000)
        faults = Faults(cluster.clock)
        one = behind(cluster, faults)
        await one.engine.start()
        await cluster.advance(2 * MINUTE)
        await cluster.advance(500)
        before = held_by_the_engine(one)
        timers = len(one.clock._timers)
        faults.use(lambda _: fault)
        during: list[Counter[str]] = []
        away = 0
        for _ in range(10):
            await cluster.advance(MINUTE)
            away += len(one.told(BackendAway))
            assert one.engine.snapshot().waiting_claims <= TASKS * 13
            assert len(one.engine._recorder._skips) <= MOST_SKIPS
            assert len(asyncio.all_tasks()) <= 12
            assert len(one.clock._timers) <= timers + 12
            during.append(held_by_the_engine(one))
        assert away == 1
        early, late = during[1], during[-1]
        for kind, count in late.items():
            assert count <= early[kind] + 3 * TASKS, kind
        faults.use(lambda _: Fault())
        end = cluster.now_ms()
        await cluster.advance(10 * SECOND)
        assert len(one.told(BackendBack)) == 1
        assert one.told(BackendAway) == []
        ran = {event.task for event in one.told(RunStarted, slot_ms=(end // SECOND + 1) * SECOND)}
        assert ran == {f"t{n}" for n in range(TASKS)}
        await cluster.advance(2 * MINUTE)
        after = held_by_the_engine(one)
        for kind, count in after.items():
            assert count <= before[kind] + 6 * TASKS, kind
        assert len(one.clock._timers) <= timers + 2
        await cluster.stop()
        assert len(one.told(SchedulerStopped)) == 1
        assert [timer._callback for timer in one.clock._timers] == []
        assert asyncio.all_tasks() == {asyncio.current_task()}

    in_virtual_time(story)


def test_five_outages_are_told_once_each_and_leave_nothing_behind() -> None:
    async def story() -> None:
        cluster = Cluster()
        faults = Faults(cluster.clock)
        one = behind(cluster, faults, tasks=5)
        await one.engine.start()
        levels: list[int] = []
        for _ in range(5):
            await cluster.advance(MINUTE)
            faults.outage = True
            await cluster.advance(10 * MINUTE)
            faults.outage = False
            await cluster.advance(MINUTE)
            levels.append(len(one.clock._timers) + len(asyncio.all_tasks()))
        assert max(levels) - min(levels) <= 3
        assert len(one.told(BackendAway)) == len(one.told(BackendBack)) == 5
        # The tenth failed try in a row comes after two seconds and not after hours.
        assert all(event.away_ms <= 10 * MINUTE + 2_500 for event in one.told(BackendBack))
        await cluster.stop()
        assert [timer._callback for timer in one.clock._timers] == []
        assert asyncio.all_tasks() == {asyncio.current_task()}

    in_virtual_time(story)


def test_short_outages_run_their_slots_late_and_once() -> None:
    async def story() -> None:
        cluster = Cluster()
        ways = [Faults(cluster.clock) for _ in range(2)]
        for faults in ways:
            instance = cluster.make(
                [make_task("t", every("5s"))],
                wrap=lambda backend, _, faults=faults: FaultyLeaseBackend(backend, faults),  # type: ignore[misc]
            )
            await instance.engine.start()
        for _ in range(2):
            await cluster.advance(MINUTE - 1)
            for faults in ways:
                faults.outage = True
            await cluster.advance(9_000)
            for faults in ways:
                faults.outage = False
            await cluster.advance(21_001)
        await cluster.advance(1)
        slots = [event.slot_ms or 0 for event in cluster.told(RunStarted)]
        assert slots == [START_MS + n * 5 * SECOND for n in range(1, 37)]
        await cluster.stop()

    in_virtual_time(story)


def test_one_instance_that_is_cut_off_leaves_every_slot_to_the_other() -> None:
    async def story() -> None:
        cluster = Cluster()
        faults = Faults(cluster.clock)
        cut = behind(cluster, faults, tasks=3)
        (other,) = await cluster.start(1, *[make_task(f"t{n}", every("1s"), history_size=5) for n in range(3)])
        await cut.engine.start()
        await cluster.advance(MINUTE)
        faults.outage = True
        begin = cluster.now_ms()
        await cluster.advance(30 * MINUTE + 1)
        for n in range(3):
            slots = [event.slot_ms or 0 for event in other.told(RunStarted, task=f"t{n}") if event.at_ms > begin]
            assert slots == [begin + k * SECOND for k in range(1, 30 * 60 + 1)]
        assert [event for event in cut.told(RunStarted) if event.at_ms > begin] == []
        faults.outage = False
        await cluster.advance(MINUTE)
        everything = [(event.task, event.slot_ms) for event in cluster.told(RunStarted)]
        assert len(everything) == len(set(everything)) == 3 * (1 + 30 + 1) * 60
        await cluster.stop()

    in_virtual_time(story)


def test_the_first_call_after_a_reconnect_may_fail_too() -> None:
    async def story() -> None:
        cluster = Cluster()
        after: list[str] = []

        def plan(call: Call) -> Fault:
            if faults_end is not None and cluster.now_ms() >= faults_end and call.name not in after:
                after.append(call.name)
                return UNANSWERED
            return Fault()

        faults_end: int | None = None
        faults = Faults(cluster.clock, plan)
        one = behind(cluster, faults, tasks=2)
        await one.engine.start()
        await cluster.advance(10_500)
        faults.outage = True
        await cluster.advance(HOUR)
        faults_end = cluster.now_ms()
        faults.outage = False
        await cluster.advance(30 * SECOND)
        assert {"claim", "survey"} <= set(after)
        recent = {event.slot_ms for event in one.told(RunStarted) if event.at_ms > faults_end + 10 * SECOND}
        assert len(recent) >= 19
        assert one.engine.snapshot().backend_away is False
        await cluster.stop()

    in_virtual_time(story)


class Lockable(FaultyLeaseBackend):
    """A store behind a lock that another program may hold. What it is asked meanwhile is done when that lets go."""

    def __init__(self, inner: LeaseBackend, cluster: Cluster, free: asyncio.Event, finish_ms: int) -> None:
        super().__init__(inner, Faults(cluster.clock))
        self._cluster = cluster
        self._free = free
        self._finish_ms = finish_ms

    async def claim(self, claims: Sequence[Claim[LeaseTerms]]) -> Sequence[LeaseOutcome]:
        await self._free.wait()
        return await super().claim(claims)

    async def finish(self, finishes: Sequence[Finish]) -> Sequence[bool]:
        await self._free.wait()
        await self._cluster.clock.sleep_ms(self._finish_ms)
        return await super().finish(finishes)


@pytest.mark.parametrize("finish_ms", [20, 150])
@pytest.mark.parametrize("seed", range(6))
def test_after_a_store_stood_still_for_three_seconds_no_slot_is_closed_by_the_late_run_before_it(
    seed: int, finish_ms: int
) -> None:
    async def story() -> None:
        cluster = Cluster()
        free = asyncio.Event()
        free.set()
        tasks = [make_task(f"t{n}", every("1s"), jitter_ms=250) for n in range(8)]
        for number in range(4):
            instance = cluster.make(
                tasks, wrap=lambda backend, _: Lockable(backend, cluster, free, finish_ms), seed=10 * seed + number
            )
            await instance.engine.start()
        # Every outcome is stored when the lock is taken: what is in progress then is in progress for the others.
        await cluster.advance(5 * SECOND + 600)
        free.clear()
        await cluster.advance(3 * SECOND)
        free.set()
        await cluster.advance(12 * SECOND)
        assert cluster.told(SlotSkipped) == []
        for n in range(8):
            slots = [event.slot_ms or 0 for event in cluster.told(RunStarted, task=f"t{n}")]
            assert sorted(slots) == [START_MS + k * SECOND for k in range(1, 21)]
        await cluster.stop()

    in_virtual_time(story)
