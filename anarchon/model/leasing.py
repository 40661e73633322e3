"""What a lease backend decides, as pure functions from what it has stored to what it stores next.

The state of one run:

    (no row) --claim--> running --finish--> succeeded | failed | interrupted      (final)
                          |  ^
                          |  '--take-up, next fence-- handed-over  (same attempt number)
                          |--hand-over--------------> handed-over
                          '--lease runs out---------> still 'running', now owed: take-up starts attempt + 1,
                                                      or marks it interrupted when no attempt is left

`now_ms` is always the store's clock, read after any wait for a lock. Every claim and every take-up raises the
task's fence; a write under an older fence is refused. Each request may be asked again with the same token or
values and is then answered as it was the first time, so a lost answer is settled by asking.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from anarchon.model.asks import (
    LOST,
    Checkpoint,
    Claim,
    Closed,
    Finish,
    HandOver,
    Lease,
    LeaseOutcome,
    LeaseTerms,
    Manual,
    PauseOutcome,
    Spent,
    TakeUp,
    TakeUpOutcome,
    Won,
)
from anarchon.model.run import Attempt, Pause, Run, Skip, is_paused
from anarchon.model.words import RunReason, RunStatus, SkipReason

ATTEMPTS_KEPT: Final = 50
"""How many attempts a run shows at most: its first and its newest. A run may be handed over any number of times."""

PAUSES_KEPT: Final = 20
"""How many spans in which a task was paused are kept at most: its newest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimDecision:
    """The answer to a claim and what has to be stored with it."""

    answer: LeaseOutcome
    runs: tuple[Run, ...] = ()
    skip: Skip | None = None
    fence: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeUpDecision:
    """The answer to a take-up and what has to be stored with it."""

    answer: TakeUpOutcome
    run: Run | None = None
    fence: int | None = None


def next_fence(last: int, now_ms: int) -> int:
    """The fence of the next claim of a task: above every earlier one, also after the store was emptied."""
    return max(last + 1, now_ms)


def decide_claim(
    claim: Claim[LeaseTerms],
    *,
    now_ms: int,
    floor_ms: int,
    last_fence: int,
    same_slot: Run | None,
    closing: Skip | None,
    pauses: Sequence[Pause],
    in_progress: Sequence[Run],
) -> ClaimDecision:
    """Decide one claim.

    `same_slot` is the run of the asked slot, `closing` the skip that closed it, `pauses` the spans in which the task
    was paused, oldest first, `in_progress` every run of the task that is not final, in any order. A claim of a slot
    at or below `floor_ms` is lost: its record may have been trimmed. A task that is paused closes whatever is asked
    for, and a slot that fell due while it was paused stays closed: resuming owes nothing.
    """
    lease_end = now_ms + claim.terms.lease_ms
    if same_slot is not None:
        if same_slot.token == claim.token and _may_be_kept(same_slot, claim.terms, in_progress, now_ms):
            kept = replace(same_slot, lease_ends_at_ms=lease_end)
            return ClaimDecision(answer=Won(kept), runs=(kept,))
        return ClaimDecision(answer=LOST)
    if closing is not None:
        if closing.token != claim.token:
            return ClaimDecision(answer=LOST)
        return _closed_again(claim, closing, in_progress, now_ms)
    if claim.slot_ms <= floor_ms:
        return ClaimDecision(answer=LOST)
    if is_paused(pauses) or any(pause.covers(claim.slot_ms) for pause in pauses):
        return ClaimDecision(answer=Closed("paused"), skip=_closing_skip(claim, "paused", now_ms))

    interrupted: list[Run] = []
    if claim.terms.overlap == "skip":
        holder = min((run for run in in_progress if run.live(now_ms)), key=_by_age, default=None)
        if holder is not None:
            skip = _closing_skip(claim, "overlap", now_ms, met=holder)
            return ClaimDecision(answer=Closed("overlap"), skip=skip)
        for run in sorted(in_progress, key=_by_age):
            if _attempt_after(run) > _allowed(run, claim.terms):
                interrupted.append(interrupt(run, now_ms))
                continue
            fence = next_fence(last_fence, now_ms)
            taken = _taken_up(run, claim.token, claim.instance_id, fence, now_ms, lease_end)
            return ClaimDecision(
                answer=Closed("overlap", took_up=taken, interrupted=tuple(interrupted)),
                runs=(*interrupted, taken),
                skip=_closing_skip(claim, "overlap", now_ms, met=run, took_up=True),
                fence=fence,
            )

    fence = next_fence(last_fence, now_ms)
    won = _new_run(claim, claim.slot_ms, claim.slot_ms, claim.reason, fence, now_ms)
    return ClaimDecision(answer=Won(won, tuple(interrupted)), runs=(*interrupted, won), fence=fence)


def decide_manual(
    ask: Manual, *, now_ms: int, last_fence: int, run: Run | None, in_progress: Sequence[Run]
) -> ClaimDecision:
    """Decide whether a run may be started by hand. `run` is the one that this request has made before.

    It obeys overlap, and unlike a claim it never ends up with another run: one in progress, also an owed one, closes
    it. A task that is paused does not.
    """
    lease_end = now_ms + ask.terms.lease_ms
    if run is not None:
        if run.token != ask.token:
            return ClaimDecision(answer=LOST)
        if not ask.held:
            return ClaimDecision(answer=Won(run))
        if not _may_be_kept(run, ask.terms, in_progress, now_ms):
            return ClaimDecision(answer=LOST)
        kept = replace(run, lease_ends_at_ms=lease_end)
        return ClaimDecision(answer=Won(kept), runs=(kept,))
    interrupted: list[Run] = []
    if ask.terms.overlap == "skip":
        for other in sorted(in_progress, key=_by_age):
            if other.live(now_ms) or _attempt_after(other) <= _allowed(other, ask.terms):
                # Nothing is interrupted either: this request changes nothing.
                return ClaimDecision(answer=Closed("overlap", met=other))
            interrupted.append(interrupt(other, now_ms))
    fence = next_fence(last_fence, now_ms)
    wanted = _new_run(ask, None, ask.at_ms, "manual", fence, now_ms)
    if not ask.held:
        wanted = replace(wanted, status="handed-over", instance_id="", lease_ends_at_ms=0, attempts=())
    return ClaimDecision(answer=Won(wanted, tuple(interrupted)), runs=(*interrupted, wanted), fence=fence)


def decide_take_up(
    ask: TakeUp, *, now_ms: int, last_fence: int, run: Run | None, paused: bool, in_progress: Sequence[Run]
) -> TakeUpDecision:
    """Decide who gets an owed run.

    Under 'skip' it stays owed while another run of the task holds a lease, and always while the task is paused,
    unless it was asked for by hand.
    """
    if run is None or run.final:
        return TakeUpDecision(answer=LOST)
    lease_end = now_ms + ask.terms.lease_ms
    if run.token == ask.token and _may_be_kept(run, ask.terms, in_progress, now_ms):
        kept = replace(run, lease_ends_at_ms=lease_end)
        return TakeUpDecision(answer=Won(kept), run=kept)
    if run.live(now_ms) or run.fence != ask.seen_fence or is_withheld(run, paused=paused):
        return TakeUpDecision(answer=LOST)
    if _attempt_after(run) > _allowed(run, ask.terms):
        ended = interrupt(run, now_ms)
        return TakeUpDecision(answer=Spent(ended), run=ended)
    if ask.terms.overlap == "skip" and _another_lives(run, in_progress, now_ms):
        return TakeUpDecision(answer=LOST)
    fence = next_fence(last_fence, now_ms)
    taken = _taken_up(run, ask.token, ask.instance_id, fence, now_ms, lease_end)
    return TakeUpDecision(answer=Won(taken), run=taken, fence=fence)


def is_withheld(run: Run, *, paused: bool) -> bool:
    """Whether an owed run has to wait because its task is paused."""
    return paused and not run.asked_for


def decide_renewal(run: Run | None, lease: Lease, *, now_ms: int, lease_ms: int) -> Run | None:
    """The run with its lease moved forward, or None: the lease has run out or belongs to another fence."""
    if run is None or run.fence != lease.fence or not run.live(now_ms):
        return None
    return replace(run, lease_ends_at_ms=max(run.lease_ends_at_ms or 0, now_ms + lease_ms))


def decide_finish(run: Run | None, finish: Finish) -> tuple[bool, Run | None]:
    """Whether the outcome is taken, and the run to store (None: nothing to store).

    A finish after the lease's end is taken while nobody took the run up: its fence is still the current one.
    """
    if run is None or run.fence != finish.fence:
        return False, None
    if run.status != "running":
        same = run.status == finish.status and run.finished_at_ms == finish.finished_at_ms
        return same, None
    return True, replace(
        run,
        status=finish.status,
        lease_ends_at_ms=None,
        started_at_ms=finish.started_at_ms,
        finished_at_ms=finish.finished_at_ms,
        error=finish.error,
        traceback=finish.traceback,
        checkpoint=None,
        attempts=_ended(run, finish.status, finish.finished_at_ms, finish.started_at_ms),
    )


def decide_hand_over(run: Run | None, ask: HandOver) -> tuple[bool, Run | None]:
    """Whether the run was given back, and the run to store. It is owed at once and has spent no attempt."""
    if run is None or run.fence != ask.fence:
        return False, None
    if run.status != "running":
        # A run that was asked for by hand has no attempt yet that could have been given back.
        ended_at_ms = run.attempts[-1].ended_at_ms if run.attempts else None
        return run.status == "handed-over" and ended_at_ms == ask.at_ms, None
    return True, replace(
        run,
        status="handed-over",
        lease_ends_at_ms=0,
        attempts=_ended(run, "handed-over", ask.at_ms, ask.started_at_ms),
    )


def decide_checkpoint(run: Run | None, ask: Checkpoint) -> tuple[bool, Run | None]:
    """Whether what the handler leaves is kept, and the run to store. As a finish, it is taken while the fence is
    still the current one, also with a lease that has run out."""
    if run is None or run.fence != ask.fence or run.status != "running":
        return False, None
    return True, replace(run, checkpoint=ask.value)


def decide_pause(pauses: Sequence[Pause], *, now_ms: int, by: str) -> PauseOutcome:
    """Pause a task. What runs goes on; no slot, no catch-up and no further attempt begins."""
    if is_paused(pauses):
        return PauseOutcome(known=True, changed=False, pauses=tuple(pauses))
    kept = (*pauses, Pause(from_ms=now_ms, by=by))[-PAUSES_KEPT:]
    return PauseOutcome(known=True, changed=True, pauses=kept)


def decide_resume(pauses: Sequence[Pause], *, now_ms: int, by: str, in_progress: Sequence[Run]) -> PauseOutcome:
    """Let a task go on from now. Whatever waited for the end of the pause is interrupted: resuming owes nothing."""
    if not is_paused(pauses):
        return PauseOutcome(known=True, changed=False, pauses=tuple(pauses))
    ended = replace(pauses[-1], to_ms=max(now_ms, pauses[-1].from_ms))
    owed = [run for run in sorted(in_progress, key=_by_age) if run.owed(now_ms) and is_withheld(run, paused=True)]
    why = f"it was owed when its task was resumed by {by}, and resuming owes nothing"
    interrupted = tuple(interrupt(run, now_ms, why) for run in owed)
    return PauseOutcome(known=True, changed=True, pauses=(*pauses[:-1], ended), interrupted=interrupted)


def free(in_progress: Sequence[Run], *, now_ms: int, by: str) -> tuple[Run, ...]:
    """Every run of a task that is not final, ended for good by hand. A result that comes after it is refused."""
    return tuple(interrupt(run, now_ms, f"it was freed by {by}") for run in sorted(in_progress, key=_by_age))


def interrupt(run: Run, now_ms: int, why: str | None = None) -> Run:
    """A run that is not final, ended for good: by default because no attempt is left."""
    lost = f"its runner {run.instance_id} was lost in attempt {run.attempt} of {run.max_attempts}"
    return replace(
        run,
        status="interrupted",
        lease_ends_at_ms=None,
        finished_at_ms=now_ms,
        error=lost if why is None else why,
        checkpoint=None,
        attempts=_ended(run, "interrupted", now_ms, None),
    )


def _attempt_after(run: Run) -> int:
    return run.attempt if run.status == "handed-over" else run.attempt + 1


def _allowed(run: Run, terms: LeaseTerms) -> int:
    # Old and new releases may differ during a deploy; who asked for fewer starts must get no more.
    return min(run.max_attempts, terms.max_attempts)


def _by_age(run: Run) -> tuple[int, str]:
    return run.scheduled_at_ms, run.run_id


def _may_be_kept(run: Run, terms: LeaseTerms, in_progress: Sequence[Run], now_ms: int) -> bool:
    """Whether a repeated request finds its run as it left it: also with a lease that has run out, unless another run
    of the task has got one since. Then it is owed, as it was before it was asked for again."""
    if run.status != "running":
        return False
    return run.live(now_ms) or terms.overlap != "skip" or not _another_lives(run, in_progress, now_ms)


def _another_lives(run: Run, in_progress: Sequence[Run], now_ms: int) -> bool:
    return any(other.live(now_ms) for other in in_progress if other.run_id != run.run_id)


def _closed_again(claim: Claim[LeaseTerms], closing: Skip, in_progress: Sequence[Run], now_ms: int) -> ClaimDecision:
    for run in in_progress:
        if run.token == claim.token and _may_be_kept(run, claim.terms, in_progress, now_ms):
            kept = replace(run, lease_ends_at_ms=now_ms + claim.terms.lease_ms)
            return ClaimDecision(answer=Closed(closing.reason, took_up=kept), runs=(kept,))
    return ClaimDecision(answer=Closed(closing.reason))


def _closing_skip(
    claim: Claim[LeaseTerms], reason: SkipReason, now_ms: int, *, met: Run | None = None, took_up: bool = False
) -> Skip:
    return Skip(
        task=claim.task,
        slot_ms=claim.slot_ms,
        reason=reason,
        instance_id=claim.instance_id,
        at_ms=now_ms,
        token=claim.token,
        met_run_id=None if met is None else met.run_id,
        took_up=took_up,
    )


def _new_run(
    ask: Claim[LeaseTerms] | Manual, slot_ms: int | None, at_ms: int, reason: RunReason, fence: int, now_ms: int
) -> Run:
    first = Attempt(number=1, instance_id=ask.instance_id, reason=reason, claimed_at_ms=now_ms)
    return Run(
        run_id=ask.run_id,
        task=ask.task,
        slot_ms=slot_ms,
        scheduled_at_ms=at_ms,
        reason=reason,
        status="running",
        instance_id=ask.instance_id,
        token=ask.token,
        attempt=1,
        max_attempts=ask.terms.max_attempts,
        fence=fence,
        lease_ends_at_ms=now_ms + ask.terms.lease_ms,
        claimed_at_ms=now_ms,
        attempts=(first,),
    )


def _taken_up(run: Run, token: str, instance_id: str, fence: int, now_ms: int, lease_end: int) -> Run:
    handed = run.status == "handed-over"
    reason: RunReason = run.reason if run.asked_for else "hand-over" if handed else "recovery"
    number = _attempt_after(run)
    before = run.attempts if handed else _ended(run, "interrupted", run.lease_ends_at_ms or now_ms, None)
    if len(before) >= ATTEMPTS_KEPT:
        before = (before[0], *before[2 - ATTEMPTS_KEPT :])
    after = Attempt(number=number, instance_id=instance_id, reason=reason, claimed_at_ms=now_ms)
    return replace(
        run,
        status="running",
        instance_id=instance_id,
        token=token,
        attempt=number,
        fence=fence,
        lease_ends_at_ms=lease_end,
        claimed_at_ms=now_ms,
        attempts=(*before, after),
    )


def _ended(run: Run, status: RunStatus, at_ms: int, started_at_ms: int | None) -> tuple[Attempt, ...]:
    if not run.attempts:
        return ()
    *before, last = run.attempts
    if last.ended_at_ms is not None:
        return run.attempts
    began = started_at_ms if started_at_ms is not None else last.started_at_ms
    return (*before, replace(last, status=status, ended_at_ms=at_ms, started_at_ms=began))
