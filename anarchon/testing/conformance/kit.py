"""What the conformance tests stand on: a store for each test, clients of it, its clock, and short ways to ask."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from functools import update_wrapper
from pathlib import Path
from typing import Any, Concatenate, Generic, ParamSpec

import pytest
from typing_extensions import TypeVar

from anarchon.model.asks import (
    Claim,
    Finish,
    HandOver,
    InstanceRecord,
    Lease,
    LeaseOutcome,
    LeaseTerms,
    TakeUp,
    TaskRecord,
    Won,
)
from anarchon.model.run import Run, Skip, run_id_of_slot
from anarchon.model.words import FinalStatus, OverlapPolicy, SkipReason
from anarchon.protocol import Backend, ClaimBackend

BackendT = TypeVar("BackendT", bound=Backend, default=ClaimBackend)
KitT = TypeVar("KitT", bound="Kit[Any]")
Params = ParamSpec("Params")

NAMESPACE = "conformance"
LEASE_MS = 15_000
LONGEST_TEST_S = 120


class StoreClock:
    """A store's clock that a test moves. It starts years away from the local clock, so that a mix-up shows."""

    def __init__(self) -> None:
        self.ms = 2_000_000_000_000

    def __call__(self) -> int:
        return self.ms


def scenario(
    test: Callable[Concatenate[KitT, Params], Coroutine[Any, Any, None]],
) -> Callable[Concatenate[KitT, Params], None]:
    """Run an `async def` test on a loop of its own and close the clients that it opened."""

    def run(self: KitT, /, *args: Params.args, **kwargs: Params.kwargs) -> None:
        async def play() -> None:
            try:
                async with asyncio.timeout(LONGEST_TEST_S):
                    await test(self, *args, **kwargs)
            finally:
                await self.close_clients()

        asyncio.run(play())

    update_wrapper(run, test)  # for pytest, the parameters of the test
    return run


class Kit(ABC, Generic[BackendT]):
    """What a subclass gives: `make_store`, `make_backend`, and a clock.

    A store whose clock can be passed in takes `self.clock`. For any other, override `store_now` and `pass_time`,
    and set `clock_tolerance_ms` to how far two readings may differ.
    """

    clock_tolerance_ms = 0

    def make_store(self, directory: Path) -> None:
        """Prepare an empty store for one test; `directory` is an empty one that may be used for it."""

    @abstractmethod
    def make_backend(self) -> BackendT:
        """A new client, not open, of the store of this test."""

    def store_now(self) -> int:
        """What the store's clock shows."""
        return self.clock()

    async def pass_time(self, ms: int) -> None:
        """Return when the store's clock shows `ms` more."""
        self.clock.ms += ms

    # ---------------------------------------------------------------- clients

    @pytest.fixture(autouse=True)
    def _one_store_per_test(self, tmp_path: Path) -> None:
        self.clock = StoreClock()
        self._clients: list[BackendT] = []
        self.make_store(tmp_path)
        self.start_ms = self.store_now() // 60_000 * 60_000

    async def client(
        self, instance_id: str | None = "a", *, namespace: str = NAMESPACE, lease_ms: int = LEASE_MS
    ) -> BackendT:
        """An open client; closed when the test ends. Without an instance it is a reader."""
        backend = self.make_backend()
        self._clients.append(backend)
        await backend.open(namespace, None if instance_id is None else instance(instance_id, lease_ms))
        return backend

    async def clients(self, count: int) -> list[BackendT]:
        """Many clients, opened at once, instances i0, i1 and so on."""
        return list(await asyncio.gather(*(self.client(f"i{number}") for number in range(count))))

    async def close_clients(self) -> None:
        """Close what the test has opened."""
        clients, self._clients = self._clients, []
        await asyncio.gather(*(client.close() for client in clients))

    # ---------------------------------------------------------------- asking

    def slot(self, number: int) -> int:
        """One slot a minute; slot 0 is the newest whose time has come when the test starts."""
        return self.start_ms + number * 60_000

    def ask(
        self,
        task: str = "t",
        slot_ms: int | None = None,
        *,
        by: str = "a",
        token: str | None = None,
        namespace: str = NAMESPACE,
        lease_ms: int = LEASE_MS,
        overlap: OverlapPolicy = "allow",
        max_attempts: int = 3,
    ) -> Claim[LeaseTerms]:
        """A claim, with a token that belongs to this slot and instance."""
        slot_ms = self.slot(0) if slot_ms is None else slot_ms
        return Claim(
            task=task,
            slot_ms=slot_ms,
            run_id=run_id_of_slot(namespace, task, slot_ms),
            token=f"{by}:{task}:{slot_ms}" if token is None else token,
            instance_id=by,
            reason="schedule",
            terms=LeaseTerms(lease_ms=lease_ms, overlap=overlap, max_attempts=max_attempts),
        )

    @abstractmethod
    async def claim(self, client: BackendT, *asks: Claim[LeaseTerms]) -> Sequence[LeaseOutcome]:
        """Send claims in one batch, in the form that this kind of backend takes."""

    async def win(self, client: BackendT, ask: Claim[LeaseTerms]) -> Run:
        """Claim a slot that must be free."""
        (outcome,) = await self.claim(client, ask)
        return won(outcome)


def instance(instance_id: str, lease_ms: int = LEASE_MS) -> InstanceRecord:
    """What an instance of a test says about itself."""
    return InstanceRecord(
        instance_id=instance_id,
        host="test",
        pid=1,
        version="1",
        python="3.11",
        tz_database="2026a",
        lease_ms=lease_ms,
    )


def record(
    name: str = "t",
    *,
    schedule: str = "every 60000",
    history_size: int = 1_000,
    history_ttl_ms: int | None = None,
    late_claim_ms: int = 60_000,
    catch_up_ms: int = 300_000,
) -> TaskRecord:
    """A task to register."""
    return TaskRecord(
        name=name,
        schedule=schedule,
        history_size=history_size,
        history_ttl_ms=history_ttl_ms,
        late_claim_ms=late_claim_ms,
        catch_up_ms=catch_up_ms,
    )


def finish(
    run: Run,
    status: FinalStatus = "succeeded",
    *,
    after_ms: int = 1_000,
    error: str | None = None,
    traceback: str | None = None,
) -> Finish:
    """The outcome of a run that began when it was claimed and ended `after_ms` later."""
    return Finish(
        task=run.task,
        run_id=run.run_id,
        slot_ms=run.slot_ms,
        scheduled_at_ms=run.scheduled_at_ms,
        reason=run.reason,
        instance_id=run.instance_id,
        attempt=run.attempt,
        fence=run.fence,
        status=status,
        claimed_at_ms=run.claimed_at_ms,
        started_at_ms=run.claimed_at_ms,
        finished_at_ms=run.claimed_at_ms + after_ms,
        error=error,
        traceback=traceback,
    )


def skip(
    slot_ms: int, reason: SkipReason = "late", *, task: str = "t", by: str = "a", until: int | None = None
) -> Skip:
    """A slot that an instance did not run."""
    return Skip(task=task, slot_ms=slot_ms, reason=reason, instance_id=by, at_ms=slot_ms + 1, until_ms=until)


def won(outcome: object) -> Run:
    """The run of an answer that must be Won."""
    assert isinstance(outcome, Won), outcome
    return outcome.run


def count_won(outcomes: Sequence[object]) -> int:
    """How many of these answers are Won."""
    return sum(isinstance(outcome, Won) for outcome in outcomes)


def fence_of(run: Run) -> int:
    """The fence of a run on leases."""
    assert run.fence is not None
    return run.fence


def lease_of(run: Run) -> Lease:
    """The lease under which a run is held."""
    return Lease(task=run.task, run_id=run.run_id, fence=fence_of(run))


def hand_over(run: Run, *, after_ms: int = 1_000) -> HandOver:
    """Give a run back whose handler has begun."""
    return HandOver(
        task=run.task,
        run_id=run.run_id,
        fence=fence_of(run),
        at_ms=run.claimed_at_ms + after_ms,
        started_at_ms=run.claimed_at_ms,
    )


def take_up(
    run: Run,
    *,
    by: str,
    token: str | None = None,
    seen_fence: int | None = None,
    terms: LeaseTerms | None = None,
) -> TakeUp:
    """Ask for an owed run."""
    return TakeUp(
        task=run.task,
        run_id=run.run_id,
        seen_fence=fence_of(run) if seen_fence is None else seen_fence,
        token=f"take-up:{by}:{run.run_id}" if token is None else token,
        instance_id=by,
        terms=LeaseTerms(lease_ms=LEASE_MS, overlap="allow", max_attempts=3) if terms is None else terms,
    )
