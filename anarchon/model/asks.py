"""What is asked of a backend and what it answers: frozen values, one generic request type for both kinds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeAlias

from typing_extensions import TypeVar

from anarchon.model.run import Pause, Run
from anarchon.model.words import FinalStatus, OverlapPolicy, RunReason, SkipReason

TermsT_co = TypeVar("TermsT_co", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTerms:
    """Under which terms an instance asks for a slot or takes a run up."""

    lease_ms: int
    overlap: OverlapPolicy
    max_attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim(Generic[TermsT_co]):
    """One instance asks for one slot. `token` is the same in every retry, so that asking again is safe."""

    task: str
    slot_ms: int
    run_id: str
    token: str
    instance_id: str
    reason: RunReason
    terms: TermsT_co


@dataclass(frozen=True, slots=True)
class Won:
    """The run is the asking instance's, under `run.fence` and, on leases, until `run.lease_ends_at_ms`.

    `interrupted` are owed runs of the task that stood in the way with no attempt left and were ended by this claim.
    """

    run: Run
    interrupted: tuple[Run, ...] = ()


@dataclass(frozen=True, slots=True)
class Lost:
    """Somebody else has it, or had it, or it is too old to be known."""


@dataclass(frozen=True, slots=True)
class Closed:
    """The slot is closed for everybody. `took_up` is the owed run of the task that the asking instance got instead."""

    reason: SkipReason
    took_up: Run | None = None
    interrupted: tuple[Run, ...] = ()
    met: Run | None = None
    """The run in progress that a run by hand would have overlapped."""


@dataclass(frozen=True, slots=True)
class Spent:
    """No attempt was left: the run has just been marked interrupted by this request."""

    run: Run


LOST = Lost()

ClaimOutcome: TypeAlias = Won | Lost
"""What a claim-only backend answers to a claim."""

LeaseOutcome: TypeAlias = Won | Lost | Closed
"""What a lease backend answers to a claim."""

TakeUpOutcome: TypeAlias = Won | Lost | Spent
"""What a lease backend answers to a take-up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeUp:
    """Ask for an owed run that a survey showed under `seen_fence`."""

    task: str
    run_id: str
    seen_fence: int
    token: str
    instance_id: str
    terms: LeaseTerms


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """Name a held lease: the run and the fence under which it is held."""

    task: str
    run_id: str
    fence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOver:
    """Give a held run back. `began` says whether its handler had started here."""

    task: str
    run_id: str
    fence: int
    at_ms: int
    started_at_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """The outcome of an attempt, by its runner. Asking again with the same values is answered as the first time.

    It carries the whole run, since a claim-only store has kept nothing of it but the claim.
    """

    task: str
    run_id: str
    slot_ms: int | None
    scheduled_at_ms: int
    reason: RunReason
    instance_id: str
    attempt: int
    fence: int | None
    status: FinalStatus
    claimed_at_ms: int
    started_at_ms: int | None
    finished_at_ms: int
    error: str | None = None
    traceback: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Manual:
    """Ask for one run outside the grid. Asking again with the same token is answered as the first time."""

    task: str
    run_id: str
    token: str
    instance_id: str
    """Who asks: with `held` the instance that will run it."""
    at_ms: int
    """When it was asked for: the run's `scheduled_at_ms`."""
    held: bool
    """True: the asking instance gets its lease. False: it is owed, and whoever has the task and room takes it up."""
    terms: LeaseTerms


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseOutcome:
    """What became of a request to pause or to resume a task."""

    known: bool
    """False: the store knows no such task, and nothing was changed."""
    changed: bool
    """False: the task was in that state already."""
    pauses: tuple[Pause, ...] = ()
    interrupted: tuple[Run, ...] = ()
    """By resuming: owed runs that will not be started again, since resuming owes nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """What a handler leaves for the next attempt at its run, by its runner."""

    task: str
    run_id: str
    fence: int
    value: str
    """JSON text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRecord:
    """What a store has to know of a registered task: what trims its records, and what tells people of it."""

    name: str
    schedule: str
    """The canonical text of schedule and zone."""
    handler: str = ""
    """Module and qualified name of the handler."""
    jitter_ms: int = 0
    max_late_ms: int = 0
    timeout_ms: int | None = None
    overlap: OverlapPolicy = "skip"
    max_attempts: int = 1
    history_size: int
    history_ttl_ms: int | None
    late_claim_ms: int
    """A slot younger than this may still be asked for: it is never trimmed by count."""
    catch_up_ms: int
    """A slot younger than this may be asked for at a start: it is never trimmed by age."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceRecord:
    """What an instance tells about itself when it opens a store."""

    instance_id: str
    host: str
    pid: int
    version: str
    python: str
    tz_database: str
    lease_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreInfo:
    """What a store tells when it is opened."""

    store_now_ms: int | None
    """The store's clock; None where it shows none."""
    remembers_ms: int | None
    """Claim-only: how long a claimed slot is remembered. None: for as long as history keeps it, guarded by a floor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SurveyAnswer:
    """What an instance learns from its one periodic statement."""

    store_now_ms: int
    owed: tuple[Run, ...]
    """Owed runs in the order in which their leases ended, at most a page of them."""
    next_page: str | None
    """Where a full page goes on; None at its end."""
    earliest_lease_end_ms: int | None
    """The earliest end of a live lease, on the store's clock."""
    shortest_other_lease_ms: int | None
    """The shortest lease length of the other live instances; None where there is none."""
    sweep: bool
    """Whether this instance has just been given the turn to sweep."""
