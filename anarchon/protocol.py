"""The contract between anarchon and a store.

There are two kinds of backend, siblings over `Backend`, chosen by what the store can promise:

* a `LeaseBackend` holds a renewed lease for each run, on the store's own clock;
* a `ClaimBackend` only remembers that a slot was claimed.

**What every backend promises.** `(namespace, task, slot)` names a slot, and at most one claim of a slot is won as
long as the store keeps what it acknowledged. A claim carries a token which is the same in every retry: a request
that is repeated is answered as it was the first time. A batch is answered in its own order, item by item; items
are independent, and a batch may have been applied in part when its answer is lost. Every call returns or raises
within the backend's own time-out. After `close()` nothing of the backend is left running.

**What is raised.** `BackendUnavailableError`: surely not applied. `OutcomeUnknownError`: perhaps applied; ask again
with the same values. `BackendMisconfiguredError`: waiting will not help. Nothing else escapes but
`asyncio.CancelledError`; a cancelled call may still take effect. "Somebody else has it" is an answer, not an error.
The engine retries with back-off for ever; a backend reconnects by itself.

**What a lease backend promises besides.** The decisions are those of `anarchon.model.leasing`, each taken in one
atomic step on the store's clock, which is read after any wait for a lock. Fences of a task only grow, and a write
under an older fence is refused. Under overlap='skip' no two runs of a task hold a live lease at once. A run that
was won stays in the history until it is final and trimmed.

**Trimming.** History is kept per task by count and age (`TaskRecord`), trimmed in small batches with the finishes
and by the sweep. A run that is not final is never trimmed; neither is a slot that a late claim could still ask
for. When a slot's record is trimmed, the task's floor rises to it, and a claim at or below the floor is lost.

**Reserved.** Leadership, an audit store and stored triggers belong to lease backends and join as further methods
with a default body that refuses, so that a backend written today keeps working.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Final, Generic, NoReturn, Protocol, TypeAlias, final

from typing_extensions import TypeVar

from anarchon.model.asks import (
    Checkpoint,
    Claim,
    ClaimOutcome,
    Finish,
    HandOver,
    InstanceRecord,
    Lease,
    LeaseOutcome,
    LeaseTerms,
    Manual,
    PauseOutcome,
    StoreInfo,
    SurveyAnswer,
    TakeUp,
    TakeUpOutcome,
    TaskRecord,
)
from anarchon.model.run import Run, Skip
from anarchon.model.words import OverlapPolicy

# ------------------------------------------------------------------ capabilities


@final
class NeedsLeaseBackend:
    """No value has this type: it is what `overlap`, `max_attempts` and `catch_up_ms` expect on a claim-only backend."""

    def __init__(self, impossible: NoReturn, /) -> None:
        raise TypeError("NeedsLeaseBackend only names a requirement")


@final
class NeedsHistoryTtl:
    """No value has this type: it is what `history_ttl_ms` expects on a backend that trims history by count only."""

    def __init__(self, impossible: NoReturn, /) -> None:
        raise TypeError("NeedsHistoryTtl only names a requirement")


OverlapT_contra = TypeVar("OverlapT_contra", contravariant=True)
LeaseT_contra = TypeVar("LeaseT_contra", contravariant=True)
TtlT_contra = TypeVar("TtlT_contra", contravariant=True)


@final
class Capabilities(Generic[OverlapT_contra, LeaseT_contra, TtlT_contra]):
    """What a backend can do: flags for the run time, accepted option types for the type checker."""

    __slots__ = ("history_ttl", "lease")

    def __init__(self, *, lease: bool, history_ttl: bool) -> None:
        self.lease: Final = lease
        self.history_ttl: Final = history_ttl


ClaimCapabilities: TypeAlias = Capabilities[NeedsLeaseBackend, NeedsLeaseBackend, NeedsHistoryTtl]
ClaimTtlCapabilities: TypeAlias = Capabilities[NeedsLeaseBackend, NeedsLeaseBackend, int | NeedsHistoryTtl]
LeaseCapabilities: TypeAlias = Capabilities[
    OverlapPolicy | NeedsLeaseBackend, int | NeedsLeaseBackend, int | NeedsHistoryTtl
]

CLAIM: Final[ClaimCapabilities] = Capabilities(lease=False, history_ttl=False)
CLAIM_TTL: Final[ClaimTtlCapabilities] = Capabilities(lease=False, history_ttl=True)
LEASE: Final[LeaseCapabilities] = Capabilities(lease=True, history_ttl=True)


class Offers(Protocol[OverlapT_contra, LeaseT_contra, TtlT_contra]):
    """Reads the accepted option types off a backend's type, in the `self` annotations of the scheduler."""

    @property
    def capabilities(self) -> Capabilities[OverlapT_contra, LeaseT_contra, TtlT_contra]: ...


AnyOffers: TypeAlias = Offers[Any, Any, Any]

# ------------------------------------------------------------------ backends


class Backend(ABC):
    """Any backend. As a type it promises only the weakest capabilities; extend ClaimBackend or LeaseBackend.

    Making one does no I/O. One backend object serves one scheduler (or one reader) at a time: `open` raises
    StateError while it is open. All calls are made from one event loop, possibly many at once.
    """

    @property
    @abstractmethod
    def capabilities(self) -> ClaimCapabilities:
        """What this backend can do, for registration and for the type checker."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What messages call this backend, such as "SQLite". Never holds a secret."""

    @property
    def remembers_ms(self) -> int | None:
        """Claim-only: how long a claimed slot is remembered by this configuration, ms. None: no such bound."""
        return None

    @abstractmethod
    async def open(self, namespace: str, instance: InstanceRecord | None) -> StoreInfo:
        """Connect, create or migrate what is missing, and register `instance` as alive.

        `None` opens for reading: nothing is registered and nothing is created that only a runner needs.
        Safe from any number of instances at once. May be called again after it raised, and after `close`.
        """

    @abstractmethod
    async def close(self) -> None:
        """Say that the instance has gone, where the store can be reached, and let go of everything. Never raises."""

    @abstractmethod
    async def register(self, tasks: Sequence[TaskRecord]) -> Sequence[int | None]:
        """Make the tasks known and answer, in order, since when the store has known each by name and schedule.

        The answer is an instant of the store's clock, or None where the store does not keep it (claim-only).
        A later registration of a name replaces its trimming rules.
        """

    @abstractmethod
    async def finish(self, finishes: Sequence[Finish]) -> Sequence[bool]:
        """Record outcomes, trim the history of their tasks, and answer for each whether it was taken.

        False: refused, since the run belongs to a newer fence or is final with another outcome.
        A claim-only backend records each run id once and answers True.
        """

    @abstractmethod
    async def record_skips(self, skips: Sequence[Skip]) -> None:
        """Keep why slots did not run, at most one per slot, instance and reason, and a bounded number per task.

        None of them closes a slot: a closing skip is written by the claim that it answers.
        """

    @abstractmethod
    async def history(self, task: str, limit: int) -> Sequence[Run]:
        """The newest runs of a task, newest `scheduled_at_ms` first, at most `limit`.

        A lease backend shows runs in progress too; a claim-only backend shows finished ones.
        """

    @abstractmethod
    async def skips(self, task: str, limit: int) -> Sequence[Skip]:
        """The newest skips of a task, closing ones included, newest slot first, at most `limit`."""

    @abstractmethod
    async def task_names(self) -> Sequence[str]:
        """The tasks that the store knows in this namespace, sorted."""


class ClaimBackend(Backend):
    """A backend that only remembers that a slot was claimed."""

    @property
    def capabilities(self) -> ClaimCapabilities:
        """The weakest: no option that needs a lease, history by count."""
        return CLAIM

    @abstractmethod
    async def claim(self, claims: Sequence[Claim[None]]) -> Sequence[ClaimOutcome]:
        """Ask for slots. `Won.run` has attempt 1, fence None and no lease."""


class LeaseBackend(Backend):
    """A backend that holds a renewed lease for each run. The decisions are those of `anarchon.model.leasing`."""

    @property
    def capabilities(self) -> LeaseCapabilities:
        """Everything."""
        return LEASE

    @abstractmethod
    async def open_to_act(self, namespace: str) -> StoreInfo:
        """As `open` for reading, for a tool in somebody's hand: what needs no instance is taken as well.

        That is `pause`, `resume`, `free`, and `run_now` of a run that is not held.
        """

    @abstractmethod
    async def claim(self, claims: Sequence[Claim[LeaseTerms]]) -> Sequence[LeaseOutcome]:
        """Ask for slots: `decide_claim` for each, in one atomic step for the whole batch where the store can."""

    @abstractmethod
    async def take_up(self, asks: Sequence[TakeUp]) -> Sequence[TakeUpOutcome]:
        """Ask for owed runs that a survey showed: `decide_take_up` for each."""

    @abstractmethod
    async def renew(self, leases: Sequence[Lease], lease_ms: int) -> Sequence[bool]:
        """Move the ends of held leases to the store's now + `lease_ms`; False: lost, stop at once."""

    @abstractmethod
    async def hand_over(self, asks: Sequence[HandOver]) -> Sequence[bool]:
        """Give held runs back; False: they are no longer held under that fence."""

    @abstractmethod
    async def save_checkpoints(self, asks: Sequence[Checkpoint]) -> Sequence[bool]:
        """Keep what handlers leave for the next attempt: `decide_checkpoint`. False: refused, the lease is lost."""

    @abstractmethod
    async def run_now(self, ask: Manual) -> LeaseOutcome:
        """Ask for one run outside the grid: `decide_manual`. A task that the store does not know is `Lost`."""

    @abstractmethod
    async def pause(self, task: str, by: str) -> PauseOutcome:
        """Pause a task for every instance: `decide_pause`. Asking again changes nothing."""

    @abstractmethod
    async def resume(self, task: str, by: str) -> PauseOutcome:
        """Let a paused task go on: `decide_resume`. Asking again changes nothing."""

    @abstractmethod
    async def free(self, task: str, by: str) -> Sequence[Run]:
        """End every run of a task that is in progress, as `free` of the model says, and answer which they were."""

    @abstractmethod
    async def survey(self, instance_id: str, lease_ms: int, page: str | None = None) -> SurveyAnswer:
        """The one periodic statement: stamp the instance as alive and look for what is owed and not withheld.

        `page` continues an answer whose `next_page` was not None. The turn to sweep is given to one instance at
        most once a minute.
        """

    @abstractmethod
    async def sweep(self) -> int:
        """Trim by age and forget instances that have long gone, in a small batch. Answers how many records went."""
