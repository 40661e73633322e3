"""Leases: fences, renewals, finishes and hand-overs under an old fence or after the lease's end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from anarchon.model.asks import LOST, Claim, LeaseOutcome, LeaseTerms
from anarchon.model.words import FinalStatus
from anarchon.protocol import LeaseBackend
from anarchon.testing.conformance.by_hand import ByHandConformance
from anarchon.testing.conformance.claim import ClaimConformance
from anarchon.testing.conformance.keeping import KeepingConformance
from anarchon.testing.conformance.kit import (
    LEASE_MS,
    fence_of,
    finish,
    hand_over,
    lease_of,
    record,
    scenario,
    take_up,
    won,
)
from anarchon.testing.conformance.overlap import OverlapConformance
from anarchon.testing.conformance.recovery import RecoveryConformance


class LeaseConformance(
    ClaimConformance[LeaseBackend], OverlapConformance, RecoveryConformance, KeepingConformance, ByHandConformance
):
    """The contract of a lease backend. Subclass it with a name that pytest collects:

        class TestMyStore(LeaseConformance):
            def make_store(self, directory): self.server = ...
            def make_backend(self): return MyBackend(self.server.url, clock=self.clock)

    See `Kit` for what else a subclass may give, the store's clock above all.
    """

    async def claim(self, client: LeaseBackend, *asks: Claim[LeaseTerms]) -> Sequence[LeaseOutcome]:
        """With the terms."""
        return await client.claim(asks)

    # ---------------------------------------------------------------- what differs from claim-only

    @scenario
    async def test_a_won_run_has_the_fence_and_the_lease_of_its_kind(self) -> None:
        run = await self.win(await self.client(), self.ask(lease_ms=20_000, max_attempts=5))

        assert run.fence is not None
        assert run.max_attempts == 5
        assert abs(run.claimed_at_ms - self.store_now()) <= self.clock_tolerance_ms
        assert run.lease_ends_at_ms == run.claimed_at_ms + 20_000

    @scenario
    async def test_a_claimed_slot_is_remembered_as_long_as_was_promised(self) -> None:
        a, b = await self.client("a"), await self.client("b")
        await a.finish([finish(await self.win(a, self.ask()))])
        assert b.remembers_ms is None

        await self.pass_time(10 * 86_400_000)

        assert list(await self.claim(b, self.ask(by="b"))) == [LOST]

    # ---------------------------------------------------------------- the fence

    @scenario
    async def test_a_fence_is_not_below_the_clock_of_the_store(self) -> None:
        run = await self.win(await self.client(), self.ask())

        # A store that was emptied gives out fences above the old ones.
        assert fence_of(run) >= run.claimed_at_ms

    @scenario
    async def test_fences_of_a_task_grow_with_every_claim(self) -> None:
        a, b = await self.client("a"), await self.client("b")

        runs = [
            await self.win(client, self.ask("t", self.slot(-number), by=by))
            for number, (client, by) in enumerate([(a, "a"), (b, "b"), (a, "a"), (b, "b")])
        ]

        fences = [fence_of(run) for run in runs]
        assert fences == sorted(set(fences))

    @scenario
    async def test_fences_grow_inside_a_batch(self) -> None:
        answers = await self.claim(await self.client(), *(self.ask("t", self.slot(-number)) for number in range(5)))

        fences = [fence_of(won(answer)) for answer in answers]
        assert fences == sorted(set(fences))

    @scenario
    async def test_asking_again_moves_the_lease_and_keeps_the_fence(self) -> None:
        backend = await self.client()
        first = await self.win(backend, self.ask())
        await self.pass_time(5_000)

        second = await self.win(backend, self.ask())

        assert second.fence == first.fence
        assert (second.lease_ends_at_ms or 0) >= (first.lease_ends_at_ms or 0) + 5_000
        assert second.claimed_at_ms == first.claimed_at_ms

    # ---------------------------------------------------------------- renewals

    @scenario
    async def test_a_live_lease_is_renewed_on_the_store_s_clock(self) -> None:
        backend = await self.client()
        run = await self.win(backend, self.ask())
        await self.pass_time(5_000)
        now_ms = self.store_now()

        assert list(await backend.renew([lease_of(run)], LEASE_MS)) == [True]

        (shown,) = await backend.history("t", 10)
        assert abs((shown.lease_ends_at_ms or 0) - (now_ms + LEASE_MS)) <= self.clock_tolerance_ms

    @scenario
    async def test_a_renewal_never_shortens_a_lease(self) -> None:
        backend = await self.client()
        run = await self.win(backend, self.ask(lease_ms=60_000))

        assert list(await backend.renew([lease_of(run)], 2_000)) == [True]

        (shown,) = await backend.history("t", 10)
        assert shown.lease_ends_at_ms == run.lease_ends_at_ms

    @scenario
    async def test_a_lease_that_has_run_out_is_not_renewed(self) -> None:
        backend = await self.client()
        run = await self.win(backend, self.ask(lease_ms=2_000))
        await self.pass_time(2_000)

        assert list(await backend.renew([lease_of(run)], LEASE_MS)) == [False]

    @scenario
    async def test_a_renewal_under_an_old_fence_is_refused(self) -> None:
        a, b = await self.client("a"), await self.client("b")
        old = await self.win(a, self.ask(lease_ms=2_000))
        await self.pass_time(2_000)
        new = won((await b.take_up([take_up(old, by="b")]))[0])

        assert list(await a.renew([lease_of(old)], LEASE_MS)) == [False]
        assert list(await b.renew([lease_of(new)], LEASE_MS)) == [True]

    @scenario
    async def test_renewals_are_answered_one_by_one(self) -> None:
        backend = await self.client()
        held = await self.win(backend, self.ask("held"))
        done = await self.win(backend, self.ask("done"))
        await backend.finish([finish(done)])

        asked = [
            lease_of(done),
            lease_of(held),
            replace(lease_of(held), fence=fence_of(held) + 1),
            replace(lease_of(held), run_id="nobody's"),
            replace(lease_of(held), task="unheard-of"),
        ]

        assert list(await backend.renew(asked, LEASE_MS)) == [False, True, False, False, False]

    @scenario
    async def test_empty_batches_about_leases_are_answered_by_empty_batches(self) -> None:
        backend = await self.client()

        assert list(await backend.renew([], LEASE_MS)) == []
        assert list(await backend.hand_over([])) == []
        assert list(await backend.take_up([])) == []

    @scenario
    async def test_a_thousand_leases_are_renewed_in_one_call(self) -> None:
        backend = await self.client()
        answers = await self.claim(backend, *(self.ask(f"t{number}") for number in range(1_000)))

        assert list(await backend.renew([lease_of(won(answer)) for answer in answers], LEASE_MS)) == [True] * 1_000

    # ---------------------------------------------------------------- finishes

    @scenario
    async def test_a_finish_after_the_lease_s_end_is_taken_while_nobody_took_the_run_up(self) -> None:
        backend = await self.client()
        run = await self.win(backend, self.ask(lease_ms=2_000))
        await self.pass_time(60_000)

        assert list(await backend.finish([finish(run)])) == [True]

        (shown,) = await backend.history("t", 10)
        assert shown.status == "succeeded"

    @scenario
    async def test_a_finish_under_an_old_fence_is_refused(self) -> None:
        a, b = await self.client("a"), await self.client("b")
        old = await self.win(a, self.ask(lease_ms=2_000))
        await self.pass_time(2_000)
        new = won((await b.take_up([take_up(old, by="b")]))[0])

        assert list(await a.finish([finish(old)])) == [False]
        assert list(await b.finish([finish(new, "failed")])) == [True]
        assert list(await a.finish([finish(old)])) == [False]
        assert [run.status for run in await b.history("t", 10)] == ["failed"]

    @pytest.mark.parametrize(("status", "after_ms"), [("failed", 1_000), ("succeeded", 2_000)])
    @scenario
    async def test_a_final_run_takes_no_other_outcome(self, status: FinalStatus, after_ms: int) -> None:
        backend = await self.client()
        run = await self.win(backend, self.ask())
        await backend.finish([finish(run, "succeeded", after_ms=1_000)])

        assert list(await backend.finish([finish(run, status, after_ms=after_ms)])) == [False]
        assert list(await backend.finish([finish(run, "succeeded", after_ms=1_000)])) == [True]
        (shown,) = await backend.history("t", 10)
        assert (shown.status, shown.finished_at_ms) == ("succeeded", run.claimed_at_ms + 1_000)

    @scenario
    async def test_a_finish_of_an_unknown_run_is_refused(self) -> None:
        backend = await self.client()
        run = await self.win(backend, self.ask())

        unknown = [replace(finish(run), run_id="nobody's"), replace(finish(run), task="unheard-of")]

        assert list(await backend.finish(unknown)) == [False, False]

    @scenario
    async def test_a_final_run_holds_no_lease(self) -> None:
        backend = await self.client()
        run = await self.win(backend, self.ask())
        await backend.finish([finish(run)])

        (shown,) = await backend.history("t", 10)

        assert (shown.lease_ends_at_ms, shown.fence) == (None, run.fence)
        assert list(await backend.renew([lease_of(run)], LEASE_MS)) == [False]

    @scenario
    async def test_a_run_in_progress_is_in_the_history(self) -> None:
        backend = await self.client()
        run = await self.win(backend, self.ask())

        assert list(await backend.history("t", 10)) == [run]

    # ---------------------------------------------------------------- hand-over

    @scenario
    async def test_a_run_that_was_handed_over_is_shown_as_such(self) -> None:
        backend = await self.client()
        run = await self.win(backend, self.ask())

        assert list(await backend.hand_over([hand_over(run)])) == [True]

        (shown,) = await backend.history("t", 10)
        assert (shown.status, shown.lease_ends_at_ms, shown.attempt) == ("handed-over", 0, 1)
        assert [(each.status, each.started_at_ms) for each in shown.attempts] == [("handed-over", run.claimed_at_ms)]

    @scenario
    async def test_a_hand_over_sent_again_is_taken_again(self) -> None:
        backend = await self.client()
        run = await self.win(backend, self.ask())
        await backend.hand_over([hand_over(run)])

        assert list(await backend.hand_over([hand_over(run), hand_over(run, after_ms=9_000)])) == [True, False]

    @scenario
    async def test_a_hand_over_under_an_old_fence_is_refused(self) -> None:
        a, b = await self.client("a"), await self.client("b")
        old = await self.win(a, self.ask(lease_ms=2_000))
        await self.pass_time(2_000)
        await b.take_up([take_up(old, by="b")])

        assert list(await a.hand_over([hand_over(old)])) == [False]
        assert [run.status for run in await b.history("t", 10)] == ["running"]

    @scenario
    async def test_after_a_hand_over_the_giver_can_neither_renew_nor_finish(self) -> None:
        backend = await self.client()
        run = await self.win(backend, self.ask())
        await backend.hand_over([hand_over(run)])

        assert list(await backend.renew([lease_of(run)], LEASE_MS)) == [False]
        assert list(await backend.finish([finish(run)])) == [False]
        assert list(await self.claim(backend, self.ask())) == [LOST]

    @scenario
    async def test_a_finished_run_cannot_be_handed_over(self) -> None:
        backend = await self.client()
        run = await self.win(backend, self.ask())
        await backend.finish([finish(run)])

        assert list(await backend.hand_over([hand_over(run)])) == [False]

    # ---------------------------------------------------------------- registration

    @scenario
    async def test_registering_answers_since_when_a_schedule_is_known(self) -> None:
        a, b = await self.client("a"), await self.client("b")
        (first,) = await a.register([record("t", schedule="every 60000")])
        await self.pass_time(10_000)
        (second,) = await b.register([record("t", schedule="every 60000")])
        (changed,) = await a.register([record("t", schedule="every 30000")])
        await self.pass_time(10_000)
        (back,) = await b.register([record("t", schedule="every 60000")])
        (again,) = await b.register([record("t", schedule="every 30000")])

        assert first is not None
        assert changed is not None
        assert second == first == back
        assert changed == again
        assert changed >= first + 10_000 - self.clock_tolerance_ms

    @scenario
    async def test_registrations_are_answered_in_order(self) -> None:
        backend = await self.client()
        (old,) = await backend.register([record("old")])
        await self.pass_time(10_000)

        answers = await backend.register([record("new"), record("old"), record("newer")])

        assert answers[1] == old
        assert all(answer is not None and answer > (old or 0) for answer in (answers[0], answers[2]))
