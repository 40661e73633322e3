"""An instance that slept through the end of its own lease, and gets its own run again."""

from __future__ import annotations

import asyncio
from typing import Any

from anarchon.context import RunContext
from anarchon.model.events import LeaseLost, RunRecovered, RunSucceeded
from anarchon.times.schedule import every
from tests.support.cluster import START_MS, Cluster, in_virtual_time, make_task

MINUTE = 60_000


def test_a_handler_whose_run_its_own_instance_recovers_is_told_before_the_next_attempt_begins() -> None:
    async def story() -> None:
        cluster = Cluster()
        told: list[tuple[int, str | None]] = []

        async def work(ctx: RunContext[Any]) -> None:
            try:
                await cluster.clock.sleep_ms(50_000)
            except asyncio.CancelledError:
                told.append((ctx.attempt, ctx.signal.reason))
                raise

        (one,) = await cluster.start(1, make_task("t", every("10m"), work))
        await cluster.advance(10 * MINUTE + 5_000)
        # Its monotonic clock stands still, so that it goes on to believe a lease that has run out long ago.
        one.clock.suspend()
        await cluster.advance(20_000)
        one.clock.thaw()
        await cluster.until(RunRecovered)
        await cluster.advance(100)
        assert told == [(1, "lease-lost")]
        assert [event.attempt for event in one.told(LeaseLost, found="refused")] == [1]
        await cluster.until(RunSucceeded)
        (run,) = await cluster.runs("t")
        assert [(attempt.number, attempt.status) for attempt in run.attempts] == [(1, "interrupted"), (2, "succeeded")]
        assert one.engine.snapshot().held_leases == 0
        assert run.scheduled_at_ms == START_MS + 10 * MINUTE
        await cluster.stop()

    in_virtual_time(story)
