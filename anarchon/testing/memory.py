"""The lease backend that keeps everything in this process: for tests, and to try anarchon out."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

from anarchon.clock import Clock
from anarchon.errors import ConfigurationError, StateError
from anarchon.model.asks import (
    Checkpoint,
    Claim,
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
from anarchon.protocol import LeaseBackend
from anarchon.testing.memory_store import LeaseSpace, MemoryStore

URL_SCHEME = "memory://"


class MemoryBackend(LeaseBackend):
    """A lease backend in memory, and the executable specification of one.

    `store` is what several instances of one cluster share: a `MemoryStore`, or the URL `memory://name` for the
    store of this process by that name. Without one, or with `memory://`, the backend has a store to itself.
    `clock` is the clock of that own store; a store that is passed in has its own.

    May be used from any thread and any loop. Never raises a `BackendError`; `FaultyLeaseBackend` does that.
    """

    def __init__(
        self, store: MemoryStore | str | None = None, *, clock: Clock | Callable[[], int] | None = None
    ) -> None:
        self.store = store_of(store, clock)
        self._session = Session()

    @property
    def name(self) -> str:
        """ "memory"."""
        return "memory"

    async def open(self, namespace: str, instance: InstanceRecord | None) -> StoreInfo:
        """Join the store."""
        self._session.open(namespace, instance)
        with self._space() as (space, now_ms):
            if instance is not None:
                space.arrive(instance, now_ms)
        return StoreInfo(store_now_ms=now_ms, remembers_ms=None)

    async def open_to_act(self, namespace: str) -> StoreInfo:
        """Join the store."""
        return await self.open(namespace, None)

    async def close(self) -> None:
        """Leave the store, which keeps what it holds."""
        if self._session.is_open:
            with self._space() as (space, _):
                if self._session.instance is not None:
                    space.leave(self._session.instance.instance_id)
            self._session.close()

    async def register(self, tasks: Sequence[TaskRecord]) -> Sequence[int | None]:
        """Known since when, by name and schedule."""
        with self._space() as (space, now_ms):
            return [space.register(task, now_ms) for task in tasks]

    async def claim(self, claims: Sequence[Claim[LeaseTerms]]) -> Sequence[LeaseOutcome]:
        """One step for the batch."""
        with self._space() as (space, now_ms):
            return [space.claim(claim, now_ms) for claim in claims]

    async def take_up(self, asks: Sequence[TakeUp]) -> Sequence[TakeUpOutcome]:
        """One step for the batch."""
        with self._space() as (space, now_ms):
            return [space.take_up(ask, now_ms) for ask in asks]

    async def renew(self, leases: Sequence[Lease], lease_ms: int) -> Sequence[bool]:
        """One step for the batch."""
        with self._space() as (space, now_ms):
            return [space.renew(lease, lease_ms, now_ms) for lease in leases]

    async def hand_over(self, asks: Sequence[HandOver]) -> Sequence[bool]:
        """One step for the batch."""
        with self._space() as (space, _):
            return [space.hand_over(ask) for ask in asks]

    async def finish(self, finishes: Sequence[Finish]) -> Sequence[bool]:
        """One step for the batch, trimming included."""
        with self._space() as (space, now_ms):
            answers = [space.finish(finish) for finish in finishes]
            space.trim((finish.task for finish in finishes), now_ms)
            return answers

    async def record_skips(self, skips: Sequence[Skip]) -> None:
        """One step for the batch."""
        with self._space() as (space, _):
            for skip in skips:
                space.record_skip(skip)

    async def history(self, task: str, limit: int) -> Sequence[Run]:
        """Runs in progress included."""
        with self._space() as (space, _):
            return space.history(task, limit)

    async def skips(self, task: str, limit: int) -> Sequence[Skip]:
        """Closing ones included."""
        with self._space() as (space, _):
            return space.skips(task, limit)

    async def task_names(self) -> Sequence[str]:
        """Sorted."""
        with self._space() as (space, _):
            return space.task_names()

    async def save_checkpoints(self, asks: Sequence[Checkpoint]) -> Sequence[bool]:
        """One step for the batch."""
        with self._space() as (space, _):
            return [space.save_checkpoint(ask) for ask in asks]

    async def run_now(self, ask: Manual) -> LeaseOutcome:
        """One step."""
        with self._space() as (space, now_ms):
            return space.run_now(ask, now_ms)

    async def pause(self, task: str, by: str) -> PauseOutcome:
        """One step."""
        with self._space() as (space, now_ms):
            return space.pause(task, by, now_ms)

    async def resume(self, task: str, by: str) -> PauseOutcome:
        """One step."""
        with self._space() as (space, now_ms):
            return space.resume(task, by, now_ms)

    async def free(self, task: str, by: str) -> Sequence[Run]:
        """One step."""
        with self._space() as (space, now_ms):
            return space.free(task, by, now_ms)

    async def survey(self, instance_id: str, lease_ms: int, page: str | None = None) -> SurveyAnswer:
        """One step."""
        own = self._session.instance
        record = own if own is not None and own.instance_id == instance_id else None
        with self._space() as (space, now_ms):
            return space.survey(instance_id, lease_ms, page, record, now_ms)

    async def sweep(self) -> int:
        """One step."""
        with self._space() as (space, now_ms):
            return space.sweep(now_ms)

    @contextmanager
    def _space(self) -> Generator[tuple[LeaseSpace, int], None, None]:
        # The clock is read once the lock is had, as every store has to do it.
        namespace = self._session.namespace
        with self.store.lock:
            yield self.store.leases(namespace), self.store.now_ms()


class Session:
    """Whether a memory backend is open, and for whom."""

    def __init__(self) -> None:
        self._namespace: str | None = None
        self.instance: InstanceRecord | None = None

    @property
    def is_open(self) -> bool:
        """Whether calls are answered."""
        return self._namespace is not None

    @property
    def namespace(self) -> str:
        """The namespace that it is open for."""
        if self._namespace is None:
            raise StateError("this backend is not open: await open() before any other call")
        return self._namespace

    def open(self, namespace: str, instance: InstanceRecord | None) -> None:
        """Serve one scheduler, or one reader."""
        if self._namespace is not None:
            raise StateError("this backend is open: one backend object serves one scheduler at a time")
        self._namespace, self.instance = namespace, instance

    def close(self) -> None:
        """Serve nobody."""
        self._namespace = self.instance = None


def store_of(store: MemoryStore | str | None, clock: Clock | Callable[[], int] | None) -> MemoryStore:
    """The store that a memory backend was asked to use."""
    if isinstance(store, str):
        if not store.startswith(URL_SCHEME) or any(sign in store for sign in "?#@"):
            raise ConfigurationError(
                # Not shown: it may be the URL of another store, with a password.
                f"this text of {len(store)} characters is not the URL of a memory store: write memory:// for one of "
                "its own, or memory://name for one that is shared within this process; it takes no parameters"
            )
        name = store.removeprefix(URL_SCHEME).strip("/")
        store = MemoryStore.named(name) if name else None
    if store is None:
        return MemoryStore(clock=clock)
    if clock is not None:
        raise ConfigurationError("a shared store has a clock already: pass clock= to MemoryStore, not to the backend")
    return store
