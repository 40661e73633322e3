"""What an instance stores of the slots that it did not run."""

from __future__ import annotations

from anarchon.testing import Fault, Faults, FaultyLeaseBackend
from anarchon.times.schedule import at
from tests.support.cluster import START_MS, Cluster, in_virtual_time, make_task

SECOND = 1_000
MINUTE = 60 * SECOND
SLOT = START_MS + 1_000


def test_a_thousand_skips_wait_for_a_store_that_does_not_take_them_and_the_oldest_go_first() -> None:
    async def story() -> None:
        cluster = Cluster()
        refused = Fault(kind="refused")
        faults = Faults(cluster.clock)
        faults.use(lambda call: refused if call.name == "record_skips" else Fault())
        # The application lags, so that all of them are skipped as busy, in the order of their slots.
        names = [f"t{number}" for number in range(1_003)]
        tasks = [make_task(name, at(SLOT + number), max_late_ms=MINUTE) for number, name in enumerate(names)]
        one = cluster.make(tasks, wrap=lambda backend, _: FaultyLeaseBackend(backend, faults))
        await one.engine.start()
        one.host.lag = 2_000
        await cluster.advance(2 * MINUTE)
        faults.use(lambda _call: Fault())
        await cluster.advance(30 * SECOND)
        stored = [name for name in names if await one.engine.skips(name, 10)]
        assert stored == names[3:]
        await cluster.stop()

    in_virtual_time(story)
