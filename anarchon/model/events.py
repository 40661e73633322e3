"""What a scheduler tells: one frozen dataclass per kind of event, named in the past participle.

Listeners are matched by class. Instants are UTC epoch ms of the telling instance's wall clock.
"""

from __future__ import annotations

from dataclasses import dataclass

from anarchon.model.words import RunReason, SkipReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Base of every event."""

    at_ms: int
    instance_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerStarted(Event):
    """The scheduler has opened its backend and plans slots."""

    tasks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerStopped(Event):
    """stop() is through. `left_running` handlers would not end and keep their leases."""

    left_running: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvent(Event):
    """Base of what happens to a run."""

    task: str
    run_id: str
    slot_ms: int | None
    scheduled_at_ms: int
    attempt: int
    reason: RunReason
    fence: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(RunEvent):
    """The handler of this attempt has begun here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSucceeded(RunEvent):
    """The handler returned and its result was taken."""

    duration_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFailed(RunEvent):
    """The handler raised or ran into its timeout, and that was recorded."""

    duration_ms: int
    error: str
    traceback: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInterrupted(RunEvent):
    """The run ended without a result and will not be started again: no attempt was left."""

    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHandedOver(RunEvent):
    """This instance gave the run back; another takes it up and no attempt was spent."""

    began: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecovered(RunEvent):
    """This instance took an owed run up: its runner was lost, or handed it over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseLost(RunEvent):
    """The lease can no longer be trusted or was found lost: the handler was told to stop."""

    found: str
    """'trust deadline' or 'refused'."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRefused(RunEvent):
    """The store refused this attempt's result: the run belongs to a newer fence, or is final."""

    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerOutlived(RunEvent):
    """The run is over (timeout, lost lease), yet its handler is still running."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerEnded(RunEvent):
    """A handler that had outlived its run has ended after all. Its result counts for nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotSkipped(Event):
    """A due slot did not run here. `until_ms` is the last of a whole range skipped together."""

    task: str
    slot_ms: int
    reason: SkipReason
    until_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimLost(Event):
    """Another instance has the slot. Ordinary: each slot is lost by all instances but one."""

    task: str
    slot_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendAway(Event):
    """Calls to the backend began to fail; said once until it is back."""

    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendBack(Event):
    """The backend answers again."""

    away_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockSkewed(Event):
    """This instance's wall clock differs from the store's by more than the limit. Positive: the store is ahead."""

    skew_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopLagged(Event):
    """The application's loop, or the engine's own, did not turn for `lag_ms`. `tasks` were running then."""

    which: str
    lag_ms: int
    tasks: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerFailed(Event):
    """A listener of events raised."""

    listener: str
    error: str
