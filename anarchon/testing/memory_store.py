"""What a store of the memory backends holds, and the rules of a lease store in plain Python.

This is the executable specification: each method below is one atomic step of a lease backend. Whoever writes a
backend makes each of them one transaction, calls the same pure functions inside it, and compares answers.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import ClassVar

from anarchon.clock import Clock, SystemClock
from anarchon.model.asks import (
    LOST,
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
    SurveyAnswer,
    TakeUp,
    TakeUpOutcome,
    TaskRecord,
)
from anarchon.model.leasing import (
    ClaimDecision,
    decide_checkpoint,
    decide_claim,
    decide_finish,
    decide_hand_over,
    decide_manual,
    decide_pause,
    decide_renewal,
    decide_resume,
    decide_take_up,
    free,
    is_withheld,
)
from anarchon.model.run import Pause, Run, Skip, is_paused
from anarchon.model.trimming import (
    ALIVE_MS,
    GONE_MS,
    NO_FLOOR,
    SKIPS_KEPT,
    SURVEY_PAGE,
    SWEEP_BATCH,
    Record,
    closes,
    closing_record,
    may_trim,
    newest_first,
    raised_floor,
    run_record,
    sweep_is_due,
    trim,
    unregistered,
)
from anarchon.model.words import SkipReason

SkipKey = tuple[int, SkipReason, str]


class MemoryStore:
    """What several memory backends share, as several processes share a server. Gone when nothing refers to it.

    `clock` is the store's clock: a `Clock`, or a function that answers UTC epoch ms; the machine's by default.
    """

    _named: ClassVar[dict[str, MemoryStore]] = {}
    _naming: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, *, clock: Clock | Callable[[], int] | None = None) -> None:
        source = SystemClock() if clock is None else clock
        self.now_ms: Callable[[], int] = source.now_ms if isinstance(source, Clock) else source
        self.lock = threading.RLock()
        self._leases: dict[str, LeaseSpace] = {}
        self._claims: dict[str, ClaimSpace] = {}

    @classmethod
    def named(cls, name: str) -> MemoryStore:
        """The store of this process that goes by this name; it lives as long as the process."""
        with cls._naming:
            return cls._named.setdefault(name, cls())

    def leases(self, namespace: str) -> LeaseSpace:
        """What the lease backends of a namespace hold."""
        return self._leases.setdefault(namespace, LeaseSpace())

    def claims(self, namespace: str) -> ClaimSpace:
        """What the claim-only backends of a namespace hold."""
        return self._claims.setdefault(namespace, ClaimSpace())


@dataclass(slots=True)
class ClaimedSlot:
    """A slot that was claimed on a claim-only store."""

    token: str
    run: Run


@dataclass(slots=True)
class ClaimSpace:
    """A namespace of a claim-only store."""

    rules: dict[str, TaskRecord] = field(default_factory=dict[str, TaskRecord])
    slots: dict[tuple[str, int], ClaimedSlot] = field(default_factory=dict[tuple[str, int], ClaimedSlot])
    finished: dict[str, dict[str, Run]] = field(default_factory=dict[str, dict[str, Run]])
    skips: dict[str, dict[SkipKey, Skip]] = field(default_factory=dict[str, dict[SkipKey, Skip]])


@dataclass(slots=True)
class Seen:
    """An instance, and when it was last heard of."""

    record: InstanceRecord | None
    lease_ms: int
    at_ms: int


@dataclass(slots=True)
class TaskState:
    """All that a lease store holds of one task."""

    rules: TaskRecord
    fence: int = 0
    floor_ms: int = NO_FLOOR
    known_since: dict[str, int] = field(default_factory=dict[str, int])
    runs: dict[str, Run] = field(default_factory=dict[str, Run])
    closings: dict[int, Skip] = field(default_factory=dict[int, Skip])
    excuses: dict[SkipKey, Skip] = field(default_factory=dict[SkipKey, Skip])
    pauses: tuple[Pause, ...] = ()

    def in_progress(self) -> list[Run]:
        """The runs that are not final."""
        return [run for run in self.runs.values() if not run.final]

    def decided(self, decision: ClaimDecision) -> LeaseOutcome:
        """Store what was decided, and answer."""
        for run in decision.runs:
            self.runs[run.run_id] = run
        if decision.fence is not None:
            self.fence = decision.fence
        if decision.skip is not None:
            self.closings[decision.skip.slot_ms] = decision.skip
        return decision.answer

    def of_slot(self, slot_ms: int) -> Run | None:
        """The run of a slot."""
        return next((run for run in self.runs.values() if run.slot_ms == slot_ms), None)

    def trim(self, now_ms: int) -> int:
        """Drop what may go, raise the floor, and answer how many records went."""
        finals = [run for run in self.runs.values() if run.final]
        if may_trim(stored=len(finals), keep=self.rules.history_size, rules=self.rules):
            finals.sort(key=newest_first)
        else:
            finals.clear()
        runs = trim(
            (
                run_record(
                    run.run_id,
                    slot_ms=run.slot_ms,
                    scheduled_at_ms=run.scheduled_at_ms,
                    finished_at_ms=run.finished_at_ms,
                )
                for run in finals
            ),
            stored=len(finals),
            keep=self.rules.history_size,
            rules=self.rules,
            now_ms=now_ms,
        )
        for record in runs:
            del self.runs[record.key]
        closings = self._trim_closings(now_ms)
        self.floor_ms = raised_floor(raised_floor(self.floor_ms, runs), closings)
        return len(runs) + len(closings)

    def _trim_closings(self, now_ms: int) -> list[Record[int]]:
        oldest = sorted(self.closings.values(), key=lambda skip: skip.slot_ms)
        gone = trim(
            (closing_record(skip.slot_ms, slot_ms=skip.slot_ms, at_ms=skip.at_ms) for skip in oldest),
            stored=len(oldest),
            keep=SKIPS_KEPT,
            rules=self.rules,
            now_ms=now_ms,
        )
        for record in gone:
            del self.closings[record.key]
        return gone


class LeaseSpace:
    """A namespace of a lease store. Each method is one atomic step; the caller holds the store's lock."""

    def __init__(self) -> None:
        self._tasks: dict[str, TaskState] = {}
        self._instances: dict[str, Seen] = {}
        self._swept_at_ms: int | None = None

    def _task(self, name: str) -> TaskState:
        return self._tasks.setdefault(name, TaskState(unregistered(name)))

    def _run(self, task: str, run_id: str) -> Run | None:
        state = self._tasks.get(task)
        return None if state is None else state.runs.get(run_id)

    def arrive(self, record: InstanceRecord, now_ms: int) -> None:
        """An instance is alive."""
        self._instances[record.instance_id] = Seen(record, record.lease_ms, now_ms)

    def leave(self, instance_id: str) -> None:
        """An instance has gone."""
        self._instances.pop(instance_id, None)

    def register(self, record: TaskRecord, now_ms: int) -> int:
        """Make a task known and answer since when it has been, with this schedule."""
        task = self._task(record.name)
        task.rules = record
        return task.known_since.setdefault(record.schedule, now_ms)

    def claim(self, claim: Claim[LeaseTerms], now_ms: int) -> LeaseOutcome:
        """Decide who gets a slot."""
        task = self._task(claim.task)
        decision = decide_claim(
            claim,
            now_ms=now_ms,
            floor_ms=task.floor_ms,
            last_fence=task.fence,
            same_slot=task.of_slot(claim.slot_ms),
            closing=task.closings.get(claim.slot_ms),
            pauses=task.pauses,
            in_progress=task.in_progress(),
        )
        return task.decided(decision)

    def run_now(self, ask: Manual, now_ms: int) -> LeaseOutcome:
        """Decide about a run by hand."""
        task = self._tasks.get(ask.task)
        if task is None:
            return LOST
        decision = decide_manual(
            ask,
            now_ms=now_ms,
            last_fence=task.fence,
            run=task.runs.get(ask.run_id),
            in_progress=task.in_progress(),
        )
        return task.decided(decision)

    def take_up(self, ask: TakeUp, now_ms: int) -> TakeUpOutcome:
        """Decide who gets an owed run."""
        task = self._tasks.get(ask.task)
        if task is None:
            return LOST
        decision = decide_take_up(
            ask,
            now_ms=now_ms,
            last_fence=task.fence,
            run=task.runs.get(ask.run_id),
            paused=is_paused(task.pauses),
            in_progress=task.in_progress(),
        )
        if decision.run is not None:
            task.runs[ask.run_id] = decision.run
        if decision.fence is not None:
            task.fence = decision.fence
        return decision.answer

    def renew(self, lease: Lease, lease_ms: int, now_ms: int) -> bool:
        """Move the end of a lease."""
        renewed = decide_renewal(self._run(lease.task, lease.run_id), lease, now_ms=now_ms, lease_ms=lease_ms)
        if renewed is None:
            return False
        self._tasks[lease.task].runs[lease.run_id] = renewed
        return True

    def finish(self, finish: Finish) -> bool:
        """Take an outcome."""
        taken, run = decide_finish(self._run(finish.task, finish.run_id), finish)
        if run is not None:
            self._tasks[finish.task].runs[run.run_id] = run
        return taken

    def hand_over(self, ask: HandOver) -> bool:
        """Take a run back."""
        taken, run = decide_hand_over(self._run(ask.task, ask.run_id), ask)
        if run is not None:
            self._tasks[ask.task].runs[run.run_id] = run
        return taken

    def save_checkpoint(self, ask: Checkpoint) -> bool:
        """Keep what a handler leaves."""
        taken, run = decide_checkpoint(self._run(ask.task, ask.run_id), ask)
        if run is not None:
            self._tasks[ask.task].runs[run.run_id] = run
        return taken

    def pause(self, task: str, by: str, now_ms: int) -> PauseOutcome:
        """Pause a task that is known."""
        state = self._tasks.get(task)
        if state is None:
            return PauseOutcome(known=False, changed=False)
        outcome = decide_pause(state.pauses, now_ms=now_ms, by=by)
        state.pauses = outcome.pauses
        return outcome

    def resume(self, task: str, by: str, now_ms: int) -> PauseOutcome:
        """Let a task that is known go on."""
        state = self._tasks.get(task)
        if state is None:
            return PauseOutcome(known=False, changed=False)
        outcome = decide_resume(state.pauses, now_ms=now_ms, by=by, in_progress=state.in_progress())
        state.pauses = outcome.pauses
        state.runs.update({run.run_id: run for run in outcome.interrupted})
        return outcome

    def free(self, task: str, by: str, now_ms: int) -> list[Run]:
        """End what is in progress."""
        state = self._tasks.get(task)
        if state is None:
            return []
        freed = free(state.in_progress(), now_ms=now_ms, by=by)
        state.runs.update({run.run_id: run for run in freed})
        return list(freed)

    def record_skip(self, skip: Skip) -> None:
        """Keep why one instance did not run a slot, once. What closed a slot was recorded by its claim."""
        if closes(skip):
            return
        excuses = self._task(skip.task).excuses
        excuses.setdefault((skip.slot_ms, skip.reason, skip.instance_id), skip)
        while len(excuses) > SKIPS_KEPT:
            del excuses[min(excuses)]

    def history(self, task: str, limit: int) -> list[Run]:
        """The newest runs."""
        state = self._tasks.get(task)
        runs = [] if state is None else sorted(state.runs.values(), key=newest_first, reverse=True)
        return runs[: max(limit, 0)]

    def skips(self, task: str, limit: int) -> list[Skip]:
        """The newest skips of both kinds."""
        state = self._tasks.get(task)
        found = [] if state is None else [*state.closings.values(), *state.excuses.values()]
        return newest_skips(found, limit)

    def task_names(self) -> list[str]:
        """Every task that was registered or asked for."""
        return sorted(self._tasks)

    def survey(
        self, instance_id: str, lease_ms: int, page: str | None, record: InstanceRecord | None, now_ms: int
    ) -> SurveyAnswer:
        """Stamp an instance as alive, and tell what is owed."""
        seen = self._instances.setdefault(instance_id, Seen(record, lease_ms, now_ms))
        seen.lease_ms, seen.at_ms = lease_ms, now_ms
        runs = [run for task in self._tasks.values() for run in task.in_progress()]
        paused = {name for name, task in self._tasks.items() if is_paused(task.pauses)}
        owed = [run for run in runs if run.owed(now_ms) and not is_withheld(run, paused=run.task in paused)]
        owed.sort(key=_by_lease_end)
        if page is not None:
            end, task, run_id = json.loads(page)
            owed = [run for run in owed if _by_lease_end(run) > (end, task, run_id)]
        others = [
            other.lease_ms
            for other_id, other in self._instances.items()
            if other_id != instance_id and other.at_ms > now_ms - ALIVE_MS
        ]
        sweep = page is None and sweep_is_due(self._swept_at_ms, now_ms)
        if sweep:
            self._swept_at_ms = now_ms
        return SurveyAnswer(
            store_now_ms=now_ms,
            owed=tuple(owed[:SURVEY_PAGE]),
            next_page=json.dumps(_by_lease_end(owed[SURVEY_PAGE - 1])) if len(owed) > SURVEY_PAGE else None,
            earliest_lease_end_ms=min((run.lease_ends_at_ms or 0 for run in runs if run.live(now_ms)), default=None),
            shortest_other_lease_ms=min(others, default=None),
            sweep=sweep,
        )

    def trim(self, tasks: Iterable[str], now_ms: int) -> None:
        """Trim the history of these tasks, as far as they are known."""
        for name in sorted(set(tasks) & self._tasks.keys()):
            self._tasks[name].trim(now_ms)

    def sweep(self, now_ms: int) -> int:
        """Trim tasks in order of their names, up to a batch, and forget who has long gone."""
        gone = [instance_id for instance_id, seen in self._instances.items() if seen.at_ms <= now_ms - GONE_MS]
        for instance_id in gone:
            del self._instances[instance_id]
        swept = len(gone)
        for name in sorted(self._tasks):
            if swept >= SWEEP_BATCH:
                break
            swept += self._tasks[name].trim(now_ms)
        return swept


def newest_skips(skips: Iterable[Skip], limit: int) -> list[Skip]:
    """The newest slots first; those of one slot by reason and instance."""
    return sorted(skips, key=lambda skip: (-skip.slot_ms, skip.reason, skip.instance_id))[: max(limit, 0)]


def _by_lease_end(run: Run) -> tuple[int, str, str]:
    return run.lease_ends_at_ms or 0, run.task, run.run_id
