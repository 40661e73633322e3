"""What is not asked for, though it is due."""

from __future__ import annotations

from anarchon.model.events import RunStarted, SlotSkipped
from anarchon.testing import Fault, Faults, FaultyLeaseBackend
from anarchon.times.schedule import every
from tests.support.cluster import START_MS, Cluster, in_virtual_time, make_task

SECOND = 1_000
MINUTE = 60 * SECOND


def test_a_slot_to_catch_up_gives_way_to_the_next_slot_of_its_task() -> None:
    async def story() -> None:
        cluster = Cluster()
        task = make_task("t", every("1m"))
        (first,) = await cluster.start(1, task)
        await first.stop(0)
        await cluster.advance(2 * MINUTE - 3 * SECOND)
        faults = Faults(cluster.clock)
        late = cluster.make([task], wrap=lambda backend, _: FaultyLeaseBackend(backend, faults))
        claims_are_refused = Fault(kind="refused")
        faults.use(lambda call: claims_are_refused if call.name == "claim" else Fault())
        await late.engine.start()
        await cluster.advance(5 * SECOND)
        faults.use(lambda _call: Fault())
        await cluster.advance(10 * SECOND)
        assert [(event.slot_ms, event.reason) for event in late.told(SlotSkipped)] == [
            (START_MS + MINUTE, "superseded")
        ]
        assert [event.slot_ms for event in late.told(RunStarted)] == [START_MS + 2 * MINUTE]
        await cluster.stop()

    in_virtual_time(story)
