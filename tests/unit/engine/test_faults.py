"""What the engine makes of requests and answers that are lost, late, hang or are refused, told as timelines."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from anarchon.context import RunContext
from anarchon.engine import EngineTask
from anarchon.model.asks import Claim, Finish, HandOver, Lease, LeaseOutcome, LeaseTerms, TakeUp, TakeUpOutcome
from anarchon.model.events import (
    BackendAway,
    BackendBack,
    ClaimLost,
    ClockSkewed,
    LeaseLost,
    ResultRefused,
    RunFailed,
    RunHandedOver,
    RunInterrupted,
    RunRecovered,
    RunStarted,
    RunSucceeded,
    SchedulerStarted,
    SlotSkipped,
)
from anarchon.protocol import LeaseBackend
from anarchon.testing import Call, Fault, Faults, FaultyLeaseBackend, MemoryStore
from anarchon.times.schedule import at, cron, every
from tests.support.cluster import START_MS, Cluster, Instance, holding, in_virtual_time, make_task

MINUTE = 60_000
HOUR = 60 * MINUTE
SLOT = START_MS + 1_000

LOST = Fault(kind="lost", delay_ms=1_000)
ANSWER_LOST = Fault(kind="answer-lost", delay_ms=1_000)
REFUSED = Fault(kind="refused")
HANGS = Fault(kind="lost", delay_ms=10 * HOUR)


class Wire(FaultyLeaseBackend):
    """A faulty way to the store that keeps what was sent on it, and when."""

    def __init__(self, inner: LeaseBackend, faults: Faults, cluster: Cluster) -> None:
        super().__init__(inner, faults)
        self._cluster = cluster
        self._fates: dict[str, deque[Fault]] = {}
        self._always: dict[str, Fault] = {}
        self.claims: list[Sequence[Claim[LeaseTerms]]] = []
        self.take_ups: list[Sequence[TakeUp]] = []
        self.renewals: list[tuple[int, int]] = []
        self.finishes: list[Sequence[Finish]] = []
        self.hand_overs: list[Sequence[HandOver]] = []
        self.sent: list[tuple[int, str]] = []
        faults.use(self._plan)

    def meet(self, name: str, *fates: Fault) -> None:
        """The next calls of this name meet these fates, one each."""
        self._fates.setdefault(name, deque()).extend(fates)

    def always(self, name: str, fate: Fault) -> None:
        """Every call of this name meets this fate from now on, after those that were named one by one."""
        self._always[name] = fate

    def heal(self) -> None:
        """Nothing goes wrong any more."""
        self._fates.clear()
        self._always.clear()

    def _plan(self, call: Call) -> Fault:
        self.sent.append((self._cluster.now_ms(), call.name))
        fates = self._fates.get(call.name)
        return fates.popleft() if fates else self._always.get(call.name, Fault())

    def count(self, name: str) -> int:
        """How many calls of this name were sent."""
        return sum(sent == name for _, sent in self.sent)

    async def claim(self, claims: Sequence[Claim[LeaseTerms]]) -> Sequence[LeaseOutcome]:
        self.claims.append(claims)
        return await super().claim(claims)

    async def take_up(self, asks: Sequence[TakeUp]) -> Sequence[TakeUpOutcome]:
        self.take_ups.append(asks)
        return await super().take_up(asks)

    async def renew(self, leases: Sequence[Lease], lease_ms: int) -> Sequence[bool]:
        self.renewals.append((self._cluster.now_ms(), len(leases)))
        return await super().renew(leases, lease_ms)

    async def finish(self, finishes: Sequence[Finish]) -> Sequence[bool]:
        self.finishes.append(finishes)
        return await super().finish(finishes)

    async def hand_over(self, asks: Sequence[HandOver]) -> Sequence[bool]:
        self.hand_overs.append(asks)
        return await super().hand_over(asks)


async def wired(cluster: Cluster, *tasks: EngineTask, **options: Any) -> tuple[Instance, Wire]:
    """An instance behind a wire, started."""
    wires: list[Wire] = []

    def wrap(backend: LeaseBackend, _: object) -> Wire:
        wires.append(Wire(backend, Faults(cluster.clock), cluster))
        return wires[-1]

    instance = cluster.make(list(tasks), wrap=wrap, **options)
    await instance.engine.start()
    return instance, wires[-1]


async def sound(cluster: Cluster, *tasks: EngineTask, **options: Any) -> Instance:
    """An instance with an undisturbed way to the store, started. Its clock makes it ask a moment later."""
    instance = cluster.make(list(tasks), **{"offset_ms": -100, **options})
    await instance.engine.start()
    return instance


def swallowing(cluster: Cluster, work_ms: float) -> Any:
    """A handler that goes on for so long whatever it is told."""

    async def goes_on(ctx: RunContext[Any]) -> None:
        until = cluster.clock.monotonic_ms() + work_ms
        while cluster.clock.monotonic_ms() < until:
            try:
                await cluster.clock.sleep_ms(until - cluster.clock.monotonic_ms())
            except asyncio.CancelledError:
                continue

    return goes_on


# ------------------------------------------------------------------ claims


def test_a_claim_whose_answer_was_lost_is_settled_by_asking_again_with_the_same_token() -> None:
    async def story() -> None:
        cluster = Cluster()
        task = make_task("t", at(SLOT))
        a, wire = await wired(cluster, task)
        b = await sound(cluster, task)
        wire.meet("claim", ANSWER_LOST)
        await cluster.until(RunSucceeded)
        await cluster.advance(MINUTE)
        assert len(wire.claims) == 2
        assert len({claim.token for batch in wire.claims for claim in batch}) == 1
        (started,) = cluster.told(RunStarted)
        assert (started.instance_id, started.attempt) == (a.id, 1)
        assert started.at_ms >= SLOT + 1_000
        assert a.told(ClaimLost) == []
        assert len(b.told(ClaimLost)) == 1
        assert cluster.told(SlotSkipped) == []
        (run,) = await cluster.runs("t")
        assert [each.number for each in run.attempts] == [1]
        await cluster.stop()

    in_virtual_time(story)


def test_a_claim_that_was_lost_on_its_way_is_sent_again() -> None:
    async def story() -> None:
        cluster = Cluster()
        a, wire = await wired(cluster, make_task("t", at(SLOT)))
        wire.meet("claim", LOST, REFUSED, LOST)
        (started,) = await cluster.until(RunStarted)
        assert SLOT + 2_000 <= started.at_ms <= SLOT + 3_000
        assert len(wire.claims) == 4
        assert len({claim.token for batch in wire.claims for claim in batch}) == 1
        assert len(a.told(BackendAway)) == 1
        assert len(a.told(BackendBack)) == 1
        await cluster.stop()

    in_virtual_time(story)


def test_while_a_claim_is_unknown_here_another_instance_runs_the_slot_if_it_was_lost() -> None:
    async def story() -> None:
        cluster = Cluster()
        task = make_task("t", at(SLOT))
        a, wire = await wired(cluster, task)
        b = await sound(cluster, task)
        wire.meet("claim", LOST)
        (started,) = await cluster.until(RunStarted)
        await cluster.advance(MINUTE)
        assert started.instance_id == b.id
        assert len(a.told(ClaimLost)) == 1
        assert len(cluster.told(RunStarted)) == 1
        await cluster.stop()

    in_virtual_time(story)


@pytest.mark.parametrize("lease_ms", [2_000, 15_000])
def test_a_claim_that_stays_unknown_until_too_late_is_skipped_here_and_recovery_starts_its_run(lease_ms: int) -> None:
    async def story() -> None:
        cluster = Cluster(lease_ms=lease_ms)
        task = make_task("t", at(SLOT), max_late_ms=5_000)
        a, wire = await wired(cluster, task)
        b = await sound(cluster, task)
        wire.meet("claim", ANSWER_LOST)
        wire.always("claim", REFUSED)
        wire.always("take_up", REFUSED)
        (recovered,) = await cluster.until(RunRecovered)
        assert (recovered.instance_id, recovered.attempt, recovered.reason) == (b.id, 2, "recovery")
        assert SLOT + lease_ms <= recovered.at_ms + 100 <= SLOT + lease_ms + 1_000
        (skipped,) = await cluster.until(SlotSkipped)
        assert (skipped.instance_id, skipped.reason) == (a.id, "claim-unknown")
        assert SLOT + 5_000 < skipped.at_ms <= SLOT + 7_000
        await cluster.advance(MINUTE)
        assert [event.instance_id for event in cluster.told(RunStarted)] == [b.id]
        (run,) = await cluster.runs("t")
        assert [(each.number, each.status) for each in run.attempts] == [(1, "interrupted"), (2, "succeeded")]
        await cluster.stop()

    in_virtual_time(story)


def test_a_run_that_may_start_only_once_ends_interrupted_when_its_claim_stays_unknown() -> None:
    async def story() -> None:
        cluster = Cluster()
        task = make_task("t", at(SLOT), max_late_ms=5_000, max_attempts=1)
        _, wire = await wired(cluster, task)
        await sound(cluster, task)
        wire.meet("claim", ANSWER_LOST)
        wire.always("claim", REFUSED)
        await cluster.until(RunInterrupted)
        await cluster.advance(MINUTE)
        assert cluster.told(RunStarted) == []
        (run,) = await cluster.runs("t")
        assert run.status == "interrupted"
        await cluster.stop()

    in_virtual_time(story)


def test_a_claim_that_arrives_after_its_caller_asked_again_changes_nothing() -> None:
    async def story() -> None:
        cluster = Cluster()
        seen: list[RunContext[Any]] = []
        task = make_task("t", at(SLOT), holding(seen, 20_000, cluster.clock))
        a, wire = await wired(cluster, task)
        await sound(cluster, task, offset_ms=-900)
        wire.meet("claim", Fault(kind="late", delay_ms=500, late_ms=4_000))
        await cluster.until(RunSucceeded)
        await cluster.advance(MINUTE)
        assert [ctx.instance_id for ctx in seen] == [a.id]
        (run,) = await cluster.runs("t")
        assert (run.status, len(run.attempts)) == ("succeeded", 1)
        await cluster.stop()

    in_virtual_time(story)


def test_a_claim_that_arrives_after_another_instance_has_run_the_slot_is_lost() -> None:
    async def story() -> None:
        cluster = Cluster()
        task = make_task("t", at(SLOT))
        a, wire = await wired(cluster, task)
        b = await sound(cluster, task)
        wire.meet("claim", Fault(kind="late", delay_ms=2_000, late_ms=8_000))
        wire.always("claim", REFUSED)
        await cluster.advance(2 * MINUTE)
        assert [event.instance_id for event in cluster.told(RunStarted)] == [b.id]
        (run,) = await cluster.runs("t")
        assert (run.instance_id, run.status, len(run.attempts)) == (b.id, "succeeded", 1)
        assert [event.reason for event in a.told(SlotSkipped)] == ["claim-unknown"]
        await cluster.stop()

    in_virtual_time(story)


def test_a_claim_that_arrives_after_its_caller_gave_the_slot_up_is_recovered() -> None:
    async def story() -> None:
        cluster = Cluster(lease_ms=5_000)
        task = make_task("t", at(SLOT), max_late_ms=4_000)
        (a, wire) = await wired(cluster, task)
        wire.meet("claim", Fault(kind="late", delay_ms=1_000, late_ms=9_000))
        wire.always("claim", REFUSED)
        (recovered,) = await cluster.until(RunRecovered)
        assert SLOT + 15_000 <= recovered.at_ms <= SLOT + 16_000
        assert [event.reason for event in a.told(SlotSkipped)] == ["claim-unknown"]
        await cluster.until(RunSucceeded)
        (run,) = await cluster.runs("t")
        assert [each.status for each in run.attempts] == ["interrupted", "succeeded"]
        await cluster.stop()

    in_virtual_time(story)


def test_an_answer_that_comes_after_the_trust_deadline_is_given_back_and_not_run() -> None:
    async def story() -> None:
        cluster = Cluster()
        task = make_task("t", at(SLOT))
        a, wire = await wired(cluster, task)
        b = await sound(cluster, task)
        wire.meet("claim", Fault(answer_delay_ms=13_600))
        (handed,) = await cluster.until(RunHandedOver)
        assert (handed.instance_id, handed.began) == (a.id, False)
        await cluster.until(RunSucceeded)
        (started,) = cluster.told(RunStarted)
        assert (started.attempt, started.reason) == (1, "hand-over")
        assert started.instance_id in (a.id, b.id)
        (run,) = await cluster.runs("t")
        assert [(each.number, each.status) for each in run.attempts] == [(1, "handed-over"), (1, "succeeded")]
        await cluster.stop()

    in_virtual_time(story)


def test_an_answer_that_comes_after_the_leases_end_starts_nothing_beside_the_recovery() -> None:
    async def story() -> None:
        cluster = Cluster()
        seen: list[RunContext[Any]] = []
        task = make_task("t", at(SLOT), holding(seen, 30_000, cluster.clock))
        _, wire = await wired(cluster, task)
        b = await sound(cluster, task)
        wire.meet("claim", Fault(answer_delay_ms=20_000))
        wire.always("survey", REFUSED)
        await cluster.until(RunSucceeded)
        await cluster.advance(MINUTE)
        assert [(ctx.instance_id, ctx.attempt) for ctx in seen] == [(b.id, 2)]
        (run,) = await cluster.runs("t")
        assert [each.status for each in run.attempts] == ["interrupted", "succeeded"]
        await cluster.stop()

    in_virtual_time(story)


# ------------------------------------------------------------------ renewals


@pytest.mark.parametrize(("lease_ms", "margin_ms"), [(2_000, 500), (15_000, 1_500), (60_000, 6_000)])
@pytest.mark.parametrize("renewed_before", [0, 1, 2])
def test_the_signal_comes_exactly_at_the_trust_deadline_though_every_renewal_hangs(
    lease_ms: int, margin_ms: int, renewed_before: int
) -> None:
    async def story() -> None:
        cluster = Cluster(lease_ms=lease_ms)
        told: list[tuple[int, object]] = []

        async def watches(ctx: RunContext[Any]) -> None:
            try:
                await cluster.clock.sleep_ms(10 * HOUR)
            finally:
                told.append((cluster.now_ms(), ctx.signal.reason))

        a, wire = await wired(cluster, make_task("t", at(SLOT), watches))
        wire.meet("renew", *[Fault()] * renewed_before)
        wire.always("renew", HANGS)
        wire.always("take_up", REFUSED)
        (lost,) = await cluster.until(LeaseLost)
        last_good = SLOT if renewed_before == 0 else wire.renewals[renewed_before - 1][0]
        (run,) = await cluster.runs("t")
        assert run.lease_ends_at_ms == last_good + lease_ms
        assert lost.at_ms == last_good + lease_ms - margin_ms
        assert lost.found == "trust deadline"
        await cluster.advance(1)
        assert told == [(lost.at_ms, "lease-lost")]
        assert [event.found for event in a.told(LeaseLost)] == ["trust deadline"]
        await cluster.stop()

    in_virtual_time(story)


@pytest.mark.parametrize("fate", [LOST, ANSWER_LOST, REFUSED, Fault(kind="late", delay_ms=1_000, late_ms=2_000), HANGS])
def test_no_second_handler_starts_before_the_first_was_told_whatever_happens_to_its_renewals(fate: Fault) -> None:
    async def story() -> None:
        cluster = Cluster(lease_ms=5_000)
        spans: list[tuple[str, int, int]] = []

        async def works(ctx: RunContext[Any]) -> None:
            began = cluster.now_ms()
            try:
                await cluster.clock.sleep_ms(20_000)
            finally:
                spans.append((ctx.instance_id, began, cluster.now_ms()))

        task = make_task("t", at(SLOT), works)
        a, wire = await wired(cluster, task)
        b = await sound(cluster, task)
        wire.always("renew", fate)
        wire.always("take_up", REFUSED)
        await cluster.until(RunSucceeded)
        (first_at, first_from, first_to), (second_at, second_from, _) = spans
        assert (first_at, second_at) == (a.id, b.id)
        assert first_from == SLOT
        assert first_to < second_from
        assert len(a.told(LeaseLost)) == 1
        await cluster.stop()

    in_virtual_time(story)


def test_a_slow_answer_to_a_claim_does_not_stretch_the_trust() -> None:
    async def story() -> None:
        cluster = Cluster()
        seen: list[RunContext[Any]] = []
        _, wire = await wired(cluster, make_task("t", at(SLOT), holding(seen, HOUR, cluster.clock)))
        wire.meet("claim", Fault(delay_ms=3_000, answer_delay_ms=3_000))
        wire.always("renew", HANGS)
        (lost,) = await cluster.until(LeaseLost)
        assert lost.at_ms == SLOT + 13_500
        (run,) = await cluster.runs("t")
        assert run.lease_ends_at_ms == SLOT + 18_000
        await cluster.stop()

    in_virtual_time(story)


def test_one_renewal_that_hangs_does_not_keep_the_next_one_back() -> None:
    async def story() -> None:
        cluster = Cluster()
        seen: list[RunContext[Any]] = []
        a, wire = await wired(cluster, make_task("t", at(SLOT), holding(seen, 5 * MINUTE, cluster.clock)))
        wire.meet("renew", HANGS)
        await cluster.until(RunSucceeded)
        assert a.told(LeaseLost) == []
        (run,) = await cluster.runs("t")
        assert len(run.attempts) == 1
        await cluster.stop()

    in_virtual_time(story)


def test_a_store_that_was_emptied_costs_the_running_handlers_and_nothing_else() -> None:
    async def story() -> None:
        cluster = Cluster()
        told: list[object] = []

        async def watches(ctx: RunContext[Any]) -> None:
            if ctx.scheduled_at.timestamp() * 1_000 == START_MS + 2 * MINUTE:
                try:
                    await cluster.clock.sleep_ms(10 * MINUTE)
                finally:
                    told.append(ctx.signal.reason)

        task = make_task("t", every("1m"), watches)
        a, b = await cluster.start(2, task)
        await cluster.advance(2 * MINUTE + 1_000)
        fences = [event.fence for event in cluster.told(RunStarted)]
        (holder,) = [one for one in (a, b) if one.engine.snapshot().held_leases == 1]
        empty = MemoryStore(clock=cluster.clock)
        cluster.store.__dict__.update(empty.__dict__)
        (lost,) = await cluster.until(LeaseLost)
        assert (lost.instance_id, lost.found) == (holder.id, "refused")
        assert lost.at_ms <= START_MS + 2 * MINUTE + 5_000
        assert await cluster.runs("t") == []
        await cluster.advance_to(START_MS + 6 * MINUTE + 1)
        assert told == ["lease-lost"]
        runs = await cluster.runs("t")
        assert [run.slot_ms for run in runs] == [START_MS + n * MINUTE for n in (3, 4, 5, 6)]
        assert all(run.status == "succeeded" for run in runs)
        fences += [run.fence for run in runs]
        assert fences == sorted(set(fences), key=lambda fence: fence or 0)
        await cluster.stop()

    in_virtual_time(story)


# ------------------------------------------------------------------ outcomes


@pytest.mark.parametrize(
    "fates", [[LOST], [ANSWER_LOST], [LOST, ANSWER_LOST, REFUSED], [Fault(kind="late", delay_ms=500, late_ms=3_000)]]
)
def test_an_outcome_is_asked_again_until_it_is_answered_and_recorded_once(fates: list[Fault]) -> None:
    async def story() -> None:
        cluster = Cluster()

        async def broken() -> None:
            raise ValueError("no")

        task = make_task("t", at(SLOT), broken)
        a, wire = await wired(cluster, task)
        await sound(cluster, task)
        wire.meet("finish", *fates)
        await cluster.until(RunFailed)
        await cluster.advance(MINUTE)
        assert len(wire.finishes) == len(fates) + 1
        assert all(batch == wire.finishes[0] for batch in wire.finishes)
        assert len(a.told(RunFailed)) == 1
        assert a.told(ResultRefused) == []
        (run,) = await cluster.runs("t")
        assert (run.status, run.error, len(run.attempts)) == ("failed", "ValueError: no", 1)
        assert a.engine.snapshot().held_leases == 0
        await cluster.stop()

    in_virtual_time(story)


def test_a_lease_is_renewed_until_the_outcome_is_stored() -> None:
    async def story() -> None:
        cluster = Cluster(lease_ms=2_000)
        task = make_task("t", at(SLOT))
        a, wire = await wired(cluster, task)
        b = await sound(cluster, task)
        wire.always("finish", REFUSED)
        await cluster.advance(MINUTE)
        assert b.told(RunStarted) == []
        wire.heal()
        (done,) = await cluster.until(RunSucceeded)
        assert done.instance_id == a.id
        (run,) = await cluster.runs("t")
        assert len(run.attempts) == 1
        await cluster.stop()

    in_virtual_time(story)


def test_an_outcome_is_refused_once_another_instance_has_taken_the_run_up() -> None:
    async def story() -> None:
        cluster = Cluster(lease_ms=5_000)
        task = make_task("t", at(SLOT), swallowing(cluster, 12_000))
        a, wire = await wired(cluster, task)
        b = await sound(cluster, task)
        wire.always("renew", REFUSED)
        wire.always("take_up", REFUSED)
        (refused,) = await cluster.until(ResultRefused)
        assert (refused.instance_id, refused.attempt, refused.status) == (a.id, 1, "succeeded")
        (done,) = await cluster.until(RunSucceeded)
        assert (done.instance_id, done.attempt) == (b.id, 2)
        (run,) = await cluster.runs("t")
        assert [(each.instance_id, each.status) for each in run.attempts] == [
            (a.id, "interrupted"),
            (b.id, "succeeded"),
        ]
        assert a.engine.snapshot().held_leases == 0
        await cluster.stop()

    in_virtual_time(story)


def test_an_outcome_that_is_delivered_late_does_not_touch_the_run_of_a_newer_fence() -> None:
    async def story() -> None:
        cluster = Cluster(lease_ms=5_000)
        seen: list[RunContext[Any]] = []

        async def first_fails(ctx: RunContext[Any]) -> None:
            seen.append(ctx)
            if ctx.attempt == 1:
                raise ValueError("stale")
            await cluster.clock.sleep_ms(30_000)

        task = make_task("t", at(SLOT), first_fails)
        a, wire = await wired(cluster, task)
        b = await sound(cluster, task)
        wire.meet("finish", Fault(kind="late", delay_ms=1_000, late_ms=10_000))
        wire.always("finish", REFUSED)
        wire.always("renew", REFUSED)
        wire.always("take_up", REFUSED)
        await cluster.until(RunSucceeded)
        wire.heal()
        await cluster.until(ResultRefused)
        assert [ctx.instance_id for ctx in seen] == [a.id, b.id]
        (run,) = await cluster.runs("t")
        assert (run.status, run.error) == ("succeeded", None)
        await cluster.stop()

    in_virtual_time(story)


# ------------------------------------------------------------------ hand-over and recovery


@pytest.mark.parametrize("fate", [Fault(kind="lost", delay_ms=300), Fault(kind="answer-lost", delay_ms=300), REFUSED])
def test_a_hand_over_is_asked_again_until_it_is_answered(fate: Fault) -> None:
    async def story() -> None:
        cluster = Cluster()
        seen: list[RunContext[Any]] = []
        task = make_task("t", at(SLOT), holding(seen, 40_000, cluster.clock))
        a, wire = await wired(cluster, task)
        b = await sound(cluster, task)
        await cluster.until(RunStarted)
        wire.meet("hand_over", fate)
        before = cluster.now_ms()
        assert await a.stop(0) == 0
        assert cluster.now_ms() - before <= 1_000
        assert len(wire.hand_overs) == 2
        assert len(a.told(RunHandedOver)) == 1
        await cluster.until(RunSucceeded)
        assert [(ctx.instance_id, ctx.attempt) for ctx in seen] == [(a.id, 1), (b.id, 1)]
        await cluster.stop()

    in_virtual_time(story)


def test_stop_ends_in_time_when_no_hand_over_gets_through_and_recovery_starts_the_run() -> None:
    async def story() -> None:
        cluster = Cluster()
        seen: list[RunContext[Any]] = []
        task = make_task("t", at(SLOT), holding(seen, 40_000, cluster.clock))
        a, wire = await wired(cluster, task)
        b = await sound(cluster, task)
        await cluster.until(RunStarted)
        wire.always("hand_over", LOST)
        before = cluster.now_ms()
        await a.stop(1_000)
        assert cluster.now_ms() - before <= 1_000 + 1_000 + 2_000 + 2_000
        (recovered,) = await cluster.until(RunRecovered)
        assert (recovered.instance_id, recovered.attempt) == (b.id, 2)
        await cluster.stop()

    in_virtual_time(story)


@pytest.mark.parametrize("fate", [LOST, ANSWER_LOST, REFUSED, Fault(kind="late", delay_ms=500, late_ms=1_500)])
def test_a_take_up_without_an_answer_is_settled_by_asking_again_with_the_same_token(fate: Fault) -> None:
    async def story() -> None:
        cluster = Cluster(lease_ms=5_000)
        seen: list[RunContext[Any]] = []
        task = make_task("t", at(SLOT), holding(seen, 20_000, cluster.clock))
        dead = await sound(cluster, task, offset_ms=0)
        b, wire = await wired(cluster, task, offset_ms=-100)
        wire.meet("take_up", fate)
        await cluster.until(RunStarted)
        dead.kill()
        (recovered,) = await cluster.until(RunRecovered)
        await cluster.until(RunSucceeded)
        assert (recovered.instance_id, recovered.attempt) == (b.id, 2)
        assert len(wire.take_ups) == 2
        assert len({ask.token for batch in wire.take_ups for ask in batch}) == 1
        assert [(ctx.instance_id, ctx.attempt) for ctx in seen] == [(dead.id, 1), (b.id, 2)]
        (run,) = await cluster.runs("t")
        assert [each.number for each in run.attempts] == [1, 2]
        await cluster.stop()

    in_virtual_time(story)


@pytest.mark.parametrize(("first", "second"), [(3, 1), (1, 3)])
def test_of_two_releases_the_one_that_asks_for_fewer_attempts_has_its_way(first: int, second: int) -> None:
    async def story() -> None:
        cluster = Cluster()
        seen: list[RunContext[Any]] = []
        fn = holding(seen, HOUR, cluster.clock)
        a = await sound(cluster, make_task("t", at(SLOT), fn, max_attempts=first), offset_ms=0)
        await sound(cluster, make_task("t", at(SLOT), fn, max_attempts=second))
        await cluster.until(RunStarted)
        a.kill()
        await cluster.until(RunInterrupted)
        await cluster.advance(MINUTE)
        assert [ctx.instance_id for ctx in seen] == [a.id]
        (run,) = await cluster.runs("t")
        assert run.status == "interrupted"
        await cluster.stop()

    in_virtual_time(story)


# ------------------------------------------------------------------ clocks


@pytest.mark.parametrize("offset_ms", [HOUR, -HOUR])
def test_an_instance_whose_clock_is_an_hour_off_recovers_by_the_stores_clock(offset_ms: int) -> None:
    async def story() -> None:
        cluster = Cluster()
        seen: list[RunContext[Any]] = []
        task = make_task("t", at(SLOT), holding(seen, 30_000, cluster.clock))
        a = await sound(cluster, task, offset_ms=0)
        wrong = await sound(cluster, task, offset_ms=offset_ms)
        await cluster.until(RunStarted)
        await cluster.advance(12_000)
        a.kill()
        (held,) = await cluster.runs("t")
        assert held.lease_ends_at_ms is not None
        (recovered,) = await cluster.until(RunRecovered)
        assert recovered.instance_id == wrong.id
        assert held.lease_ends_at_ms <= cluster.now_ms() <= held.lease_ends_at_ms + 1_000
        await cluster.until(RunSucceeded)
        await cluster.advance(5 * MINUTE)
        assert [event.skew_ms for event in wrong.told(ClockSkewed)] == [-offset_ms]
        assert a.told(ClockSkewed) == []
        await cluster.stop()

    in_virtual_time(story)


@pytest.mark.parametrize("offset_ms", [HOUR, -HOUR])
def test_a_runner_whose_clock_is_an_hour_off_keeps_its_lease(offset_ms: int) -> None:
    async def story() -> None:
        cluster = Cluster()
        seen: list[RunContext[Any]] = []
        task = make_task("t", at(SLOT + offset_ms), holding(seen, 3 * MINUTE, cluster.clock), catch_up_ms=0)
        wrong = await sound(cluster, task, offset_ms=offset_ms)
        await sound(cluster, task, offset_ms=0)
        (done,) = await cluster.until(RunSucceeded)
        assert (done.instance_id, done.duration_ms) == (wrong.id, 3 * MINUTE)
        assert [ctx.instance_id for ctx in seen] == [wrong.id]
        assert cluster.told(LeaseLost) == []
        assert len(wrong.told(ClockSkewed)) == 1
        await cluster.stop()

    in_virtual_time(story)


def test_a_clock_that_is_put_right_and_wrong_again_is_told_each_time() -> None:
    async def story() -> None:
        cluster = Cluster()
        one = await sound(cluster, make_task("t", at(START_MS + 24 * HOUR)), offset_ms=0)
        for jump in (5_000, -5_000, -5_000):
            one.clock.jump(jump)
            await cluster.advance(30_000)
        assert [event.skew_ms for event in one.told(ClockSkewed)] == [-5_000, 5_000]
        await cluster.stop()

    in_virtual_time(story)


# ------------------------------------------------------------------ a schedule that changes


def test_a_slot_that_is_on_the_old_and_on_the_new_grid_runs_once_during_a_rolling_deploy() -> None:
    async def story() -> None:
        cluster = Cluster()
        old = [make_task("sync", every("5m"))]
        middle = [make_task("sync", every("15m"))]
        new = [make_task("sync", cron("0 * * * *", timezone="UTC"))]
        a, b = await cluster.start(2, *old)
        await cluster.advance(21 * MINUTE)
        (c,) = await cluster.start(1, *middle)
        await cluster.advance(10 * MINUTE)
        await a.stop()
        (d,) = await cluster.start(1, *middle)
        await b.stop()
        await cluster.advance_to(START_MS + 50 * MINUTE)
        (e,) = await cluster.start(1, *new)
        await c.stop()
        await cluster.advance_to(START_MS + 62 * MINUTE)
        await d.stop()
        await cluster.advance_to(START_MS + 181 * MINUTE)
        slots = [event.slot_ms for event in cluster.told(RunStarted)]
        minutes = [(slot - START_MS) // MINUTE for slot in slots if slot is not None]
        assert minutes == [5, 10, 15, 20, 25, 30, 45, 60, 120, 180]
        assert {event.instance_id for event in cluster.told(RunStarted) if event.slot_ms} <= {
            a.id,
            b.id,
            c.id,
            d.id,
            e.id,
        }
        await cluster.stop()

    in_virtual_time(story)


def test_overlap_skip_holds_between_two_releases_with_different_schedules() -> None:
    async def story() -> None:
        cluster = Cluster()
        seen: list[RunContext[Any]] = []
        fn = holding(seen, 4 * MINUTE, cluster.clock)
        await sound(cluster, make_task("sync", every("5m"), fn), offset_ms=0)
        await sound(cluster, make_task("sync", every("7m"), fn), offset_ms=0)
        await cluster.advance(36 * MINUTE)
        began = [event.at_ms for event in cluster.told(RunStarted)]
        assert all(later - earlier >= 4 * MINUTE for earlier, later in pairwise(began))
        started = {event.slot_ms for event in cluster.told(RunStarted)}
        closed = {event.slot_ms for event in cluster.told(SlotSkipped, reason="overlap")}
        assert started | closed == {START_MS + n * MINUTE for n in (5, 7, 10, 14, 15, 20, 21, 25, 28, 30, 35)}
        assert started & closed == set()
        await cluster.stop()

    in_virtual_time(story)


# ------------------------------------------------------------------ how much is asked


def test_an_idle_instance_sends_at_most_six_surveys_a_minute_and_nothing_else_but_a_sweep() -> None:
    async def story() -> None:
        cluster = Cluster()
        tasks = [make_task(f"t{n}", at(START_MS + 24 * HOUR)) for n in range(100)]
        _, wire = await wired(cluster, *tasks)
        opened = len(wire.sent)
        assert {name for _, name in wire.sent} <= {"open", "register", "survey", "sweep"}
        await cluster.advance(60 * MINUTE)
        idle = wire.sent[opened:]
        assert {name for _, name in idle} == {"survey", "sweep"}
        surveys = [at_ms for at_ms, name in idle if name == "survey"]
        sweeps = [at_ms for at_ms, name in idle if name == "sweep"]
        for minute in range(60):
            begin = START_MS + minute * MINUTE
            assert sum(begin < at_ms <= begin + MINUTE for at_ms in surveys) <= 6
            assert sum(begin < at_ms <= begin + MINUTE for at_ms in sweeps) <= 1
        await cluster.stop()

    in_virtual_time(story)


def test_the_renewal_of_500_held_runs_is_one_call_in_a_third_of_the_lease() -> None:
    async def story() -> None:
        cluster = Cluster()
        seen: list[RunContext[Any]] = []
        fn = holding(seen, 61_000, cluster.clock)
        _, wire = await wired(cluster, *[make_task(f"t{n}", at(SLOT), fn) for n in range(500)])
        await cluster.until(RunSucceeded, count=500)
        assert [size for _, size in wire.renewals] == [500] * 12
        apart = [later - earlier for (earlier, _), (later, _) in pairwise(wire.renewals)]
        assert set(apart) == {5_000}
        assert len(wire.finishes) <= 2
        await cluster.stop()

    in_virtual_time(story)


@pytest.mark.parametrize(("jitter_ms", "most"), [(0, 1), (2_000, 4)])
def test_a_thousand_tasks_due_at_one_instant_are_claimed_in_few_calls(jitter_ms: int, most: int) -> None:
    async def story() -> None:
        cluster = Cluster()
        tasks = [make_task(f"t{n}", every("1m"), jitter_ms=jitter_ms) for n in range(1_000)]
        _, wire = await wired(cluster, *tasks)
        await cluster.until(RunSucceeded, count=1_000)
        assert 1 <= len(wire.claims) <= most
        assert sum(len(batch) for batch in wire.claims) == 1_000
        assert all(SLOT - 1_000 + MINUTE <= event.at_ms <= SLOT + 1_000 + MINUTE for event in cluster.told(RunStarted))
        await cluster.stop()

    in_virtual_time(story)


# ------------------------------------------------------------------ at the start


def test_a_store_that_is_away_at_the_start_is_tried_until_it_answers() -> None:
    async def story() -> None:
        cluster = Cluster()
        wires: list[Wire] = []

        def wrap(backend: LeaseBackend, _: object) -> Wire:
            wires.append(Wire(backend, Faults(cluster.clock), cluster))
            return wires[-1]

        one = cluster.make([make_task("t", every("1m"))], wrap=wrap)
        (wire,) = wires
        wire.faults.outage = True
        await one.engine.start()
        await cluster.advance(3 * MINUTE + 10_000)
        assert one.told(SchedulerStarted) == []
        assert len(one.told(BackendAway)) == 1
        wire.faults.outage = False
        await cluster.until(SchedulerStarted)
        await cluster.until(RunStarted, count=2)
        # The slot of minute 3 is late but not too late; before it, only the newest counts.
        assert [event.slot_ms for event in one.told(RunStarted)] == [START_MS + 3 * MINUTE, START_MS + 4 * MINUTE]
        assert [event.reason for event in one.told(SlotSkipped)] == ["superseded"]
        assert len(one.told(BackendBack)) == 1
        await cluster.stop()

    in_virtual_time(story)


@pytest.mark.parametrize("name", ["open", "register", "survey"])
@pytest.mark.parametrize("fate", [LOST, ANSWER_LOST, REFUSED])
def test_each_call_of_the_start_may_fail_once(name: str, fate: Fault) -> None:
    async def story() -> None:
        cluster = Cluster()

        def wrap(backend: LeaseBackend, _: object) -> Wire:
            wire = Wire(backend, Faults(cluster.clock), cluster)
            wire.meet(name, fate)
            return wire

        one = cluster.make([make_task("t", every("1m"))], wrap=wrap)
        await one.engine.start()
        await cluster.advance_to(START_MS + 2 * MINUTE + 1)
        assert [event.slot_ms for event in one.told(RunStarted)] == [START_MS + MINUTE, START_MS + 2 * MINUTE]
        assert len(one.told(SchedulerStarted)) == 1
        await cluster.stop()

    in_virtual_time(story)


# ------------------------------------------------------------------ the application's loop goes


def test_a_run_whose_application_loop_is_torn_down_without_stop_is_handed_over() -> None:
    async def story() -> None:
        cluster = Cluster()
        seen: list[RunContext[Any]] = []
        task = make_task("t", at(SLOT), holding(seen, 30_000, cluster.clock))
        a = await sound(cluster, task, offset_ms=0)
        b = await sound(cluster, task)
        await cluster.until(RunStarted)
        a.host.close_app()
        await cluster.until(RunSucceeded)
        assert [(ctx.instance_id, ctx.attempt, ctx.reason) for ctx in seen] == [
            (a.id, 1, "schedule"),
            (b.id, 1, "hand-over"),
        ]
        assert cluster.told(RunFailed) == []
        await cluster.stop()

    in_virtual_time(story)


def test_a_handler_that_is_cancelled_by_the_application_alone_has_failed() -> None:
    async def story() -> None:
        cluster = Cluster()
        tasks: list[asyncio.Task[Any] | None] = []

        async def waits() -> None:
            tasks.append(asyncio.current_task())
            await cluster.clock.sleep_ms(MINUTE)

        one = await sound(cluster, make_task("t", at(SLOT), waits), offset_ms=0)
        await cluster.until(RunStarted)
        await cluster.advance(1_000)
        (task,) = tasks
        assert task is not None
        task.cancel()
        (failed,) = await cluster.until(RunFailed)
        assert failed.error == "CancelledError"
        assert failed.at_ms <= SLOT + 2_000
        assert one.told(RunHandedOver) == []
        await cluster.stop()

    in_virtual_time(story)
