"""The claim-only backend that keeps everything in this process."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

from anarchon.clock import Clock
from anarchon.model.asks import LOST, Claim, ClaimOutcome, Finish, InstanceRecord, StoreInfo, TaskRecord, Won
from anarchon.model.options import LONGEST_MS, whole
from anarchon.model.run import Attempt, Run, Skip
from anarchon.model.trimming import SKIPS_KEPT, newest_first, unregistered
from anarchon.protocol import ClaimBackend
from anarchon.testing.memory import Session, store_of
from anarchon.testing.memory_store import ClaimedSlot, ClaimSpace, MemoryStore, newest_skips


class MemoryClaimBackend(ClaimBackend):
    """A claim-only backend in memory: it forgets a claimed slot `slot_ttl_ms` after the claim, history by count.

    `store` and `clock` are those of `MemoryBackend`. All backends of a namespace should have one `slot_ttl_ms`.
    """

    def __init__(
        self,
        store: MemoryStore | str | None = None,
        *,
        slot_ttl_ms: int = 300_000,
        clock: Clock | Callable[[], int] | None = None,
    ) -> None:
        self._slot_ttl_ms = whole(self.name, "slot_ttl_ms", slot_ttl_ms, least=1, most=LONGEST_MS)
        self.store = store_of(store, clock)
        self._session = Session()

    @property
    def name(self) -> str:
        """ "memory (claim-only)"."""
        return "memory (claim-only)"

    @property
    def remembers_ms(self) -> int:
        """`slot_ttl_ms`."""
        return self._slot_ttl_ms

    async def open(self, namespace: str, instance: InstanceRecord | None) -> StoreInfo:
        """Join the store. Instances are not registered: nothing asks for them."""
        self._session.open(namespace, instance)
        with self._space() as (_, now_ms):
            return StoreInfo(store_now_ms=now_ms, remembers_ms=self._slot_ttl_ms)

    async def close(self) -> None:
        """Leave the store, which keeps what it holds."""
        self._session.close()

    async def register(self, tasks: Sequence[TaskRecord]) -> Sequence[int | None]:
        """Since when is not kept."""
        with self._space() as (space, _):
            for task in tasks:
                space.rules[task.name] = task
        return [None] * len(tasks)

    async def claim(self, claims: Sequence[Claim[None]]) -> Sequence[ClaimOutcome]:
        """One step for the batch."""
        with self._space() as (space, now_ms):
            return [self._claim(space, claim, now_ms) for claim in claims]

    def _claim(self, space: ClaimSpace, claim: Claim[None], now_ms: int) -> ClaimOutcome:
        key = claim.task, claim.slot_ms
        held = space.slots.get(key)
        if held is not None and held.run.claimed_at_ms + self._slot_ttl_ms > now_ms:
            return Won(held.run) if held.token == claim.token else LOST
        forgotten = [
            other for other, slot in space.slots.items() if slot.run.claimed_at_ms + self._slot_ttl_ms <= now_ms
        ]
        for other in forgotten:
            del space.slots[other]
        run = _claimed_run(claim, now_ms)
        space.slots[key] = ClaimedSlot(claim.token, run)
        space.rules.setdefault(claim.task, unregistered(claim.task))
        return Won(run)

    async def finish(self, finishes: Sequence[Finish]) -> Sequence[bool]:
        """Each run id once; always True."""
        with self._space() as (space, _):
            for finish in finishes:
                runs = space.finished.setdefault(finish.task, {})
                runs.setdefault(finish.run_id, _finished_run(finish))
                rules = space.rules.setdefault(finish.task, unregistered(finish.task))
                for run in sorted(runs.values(), key=newest_first, reverse=True)[rules.history_size :]:
                    del runs[run.run_id]
        return [True] * len(finishes)

    async def record_skips(self, skips: Sequence[Skip]) -> None:
        """The newest of each task are kept."""
        with self._space() as (space, _):
            for skip in skips:
                kept = space.skips.setdefault(skip.task, {})
                kept.setdefault((skip.slot_ms, skip.reason, skip.instance_id), skip)
                space.rules.setdefault(skip.task, unregistered(skip.task))
                while len(kept) > SKIPS_KEPT:
                    del kept[min(kept)]

    async def history(self, task: str, limit: int) -> Sequence[Run]:
        """Finished runs."""
        with self._space() as (space, _):
            runs = sorted(space.finished.get(task, {}).values(), key=newest_first, reverse=True)
            return runs[: max(limit, 0)]

    async def skips(self, task: str, limit: int) -> Sequence[Skip]:
        """All of them excuse one instance alone."""
        with self._space() as (space, _):
            return newest_skips(space.skips.get(task, {}).values(), limit)

    async def task_names(self) -> Sequence[str]:
        """Sorted."""
        with self._space() as (space, _):
            return sorted(space.rules)

    @contextmanager
    def _space(self) -> Generator[tuple[ClaimSpace, int], None, None]:
        namespace = self._session.namespace
        with self.store.lock:
            yield self.store.claims(namespace), self.store.now_ms()


def _claimed_run(claim: Claim[None], now_ms: int) -> Run:
    return Run(
        run_id=claim.run_id,
        task=claim.task,
        slot_ms=claim.slot_ms,
        scheduled_at_ms=claim.slot_ms,
        reason=claim.reason,
        status="running",
        instance_id=claim.instance_id,
        token=claim.token,
        attempt=1,
        max_attempts=1,
        fence=None,
        lease_ends_at_ms=None,
        claimed_at_ms=now_ms,
        attempts=(Attempt(number=1, instance_id=claim.instance_id, reason=claim.reason, claimed_at_ms=now_ms),),
    )


def _finished_run(finish: Finish) -> Run:
    only = Attempt(
        number=finish.attempt,
        instance_id=finish.instance_id,
        reason=finish.reason,
        claimed_at_ms=finish.claimed_at_ms,
        started_at_ms=finish.started_at_ms,
        ended_at_ms=finish.finished_at_ms,
        status=finish.status,
    )
    return Run(
        run_id=finish.run_id,
        task=finish.task,
        slot_ms=finish.slot_ms,
        scheduled_at_ms=finish.scheduled_at_ms,
        reason=finish.reason,
        status=finish.status,
        instance_id=finish.instance_id,
        token="",
        attempt=finish.attempt,
        max_attempts=1,
        fence=None,
        lease_ends_at_ms=None,
        claimed_at_ms=finish.claimed_at_ms,
        started_at_ms=finish.started_at_ms,
        finished_at_ms=finish.finished_at_ms,
        error=finish.error,
        traceback=finish.traceback,
        attempts=(only,),
    )
