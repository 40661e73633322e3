"""A run, its attempts, and the slots that were closed without one."""

from __future__ import annotations

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


def run_id_of_slot(namespace: str, task: str, slot_ms: int) -> str:
    """The id of the one run that a slot can have, the same on every instance."""
    return f"{namespace}/{task}/{slot_ms}"
