"""What is not asked for, though it is due."""

from __future__ import annotations

from anarchon.model.events import LoopLagged, RunStarted, SlotSkipped
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


def test_a_lag_of_the_application_is_told_once_for_as_long_as_it_lasts() -> None:
    async def story() -> None:
        cluster = Cluster()
        (one,) = await cluster.start(1, make_task("t", every("1s"), overlap="allow"))
        await cluster.advance(3 * SECOND + 500)
        assert one.told(LoopLagged) == []
        for _ in range(2):
            one.host.lag = 2_000
            await cluster.advance(4 * SECOND)
            one.host.lag = 0
            await cluster.advance(4 * SECOND)
        assert [(event.which, event.lag_ms) for event in one.told(LoopLagged)] == [("application", 2_000)] * 2
        await cluster.stop()

    in_virtual_time(story)


def test_an_engine_that_stood_still_tells_for_how_long_and_is_silent_otherwise() -> None:
    async def story() -> None:
        cluster = Cluster()
        (one,) = await cluster.start(1, make_task("t", every("1m")))
        await cluster.advance(MINUTE + 30 * SECOND)
        assert one.told(LoopLagged) == []
        one.clock.freeze()
        await cluster.advance(20 * SECOND)
        one.clock.thaw()
        await cluster.advance(MINUTE)
        (lagged,) = one.told(LoopLagged)
        assert lagged.which == "engine"
        assert 15_000 <= lagged.lag_ms <= 20_000
        await cluster.stop()

    in_virtual_time(story)


def test_no_coroutine_is_asked_for_once_the_application_is_gone() -> None:
    async def story() -> None:
        cluster = Cluster()
        tasks = [make_task("t", every("1s"), overlap="allow")]
        (one,) = await cluster.start(1, *tasks)
        await cluster.advance(2 * SECOND + 500)
        one.host.close_app()
        await cluster.advance(10 * SECOND)
        slots = [run.slot_ms for run in await cluster.runs("t")]
        assert slots == [START_MS + SECOND, START_MS + 2 * SECOND]

    in_virtual_time(story)
