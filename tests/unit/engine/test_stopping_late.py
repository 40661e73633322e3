"""What the store grants while an instance is already on its way out is given back before it goes."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from anarchon.model.events import RunSucceeded
from anarchon.testing import Fault
from anarchon.times.schedule import every
from tests.support.cluster import Cluster, Instance, holding, in_virtual_time, make_task
from tests.unit.engine.test_faults import wired

MINUTE = 60_000

Going = Callable[[Instance], Coroutine[Any, Any, None]]


async def leave(instance: Instance) -> None:
    await instance.engine.leave()


async def stop(instance: Instance) -> None:
    await instance.stop(0)


@pytest.mark.parametrize("go", [stop, leave])
def test_a_run_taken_up_on_the_way_out_is_given_back_and_spends_no_attempt(go: Going) -> None:
    async def story() -> None:
        cluster = Cluster()
        task = make_task("t", every("10m"), holding([], 300_000, cluster.clock), max_attempts=2)
        (dead,) = await cluster.start(1, task)
        await cluster.advance(10 * MINUTE + 500)
        dead.kill()
        going, wire = await wired(cluster, task)
        wire.meet("take_up", Fault(answer_delay_ms=500))
        await cluster.advance(14_700)  # the lease ended 200 ms ago
        await go(going)
        (run,) = await cluster.runs("t")
        assert run.status == "handed-over"
        await cluster.start(1, task)
        await cluster.until(RunSucceeded)
        (run,) = await cluster.runs("t")
        assert [(each.number, each.status) for each in run.attempts] == [
            (1, "interrupted"),
            (2, "handed-over"),
            (2, "succeeded"),
        ]
        await cluster.stop()

    in_virtual_time(story)


@pytest.mark.parametrize("go", [stop, leave])
def test_a_slot_won_on_the_way_out_is_given_back(go: Going) -> None:
    async def story() -> None:
        cluster = Cluster()
        task = make_task("t", every("10m"), max_attempts=1)
        going, wire = await wired(cluster, task)
        wire.meet("claim", Fault(answer_delay_ms=500))
        await cluster.advance(10 * MINUTE + 100)
        await go(going)
        (run,) = await cluster.runs("t")
        assert run.status == "handed-over"
        await cluster.start(1, task)
        await cluster.until(RunSucceeded)
        await cluster.stop()

    in_virtual_time(story)
