"""Backends that fail on purpose: without faults they keep the contract, and each fault is the one that was planned."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from functools import update_wrapper
from pathlib import Path
from typing import Any

import pytest

from anarchon.clock import SystemClock
from anarchon.errors import BackendError, BackendUnavailableError, OutcomeUnknownError
from anarchon.model.asks import Claim, LeaseTerms, Won
from anarchon.model.run import run_id_of_slot
from anarchon.testing import (
    Call,
    Fault,
    Faults,
    FaultyClaimBackend,
    FaultyLeaseBackend,
    MemoryBackend,
    MemoryClaimBackend,
    MemoryStore,
    random_plan,
)
from anarchon.testing.clock import VirtualClock
from anarchon.testing.conformance import ClaimConformance, LeaseConformance
from anarchon.testing.conformance.kit import instance
from anarchon.testing.vloop import run_virtual


class TestFaultyLease(LeaseConformance):
    def make_store(self, directory: Path) -> None:
        self.store = MemoryStore(clock=self.clock)

    def make_backend(self) -> FaultyLeaseBackend:
        return FaultyLeaseBackend(MemoryBackend(self.store), Faults(SystemClock()))


class TestFaultyClaim(ClaimConformance):
    def make_store(self, directory: Path) -> None:
        self.store = MemoryStore(clock=self.clock)

    def make_backend(self) -> FaultyClaimBackend:
        return FaultyClaimBackend(MemoryClaimBackend(self.store), Faults(SystemClock()))


# ------------------------------------------------------------------ one fault at a time


class Network:
    """A store, the way to it, and the way back."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.faults = Faults(self.clock)
        self.backend = FaultyLeaseBackend(MemoryBackend(MemoryStore(clock=self.clock)), self.faults)

    async def claim(self, task: str = "t") -> object:
        slot_ms = 1_000
        terms = LeaseTerms(lease_ms=15_000, overlap="allow", max_attempts=3)
        ask = Claim(
            task=task,
            slot_ms=slot_ms,
            run_id=run_id_of_slot("ns", task, slot_ms),
            token=task,
            instance_id="a",
            reason="schedule",
            terms=terms,
        )
        return (await self.backend.claim([ask]))[0]

    async def stored(self, task: str = "t") -> int:
        """What the store holds, whatever lies between."""
        return len(await self.backend.inner.history(task, 10))


def on_a_network(test: Callable[[Network], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def run() -> None:
        async def play() -> None:
            network = Network()
            await network.backend.open("ns", instance("a"))
            await test(network)
            await network.faults.drop()
            await network.backend.close()

        run_virtual(play, limit_ms=3_600_000)

    update_wrapper(run, test)
    del run.__wrapped__  # type: ignore[attr-defined]  # pytest would take the parameter for a fixture
    return run


def always(fault: Fault) -> Callable[[Call], Fault]:
    return lambda _call: fault


@on_a_network
async def test_a_refused_request_was_not_applied(network: Network) -> None:
    network.faults.use(always(Fault(kind="refused")))

    with pytest.raises(BackendUnavailableError):
        await network.claim()

    assert await network.stored() == 0


@on_a_network
async def test_a_lost_request_is_unknown_after_a_while_and_was_not_applied(network: Network) -> None:
    network.faults.use(always(Fault(kind="lost", delay_ms=2_000)))
    began = network.clock.monotonic_ms()

    with pytest.raises(OutcomeUnknownError):
        await network.claim()

    assert network.clock.monotonic_ms() - began == 2_000
    assert await network.stored() == 0


@on_a_network
async def test_a_lost_answer_is_unknown_and_was_applied_and_can_be_asked_again(network: Network) -> None:
    network.faults.use(always(Fault(kind="answer-lost", delay_ms=2_000)))
    with pytest.raises(OutcomeUnknownError):
        await network.claim()
    assert await network.stored() == 1

    network.faults.use(always(Fault()))

    assert isinstance(await network.claim(), Won)
    assert await network.stored() == 1


@on_a_network
async def test_a_late_request_takes_effect_after_the_caller_has_given_up(network: Network) -> None:
    network.faults.use(always(Fault(kind="late", delay_ms=2_000, late_ms=5_000)))
    with pytest.raises(OutcomeUnknownError):
        await network.claim()

    await network.clock.sleep_ms(4_999)
    before = await network.stored()
    await network.clock.sleep_ms(2)

    assert (before, await network.stored()) == (0, 1)


@on_a_network
async def test_a_delayed_call_is_answered_after_both_ways(network: Network) -> None:
    network.faults.use(always(Fault(delay_ms=30, answer_delay_ms=70)))
    began = network.clock.monotonic_ms()

    assert isinstance(await network.claim(), Won)

    assert network.clock.monotonic_ms() - began == 100


@on_a_network
async def test_in_an_outage_every_call_is_refused_until_it_ends(network: Network) -> None:
    network.faults.outage = True
    with pytest.raises(BackendUnavailableError):
        await network.claim()
    with pytest.raises(BackendUnavailableError):
        await network.backend.survey("a", 15_000)
    network.faults.outage = False

    assert isinstance(await network.claim(), Won)


@on_a_network
async def test_a_short_freeze_delays_calls(network: Network) -> None:
    network.faults.freeze()
    call = asyncio.ensure_future(network.claim())
    await network.clock.sleep_ms(500)
    assert not call.done()

    network.faults.thaw()

    assert isinstance(await call, Won)


@on_a_network
async def test_a_long_freeze_lets_callers_give_up_and_applies_what_they_sent(network: Network) -> None:
    network.faults.freeze()
    with pytest.raises(OutcomeUnknownError):
        await network.claim()
    await network.clock.sleep_ms(60_000)
    before = await network.stored()

    network.faults.thaw()
    await network.faults.settle()

    assert (before, await network.stored()) == (0, 1)


@on_a_network
async def test_what_is_under_way_can_be_dropped(network: Network) -> None:
    network.faults.use(always(Fault(kind="late", late_ms=5_000)))
    with pytest.raises(OutcomeUnknownError):
        await network.claim()

    await network.faults.drop()
    await network.clock.sleep_ms(10_000)

    assert await network.stored() == 0


@on_a_network
async def test_a_late_request_to_a_backend_that_was_closed_is_lost(network: Network) -> None:
    network.faults.use(always(Fault(kind="late", late_ms=1_000)))
    with pytest.raises(OutcomeUnknownError):
        await network.claim()
    await network.backend.close()

    await network.faults.settle()


@pytest.mark.parametrize("kind", ["lost", "answer-lost", "late", "refused"])
def test_a_failed_open_leaves_the_backend_closed(kind: Any) -> None:
    async def play() -> None:
        clock = VirtualClock()
        faults = Faults(clock, always(Fault(kind=kind, delay_ms=100, late_ms=100)))
        backend = FaultyLeaseBackend(MemoryBackend(MemoryStore(clock=clock)), faults)
        with pytest.raises(BackendError):
            await backend.open("ns", instance("a"))
        await clock.sleep_ms(1_000)
        faults.use(always(Fault()))

        await backend.open("ns", instance("a"))
        await backend.close()

    run_virtual(play)


# ------------------------------------------------------------------ plans


def test_a_plan_sees_the_name_and_the_number_of_each_call() -> None:
    seen: list[Call] = []

    def plan(call: Call) -> Fault:
        seen.append(call)
        return Fault()

    async def play() -> None:
        network = Network()
        network.faults.use(plan)
        await network.backend.open("ns", instance("a"))
        await network.claim()
        await network.backend.task_names()
        await network.backend.close()

    run_virtual(play)

    assert seen == [Call("open", 1), Call("claim", 2), Call("task_names", 3)]


def test_a_seed_draws_the_same_fates() -> None:
    def fates(seed: int) -> list[Fault]:
        plan = random_plan(random.Random(seed), lost=0.1, answer_lost=0.1, late=0.1, refused=0.1, delay_ms=(0, 50))
        return [plan(Call("claim", number)) for number in range(200)]

    assert fates(1) == fates(1)
    assert fates(1) != fates(2)


def test_fates_come_about_as_often_as_they_should() -> None:
    plan = random_plan(random.Random(7), lost=0.1, answer_lost=0.2, late=0.05, refused=0.15, late_ms=(1_000, 8_000))

    faults = [plan(Call("claim", number)) for number in range(4_000)]

    shares = {kind: sum(fault.kind == kind for fault in faults) / 4_000 for kind in {fault.kind for fault in faults}}
    expected = {"lost": 0.1, "answer-lost": 0.2, "late": 0.05, "refused": 0.15, "none": 0.5}
    assert shares == {kind: pytest.approx(share, abs=0.03) for kind, share in expected.items()}
    assert all(1_000 <= fault.late_ms <= 8_000 for fault in faults if fault.kind == "late")
