"""Clocks that are slewed under a waiting timer: a slot neither runs early nor twice.

After https://github.com/node-schedule/node-schedule/issues/370 and https://github.com/rq/rq-scheduler/issues/269.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from anarchon.context import RunContext
from anarchon.model.events import ClaimLost, RunFailed, RunStarted, RunSucceeded, SlotSkipped
from anarchon.times.schedule import cron, every
from tests.scenarios.dates import DAY, MINUTE, from_date, utc
from tests.support.cluster import START_MS, Cluster, in_virtual_time, make_task

NIGHTLY = utc("2026-03-10T04:19")


@pytest.mark.parametrize("claim_only", [False, True])
@pytest.mark.parametrize("slew_ms", [5, 10, 23, 40])
@pytest.mark.parametrize("phase_ms", [-4_999, -2_500, -41, -40, -11, -5, -1, 0, 1, 4, 9, 39])
def test_a_clock_slewed_back_around_the_slot_neither_runs_it_early_nor_twice(
    phase_ms: int, slew_ms: int, claim_only: bool
) -> None:
    async def story() -> None:
        cluster = Cluster(claim_only=claim_only, slot_ttl_ms=61_000)
        (one,) = await cluster.start(1, make_task("nightly", cron("19 4 * * *", timezone="UTC")))
        await cluster.advance_to(NIGHTLY + phase_ms)
        one.clock.jump(-slew_ms)
        await cluster.advance(5 * MINUTE)
        (started,) = one.told(RunStarted)
        assert started.slot_ms == NIGHTLY
        assert started.at_ms >= NIGHTLY
        assert one.engine.snapshot().next_slots == {"nightly": NIGHTLY + DAY}
        assert one.told(ClaimLost) == []
        await cluster.stop()

    from_date("2026-03-10T04:17", story)


@pytest.mark.parametrize("claim_only", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_clocks_that_are_slewed_back_and_forth_all_the_time_lose_and_repeat_nothing(
    seed: int, claim_only: bool
) -> None:
    async def story() -> None:
        rng = random.Random(seed)
        cluster = Cluster(claim_only=claim_only)
        one, other = await cluster.start(2, make_task("t", every("1s")))
        until = START_MS + 5 * MINUTE
        while cluster.now_ms() < until:
            await cluster.advance(rng.uniform(1, 700))
            rng.choice((one, other)).clock.jump(rng.randint(-40, 40))
        await cluster.advance(2_000)
        started = cluster.told(RunStarted)
        slots = sorted(event.slot_ms or 0 for event in started)
        assert slots[: 5 * 60] == [START_MS + n * 1_000 for n in range(1, 5 * 60 + 1)]
        assert len(slots) == len(set(slots))
        assert all(event.at_ms >= (event.slot_ms or 0) for event in started)
        assert cluster.told(SlotSkipped) == []
        await cluster.stop()

    in_virtual_time(story)


def test_a_clock_that_is_set_back_by_hours_repeats_nothing_and_goes_on_with_the_corrected_grid() -> None:
    async def story() -> None:
        cluster = Cluster()
        task = make_task("t", every("10m"))
        fast = cluster.make([task], offset_ms=3 * 60 * MINUTE)
        await fast.engine.start()
        await cluster.advance(25 * MINUTE)
        ahead = {event.slot_ms for event in fast.told(RunStarted)}
        assert ahead >= {START_MS + n * 10 * MINUTE for n in (19, 20)}
        fast.clock.jump(-3 * 60 * MINUTE)
        await cluster.advance_to(START_MS + 4 * 60 * MINUTE + 1)
        slots = [event.slot_ms for event in fast.told(RunStarted)]
        assert len(slots) == len(set(slots))
        assert {START_MS + n * 10 * MINUTE for n in (21, 22, 23, 24)} <= set(slots)
        await cluster.stop()

    in_virtual_time(story)


def test_an_interval_does_not_creep_over_restarts_slow_handlers_failures_and_wrong_clocks() -> None:
    async def story() -> None:
        cluster = Cluster()

        async def slow_and_sometimes_broken(ctx: RunContext[Any]) -> None:
            await cluster.clock.sleep_ms(900)
            if ctx.scheduled_at.minute % 7 == 0:
                raise ValueError("now and then")

        task = make_task("t", every("1m"), slow_and_sometimes_broken, history_size=50)
        await cluster.advance(5_000)
        await cluster.start(1, task)
        for offset_ms in (37, -41, 613, -777):
            instance = cluster.make([task], offset_ms=offset_ms)
            await instance.engine.start()
        for hour in range(1, 9):
            await cluster.advance_to(START_MS + hour * 60 * MINUTE + hour * 7_001)
            gone = cluster.instances[hour - 1]
            await gone.stop()
            again = cluster.make([task], offset_ms=13 * hour)
            await again.engine.start()
        await cluster.advance_to(START_MS + 500 * MINUTE + 5_000)
        slots = sorted(event.slot_ms or 0 for event in cluster.told(RunStarted))
        assert slots == [START_MS + n * MINUTE for n in range(1, 501)]
        assert len(cluster.told(RunFailed)) + len(cluster.told(RunSucceeded)) == 500
        assert len(cluster.told(RunFailed)) > 50
        await cluster.stop()

    in_virtual_time(story)


def test_the_slots_of_a_claim_only_store_are_on_the_grid() -> None:
    async def story() -> None:
        cluster = Cluster(claim_only=True)

        async def works() -> None:
            await cluster.clock.sleep_ms(900)

        await cluster.start(1, make_task("t", every("1m"), works, overlap="allow", history_size=10))
        await cluster.advance(2_000 * MINUTE + 1_000)
        slots = [event.slot_ms for event in cluster.told(RunStarted)]
        assert slots == [START_MS + n * MINUTE for n in range(1, 2_001)]
        await cluster.stop()

    in_virtual_time(story)
