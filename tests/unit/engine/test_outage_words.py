"""After an outage every slot that was not run has been accounted for."""

from __future__ import annotations

import random

import pytest

from anarchon.model.events import RunStarted, SlotSkipped
from anarchon.testing import Fault, Faults, FaultyLeaseBackend
from anarchon.times.schedule import every
from tests.support.cluster import START_MS, Cluster, in_virtual_time, make_task

SECOND = 1_000


@pytest.mark.parametrize("seed", range(8))
def test_what_an_outage_of_slow_refusals_superseded_is_told_from_its_first_slot_on(seed: int) -> None:
    async def story() -> None:
        cluster = Cluster()
        draws = random.Random(seed)
        faults = Faults(cluster.clock)
        one = cluster.make(
            [make_task("t", every("1s"), overlap="allow")],
            wrap=lambda backend, _: FaultyLeaseBackend(backend, faults),
            seed=seed,
        )
        await one.engine.start()
        await cluster.advance(4 * SECOND + 500)
        faults.use(lambda _call: Fault(kind="refused", delay_ms=draws.choice((50, 2_000))))
        await cluster.advance(25 * SECOND)
        faults.use(lambda _call: Fault())
        await cluster.advance(15 * SECOND)
        run = {event.slot_ms for event in one.told(RunStarted)}
        skipped = [(event.slot_ms, event.until_ms or event.slot_ms) for event in one.told(SlotSkipped)]
        slots = [START_MS + n * SECOND for n in range(1, 44)]
        untold = [slot for slot in slots if slot not in run and not any(a <= slot <= b for a, b in skipped)]
        assert untold == []
        assert len(skipped) < 12
        await cluster.stop()

    in_virtual_time(story)
