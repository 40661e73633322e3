"""Restarts, deploys and nights without power: what is made up for, what is not, and what it costs.

After https://github.com/Abilityai/trinity/pull/158, https://github.com/kubernetes/kubernetes/issues/42649 and
https://github.com/agronholm/apscheduler/issues/696.
"""

from __future__ import annotations

import pytest

from anarchon.model.events import RunStarted, RunSucceeded, SlotSkipped
from anarchon.times.schedule import Every, cron, every
from tests.scenarios.dates import DAY, HOUR, MINUTE, SECOND, from_date, utc
from tests.support.cluster import START_MS, Cluster, in_virtual_time, make_task

MONDAY = "2026-01-05"
SLOT = utc(f"{MONDAY}T03:00")


class CountingEvery(Every):
    """An interval that counts how often it is asked."""

    asked = 0

    def next(self, after_ms: int) -> int | None:
        type(self).asked += 1
        return super().next(after_ms)

    def prev(self, at_or_before_ms: int) -> int | None:
        type(self).asked += 1
        return super().prev(at_or_before_ms)


@pytest.mark.parametrize("died", [False, True])
def test_a_weekly_slot_that_fell_into_a_restart_is_caught_up_once_by_three_instances(died: bool) -> None:
    async def story() -> None:
        cluster = Cluster()
        task = make_task("weekly", cron("0 3 * * 1", timezone="UTC"), catch_up_ms=HOUR)
        (old,) = await cluster.start(1, task)
        await cluster.advance_to(SLOT - 30 * SECOND)
        if died:
            old.kill()
        else:
            await old.stop()
        await cluster.advance_to(SLOT + 4 * MINUTE)
        new = await cluster.start(3, task)
        await cluster.advance(10 * MINUTE)
        (started,) = cluster.told(RunStarted)
        assert (started.slot_ms, started.reason) == (SLOT, "catch-up")
        assert SLOT + 4 * MINUTE <= started.at_ms <= SLOT + 4 * MINUTE + SECOND
        assert [one.engine.snapshot().next_slots["weekly"] for one in new] == [SLOT + 7 * DAY] * 3
        (run,) = await cluster.runs("weekly")
        assert (run.status, run.reason) == ("succeeded", "catch-up")
        await cluster.stop()

    from_date(f"{MONDAY}T02:00", story)


@pytest.mark.parametrize(("catch_up_ms", "down_ms"), [(0, 4 * MINUTE), (HOUR, HOUR), (HOUR, 2 * HOUR)])
def test_a_missed_slot_that_is_older_than_the_catch_up_is_not_run(catch_up_ms: int, down_ms: int) -> None:
    async def story() -> None:
        cluster = Cluster()
        task = make_task("weekly", cron("0 3 * * 1", timezone="UTC"), catch_up_ms=catch_up_ms)
        (old,) = await cluster.start(1, task)
        await cluster.advance_to(SLOT - 30 * SECOND)
        await old.stop()
        await cluster.advance_to(SLOT + down_ms)
        (new,) = await cluster.start(1, task)
        await cluster.advance(10 * MINUTE)
        assert cluster.told(RunStarted) == []
        assert new.engine.snapshot().next_slots == {"weekly": SLOT + 7 * DAY}
        await cluster.stop()

    from_date(f"{MONDAY}T02:00", story)


def test_restarting_again_and_again_catches_up_once() -> None:
    async def story() -> None:
        cluster = Cluster()
        task = make_task("weekly", cron("0 3 * * 1", timezone="UTC"), catch_up_ms=HOUR)
        (old,) = await cluster.start(1, task)
        await cluster.advance_to(SLOT - 30 * SECOND)
        await old.stop()
        for minute in (4, 5, 20, 59):
            await cluster.advance_to(SLOT + minute * MINUTE)
            (new,) = await cluster.start(1, task)
            await cluster.advance(10 * SECOND)
            await new.stop()
        assert [(event.slot_ms, event.reason) for event in cluster.told(RunStarted)] == [(SLOT, "catch-up")]

    from_date(f"{MONDAY}T02:00", story)


def test_a_slot_that_ran_before_the_restart_is_not_caught_up() -> None:
    async def story() -> None:
        cluster = Cluster()
        task = make_task("weekly", cron("0 3 * * 1", timezone="UTC"), catch_up_ms=HOUR)
        (old,) = await cluster.start(1, task)
        await cluster.advance_to(SLOT + 5 * SECOND)
        await old.stop()
        await cluster.start(2, task)
        await cluster.advance(10 * MINUTE)
        assert [(event.slot_ms, event.reason) for event in cluster.told(RunStarted)] == [(SLOT, "schedule")]
        await cluster.stop()

    from_date(f"{MONDAY}T02:00", story)


def test_a_slot_whose_jitter_was_cut_short_by_stop_is_caught_up_by_the_next_start() -> None:
    async def story() -> None:
        cluster = Cluster()
        task = make_task("weekly", cron("0 3 * * 1", timezone="UTC"), jitter_ms=50_000, catch_up_ms=HOUR)
        (old,) = await cluster.start(1, task, seed=4)
        await cluster.advance_to(SLOT + 50)
        await old.stop()
        assert [event.reason for event in old.told(SlotSkipped)] == ["stopping"]
        await cluster.start(2, task)
        await cluster.until(RunSucceeded)
        assert [(event.slot_ms, event.reason) for event in cluster.told(RunStarted)] == [(SLOT, "catch-up")]
        await cluster.stop()

    from_date(f"{MONDAY}T02:00", story)


@pytest.mark.parametrize("start_ms", [-1, 0, 1])
def test_a_start_at_the_very_instant_of_a_slot_runs_it_once(start_ms: int) -> None:
    async def story() -> None:
        cluster = Cluster()
        task = make_task("weekly", cron("0 3 * * 1", timezone="UTC"), catch_up_ms=HOUR)
        (old,) = await cluster.start(1, task)
        await cluster.advance_to(SLOT - MINUTE)
        await old.stop()
        await cluster.advance_to(SLOT + start_ms)
        await cluster.start(2, task)
        await cluster.advance(5 * MINUTE)
        assert [event.slot_ms for event in cluster.told(RunStarted)] == [SLOT]
        await cluster.stop()

    from_date(f"{MONDAY}T02:00", story)


@pytest.mark.parametrize("jitter_ms", [0, 2_000])
def test_after_a_night_without_power_there_is_one_catch_up_and_the_grid_goes_on(jitter_ms: int) -> None:
    async def story() -> None:
        cluster = Cluster()
        CountingEvery.asked = 0
        task = make_task("poll", CountingEvery(interval_ms=MINUTE), jitter_ms=jitter_ms)
        first = await cluster.start(3, task)
        await cluster.advance_to(START_MS + 5 * MINUTE + 30_000)
        for one in first:
            one.kill()
        ran = len(cluster.told(RunStarted))
        assert ran == 5
        await cluster.advance(10 * HOUR)
        asked = CountingEvery.asked
        await cluster.start(3, task)
        begin = cluster.now_ms()
        await cluster.advance(5 * MINUTE)
        fresh = cluster.told(RunStarted)[ran:]
        newest = START_MS + 605 * MINUTE
        assert [event.slot_ms for event in fresh] == [newest + n * MINUTE for n in range(6)]
        assert [event.reason for event in fresh] == ["catch-up"] + ["schedule"] * 5
        assert fresh[0].at_ms <= begin + SECOND
        assert CountingEvery.asked - asked < 60
        await cluster.stop()

    in_virtual_time(story)


def test_a_machine_that_slept_for_ten_hours_does_not_count_the_slots_it_missed() -> None:
    async def story() -> None:
        cluster = Cluster()
        CountingEvery.asked = 0
        (one,) = await cluster.start(1, make_task("poll", CountingEvery(interval_ms=100), max_late_ms=5_000))
        await cluster.advance(1_050)
        one.clock.suspend()
        await cluster.advance(10 * HOUR)
        asked, ran = CountingEvery.asked, len(one.told(RunStarted))
        one.clock.thaw()
        await cluster.advance(1_000)
        assert CountingEvery.asked - asked < 60
        assert 9 <= len(one.told(RunStarted)) - ran <= 11
        assert len(one.told(SlotSkipped)) <= 2
        await cluster.stop()

    in_virtual_time(story)


@pytest.mark.parametrize("gap_ms", [0, 200_000])
@pytest.mark.parametrize(
    ("deploy_every_ms", "phase_ms"),
    [(5 * HOUR, 0), (5 * HOUR, HOUR), (5 * HOUR, HOUR - 1), (5 * HOUR, 3 * HOUR - 10_000), (2 * HOUR, 13 * MINUTE)],
)
def test_deploys_more_frequent_than_the_interval_push_no_slot_away(
    deploy_every_ms: int, phase_ms: int, gap_ms: int
) -> None:
    async def story() -> None:
        cluster = Cluster()
        task = make_task("rollup", every("6h"))
        (current,) = await cluster.start(1, task)
        deploy_at = START_MS + phase_ms + 1
        while deploy_at < START_MS + DAY:
            await cluster.advance_to(deploy_at)
            await current.stop()
            await cluster.advance(gap_ms)
            (current,) = await cluster.start(1, task)
            deploy_at += deploy_every_ms
        await cluster.advance_to(START_MS + DAY + 10 * MINUTE)
        slots = [event.slot_ms for event in cluster.told(RunStarted)]
        assert slots == [START_MS + n * 6 * HOUR for n in (1, 2, 3, 4)]
        await cluster.stop()

    in_virtual_time(story)


def test_a_rolling_deploy_around_the_slot_runs_it_once() -> None:
    async def story() -> None:
        cluster = Cluster()
        task = make_task("rollup", every("6h"), jitter_ms=2_000)
        for day in range(3):
            slot = START_MS + (day + 1) * 6 * HOUR
            await cluster.advance_to(slot - 1_500)
            for _ in range(4):
                await cluster.start(1, task)
                await cluster.advance(700)
                if len(cluster.instances) > 2:
                    await cluster.instances[-3].stop()
            await cluster.advance_to(slot + 10 * MINUTE)
        slots = [event.slot_ms for event in cluster.told(RunStarted)]
        assert slots == [START_MS + n * 6 * HOUR for n in (1, 2, 3)]
        await cluster.stop()

    in_virtual_time(story)
