"""Every decision of a lease backend, and every refusal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from anarchon.model.asks import LOST, Claim, Closed, Finish, HandOver, Lease, LeaseTerms, Spent, TakeUp, Won
from anarchon.model.leasing import (
    ATTEMPTS_KEPT,
    PAUSES_KEPT,
    ClaimDecision,
    TakeUpDecision,
    decide_claim,
    decide_finish,
    decide_hand_over,
    decide_pause,
    decide_renewal,
    decide_resume,
    decide_take_up,
    interrupt,
    next_fence,
)
from anarchon.model.run import Attempt, Pause, Run, Skip
from anarchon.model.words import FinalStatus, OverlapPolicy, RunStatus

NOW = 1_000_000
SLOT = 990_000
FENCE = 500


def terms(*, overlap: OverlapPolicy = "skip", max_attempts: int = 3, lease_ms: int = 15_000) -> LeaseTerms:
    return LeaseTerms(lease_ms=lease_ms, overlap=overlap, max_attempts=max_attempts)


def claim(*, token: str = "mine", slot_ms: int = SLOT, terms: LeaseTerms = terms()) -> Claim[LeaseTerms]:  # noqa: B008
    return Claim(
        task="t",
        slot_ms=slot_ms,
        run_id=f"n/t/{slot_ms}",
        token=token,
        instance_id="me",
        reason="schedule",
        terms=terms,
    )


def run(
    *,
    slot_ms: int = SLOT - 1_000,
    token: str = "theirs",
    status: RunStatus = "running",
    ends_at_ms: int | None = NOW + 1,
    attempt: int = 1,
    max_attempts: int = 3,
) -> Run:
    first = Attempt(number=attempt, instance_id="they", reason="schedule", claimed_at_ms=slot_ms)
    if status != "running":
        first = replace(first, status=status, ended_at_ms=slot_ms + 5)
    return Run(
        run_id=f"n/t/{slot_ms}",
        task="t",
        slot_ms=slot_ms,
        scheduled_at_ms=slot_ms,
        reason="schedule",
        status=status,
        instance_id="they",
        token=token,
        attempt=attempt,
        max_attempts=max_attempts,
        fence=FENCE,
        lease_ends_at_ms=ends_at_ms,
        claimed_at_ms=slot_ms,
        attempts=(first,),
    )


def run_out(**changes: object) -> Run:
    """Its lease ended at this very instant."""
    return replace(run(ends_at_ms=NOW), **changes)  # type: ignore[arg-type]


def handed_over(**changes: object) -> Run:
    return replace(run(status="handed-over", ends_at_ms=0), **changes)  # type: ignore[arg-type]


def final(status: FinalStatus = "succeeded") -> Run:
    return replace(run(status=status, ends_at_ms=None), finished_at_ms=SLOT)


def decide(
    ask: Claim[LeaseTerms],
    *in_progress: Run,
    same_slot: Run | None = None,
    closing: Skip | None = None,
    pauses: Sequence[Pause] = (),
    floor_ms: int = -1,
    last_fence: int = FENCE,
) -> ClaimDecision:
    return decide_claim(
        ask,
        now_ms=NOW,
        floor_ms=floor_ms,
        last_fence=last_fence,
        same_slot=same_slot,
        closing=closing,
        pauses=pauses,
        in_progress=in_progress,
    )


def closed_by(met: Run, *, took_up: bool = False) -> Skip:
    return Skip(
        task="t",
        slot_ms=SLOT,
        reason="overlap",
        instance_id="me",
        at_ms=NOW,
        token="mine",
        met_run_id=met.run_id,
        took_up=took_up,
    )


def closing(*, token: str = "mine") -> Skip:
    return Skip(task="t", slot_ms=SLOT, reason="overlap", instance_id="me", at_ms=NOW - 1, token=token)


# ------------------------------------------------------------------ fences


def test_a_fence_is_one_above_the_last_when_the_clock_is_behind() -> None:
    assert next_fence(NOW + 5, NOW) == NOW + 6


def test_a_fence_is_the_clock_when_that_is_ahead() -> None:
    assert next_fence(5, NOW) == NOW


# ------------------------------------------------------------------ claims


def test_a_free_slot_is_won_with_attempt_one_and_the_whole_lease() -> None:
    decision = decide(claim())

    assert isinstance(decision.answer, Won)
    won = decision.answer.run
    assert decision == ClaimDecision(answer=Won(won), runs=(won,), fence=NOW)
    assert (won.status, won.instance_id, won.token, won.attempt, won.max_attempts) == ("running", "me", "mine", 1, 3)
    assert (won.fence, won.claimed_at_ms, won.lease_ends_at_ms) == (NOW, NOW, NOW + 15_000)
    assert (won.slot_ms, won.scheduled_at_ms, won.reason) == (SLOT, SLOT, "schedule")
    assert won.attempts == (Attempt(number=1, instance_id="me", reason="schedule", claimed_at_ms=NOW),)


def test_a_claim_raises_the_fence_above_the_last() -> None:
    assert decide(claim(), last_fence=NOW + 7).fence == NOW + 8


def test_a_slot_that_another_token_has_is_lost() -> None:
    assert decide(claim(), same_slot=run(slot_ms=SLOT)) == ClaimDecision(answer=LOST)


def test_a_slot_whose_lease_ran_out_is_lost_to_a_claim_of_that_slot() -> None:
    assert decide(claim(), same_slot=run_out(slot_ms=SLOT)) == ClaimDecision(answer=LOST)


def test_the_same_token_gets_its_run_again_under_the_same_fence_with_a_whole_lease() -> None:
    before = run(slot_ms=SLOT, token="mine")
    kept = replace(before, lease_ends_at_ms=NOW + 15_000)

    assert decide(claim(), before, same_slot=before) == ClaimDecision(answer=Won(kept), runs=(kept,))


@pytest.mark.parametrize("ended", [final("succeeded"), final("failed"), final("interrupted"), handed_over()])
def test_the_same_token_has_lost_a_run_that_is_no_longer_held(ended: Run) -> None:
    ended = replace(ended, slot_ms=SLOT, token="mine")

    assert decide(claim(), same_slot=ended) == ClaimDecision(answer=LOST)


def test_a_slot_at_the_floor_is_lost() -> None:
    assert decide(claim(), floor_ms=SLOT) == ClaimDecision(answer=LOST)


def test_a_slot_above_the_floor_is_won() -> None:
    assert isinstance(decide(claim(), floor_ms=SLOT - 1).answer, Won)


def test_the_same_token_gets_its_run_again_also_below_the_floor() -> None:
    before = run(slot_ms=SLOT, token="mine")

    assert isinstance(decide(claim(), before, same_slot=before, floor_ms=SLOT).answer, Won)


def test_a_closed_slot_is_lost_to_another_token() -> None:
    assert decide(claim(), closing=closing(token="theirs")) == ClaimDecision(answer=LOST)


def test_a_closed_slot_is_answered_again_to_the_token_that_closed_it() -> None:
    assert decide(claim(), run(), closing=closing()) == ClaimDecision(answer=Closed("overlap"))


def test_the_token_that_closed_a_slot_gets_the_run_again_that_it_took_up() -> None:
    taken = run(token="mine")
    kept = replace(taken, lease_ends_at_ms=NOW + 15_000)

    assert decide(claim(), taken, closing=closing()) == ClaimDecision(
        answer=Closed("overlap", took_up=kept), runs=(kept,)
    )


def test_a_run_that_was_taken_up_and_given_back_is_not_answered_again() -> None:
    assert decide(claim(), handed_over(token="mine"), closing=closing()) == ClaimDecision(answer=Closed("overlap"))


# ------------------------------------------------------------------ overlap


def test_under_skip_a_live_run_closes_the_slot() -> None:
    decision = decide(claim(), run())

    assert decision.answer == Closed("overlap")
    assert decision.skip == closed_by(run())
    assert (decision.runs, decision.fence) == ((), None)


def test_a_closed_slot_names_the_oldest_of_several_live_runs() -> None:
    older = run(slot_ms=SLOT - 10_000)
    for both in ((older, run()), (run(), older)):
        assert decide(claim(), *both).skip == closed_by(older)


def test_under_skip_a_live_run_closes_the_slot_whatever_else_is_owed() -> None:
    decision = decide(claim(), run_out(run_id="owed"), run(), handed_over(run_id="given back"))

    assert (decision.answer, decision.runs) == (Closed("overlap"), ())


def test_under_allow_a_live_run_is_no_matter() -> None:
    decision = decide(claim(terms=terms(overlap="allow")), run())

    assert isinstance(decision.answer, Won)
    assert len(decision.runs) == 1


def test_under_allow_an_owed_run_is_left_alone() -> None:
    decision = decide(claim(terms=terms(overlap="allow")), run_out(), handed_over())

    assert isinstance(decision.answer, Won)
    assert decision.answer.interrupted == ()
    assert len(decision.runs) == 1


def test_under_skip_a_run_that_ran_out_is_taken_up_and_the_slot_closed() -> None:
    decision = decide(claim(), run_out())

    assert isinstance(decision.answer, Closed)
    taken = decision.answer.took_up
    assert taken is not None
    assert decision == ClaimDecision(
        answer=Closed("overlap", took_up=taken),
        runs=(taken,),
        skip=closed_by(run_out(), took_up=True),
        fence=NOW,
    )
    assert (taken.run_id, taken.instance_id, taken.token) == (run_out().run_id, "me", "mine")
    assert (taken.attempt, taken.fence, taken.lease_ends_at_ms, taken.claimed_at_ms) == (2, NOW, NOW + 15_000, NOW)


def test_the_attempt_that_was_lost_ends_when_its_lease_ended() -> None:
    decision = decide(claim(), run(ends_at_ms=NOW - 300))

    lost, current = decision.runs[0].attempts
    assert (lost.status, lost.ended_at_ms) == ("interrupted", NOW - 300)
    assert (current.number, current.reason, current.claimed_at_ms, current.status) == (2, "recovery", NOW, "running")


def test_under_skip_a_handed_over_run_is_taken_up_in_the_same_attempt() -> None:
    decision = decide(claim(terms=terms(max_attempts=1)), handed_over(max_attempts=1))

    (taken,) = decision.runs
    assert (taken.attempt, taken.status) == (1, "running")
    assert [(each.number, each.reason, each.status) for each in taken.attempts] == [
        (1, "schedule", "handed-over"),
        (1, "hand-over", "running"),
    ]


def test_under_skip_the_oldest_owed_run_is_taken_up_and_the_others_wait() -> None:
    younger, older = run_out(run_id="b", scheduled_at_ms=20), run_out(run_id="a", scheduled_at_ms=10)

    assert [each.run_id for each in decide(claim(), younger, older).runs] == ["a"]


def test_a_run_without_attempts_left_is_ended_and_the_slot_proceeds() -> None:
    spent = run_out(attempt=3)

    decision = decide(claim(), spent)

    assert isinstance(decision.answer, Won)
    assert decision.answer.interrupted == (interrupt(spent, NOW),)
    assert decision.runs == (interrupt(spent, NOW), decision.answer.run)
    assert (decision.skip, decision.fence) == (None, NOW)


def test_of_several_owed_runs_the_spent_are_ended_and_the_first_other_is_taken_up() -> None:
    spent = run_out(run_id="a", scheduled_at_ms=1, attempt=3)
    left = run_out(run_id="b", scheduled_at_ms=2)
    later = run_out(run_id="c", scheduled_at_ms=3, attempt=3)

    decision = decide(claim(), later, left, spent)

    assert isinstance(decision.answer, Closed)
    assert [each.run_id for each in decision.runs] == ["a", "b"]
    assert [each.run_id for each in decision.answer.interrupted] == ["a"]


@pytest.mark.parametrize(("stored", "asked"), [(2, 5), (5, 2)])
def test_the_smaller_of_stored_and_asked_attempts_counts_for_a_claim(stored: int, asked: int) -> None:
    decision = decide(claim(terms=terms(max_attempts=asked)), run_out(attempt=2, max_attempts=stored))

    assert isinstance(decision.answer, Won)
    assert len(decision.answer.interrupted) == 1


# ------------------------------------------------------------------ take-up


def take_up(
    owed: Run | None,
    *others: Run,
    seen_fence: int = FENCE,
    token: str = "mine",
    its_terms: LeaseTerms = terms(),  # noqa: B008
    paused: bool = False,
) -> TakeUpDecision:
    ask = TakeUp(task="t", run_id="n/t/989000", seen_fence=seen_fence, token=token, instance_id="me", terms=its_terms)
    in_progress = others if owed is None or owed.final else (owed, *others)
    return decide_take_up(ask, now_ms=NOW, last_fence=FENCE, run=owed, paused=paused, in_progress=in_progress)


def test_an_owed_run_is_taken_up_in_the_next_attempt_under_the_next_fence() -> None:
    decision = take_up(run_out())

    assert isinstance(decision.answer, Won)
    assert decision == TakeUpDecision(answer=decision.answer, run=decision.answer.run, fence=NOW)
    taken = decision.answer.run
    assert (taken.attempt, taken.fence, taken.instance_id, taken.token) == (2, NOW, "me", "mine")
    assert taken.lease_ends_at_ms == NOW + 15_000


def test_a_handed_over_run_is_taken_up_although_its_only_attempt_is_used() -> None:
    decision = take_up(handed_over(max_attempts=1), its_terms=terms(max_attempts=1))

    assert decision.run is not None
    assert (decision.run.attempt, decision.run.attempts[-1].reason) == (1, "hand-over")


@pytest.mark.parametrize("gone", [None, final("succeeded"), final("failed"), final("interrupted")])
def test_a_run_that_is_unknown_or_final_is_lost(gone: Run | None) -> None:
    assert take_up(gone) == TakeUpDecision(answer=LOST)


def test_a_live_run_is_lost() -> None:
    assert take_up(run()) == TakeUpDecision(answer=LOST)


@pytest.mark.parametrize("seen", [FENCE - 1, FENCE + 1])
def test_a_run_seen_under_another_fence_is_lost(seen: int) -> None:
    assert take_up(run_out(), seen_fence=seen) == TakeUpDecision(answer=LOST)


def test_the_token_that_took_it_up_gets_it_again_under_the_same_fence() -> None:
    held = run(token="mine", attempt=2)
    kept = replace(held, lease_ends_at_ms=NOW + 15_000)

    assert take_up(held, seen_fence=FENCE - 1) == TakeUpDecision(answer=Won(kept), run=kept)


def test_the_token_that_took_it_up_and_gave_it_back_asks_like_anybody() -> None:
    assert take_up(handed_over(token="mine"), seen_fence=FENCE - 1) == TakeUpDecision(answer=LOST)


def test_a_run_without_attempts_left_is_marked_interrupted_and_no_fence_is_raised() -> None:
    spent = run_out(attempt=3)

    assert take_up(spent) == TakeUpDecision(answer=Spent(interrupt(spent, NOW)), run=interrupt(spent, NOW))


def test_a_spent_run_is_interrupted_also_while_another_is_live() -> None:
    assert isinstance(take_up(run_out(attempt=3), run(slot_ms=1)).answer, Spent)


def test_under_skip_a_run_stays_owed_while_another_is_live() -> None:
    assert take_up(run_out(), run(slot_ms=1)) == TakeUpDecision(answer=LOST)


def test_under_skip_another_owed_run_does_not_matter() -> None:
    assert isinstance(take_up(run_out(), run_out(run_id="other")).answer, Won)


def test_under_allow_another_live_run_does_not_matter() -> None:
    assert isinstance(take_up(run_out(), run(slot_ms=1), its_terms=terms(overlap="allow")).answer, Won)


@pytest.mark.parametrize(("stored", "asked"), [(1, 3), (3, 1)])
def test_the_smaller_of_stored_and_asked_attempts_counts_for_a_take_up(stored: int, asked: int) -> None:
    assert isinstance(take_up(run_out(max_attempts=stored), its_terms=terms(max_attempts=asked)).answer, Spent)


def test_a_run_keeps_its_first_attempt_and_its_newest() -> None:
    many = tuple(
        Attempt(number=1, instance_id=f"i{n}", reason="hand-over", claimed_at_ms=n, status="handed-over", ended_at_ms=n)
        for n in range(ATTEMPTS_KEPT)
    )

    taken = take_up(handed_over(attempts=many)).run

    assert taken is not None
    assert [each.instance_id for each in taken.attempts] == ["i0", *(f"i{n}" for n in range(2, ATTEMPTS_KEPT)), "me"]


# ------------------------------------------------------------------ renewal


def renewal(held: Run | None, *, fence: int = FENCE, lease_ms: int = 15_000) -> Run | None:
    lease = Lease(task="t", run_id="n/t/989000", fence=fence)
    return decide_renewal(held, lease, now_ms=NOW, lease_ms=lease_ms)


def test_a_live_lease_is_moved_forward_and_nothing_else_changes() -> None:
    assert renewal(run()) == replace(run(), lease_ends_at_ms=NOW + 15_000)


def test_a_renewal_never_moves_a_lease_back() -> None:
    assert renewal(run(ends_at_ms=NOW + 60_000)) == run(ends_at_ms=NOW + 60_000)


@pytest.mark.parametrize("fence", [FENCE - 1, FENCE + 1])
def test_a_renewal_under_another_fence_is_refused(fence: int) -> None:
    assert renewal(run(), fence=fence) is None


@pytest.mark.parametrize("held", [None, run_out(), handed_over(), final()])
def test_what_is_not_live_is_not_renewed(held: Run | None) -> None:
    assert renewal(held) is None


# ------------------------------------------------------------------ finish


def finish(*, fence: int = FENCE, status: FinalStatus = "failed", finished_at_ms: int = SLOT) -> Finish:
    return Finish(
        task="t",
        run_id="n/t/989000",
        slot_ms=989_000,
        scheduled_at_ms=989_000,
        reason="schedule",
        instance_id="they",
        attempt=1,
        fence=fence,
        status=status,
        claimed_at_ms=989_000,
        started_at_ms=989_010,
        finished_at_ms=finished_at_ms,
        error="ValueError: no",
        traceback="Traceback",
    )


@pytest.mark.parametrize("held", [run(), run_out()])
def test_an_outcome_is_taken_while_the_fence_is_current(held: Run) -> None:
    taken, stored = decide_finish(replace(held, checkpoint="7"), finish())

    assert taken
    assert stored == replace(
        held,
        status="failed",
        lease_ends_at_ms=None,
        started_at_ms=989_010,
        finished_at_ms=SLOT,
        error="ValueError: no",
        traceback="Traceback",
        checkpoint=None,
        attempts=(replace(held.attempts[0], status="failed", ended_at_ms=SLOT, started_at_ms=989_010),),
    )


def test_an_outcome_of_an_unknown_run_is_refused() -> None:
    assert decide_finish(None, finish()) == (False, None)


@pytest.mark.parametrize("fence", [FENCE - 1, FENCE + 1])
def test_an_outcome_under_another_fence_is_refused(fence: int) -> None:
    assert decide_finish(run(), finish(fence=fence)) == (False, None)


def test_an_outcome_of_a_run_that_was_handed_over_is_refused() -> None:
    assert decide_finish(handed_over(), finish()) == (False, None)


def test_the_same_outcome_again_is_taken_and_changes_nothing() -> None:
    assert decide_finish(final("failed"), finish()) == (True, None)


@pytest.mark.parametrize("other", [finish(status="succeeded"), finish(finished_at_ms=SLOT + 1)])
def test_another_outcome_of_a_final_run_is_refused(other: Finish) -> None:
    assert decide_finish(final("failed"), other) == (False, None)


# ------------------------------------------------------------------ hand-over


def hand_over(*, fence: int = FENCE, at_ms: int = NOW, started_at_ms: int | None = None) -> HandOver:
    return HandOver(task="t", run_id="n/t/989000", fence=fence, at_ms=at_ms, started_at_ms=started_at_ms)


@pytest.mark.parametrize("held", [run(), run_out()])
def test_a_held_run_is_given_back_and_owed_at_once(held: Run) -> None:
    taken, stored = decide_hand_over(held, hand_over(started_at_ms=989_010))

    assert taken
    assert stored == replace(
        held,
        status="handed-over",
        lease_ends_at_ms=0,
        attempts=(replace(held.attempts[0], status="handed-over", ended_at_ms=NOW, started_at_ms=989_010),),
    )
    assert stored is not None
    assert stored.owed(0)


def test_a_checkpoint_follows_a_run_that_is_given_back() -> None:
    _, stored = decide_hand_over(replace(run(), checkpoint="7"), hand_over())

    assert stored is not None
    assert stored.checkpoint == "7"


def test_an_unknown_run_cannot_be_given_back() -> None:
    assert decide_hand_over(None, hand_over()) == (False, None)


@pytest.mark.parametrize("fence", [FENCE - 1, FENCE + 1])
def test_a_run_cannot_be_given_back_under_another_fence(fence: int) -> None:
    assert decide_hand_over(run(), hand_over(fence=fence)) == (False, None)


def test_a_final_run_cannot_be_given_back() -> None:
    assert decide_hand_over(final(), hand_over(at_ms=SLOT - 1_000 + 5)) == (False, None)


def test_giving_back_again_with_the_same_values_is_taken() -> None:
    _, stored = decide_hand_over(run(), hand_over())

    assert decide_hand_over(stored, hand_over()) == (True, None)
    assert decide_hand_over(stored, hand_over(at_ms=NOW + 1)) == (False, None)


# ------------------------------------------------------------------ interruption


def test_an_interrupted_run_is_final_and_says_whose_attempt_was_the_last() -> None:
    ended = interrupt(replace(run_out(attempt=3), checkpoint="7"), NOW)

    assert (ended.status, ended.final, ended.lease_ends_at_ms, ended.finished_at_ms) == ("interrupted", True, None, NOW)
    assert ended.error == "its runner they was lost in attempt 3 of 3"
    assert ended.checkpoint is None
    assert (ended.attempts[-1].status, ended.attempts[-1].ended_at_ms) == ("interrupted", NOW)


def test_an_attempt_that_was_given_back_is_not_ended_again() -> None:
    assert interrupt(handed_over(), NOW).attempts == handed_over().attempts


# ------------------------------------------------------------------ asked again after the lease has run out


def test_a_lease_that_ran_out_is_not_kept_by_asking_again_while_another_run_holds_one() -> None:
    mine = run_out(run_id=f"n/t/{SLOT}", slot_ms=SLOT, token="mine")
    other = run(slot_ms=SLOT + 1_000)
    assert decide(claim(), mine, other, same_slot=mine) == ClaimDecision(answer=LOST)
    kept = decide(claim(terms=terms(overlap="allow")), mine, other, same_slot=mine).answer
    assert isinstance(kept, Won)
    alone = decide(claim(), mine, run_out(run_id="n/t/1"), same_slot=mine).answer
    assert isinstance(alone, Won)
    assert alone.run.lease_ends_at_ms == NOW + 15_000


def test_a_live_lease_is_kept_by_asking_again_whatever_else_is_live() -> None:
    mine = replace(run(token="mine"), run_id=f"n/t/{SLOT}", slot_ms=SLOT)
    assert isinstance(decide(claim(), mine, run(slot_ms=SLOT + 1_000), same_slot=mine).answer, Won)


def test_a_run_that_was_taken_up_is_not_kept_by_asking_again_while_another_run_holds_a_lease() -> None:
    mine, other = run_out(token="mine"), run(slot_ms=SLOT + 1_000)
    ask = TakeUp(task="t", run_id=mine.run_id, seen_fence=FENCE - 1, token="mine", instance_id="me", terms=terms())
    decision = decide_take_up(ask, now_ms=NOW, last_fence=FENCE, run=mine, paused=False, in_progress=[mine, other])
    assert decision == TakeUpDecision(answer=LOST)
    decision = decide_take_up(ask, now_ms=NOW, last_fence=FENCE, run=mine, paused=False, in_progress=[mine])
    assert isinstance(decision.answer, Won)


def test_a_slot_that_was_closed_for_a_run_is_still_closed_when_that_run_may_not_be_kept() -> None:
    mine, other = run_out(token="mine"), run(slot_ms=SLOT + 1_000)
    closing = Skip(task="t", slot_ms=SLOT, reason="overlap", instance_id="me", at_ms=NOW - 9_000, token="mine")
    assert decide(claim(), mine, other, closing=closing).answer == Closed("overlap")
    kept = decide(claim(), mine, closing=closing).answer
    assert isinstance(kept, Closed)
    assert kept.took_up is not None


def test_a_run_that_shows_no_attempts_can_still_be_finished() -> None:
    bare = run(attempt=1)
    finish = Finish(
        task="t",
        run_id=bare.run_id,
        slot_ms=bare.slot_ms,
        scheduled_at_ms=bare.scheduled_at_ms,
        reason="schedule",
        instance_id="they",
        attempt=1,
        fence=FENCE,
        status="succeeded",
        claimed_at_ms=bare.claimed_at_ms,
        started_at_ms=SLOT,
        finished_at_ms=NOW,
    )
    taken, stored = decide_finish(replace(bare, attempts=()), finish)
    assert taken
    assert stored is not None
    assert (stored.status, stored.attempts) == ("succeeded", ())


# ------------------------------------------------------------------ pause and resume


@pytest.mark.parametrize(
    ("pause", "closed"),
    [
        (Pause(from_ms=SLOT, to_ms=SLOT), True),
        (Pause(from_ms=SLOT - 1, to_ms=SLOT + 1), True),
        (Pause(from_ms=SLOT + 1, to_ms=SLOT + 2), False),
        (Pause(from_ms=SLOT - 2, to_ms=SLOT - 1), False),
        (Pause(from_ms=SLOT - 1), True),
        (Pause(from_ms=NOW), True),
    ],
)
def test_a_slot_is_closed_while_its_task_is_paused_and_where_it_fell_due_in_a_pause(pause: Pause, closed: bool) -> None:
    decision = decide(claim(), pauses=[pause])
    assert (decision.answer == Closed("paused")) is closed
    assert isinstance(decision.answer, Won) is not closed
    if decision.skip is not None:
        assert (decision.skip.reason, decision.skip.slot_ms, decision.skip.token) == ("paused", SLOT, "mine")


def test_a_run_that_was_won_before_the_pause_is_answered_again_in_it() -> None:
    mine = run(slot_ms=SLOT, token="mine")
    assert isinstance(decide(claim(), mine, same_slot=mine, pauses=[Pause(from_ms=NOW)]).answer, Won)


def test_an_owed_run_of_a_paused_task_is_not_taken_up_and_not_interrupted_either() -> None:
    assert take_up(run_out(), paused=True) == TakeUpDecision(answer=LOST)
    assert take_up(run_out(attempt=3), paused=True) == TakeUpDecision(answer=LOST)


def test_the_newest_pauses_are_kept() -> None:
    pauses: Sequence[Pause] = ()
    for number in range(PAUSES_KEPT + 2):
        pauses = decide_pause(pauses, now_ms=2 * number, by="ops").pauses
        pauses = decide_resume(pauses, now_ms=2 * number + 1, by="ops", in_progress=[]).pauses
    assert [pause.from_ms for pause in pauses] == [2 * number for number in range(2, PAUSES_KEPT + 2)]


def test_a_pause_never_ends_before_it_began_however_the_clock_moves() -> None:
    (pause,) = decide_resume([Pause(from_ms=NOW)], now_ms=NOW - 5, by="ops", in_progress=[]).pauses
    assert (pause.from_ms, pause.to_ms) == (NOW, NOW)
