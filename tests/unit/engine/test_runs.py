"""From a won claim to a recorded outcome: leases, timeouts, recovery, hand-over."""

from __future__ import annotations

from typing import Any

import pytest

from anarchon.context import RunContext
from anarchon.model.events import (
    HandlerEnded,
    HandlerOutlived,
    LeaseLost,
    ResultRefused,
    RunFailed,
    RunHandedOver,
    RunInterrupted,
    RunRecovered,
    RunStarted,
    RunSucceeded,
    SlotSkipped,
)
from anarchon.times.schedule import at, every
from tests.support.cluster import START_MS, Cluster, holding, in_virtual_time, make_task

MINUTE = 60_000


def test_an_exception_is_a_failed_run_with_its_traceback() -> None:
    async def story() -> None:
        cluster = Cluster()

        async def broken() -> None:
            raise ValueError("no such customer")

        await cluster.start(1, make_task("t", at(START_MS + 1_000), broken))
        (failed,) = await cluster.until(RunFailed)
        assert failed.error == "ValueError: no such customer"
        assert failed.traceback is not None
        assert "in broken" in failed.traceback
        (run,) = await cluster.runs("t")
        assert (run.status, run.error) == ("failed", "ValueError: no such customer")
        await cluster.stop()

    in_virtual_time(story)


def test_overlap_skip_closes_the_slot_for_everybody() -> None:
    async def story() -> None:
        cluster = Cluster()
        seen: list[RunContext[Any]] = []
        await cluster.start(2, make_task("t", every("1m"), holding(seen, 150_000, cluster.clock)))
        await cluster.advance(5 * MINUTE - 1)
        assert [event.slot_ms for event in cluster.told(RunStarted)] == [START_MS + MINUTE, START_MS + 4 * MINUTE]
        skipped = {event.slot_ms for event in cluster.told(SlotSkipped, reason="overlap")}
        assert skipped == {START_MS + 2 * MINUTE, START_MS + 3 * MINUTE}
        assert len(cluster.told(SlotSkipped, reason="overlap")) == 2
        await cluster.stop()

    in_virtual_time(story)


def test_overlap_allow_lets_runs_of_one_task_work_side_by_side() -> None:
    async def story() -> None:
        cluster = Cluster()
        seen: list[RunContext[Any]] = []
        task = make_task("t", every("1m"), holding(seen, 150_000, cluster.clock), overlap="allow")
        await cluster.start(2, task)
        await cluster.advance(5 * MINUTE - 1)
        assert len(cluster.told(RunStarted)) == 4
        await cluster.stop()

    in_virtual_time(story)


def test_a_timeout_records_the_failure_at_once_and_ends_the_lease() -> None:
    async def story() -> None:
        cluster = Cluster()
        reasons: list[object] = []

        async def stubborn(ctx: RunContext[Any]) -> None:
            try:
                await cluster.clock.sleep_ms(60_000)
            finally:
                reasons.append(ctx.signal.reason)

        await cluster.start(1, make_task("t", every("1m"), stubborn, timeout_ms=1_000))
        (failed,) = await cluster.until(RunFailed)
        assert failed.error == "TimeoutError: Timed out after 1000 ms"
        assert failed.at_ms == START_MS + MINUTE + 1_000
        assert reasons == ["timeout"]
        (run,) = await cluster.runs("t")
        assert (run.status, run.lease_ends_at_ms) == ("failed", None)
        await cluster.stop()

    in_virtual_time(story)


def test_a_handler_that_outlives_its_timeout_is_told_and_its_late_result_counts_for_nothing() -> None:
    async def story() -> None:
        cluster = Cluster()

        async def swallows(ctx: RunContext[Any]) -> None:
            until = cluster.clock.monotonic_ms() + 7_000
            while cluster.clock.monotonic_ms() < until:
                try:
                    await cluster.clock.sleep_ms(until - cluster.clock.monotonic_ms())
                except BaseException:
                    continue

        (one,) = await cluster.start(1, make_task("t", every("10s"), swallows, timeout_ms=1_000))
        await cluster.until(HandlerOutlived)
        assert [run.task for run in one.engine.snapshot().outlived] == ["t"]
        await cluster.until(HandlerEnded)
        assert one.engine.snapshot().outlived == ()
        (run, *_) = await cluster.runs("t")
        assert run.status == "failed"
        await cluster.stop()

    in_virtual_time(story)


@pytest.mark.parametrize("lease_ms", [2_000, 15_000, 60_000])
def test_a_dead_runners_work_starts_elsewhere_within_a_second_of_its_leases_end(lease_ms: int) -> None:
    async def story() -> None:
        cluster = Cluster(lease_ms=lease_ms)
        seen: list[RunContext[Any]] = []
        await cluster.start(3, make_task("t", at(START_MS + 1_000), holding(seen, 90_000, cluster.clock)))
        (first,) = await cluster.until(RunStarted)
        dead = next(one for one in cluster.instances if one.id == first.instance_id)
        await cluster.advance(20_000)
        (held,) = await cluster.runs("t")
        dead.kill()
        assert held.lease_ends_at_ms is not None
        (recovered,) = await cluster.until(RunRecovered)
        assert (recovered.attempt, recovered.reason) == (2, "recovery")
        (run,) = await cluster.runs("t")
        ended = run.attempts[0].ended_at_ms
        assert ended is not None
        assert 0 <= recovered.at_ms - ended <= 1_000
        assert held.lease_ends_at_ms <= ended
        assert run.fence is not None
        assert held.fence is not None
        assert run.fence > held.fence
        await cluster.stop()

    in_virtual_time(story)


def test_a_run_whose_attempts_are_spent_is_marked_interrupted() -> None:
    async def story() -> None:
        cluster = Cluster()
        seen: list[RunContext[Any]] = []
        task = make_task("t", at(START_MS + 1_000), holding(seen, 900_000, cluster.clock), max_attempts=2)
        await cluster.start(3, task)
        for attempt in (1, 2):
            await cluster.until(RunStarted, count=attempt)
            started = next(event for event in cluster.told(RunStarted) if event.attempt == attempt)
            next(one for one in cluster.instances if one.id == started.instance_id).kill()
        (told,) = await cluster.until(RunInterrupted)
        assert told.attempt == 2
        (run,) = await cluster.runs("t")
        assert run.status == "interrupted"
        assert len(seen) == 2
        await cluster.stop()

    in_virtual_time(story)


def test_a_run_is_handed_over_at_stop_without_using_up_an_attempt() -> None:
    async def story() -> None:
        cluster = Cluster()
        seen: list[RunContext[Any]] = []
        await cluster.start(2, make_task("t", at(START_MS + 1_000), holding(seen, 40_000, cluster.clock)))
        (first,) = await cluster.until(RunStarted)
        a = next(one for one in cluster.instances if one.id == first.instance_id)
        assert await a.stop(1_000) == 0
        await cluster.until(RunSucceeded)
        (run,) = await cluster.runs("t")
        assert [(each.number, each.status, each.reason) for each in run.attempts] == [
            (1, "handed-over", "schedule"),
            (1, "succeeded", "hand-over"),
        ]
        assert run.attempts[1].instance_id != a.id
        assert len(a.told(RunHandedOver)) == 1
        await cluster.stop()

    in_virtual_time(story)


def test_stop_within_the_grace_lets_the_run_finish() -> None:
    async def story() -> None:
        cluster = Cluster()
        seen: list[RunContext[Any]] = []
        (one,) = await cluster.start(1, make_task("t", at(START_MS + 1_000), holding(seen, 3_000, cluster.clock)))
        await cluster.until(RunStarted)
        before = cluster.now_ms()
        assert await one.stop(10_000) == 0
        assert cluster.now_ms() - before == 3_000
        (run,) = await cluster.runs("t")
        assert run.status == "succeeded"

    in_virtual_time(story)


def test_a_run_that_may_start_only_once_is_interrupted_by_stop() -> None:
    async def story() -> None:
        cluster = Cluster()
        seen: list[RunContext[Any]] = []
        task = make_task("t", at(START_MS + 1_000), holding(seen, 40_000, cluster.clock), max_attempts=1)
        await cluster.start(2, task)
        (first,) = await cluster.until(RunStarted)
        await next(one for one in cluster.instances if one.id == first.instance_id).stop(100)
        await cluster.advance(60_000)
        (run,) = await cluster.runs("t")
        assert run.status == "interrupted"
        assert len(seen) == 1
        await cluster.stop()

    in_virtual_time(story)


def test_a_second_stop_shortens_the_grace() -> None:
    async def story() -> None:
        cluster = Cluster()
        seen: list[RunContext[Any]] = []
        (one,) = await cluster.start(1, make_task("t", at(START_MS + 1_000), holding(seen, 40_000, cluster.clock)))
        await cluster.until(RunStarted)
        first = cluster.loop.create_task(one.stop(30_000))
        await cluster.advance(500)
        before = cluster.now_ms()
        await one.stop(0)
        assert cluster.now_ms() - before <= 1_000
        assert await first == 0

    in_virtual_time(story)


def test_a_handler_that_will_not_end_keeps_its_lease_behind_stop() -> None:
    async def story() -> None:
        cluster = Cluster(lease_ms=2_000)

        async def unstoppable() -> None:
            until = cluster.clock.monotonic_ms() + 30_000
            while cluster.clock.monotonic_ms() < until:
                try:
                    await cluster.clock.sleep_ms(until - cluster.clock.monotonic_ms())
                except BaseException:
                    continue

        a, b = await cluster.start(2, make_task("t", at(START_MS + 1_000), unstoppable))
        (first,) = await cluster.until(RunStarted)
        one, other = (a, b) if first.instance_id == a.id else (b, a)
        assert await one.stop(1_000) == 1
        await cluster.advance(20_000)
        assert other.told(RunStarted) == []
        await one.engine.wait_ended()
        (run,) = await cluster.runs("t")
        assert run.status == "succeeded"
        await cluster.stop()

    in_virtual_time(story)


def test_a_frozen_runner_is_told_at_its_trust_deadline_and_its_result_is_refused() -> None:
    async def story() -> None:
        cluster = Cluster(lease_ms=5_000)
        seen: list[RunContext[Any]] = []

        async def polite(ctx: RunContext[Any]) -> None:
            seen.append(ctx)
            await cluster.clock.sleep_ms(20_000)

        a, b = await cluster.start(2, make_task("t", at(START_MS + 1_000), polite))
        (first,) = await cluster.until(RunStarted)
        frozen = a if first.instance_id == a.id else b
        frozen.clock.freeze()
        await cluster.until(RunRecovered)
        await cluster.advance(15_000)
        frozen.clock.thaw()
        await cluster.advance(20_000)
        assert len(frozen.told(LeaseLost)) + len(frozen.told(ResultRefused)) >= 1
        (run,) = await cluster.runs("t")
        assert [each.status for each in run.attempts] == ["interrupted", "succeeded"]
        assert run.status == "succeeded"
        await cluster.stop()

    in_virtual_time(story)


def test_the_latest_missed_slot_is_caught_up_once_by_three_instances_that_start_together() -> None:
    async def story() -> None:
        cluster = Cluster()
        task = make_task("weekly", every("1h"), catch_up_ms=3_600_000)
        (old,) = await cluster.start(1, task)
        await cluster.advance(30 * MINUTE)
        await old.stop()
        await cluster.advance(34 * MINUTE)
        await cluster.start(3, task)
        await cluster.advance(1_000)
        (started,) = cluster.told(RunStarted)
        assert (started.slot_ms, started.reason) == (START_MS + 60 * MINUTE, "catch-up")
        await cluster.stop()

    in_virtual_time(story)


def test_a_brand_new_schedule_owes_nothing() -> None:
    async def story() -> None:
        cluster = Cluster()
        await cluster.advance(5 * MINUTE)
        await cluster.start(2, make_task("t", every("1h"), catch_up_ms=3_600_000))
        await cluster.advance(1_000)
        assert cluster.told(RunStarted) == []
        await cluster.stop()

    in_virtual_time(story)


def test_a_one_shot_just_past_is_caught_up_though_it_is_new() -> None:
    async def story() -> None:
        cluster = Cluster()
        await cluster.advance(MINUTE)
        await cluster.start(2, make_task("once", at(START_MS + 1_000)))
        (started,) = await cluster.until(RunStarted)
        assert started.reason == "catch-up"
        await cluster.stop()

    in_virtual_time(story)


def test_a_one_shot_long_past_is_reported_as_late() -> None:
    async def story() -> None:
        cluster = Cluster()
        await cluster.advance(10 * MINUTE)
        await cluster.start(1, make_task("once", at(START_MS + 1_000)))
        assert [event.reason for event in cluster.told(SlotSkipped)] == ["late"]
        assert cluster.told(RunStarted) == []
        await cluster.stop()

    in_virtual_time(story)


def test_leaving_at_exit_hands_over_without_any_grace() -> None:
    async def story() -> None:
        cluster = Cluster()
        seen: list[RunContext[Any]] = []
        await cluster.start(2, make_task("t", at(START_MS + 1_000), holding(seen, 40_000, cluster.clock)))
        (first,) = await cluster.until(RunStarted)
        leaving = next(one for one in cluster.instances if one.id == first.instance_id)
        before = cluster.now_ms()
        await leaving.engine.leave()
        assert cluster.now_ms() == before
        (run,) = await cluster.runs("t")
        assert run.status == "handed-over"
        await cluster.until(RunSucceeded)
        await cluster.stop()

    in_virtual_time(story)


def test_system_exit_of_a_handler_is_a_failed_run_and_reaches_the_facade() -> None:
    async def story() -> None:
        cluster = Cluster()

        def leaves() -> None:
            raise SystemExit(3)

        (one,) = await cluster.start(1, make_task("t", at(START_MS + 1_000), leaves))
        (failed,) = await cluster.until(RunFailed)
        assert failed.error == "SystemExit: 3"
        assert [type(error) for error in one.fatal] == [SystemExit]
        await cluster.stop()

    in_virtual_time(story)
