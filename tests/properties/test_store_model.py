"""SQLite answers every call as the executable specification does, whatever came before.

One state machine drives a memory backend and a SQLite backend with the same calls on the same clock.
"""

from __future__ import annotations

import asyncio
import itertools
import shutil
import sqlite3
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

import anarchon_sqlite.history
from anarchon.model import trimming
from anarchon.model.asks import Checkpoint, Claim, Closed, LeaseTerms, Manual, TakeUp, TaskRecord, Won
from anarchon.model.run import Run, Skip, run_id_by_hand, run_id_of_slot
from anarchon.model.words import FinalStatus, SkipReason
from anarchon.protocol import LeaseBackend
from anarchon.testing import MemoryBackend, MemoryStore, memory_store
from anarchon.testing.conformance.kit import StoreClock, finish, hand_over, instance, lease_of
from anarchon_sqlite import SQLiteBackend, steps

AnswerT = TypeVar("AnswerT")

TASKS = ("one", "two", "drei 'ß'")
INSTANCES = ("a", "b")
LEASES = (2_000, 5_000)

tasks = st.sampled_from(TASKS)
instances = st.sampled_from(INSTANCES)
offsets = st.integers(-6, 6)
terms = st.builds(
    LeaseTerms,
    lease_ms=st.sampled_from(LEASES),
    overlap=st.sampled_from(("skip", "allow")),
    max_attempts=st.integers(1, 3),
)
records = st.builds(
    TaskRecord,
    name=tasks,
    schedule=st.sampled_from(("every 1000", "every 2000")),
    history_size=st.integers(1, 3),
    history_ttl_ms=st.sampled_from((None, 1, 10_000)),
    late_claim_ms=st.sampled_from((0, 3_000)),
    catch_up_ms=st.sampled_from((0, 5_000)),
)
reasons: st.SearchStrategy[SkipReason] = st.sampled_from(("late", "busy", "superseded", "overlap"))
statuses: st.SearchStrategy[FinalStatus] = st.sampled_from(("succeeded", "failed", "interrupted"))


class Stores(RuleBasedStateMachine):
    """Two stores, and two instances on each."""

    directory: ClassVar[Path]
    numbers: ClassVar[itertools.count[int]] = itertools.count()

    runs: Bundle[Run] = Bundle("runs")

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.clock = StoreClock()
        self.namespace = f"example {next(self.numbers)}"
        store = MemoryStore(clock=self.clock)
        self.specified: dict[str, LeaseBackend] = {each: MemoryBackend(store) for each in INSTANCES}
        self.tested: dict[str, LeaseBackend] = {
            each: SQLiteBackend(self.directory / "store.db", synchronous="NORMAL", clock=self.clock)
            for each in INSTANCES
        }

    def teardown(self) -> None:
        for by in INSTANCES:
            self.both(by, lambda backend: backend.close())
        self.runner.close()

    def both(self, by: str, call: Callable[[LeaseBackend], Awaitable[AnswerT]]) -> AnswerT:
        """Make one call on both stores and compare the answers."""

        async def ask(backend: LeaseBackend) -> AnswerT:
            return await call(backend)

        expected = self.runner.run(ask(self.specified[by]))
        answer = self.runner.run(ask(self.tested[by]))
        assert answer == expected
        return expected

    def slot(self, offset: int) -> int:
        return self.clock.ms // 1_000 * 1_000 + offset * 1_000

    def claim(self, task: str, offset: int, by: str, token: int, its_terms: LeaseTerms) -> Claim[LeaseTerms]:
        slot_ms = self.slot(offset)
        return Claim(
            task=task,
            slot_ms=slot_ms,
            run_id=run_id_of_slot(self.namespace, task, slot_ms),
            token=f"{by}{token}{slot_ms}",
            instance_id=by,
            reason="schedule",
            terms=its_terms,
        )

    @initialize()
    def open(self) -> None:
        for by in INSTANCES:
            self.both(by, lambda backend, by=by: backend.open(self.namespace, instance(by, LEASES[0])))  # type: ignore[misc]

    # ---------------------------------------------------------------- calls

    @rule(by=instances, batch=st.lists(records, max_size=3))
    def register(self, by: str, batch: list[TaskRecord]) -> None:
        self.both(by, lambda backend: backend.register(batch))

    @rule(
        target=runs,
        by=instances,
        batch=st.lists(st.tuples(tasks, offsets, instances, st.integers(0, 1), terms), min_size=1, max_size=5),
    )
    def claim_slots(self, by: str, batch: list[tuple[str, int, str, int, LeaseTerms]]) -> Any:
        answers = self.both(by, lambda backend: backend.claim([self.claim(*each) for each in batch]))
        won = [answer.run for answer in answers if isinstance(answer, Won)]
        took_up = [answer.took_up for answer in answers if isinstance(answer, Closed) and answer.took_up is not None]
        return multiple(*won, *took_up)

    @rule(
        target=runs,
        by=instances,
        batch=st.lists(st.tuples(runs, st.integers(0, 1), st.sampled_from((0, 0, 0, -1)), terms), max_size=3),
    )
    def take_up(self, by: str, batch: list[tuple[Run, int, int, LeaseTerms]]) -> Any:
        asks = [
            TakeUp(
                task=run.task,
                run_id=run.run_id,
                seen_fence=(run.fence or 0) + off_by,
                token=f"take-up {by}{token}{run.fence}",
                instance_id=by,
                terms=its_terms,
            )
            for run, token, off_by, its_terms in batch
        ]
        answers = self.both(by, lambda backend: backend.take_up(asks))
        return multiple(*(answer.run for answer in answers if isinstance(answer, Won)))

    @rule(by=instances, batch=st.lists(runs, max_size=4), lease_ms=st.sampled_from(LEASES))
    def renew(self, by: str, batch: list[Run], lease_ms: int) -> None:
        self.both(by, lambda backend: backend.renew([lease_of(run) for run in batch], lease_ms))

    @rule(by=instances, batch=st.lists(st.tuples(runs, statuses, st.integers(0, 1)), max_size=4))
    def finish(self, by: str, batch: list[tuple[Run, FinalStatus, int]]) -> None:
        outcomes = [
            finish(run, status, after_ms=after_ms, error=status, traceback="line 1\nline 2")
            for run, status, after_ms in batch
        ]
        self.both(by, lambda backend: backend.finish(outcomes))

    @rule(by=instances, batch=st.lists(st.tuples(runs, st.integers(0, 1)), max_size=3))
    def hand_over(self, by: str, batch: list[tuple[Run, int]]) -> None:
        asks = [hand_over(run, after_ms=after_ms) for run, after_ms in batch]
        self.both(by, lambda backend: backend.hand_over(asks))

    @rule(by=instances, batch=st.lists(st.tuples(runs, st.sampled_from(("1", '{"at":2}'))), max_size=3))
    def save_checkpoints(self, by: str, batch: list[tuple[Run, str]]) -> None:
        asks = [Checkpoint(task=run.task, run_id=run.run_id, fence=run.fence or 0, value=value) for run, value in batch]
        self.both(by, lambda backend: backend.save_checkpoints(asks))

    @rule(target=runs, by=instances, task=tasks, token=st.integers(0, 2), held=st.booleans(), its_terms=terms)
    def run_now(self, by: str, task: str, token: int, held: bool, its_terms: LeaseTerms) -> Any:
        ask = Manual(
            task=task,
            run_id=run_id_by_hand(self.namespace, task, f"{by}{token}"),
            token=f"{by}{token}",
            instance_id=by,
            at_ms=self.clock.ms,
            held=held,
            terms=its_terms,
        )
        answer = self.both(by, lambda backend: backend.run_now(ask))
        return multiple(answer.run) if isinstance(answer, Won) else multiple()

    @rule(by=instances, task=tasks, what=st.sampled_from(("pause", "resume", "free")))
    def act(self, by: str, task: str, what: str) -> None:
        self.both(by, lambda backend: getattr(backend, what)(task, by))

    @rule(by=instances, batch=st.lists(st.tuples(tasks, offsets, instances, reasons), max_size=4))
    def record_skips(self, by: str, batch: list[tuple[str, int, str, SkipReason]]) -> None:
        skips = [
            Skip(task=task, slot_ms=self.slot(offset), reason=reason, instance_id=who, at_ms=self.clock.ms)
            for task, offset, who, reason in batch
        ]
        self.both(by, lambda backend: backend.record_skips(skips))

    @rule(target=runs, by=instances, lease_ms=st.sampled_from(LEASES))
    def survey(self, by: str, lease_ms: int) -> Any:
        answer = self.both(by, lambda backend: backend.survey(by, lease_ms))
        return multiple(*answer.owed)

    @rule(by=instances, run=runs, lease_ms=st.sampled_from(LEASES))
    def survey_from_a_page(self, by: str, run: Run, lease_ms: int) -> None:
        page = f'[{run.lease_ends_at_ms or 0}, "{run.task}", "{run.run_id}"]'
        self.both(by, lambda backend: backend.survey(by, lease_ms, page))

    @rule(by=instances)
    def sweep(self, by: str) -> None:
        self.both(by, lambda backend: backend.sweep())

    @rule(by=instances)
    def restart(self, by: str) -> None:
        self.both(by, lambda backend: backend.close())
        self.both(by, lambda backend: backend.open(self.namespace, instance(by, LEASES[1])))

    @rule(by=st.sampled_from((0, 1, 999, 2_000, 2_001, 5_000, 12_000, 30_000, 61_000, 86_400_000)))
    def time_passes(self, by: int) -> None:
        self.clock.ms += by

    @rule(by=st.sampled_from((1, 3_000)))
    def the_clock_is_set_back(self, by: int) -> None:
        self.clock.ms -= by

    # ---------------------------------------------------------------- what both must show

    @rule(by=instances, task=tasks, limit=st.integers(0, 3))
    def look(self, by: str, task: str, limit: int) -> None:
        self.both(by, lambda backend: backend.history(task, limit))
        self.both(by, lambda backend: backend.skips(task, limit))
        self.both(by, lambda backend: backend.task_names())

    @invariant()
    def they_hold_the_same(self) -> None:
        for task in TASKS:
            self.both("a", lambda backend, task=task: backend.history(task, 1_000))  # type: ignore[misc]
            self.both("a", lambda backend, task=task: backend.skips(task, 1_000))  # type: ignore[misc]

    @invariant()
    def a_slot_has_one_run_and_a_fence_one_holder(self) -> None:
        for task in TASKS:
            runs = self.runner.run(self.specified["a"].history(task, 1_000))
            slots = [run.slot_ms for run in runs if run.slot_ms is not None]
            assert len(set(slots)) == len(slots)
            assert len({run.fence for run in runs}) == len(runs)

    @invariant()
    def what_sqlite_counts_is_what_it_holds(self) -> None:
        with closing(sqlite3.connect(self.directory / "store.db")) as connection:
            wrong = connection.execute(MISCOUNTED, {"namespace": self.namespace}).fetchall()
        assert wrong == []


MISCOUNTED = """
    SELECT * FROM (
        SELECT name, finals, closings, excuses,
            (SELECT count(*) FROM anarchon_run WHERE task_id = t.id AND finished_at_ms IS NOT NULL) AS runs,
            (SELECT count(*) FROM anarchon_skip WHERE task_id = t.id AND token <> '') AS closed,
            (SELECT count(*) FROM anarchon_skip WHERE task_id = t.id AND token = '') AS excused
        FROM anarchon_task AS t
        WHERE namespace = :namespace
    )
    WHERE (finals, closings, excuses) <> (runs, closed, excused)
"""

# Small enough to be reached in a few steps; each module has its own name for them.
BOUNDS = {"SKIPS_KEPT": 2, "TRIM_BATCH": 2, "SWEEP_BATCH": 3, "SURVEY_PAGE": 2}


def test_sqlite_answers_as_the_specification_does(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in itertools.product((trimming, memory_store, anarchon_sqlite.history, steps), BOUNDS):
        if hasattr(module, name):
            monkeypatch.setattr(module, name, BOUNDS[name])
    Stores.directory = Path(tempfile.mkdtemp(prefix="anarchon-"))
    try:
        run_state_machine_as_test(Stores)
    finally:
        shutil.rmtree(Stores.directory)
