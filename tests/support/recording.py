"""A lease space that writes down what it accepts, and memory backends that share one."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

from anarchon.model.asks import (
    Claim,
    Closed,
    Finish,
    HandOver,
    Lease,
    LeaseOutcome,
    LeaseTerms,
    Spent,
    TakeUp,
    TakeUpOutcome,
    TaskRecord,
    Won,
)
from anarchon.model.run import Run
from anarchon.testing.memory import MemoryBackend
from anarchon.testing.memory_store import LeaseSpace, MemoryStore
from tests.support.history import ClosedSlot, Finished, Granted, HandedOver, Interrupted, Registered, Renewed, Write


class Log:
    """Turns answers into writes. What was granted before under the same fence is a renewal."""

    def __init__(self) -> None:
        self.writes: list[Write] = []
        self._fences: set[tuple[str, int]] = set()
        self._closed: set[tuple[str, int]] = set()

    def registered(self, record: TaskRecord, at_ms: int) -> None:
        """A task was made known."""
        self.writes.append(Registered(at_ms=at_ms, task=record.name, schedule=record.schedule))

    def claimed(self, claim: Claim[LeaseTerms], answer: LeaseOutcome, at_ms: int) -> None:
        """A claim was answered."""
        asked = claim.slot_ms if claim.reason == "schedule" else None
        if isinstance(answer, Won):
            self._interrupted(answer.interrupted, claim.terms, at_ms)
            self._granted(answer.run, claim.terms, at_ms, asked)
        elif isinstance(answer, Closed):
            self._interrupted(answer.interrupted, claim.terms, at_ms)
            if (claim.task, claim.slot_ms) not in self._closed:
                self._closed.add((claim.task, claim.slot_ms))
                self.writes.append(
                    ClosedSlot(at_ms=at_ms, task=claim.task, slot_ms=claim.slot_ms, instance=claim.instance_id)
                )
            if answer.took_up is not None:
                self._granted(answer.took_up, claim.terms, at_ms, asked)

    def taken_up(self, ask: TakeUp, answer: TakeUpOutcome, at_ms: int) -> None:
        """A take-up was answered."""
        if isinstance(answer, Won):
            self._granted(answer.run, ask.terms, at_ms)
        elif isinstance(answer, Spent):
            self._interrupted((answer.run,), ask.terms, at_ms)

    def renewed(self, lease: Lease, lease_ms: int, at_ms: int) -> None:
        """A renewal was taken."""
        self.writes.append(
            Renewed(
                at_ms=at_ms,
                task=lease.task,
                run_id=lease.run_id,
                fence=lease.fence,
                lease_ends_at_ms=at_ms + lease_ms,
            )
        )

    def finished(self, finish: Finish, at_ms: int) -> None:
        """An outcome was taken, perhaps for the second time."""
        self.writes.append(
            Finished(
                at_ms=at_ms,
                task=finish.task,
                run_id=finish.run_id,
                fence=finish.fence or 0,
                status=finish.status,
                stamp=finish.finished_at_ms,
            )
        )

    def handed_over(self, ask: HandOver, at_ms: int) -> None:
        """A run was given back, perhaps for the second time."""
        self.writes.append(HandedOver(at_ms=at_ms, task=ask.task, run_id=ask.run_id, fence=ask.fence, stamp=ask.at_ms))

    def _granted(self, run: Run, terms: LeaseTerms, at_ms: int, asked_slot_ms: int | None = None) -> None:
        assert run.fence is not None
        assert run.lease_ends_at_ms is not None
        if (run.run_id, run.fence) in self._fences:
            self.writes.append(
                Renewed(
                    at_ms=at_ms,
                    task=run.task,
                    run_id=run.run_id,
                    fence=run.fence,
                    lease_ends_at_ms=run.lease_ends_at_ms,
                )
            )
            return
        self._fences.add((run.run_id, run.fence))
        self.writes.append(
            Granted(
                at_ms=at_ms,
                task=run.task,
                slot_ms=run.slot_ms,
                run_id=run.run_id,
                fence=run.fence,
                instance=run.instance_id,
                attempt=run.attempt,
                lease_ends_at_ms=run.lease_ends_at_ms,
                overlap=terms.overlap,
                max_attempts=terms.max_attempts,
                reason=run.attempts[-1].reason,
                first=run.attempts[-1].reason not in ("recovery", "hand-over"),
                asked_slot_ms=asked_slot_ms,
            )
        )

    def _interrupted(self, runs: Sequence[Run], terms: LeaseTerms, at_ms: int) -> None:
        for run in runs:
            self.writes.append(
                Interrupted(at_ms=at_ms, task=run.task, run_id=run.run_id, max_attempts=terms.max_attempts)
            )


class RecordingSpace(LeaseSpace):
    """What the store holds, with a log of what it accepted."""

    def __init__(self, log: Log, now_ms: Callable[[], int]) -> None:
        super().__init__()
        self.log = log
        self._now_ms = now_ms

    def register(self, record: TaskRecord, now_ms: int) -> int:
        """Written down."""
        self.log.registered(record, now_ms)
        return super().register(record, now_ms)

    def claim(self, claim: Claim[LeaseTerms], now_ms: int) -> LeaseOutcome:
        """Written down."""
        answer = super().claim(claim, now_ms)
        self.log.claimed(claim, answer, now_ms)
        return answer

    def take_up(self, ask: TakeUp, now_ms: int) -> TakeUpOutcome:
        """Written down."""
        answer = super().take_up(ask, now_ms)
        self.log.taken_up(ask, answer, now_ms)
        return answer

    def renew(self, lease: Lease, lease_ms: int, now_ms: int) -> bool:
        """Written down."""
        kept = super().renew(lease, lease_ms, now_ms)
        if kept:
            self.log.renewed(lease, lease_ms, now_ms)
        return kept

    def finish(self, finish: Finish) -> bool:
        """Written down."""
        taken = super().finish(finish)
        if taken:
            self.log.finished(finish, self._now_ms())
        return taken

    def hand_over(self, ask: HandOver) -> bool:
        """Written down."""
        taken = super().hand_over(ask)
        if taken:
            self.log.handed_over(ask, self._now_ms())
        return taken


class RecordingStore(MemoryStore):
    """A memory store of one namespace, recorded."""

    def __init__(self, clock: Callable[[], int]) -> None:
        super().__init__(clock=clock)
        self.log = Log()
        self.space = RecordingSpace(self.log, clock)

    def leases(self, namespace: str) -> LeaseSpace:
        """The one space."""
        return self.space


class OnRecord(MemoryBackend):
    """A memory backend that still delivers what was under way when its instance closed it, as a network does."""

    def __init__(self, store: RecordingStore) -> None:
        super().__init__(store)
        self._recorded = store

    @contextmanager
    def _space(self) -> Generator[tuple[LeaseSpace, int], None, None]:
        yield self._recorded.space, self._recorded.now_ms()
