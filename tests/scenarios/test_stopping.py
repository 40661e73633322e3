"""stop() during a run, twice, during the start, and with the store away.

After https://github.com/agenda/agenda/issues/1405.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from anarchon.context import RunContext
from anarchon.model.events import (
    RunHandedOver,
    RunInterrupted,
    RunRecovered,
    RunStarted,
    RunSucceeded,
    SchedulerStarted,
    SchedulerStopped,
    SlotSkipped,
)
from anarchon.protocol import LeaseBackend
from anarchon.testing import Fault, Faults, FaultyLeaseBackend
from anarchon.times.schedule import at, every
from tests.scenarios.dates import HOUR, MINUTE, SECOND
from tests.support.cluster import START_MS, Cluster, in_virtual_time, make_task

SLOT = START_MS + SECOND


def sending(cluster: Cluster, sent: list[tuple[str, int]], messages: int = 30) -> Any:
    """A handler that sends a message every 100 ms."""

    async def send(ctx: RunContext[Any]) -> None:
        for number in range(messages):
            await cluster.clock.sleep_ms(100)
            sent.append((ctx.instance_id, number))

    return send


@pytest.mark.parametrize("claim_only", [False, True])
def test_within_the_grace_the_run_is_finished_and_stop_returns_with_it(claim_only: bool) -> None:
    async def story() -> None:
        cluster = Cluster(claim_only=claim_only)
        sent: list[tuple[str, int]] = []
        tasks = [make_task("t", at(SLOT), sending(cluster, sent)), make_task("often", every("1s"))]
        (one,) = await cluster.start(1, *tasks)
        await cluster.until(RunStarted, task="t")
        await cluster.advance(1_000)
        others = len(one.told(RunStarted, task="often"))
        assert await one.stop(10_000) == 0
        assert cluster.now_ms() == SLOT + 3_000
        assert len(sent) == 30
        (run,) = await cluster.runs("t")
        assert run.status == "succeeded"
        assert len(one.told(RunStarted, task="often")) == others
        assert len(one.told(SchedulerStopped)) == 1

    in_virtual_time(story)


def test_past_the_grace_the_run_is_given_back_and_another_instance_takes_it_up_by_its_next_survey() -> None:
    async def story() -> None:
        cluster = Cluster()
        sent: list[tuple[str, int]] = []
        task = make_task("t", at(SLOT), sending(cluster, sent))
        a, b = await cluster.start(2, task)
        (first,) = await cluster.until(RunStarted)
        stopping, other = (a, b) if first.instance_id == a.id else (b, a)
        await cluster.advance(1_000)
        assert await stopping.stop(1_000) == 0
        assert cluster.now_ms() <= SLOT + 2_000 + 100
        (run,) = await cluster.runs("t")
        assert run.status == "handed-over"
        (taken,) = await cluster.until(RunRecovered)
        assert (taken.instance_id, taken.reason, taken.attempt) == (other.id, "hand-over", 1)
        assert taken.at_ms <= SLOT + 2_000 + 7_500
        await cluster.until(RunSucceeded)
        (run,) = await cluster.runs("t")
        assert [each.status for each in run.attempts] == ["handed-over", "succeeded"]
        assert [number for where, number in sent if where == other.id] == list(range(30))
        await cluster.stop()

    in_virtual_time(story)


def test_a_claim_only_store_has_nobody_to_hand_over_to_and_says_interrupted() -> None:
    async def story() -> None:
        cluster = Cluster(claim_only=True)
        sent: list[tuple[str, int]] = []
        task = make_task("t", at(SLOT), sending(cluster, sent), max_attempts=1, overlap="allow", catch_up_ms=0)
        a, b = await cluster.start(2, task)
        (first,) = await cluster.until(RunStarted)
        await (a if first.instance_id == a.id else b).stop(1_000)
        assert len(cluster.told(RunInterrupted)) == 1
        assert cluster.told(RunHandedOver) == []
        await cluster.advance(5 * MINUTE)
        assert len(cluster.told(RunStarted)) == 1
        (run,) = await cluster.runs("t")
        assert run.status == "interrupted"
        await cluster.stop()

    in_virtual_time(story)


@pytest.mark.parametrize("second_after_ms", [0, 1, 500, 2_000])
def test_two_stops_return_together(second_after_ms: int) -> None:
    async def story() -> None:
        cluster = Cluster()
        sent: list[tuple[str, int]] = []
        (one,) = await cluster.start(1, make_task("t", at(SLOT), sending(cluster, sent)))
        await cluster.until(RunStarted)
        first = asyncio.ensure_future(one.stop(10_000))
        await cluster.advance(second_after_ms)
        second = asyncio.ensure_future(one.stop(10_000))
        assert (await first, await second) == (0, 0)
        assert cluster.now_ms() == SLOT + 3_000
        assert len(one.told(SchedulerStopped)) == 1
        assert await one.stop(10_000) == 0

    in_virtual_time(story)


def slow(name: str, fault: Fault) -> Any:
    """A way to the store on which calls of one name meet a fault."""

    def wrap(backend: LeaseBackend, clock: Any) -> FaultyLeaseBackend:
        return FaultyLeaseBackend(backend, Faults(clock, lambda call: fault if call.name == name else Fault()))

    return wrap


@pytest.mark.parametrize("name", ["open", "register", "survey", "claim"])
@pytest.mark.parametrize(
    "fault", [Fault(delay_ms=1_500), Fault(kind="refused"), Fault(kind="lost", delay_ms=1_500), Fault(delay_ms=HOUR)]
)
def test_stop_during_the_start_ends_in_time_whatever_the_store_does(name: str, fault: Fault) -> None:
    async def story() -> None:
        cluster = Cluster()
        one = cluster.make([make_task("t", every("1s"))], wrap=slow(name, fault))
        starting = asyncio.ensure_future(one.engine.start())
        await cluster.advance(700)
        before = cluster.now_ms()
        assert await one.stop(1_000) == 0
        assert cluster.now_ms() - before <= 1_000 + 1_000 + 2_000 + 2_000
        await starting
        assert one.told(RunStarted) == []
        after = len(one.events)
        await cluster.advance(MINUTE)
        assert len(one.events) == after
        assert len(one.told(SchedulerStarted)) <= 1

    in_virtual_time(story)


def test_stop_with_the_store_away_ends_in_time() -> None:
    async def story() -> None:
        cluster = Cluster()
        sent: list[tuple[str, int]] = []
        faults = Faults(cluster.clock)
        one = cluster.make(
            [make_task("t", at(SLOT), sending(cluster, sent, 300)), make_task("u", every("1s"))],
            wrap=lambda backend, _: FaultyLeaseBackend(backend, faults),
        )
        await one.engine.start()
        await cluster.until(RunStarted, task="t")
        faults.outage = True
        await cluster.advance(5_000)
        before = cluster.now_ms()
        await one.stop(1_000)
        assert cluster.now_ms() - before <= 1_000 + 1_000 + 2_000 + 2_000
        assert len(one.told(SchedulerStopped)) == 1

    in_virtual_time(story)


def test_a_claim_under_way_when_stop_begins_is_given_back_unbegun_and_costs_no_attempt() -> None:
    async def story() -> None:
        cluster = Cluster()
        task = make_task("t", at(SLOT), max_attempts=1)
        a = cluster.make([task], wrap=slow("claim", Fault(answer_delay_ms=1_000)))
        await a.engine.start()
        b = cluster.make([task], offset_ms=-500)
        await b.engine.start()
        await cluster.advance_to(SLOT + 200)
        assert await a.stop(10_000) == 0
        assert a.told(RunStarted) == []
        (given,) = a.told(RunHandedOver)
        assert given.began is False
        (done,) = await cluster.until(RunSucceeded)
        assert (done.instance_id, done.attempt) == (b.id, 1)
        (run,) = await cluster.runs("t")
        assert [each.number for each in run.attempts] == [1, 1]
        await cluster.stop()

    in_virtual_time(story)


def test_slots_that_fall_due_while_stopping_are_left_to_others() -> None:
    async def story() -> None:
        cluster = Cluster()
        sent: list[tuple[str, int]] = []
        long = make_task("long", at(SLOT), sending(cluster, sent, 80))
        often = make_task("often", every("1s"))
        a = cluster.make([long, often])
        b = cluster.make([often])
        await a.engine.start()
        await b.engine.start()
        await cluster.advance_to(SLOT + 2_500)
        begin = cluster.now_ms()
        assert await a.stop(10_000) == 0
        assert [event.at_ms for event in a.told(RunStarted) if event.at_ms > begin] == []
        slots = [event.slot_ms for event in cluster.told(RunStarted, task="often")]
        assert slots == [START_MS + n * SECOND for n in range(1, len(slots) + 1)]
        assert (slots[-1] or 0) >= SLOT + 7_000
        assert b.told(SlotSkipped) == []
        await cluster.stop()

    in_virtual_time(story)
