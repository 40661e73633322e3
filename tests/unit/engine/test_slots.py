"""From the clock to a claim: what is asked for, when, and what is skipped."""

from __future__ import annotations

import pytest

from anarchon.model.events import ClaimLost, RunStarted, RunSucceeded, SchedulerStarted, SlotSkipped
from anarchon.times.schedule import at, every
from tests.support.cluster import START_MS, Cluster, in_virtual_time, make_task

MINUTE = 60_000


def slots_of(events: list[RunStarted]) -> list[int | None]:
    return [event.slot_ms for event in events]


@pytest.mark.parametrize("claim_only", [False, True])
def test_each_slot_runs_once_on_one_of_three_instances(claim_only: bool) -> None:
    async def story() -> None:
        cluster = Cluster(claim_only=claim_only)
        await cluster.start(3, make_task("sync", every("1m")))
        await cluster.advance(10 * MINUTE + 1)
        started = cluster.told(RunStarted)
        assert slots_of(started) == [START_MS + n * MINUTE for n in range(1, 11)]
        assert len(cluster.told(RunSucceeded)) == 10
        assert len(cluster.told(ClaimLost)) == 20
        await cluster.stop()

    in_virtual_time(story)


def test_a_slot_never_runs_before_its_instant_though_the_timer_wakes_early() -> None:
    async def story() -> None:
        cluster = Cluster()
        (one,) = await cluster.start(1, make_task("sync", every("1m")))
        await cluster.advance(MINUTE - 2_000)
        one.clock.jump(-40)
        await cluster.advance(2_000)
        assert one.told(RunStarted) == []
        await cluster.advance(41)
        assert slots_of(one.told(RunStarted)) == [START_MS + MINUTE]
        await cluster.stop()

    in_virtual_time(story)


def test_a_slot_handled_once_is_not_scheduled_again_when_the_clock_goes_back() -> None:
    async def story() -> None:
        cluster = Cluster(claim_only=True, slot_ttl_ms=70_000)
        (one,) = await cluster.start(1, make_task("sync", every("1m")))
        await cluster.advance(5 * MINUTE + 10)
        one.clock.jump(-3 * MINUTE)
        await cluster.advance(4 * MINUTE)
        slots = slots_of(one.told(RunStarted))
        assert slots == [START_MS + n * MINUTE for n in (1, 2, 3, 4, 5, 6)]
        await cluster.stop()

    in_virtual_time(story)


def test_a_clock_that_was_years_ahead_for_a_moment_silences_nothing() -> None:
    async def story() -> None:
        cluster = Cluster()
        (one,) = await cluster.start(1, make_task("sync", every("1m")))
        await cluster.advance(MINUTE + 10)
        years = 10 * 365 * 24 * 60 * MINUTE
        one.clock.jump(years)
        await cluster.advance(10_000)
        one.clock.jump(-years)
        await cluster.advance(2 * MINUTE)
        slots = [slot for slot in slots_of(one.told(RunStarted)) if slot is not None and slot < START_MS + years]
        assert slots == [START_MS + n * MINUTE for n in (1, 2, 3)]
        await cluster.stop()

    in_virtual_time(story)


def test_after_a_sleep_only_the_newest_due_slot_is_asked_for() -> None:
    async def story() -> None:
        cluster = Cluster()
        (one,) = await cluster.start(1, make_task("sync", every("1m")))
        await cluster.advance(30_000)
        one.clock.suspend()
        await cluster.advance(10 * 60 * MINUTE)
        one.clock.thaw()
        await cluster.advance(MINUTE)
        skipped = one.told(SlotSkipped, reason="superseded")
        assert [(event.slot_ms, event.until_ms) for event in skipped] == [(START_MS + MINUTE, START_MS + 599 * MINUTE)]
        assert slots_of(one.told(RunStarted)) == [START_MS + 600 * MINUTE, START_MS + 601 * MINUTE]
        await cluster.stop()

    in_virtual_time(story)


def test_a_slot_past_its_lateness_is_skipped_by_this_instance_alone() -> None:
    async def story() -> None:
        cluster = Cluster()
        task = make_task("sync", every("10m"), max_late_ms=30_000)
        slow, prompt = await cluster.start(2, task)
        await cluster.advance(9 * MINUTE)
        slow.clock.freeze()
        await cluster.advance(2 * MINUTE)
        slow.clock.thaw()
        await cluster.advance(1_000)
        assert [event.slot_ms for event in slow.told(SlotSkipped, reason="late")] == [START_MS + 10 * MINUTE]
        assert slots_of(prompt.told(RunStarted)) == [START_MS + 10 * MINUTE]
        await cluster.stop()

    in_virtual_time(story)


def test_jitter_delays_the_claim_and_never_the_slot() -> None:
    async def story() -> None:
        cluster = Cluster()
        (one,) = await cluster.start(1, make_task("sync", every("1m"), jitter_ms=10_000), seed=5)
        await cluster.advance(MINUTE)
        assert one.told(RunStarted) == []
        (started,) = await cluster.until(RunStarted)
        assert started.slot_ms == START_MS + MINUTE
        assert START_MS + MINUTE < started.at_ms <= START_MS + MINUTE + 10_000
        await cluster.stop()

    in_virtual_time(story)


def test_a_one_shot_runs_once_and_is_planned_no_more() -> None:
    async def story() -> None:
        cluster = Cluster()
        await cluster.start(2, make_task("migrate", at(START_MS + 5_000)))
        await cluster.advance(10 * MINUTE)
        assert len(cluster.told(RunStarted)) == 1
        assert cluster.instances[0].engine.snapshot().next_slots == {"migrate": None}
        await cluster.stop()

    in_virtual_time(story)


@pytest.mark.slow
def test_ten_thousand_slots_are_on_the_grid_to_the_millisecond() -> None:
    async def story() -> None:
        cluster = Cluster()

        async def sometimes_fails(ctx: object) -> None:
            await cluster.clock.sleep_ms(900)
            if getattr(ctx, "scheduled_at").minute % 7 == 0:  # noqa: B009
                raise ValueError("now and then")

        await cluster.start(1, make_task("t", every("1m"), sometimes_fails, history_size=10))
        await cluster.advance(10_000 * MINUTE + 1_000)
        assert slots_of(cluster.told(RunStarted)) == [START_MS + n * MINUTE for n in range(1, 10_001)]
        await cluster.stop()

    in_virtual_time(story)


def test_a_full_instance_leaves_slots_to_others_and_says_busy_when_too_late() -> None:
    async def story() -> None:
        cluster = Cluster()
        clock = cluster.clock

        async def long() -> None:
            await clock.sleep_ms(5 * MINUTE)

        long_task = make_task("long", at(START_MS + 1_000), long)
        quick = make_task("quick", at(START_MS + 2_000), max_late_ms=30_000)
        full = cluster.make([long_task, quick], max_concurrent_runs=1)
        await full.engine.start()
        await cluster.advance(40_000)
        assert [event.task for event in full.told(SlotSkipped, reason="busy")] == ["quick"]
        assert [event.task for event in full.told(RunStarted)] == ["long"]
        await cluster.stop()

    in_virtual_time(story)


def test_a_slot_that_waits_for_room_runs_when_a_run_ends_in_time() -> None:
    async def story() -> None:
        cluster = Cluster()
        clock = cluster.clock

        async def long() -> None:
            await clock.sleep_ms(10_000)

        tasks = [make_task("long", at(START_MS + 1_000), long), make_task("quick", at(START_MS + 2_000))]
        one = cluster.make(tasks, max_concurrent_runs=1)
        await one.engine.start()
        await cluster.advance(12_000)
        (quick,) = one.told(RunStarted, task="quick")
        assert quick.at_ms == START_MS + 11_000
        await cluster.stop()

    in_virtual_time(story)


def test_while_the_applications_loop_lags_only_def_tasks_are_claimed() -> None:
    async def story() -> None:
        cluster = Cluster()
        ran: list[str] = []

        def plain() -> None:
            ran.append("def")

        async def coroutine() -> None:
            ran.append("async")

        tasks = [
            make_task("async", at(START_MS + 1_000), coroutine, max_late_ms=20_000),
            make_task("def", at(START_MS + 1_000), plain, max_late_ms=20_000),
        ]
        (one,) = await cluster.start(1, *tasks)
        one.host.lag = 1_001
        await cluster.advance(10_000)
        assert ran == ["def"]
        one.host.lag = 0
        await cluster.advance(1_000)
        assert ran == ["def", "async"]
        await cluster.stop()

    in_virtual_time(story)


def test_start_tells_how_many_tasks_there_are() -> None:
    async def story() -> None:
        cluster = Cluster()
        await cluster.start(1, make_task("a", every("1m")), make_task("b", every("1m")))
        (started,) = cluster.told(SchedulerStarted)
        assert started.tasks == 2
        await cluster.stop()

    in_virtual_time(story)
