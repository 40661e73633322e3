"""Instances that stand still between reading the clock and writing, or in the middle of a run.

After https://github.com/lukas-krecan/ShedLock/issues/132.
"""

from __future__ import annotations

from typing import Any

import pytest

from anarchon.context import RunContext
from anarchon.model.events import ClaimLost, LeaseLost, ResultRefused, RunRecovered, RunStarted, RunSucceeded
from anarchon.testing import Fault, Faults, FaultyLeaseBackend
from anarchon.times.schedule import at, every
from tests.scenarios.dates import MINUTE, SECOND
from tests.support.cluster import START_MS, Cluster, holding, in_virtual_time, make_task

SLOT = START_MS + SECOND


@pytest.mark.parametrize("frozen", [False, True])
def test_a_claim_that_reaches_the_store_after_another_instance_has_finished_is_lost(frozen: bool) -> None:
    async def story() -> None:
        cluster = Cluster(lease_ms=5_000)
        task = make_task("t", at(SLOT))
        faults = Faults(cluster.clock, lambda call: Fault(delay_ms=6_000 if call.name == "claim" else 0))
        a = cluster.make([task], wrap=lambda backend, _: FaultyLeaseBackend(backend, faults))
        b = cluster.make([task], offset_ms=-200)
        await a.engine.start()
        await b.engine.start()
        await cluster.advance_to(SLOT)
        await cluster.advance(1)
        if frozen:
            a.clock.freeze()
        await cluster.until(RunSucceeded)
        await cluster.advance_to(SLOT + 6_000)
        a.clock.thaw()
        await cluster.until(ClaimLost, instance_id=a.id)
        await cluster.advance(MINUTE)
        assert [event.instance_id for event in cluster.told(RunStarted)] == [b.id]
        (run,) = await cluster.runs("t")
        assert (run.instance_id, run.status, len(run.attempts)) == (b.id, "succeeded", 1)
        await cluster.stop()

    in_virtual_time(story)


@pytest.mark.parametrize("overlap", ["skip", "allow"])
def test_a_runner_that_stood_still_for_two_leases_is_told_and_its_result_refused(overlap: str) -> None:
    async def story() -> None:
        cluster = Cluster(lease_ms=5_000)
        reasons: list[object] = []

        async def works(ctx: RunContext[Any]) -> None:
            try:
                await cluster.clock.sleep_ms(8_000)
            finally:
                reasons.append((ctx.attempt, ctx.signal.reason))
            if ctx.attempt == 1:
                return

        task = make_task("t", at(SLOT), works, overlap=overlap)
        a = cluster.make([task])
        b = cluster.make([task], offset_ms=-200)
        await a.engine.start()
        await b.engine.start()
        await cluster.until(RunStarted)
        await cluster.advance(1_000)
        a.clock.freeze()
        (recovered,) = await cluster.until(RunRecovered)
        assert (recovered.instance_id, recovered.attempt) == (b.id, 2)
        assert SLOT + 5_000 <= cluster.now_ms() <= SLOT + 6_000
        # The handler's own wait goes on in this host, so it ends when it ends; what counts is what the store takes.
        await cluster.advance_to(SLOT + 11_000)
        a.clock.thaw()
        await cluster.advance(MINUTE)
        (run,) = await cluster.runs("t")
        assert run.status == "succeeded"
        assert [(each.instance_id, each.status) for each in run.attempts] == [
            (a.id, "interrupted"),
            (b.id, "succeeded"),
        ]
        assert len(cluster.told(RunSucceeded)) == 1
        assert len(a.told(LeaseLost)) + len(a.told(ResultRefused)) >= 1
        assert (2, None) in reasons
        await cluster.stop()

    in_virtual_time(story)


def test_a_run_that_may_start_only_once_is_never_taken_over_from_a_runner_that_stood_still() -> None:
    async def story() -> None:
        cluster = Cluster(lease_ms=5_000)
        seen: list[RunContext[Any]] = []
        task = make_task("t", at(SLOT), holding(seen, 20_000, cluster.clock), max_attempts=1)
        a = cluster.make([task])
        b = cluster.make([task], offset_ms=-200)
        await a.engine.start()
        await b.engine.start()
        await cluster.until(RunStarted)
        a.clock.freeze()
        await cluster.advance(12_000)
        a.clock.thaw()
        await cluster.advance(MINUTE)
        assert [ctx.instance_id for ctx in seen] == [a.id]
        (run,) = await cluster.runs("t")
        assert (run.status, len(run.attempts)) == ("interrupted", 1)
        assert cluster.told(RunSucceeded) == []
        await cluster.stop()

    in_virtual_time(story)


def test_the_fence_that_handlers_see_grows_with_every_attempt_and_every_slot() -> None:
    async def story() -> None:
        cluster = Cluster(lease_ms=5_000)
        fences: list[int] = []

        async def notes(ctx: RunContext[Any]) -> None:
            assert ctx.fence is not None
            fences.append(ctx.fence)
            await cluster.clock.sleep_ms(4_000)

        task = make_task("t", every("10s"), notes)
        instances = await cluster.start(4, task)
        for one in instances[:3]:
            await cluster.advance(23_000)
            one.kill()
        await cluster.advance(2 * MINUTE)
        assert len(fences) > 10
        assert fences == sorted(set(fences))
        await cluster.stop()

    in_virtual_time(story)
