"""A run, its attempts, and the slots that were closed without one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anarchon.model.words import FINAL, RunReason, RunStatus, SkipReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One start of a run, or one holder of it: a handed-over attempt is followed by one of the same number."""

    number: int
    instance_id: str
    reason: RunReason
    claimed_at_ms: int
    started_at_ms: int | None = None
    """The runner's wall clock when the handler began; None while it has not, or while only its runner knows."""
    ended_at_ms: int | None = None
    status: RunStatus = "running"
    outlived: bool = False
    """The handler went on although the attempt was over."""
    handler_ended_at_ms: int | None = None
    """When a handler that had outlived its attempt ended after all; None while it has not, or nobody saw it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What is owed for one slot, or for one request outside the grid, with every attempt at it.

    Instants are UTC epoch ms. `lease_ends_at_ms` is on the store's clock and None once the run is final; a run
    that was handed over keeps 0 there. On a claim-only backend `fence` and `lease_ends_at_ms` are None.
    """

    run_id: str
    task: str
    slot_ms: int | None
    """The slot; None for a manual run."""
    scheduled_at_ms: int
    reason: RunReason
    """Why the run came to be; each attempt has a reason of its own."""
    status: RunStatus
    instance_id: str
    """The runner: the instance that holds the lease now, or held it last."""
    token: str
    """The claim token under which the run was won or taken up."""
    attempt: int
    """The number of the current or last attempt, from 1. A hand-over does not raise it."""
    max_attempts: int
    fence: int | None
    lease_ends_at_ms: int | None
    claimed_at_ms: int
    started_at_ms: int | None = None
    finished_at_ms: int | None = None
    error: str | None = None
    """`TypeName: message` of what the handler raised, shortened to 1,000 characters."""
    traceback: str | None = None
    checkpoint: str | None = None
    """JSON text that the handler left for its next attempt; gone when the run is final."""
    attempts: tuple[Attempt, ...] = ()

    @property
    def final(self) -> bool:
        """Whether the outcome of this run can still change."""
        return self.status in FINAL

    def live(self, now_ms: int) -> bool:
        """Whether a lease on this run holds at `now_ms` of the store's clock."""
        return self.status == "running" and self.lease_ends_at_ms is not None and self.lease_ends_at_ms > now_ms

    @property
    def asked_for(self) -> bool:
        """Whether somebody asked for this run by hand and no instance has had it yet."""
        return self.reason == "manual" and not self.attempts

    def owed(self, now_ms: int) -> bool:
        """Whether this run waits for somebody: handed over, or its lease has run out."""
        return not self.final and not self.live(now_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip:
    """A due slot that one instance did not run, with its reason."""

    task: str
    slot_ms: int
    reason: SkipReason
    instance_id: str
    at_ms: int
    until_ms: int | None = None
    """The last slot of a whole range that was skipped together ('superseded'); None: this slot alone."""
    token: str = ""
    """The claim token of the request that closed the slot; empty where nothing was asked."""
    detail: str = ""
    """What stood in the way, where the reason alone does not say it: of 'busy' 'full' or 'loop-lag'."""
    met_run_id: str | None = None
    """The run in progress that closed the slot ('overlap')."""
    took_up: bool = False
    """That run was owed, and the instance that asked for the slot took it up instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """A span in which a task was paused, on the store's clock. Slots from its first to its last instant never run."""

    from_ms: int
    to_ms: int | None = None
    """None: it is paused now."""
    by: str = ""
    """Who paused it, as they named themselves."""

    def covers(self, slot_ms: int) -> bool:
        """Whether a slot fell due while the task was paused."""
        return self.from_ms <= slot_ms and (self.to_ms is None or slot_ms <= self.to_ms)


def is_paused(pauses: Sequence[Pause]) -> bool:
    """Whether the last of these spans has no end yet."""
    return bool(pauses) and pauses[-1].to_ms is None


def run_id_of_slot(namespace: str, task: str, slot_ms: int) -> str:
    """The id of the one run that a slot can have, the same on every instance."""
    return f"{namespace}/{task}/{slot_ms}"


def run_id_by_hand(namespace: str, task: str, token: str) -> str:
    """The id of a run that was asked for by hand, the same in every retry of that request."""
    return f"{namespace}/{task}/manual-{token[:16]}"
