"""A slow way to the store delays slots, each by itself; the delays do not add up."""

from __future__ import annotations

import pytest

from anarchon.model.events import RunStarted, SlotSkipped
from anarchon.testing import Fault, Faults, FaultyLeaseBackend
from anarchon.times.schedule import every
from tests.support.cluster import START_MS, Cluster, in_virtual_time, make_task

SECOND = 1_000


@pytest.mark.parametrize("instances", [1, 3])
@pytest.mark.parametrize("seed", range(3))
def test_a_task_of_every_second_keeps_up_over_a_way_of_three_hundred_ms(seed: int, instances: int) -> None:
    async def story() -> None:
        cluster = Cluster()
        slow = Fault(delay_ms=150, answer_delay_ms=150)
        for number in range(instances):
            one = cluster.make(
                [make_task("t", every("1s"))],
                wrap=lambda backend, _: FaultyLeaseBackend(backend, Faults(cluster.clock, lambda _call: slow)),
                seed=10 * seed + number,
            )
            await one.engine.start()
        await cluster.advance(60 * SECOND + 500)
        assert cluster.told(SlotSkipped) == []
        started = {event.slot_ms: event.at_ms for event in cluster.told(RunStarted)}
        assert sorted(slot for slot in started if slot is not None)[:60] == [
            START_MS + n * SECOND for n in range(1, 61)
        ]
        assert max(at_ms - slot_ms for slot_ms, at_ms in started.items() if slot_ms is not None) < 1_500
        await cluster.stop()

    in_virtual_time(story)
