"""What has ended while the store was away is not started again here."""

from __future__ import annotations

from typing import Any

import pytest

from anarchon.context import RunContext
from anarchon.engine.claimer import UNNOTICED_MS
from anarchon.model.events import BackendBack, RunStarted, RunSucceeded
from anarchon.protocol import Backend
from anarchon.testing.clock import VirtualClock
from anarchon.testing.faulty import Faults, FaultyLeaseBackend
from anarchon.times.schedule import every
from tests.support.cluster import START_MS, Cluster, in_virtual_time, make_task

MINUTE = 60_000


@pytest.mark.parametrize("overlap", ["skip", "allow"])
@pytest.mark.parametrize("interval", ["1s", "5s", "5m"])
@pytest.mark.parametrize("seed", range(8))
def test_a_run_that_ended_in_an_outage_longer_than_its_lease_does_not_start_again(
    seed: int, interval: str, overlap: str
) -> None:
    async def story() -> None:
        cluster = Cluster()
        links: list[Faults] = []
        seen: list[RunContext[Any]] = []

        def behind_a_link(inner: Any, clock: VirtualClock) -> Backend:
            links.append(Faults(cluster.clock))
            return FaultyLeaseBackend(inner, links[-1])

        async def two_seconds(ctx: RunContext[Any]) -> None:
            seen.append(ctx)
            await cluster.clock.sleep_ms(2_000)

        task = make_task("t", every(interval), two_seconds, overlap=overlap)
        (one,) = await cluster.start(1, task, wrap=behind_a_link, seed=seed)
        await cluster.until(RunStarted)
        await cluster.advance(500)
        links[0].outage = True
        await cluster.advance(20_500)
        links[0].outage = False
        await cluster.advance(30_000)
        first = seen[0].run_id
        assert [ctx.attempt for ctx in seen if ctx.run_id == first] == [1]
        assert len(one.told(RunSucceeded, run_id=first)) == 1
        runs = {run.run_id: run for run in await cluster.runs("t")}
        assert (runs[first].status, runs[first].attempt) == ("succeeded", 1)
        assert len(seen) == len({ctx.run_id for ctx in seen})
        if interval != "5m":
            assert max(run.slot_ms or 0 for run in runs.values()) > START_MS + 25_000
        await cluster.stop()

    in_virtual_time(story)


@pytest.mark.parametrize("away_s", range(11, 25))
def test_after_a_long_outage_only_what_fell_due_in_its_last_seconds_is_asked_for(away_s: int) -> None:
    async def story() -> None:
        cluster = Cluster()
        faults = Faults(cluster.clock)
        one = cluster.make(
            [make_task("t", every("1s"), overlap="allow")],
            wrap=lambda inner, _: FaultyLeaseBackend(inner, faults),
        )
        await one.engine.start()
        await cluster.advance(2_500)
        before = len(one.told(RunStarted))
        faults.outage = True
        await cluster.advance(away_s * 1_000)
        faults.outage = False
        (back,) = await cluster.until(BackendBack)
        await cluster.advance(10_000)
        after = [event.slot_ms or 0 for event in one.told(RunStarted)[before:]]
        assert back.at_ms - UNNOTICED_MS - 1_000 <= after[0] <= START_MS + 2_000 + away_s * 1_000 + 1_000
        assert after == list(range(after[0], after[-1] + 1_000, 1_000))
        await cluster.stop()

    in_virtual_time(story)
