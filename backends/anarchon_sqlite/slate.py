"""The part of the file that one request works on: loaded by key, changed in memory, written back once.

A batch costs a handful of statements, however many items it has, and each item sees what the ones before it have
changed. Nothing here decides anything.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

from anarchon.model.asks import TaskRecord
from anarchon.model.run import Pause, Run, Skip, is_paused
from anarchon.model.trimming import NO_FLOOR, unregistered
from anarchon_sqlite.rows import Row, pauses_of, pauses_text, run_of, run_values, skip_of, skip_values
from anarchon_sqlite.statements import sql


@dataclass(slots=True)
class TaskRow:
    """A task as it is stored."""

    id: int
    rules: TaskRecord
    pauses: tuple[Pause, ...]
    fence: int
    floor_ms: int
    finals: int
    closings: int
    excuses: int


class Slate:
    """Belongs to one transaction, and to the thread that has it."""

    def __init__(self, connection: sqlite3.Connection, namespace: str, now_ms: int) -> None:
        self.connection = connection
        self.namespace = namespace
        self.now_ms = now_ms
        self.tasks: dict[str, TaskRow] = {}
        self._names: dict[int, str] = {}
        self._runs: dict[tuple[str, str], Run] = {}
        self._slots: dict[tuple[str, int], Run] = {}
        self._in_progress: dict[str, dict[str, Run]] | None = None
        self._closings: dict[tuple[str, int], Skip] = {}
        self._new_runs: set[tuple[str, str]] = set()
        self._changed_runs: set[tuple[str, str]] = set()
        self._new_closings: list[Skip] = []
        self._changed_tasks: set[str] = set()

    # ---------------------------------------------------------------- loading

    def load_tasks(self, names: Iterable[str], *, create: bool) -> None:
        """Load the tasks of these names; those that are not known are made known, or left out."""
        wanted = set(names) - self.tasks.keys()
        self._read_tasks(wanted)
        missing = sorted(wanted - self.tasks.keys())
        if create and missing:
            self.connection.executemany(sql("add_task"), [self._new_task(name) for name in missing])
            self._read_tasks(missing)

    def _read_tasks(self, names: Iterable[str]) -> None:
        found = self.connection.execute(
            sql("task_rows"), {"namespace": self.namespace, "names": json.dumps(sorted(names))}
        )
        for task_id, *row in found:
            rules = rules_of(row[:12])
            *counts, pauses = row[12:]
            self.tasks[rules.name] = TaskRow(task_id, rules, pauses_of(pauses), *counts)
            self._names[task_id] = rules.name

    def _new_task(self, name: str) -> dict[str, object]:
        return {"namespace": self.namespace, "floor_ms": NO_FLOOR, **rules_values(unregistered(name))}

    def load_slots(self, slots: Iterable[tuple[str, int]]) -> None:
        """Load what is stored of these slots of loaded tasks: the run, or the skip that closed it."""
        keys = json.dumps([(self.tasks[task].id, slot_ms) for task, slot_ms in slots])
        self._take_runs(self.connection.execute(sql("runs_of_slots"), {"keys": keys}))
        for row in self.connection.execute(sql("closings_of_slots"), {"keys": keys}):
            skip = skip_of(self._names[row[0]], row)
            self._closings[skip.task, skip.slot_ms] = skip

    def load_runs(self, keys: Iterable[tuple[str, str]]) -> None:
        """Load these runs, by task and id, of loaded tasks."""
        wanted = [(self.tasks[task].id, run_id) for task, run_id in keys if task in self.tasks]
        self._take_runs(self.connection.execute(sql("runs_by_id"), {"keys": json.dumps(wanted)}))

    def _take_runs(self, rows: Iterable[Row]) -> None:
        for row in rows:
            run = run_of(self._names[row[0]], row)
            self._runs[run.task, run.run_id] = run
            if run.slot_ms is not None:
                self._slots[run.task, run.slot_ms] = run

    # ---------------------------------------------------------------- reading

    def run(self, task: str, run_id: str) -> Run | None:
        """A run that was loaded, as it is now."""
        return self._runs.get((task, run_id))

    def of_slot(self, task: str, slot_ms: int) -> Run | None:
        """The run of a slot that was loaded, as it is now."""
        return self._slots.get((task, slot_ms))

    def closing(self, task: str, slot_ms: int) -> Skip | None:
        """The skip that closed a slot that was loaded."""
        return self._closings.get((task, slot_ms))

    def in_progress(self, task: str) -> Sequence[Run]:
        """The runs of a task that are not final, as they are now. Loaded when somebody looks, for all tasks at once.

        Where overlap is allowed nobody looks, and there may be many.
        """
        return _InProgress(self, task)

    def runs_in_progress(self, task: str) -> list[Run]:
        """What `in_progress` shows."""
        if self._in_progress is None:
            self._in_progress = {name: {} for name in self.tasks}
            ids = json.dumps([loaded.id for loaded in self.tasks.values()])
            for row in self.connection.execute(sql("runs_in_progress"), {"task_ids": ids}):
                run = run_of(self._names[row[0]], row)
                # What this request has changed is newer than what is stored.
                self._runs.setdefault((run.task, run.run_id), run)
            for run in self._runs.values():
                if not run.final:
                    self._in_progress[run.task][run.run_id] = run
        return list(self._in_progress[task].values())

    # ---------------------------------------------------------------- changing

    def put(self, run: Run) -> None:
        """A run is new, or has changed."""
        key = run.task, run.run_id
        before = self._runs.get(key)
        if before is None:
            self._new_runs.add(key)
        elif key not in self._new_runs:
            self._changed_runs.add(key)
        if run.final and (before is None or not before.final):
            self.task(run.task).finals += 1
        self._runs[key] = run
        if run.slot_ms is not None:
            self._slots[run.task, run.slot_ms] = run
        if self._in_progress is not None:
            if run.final:
                self._in_progress[run.task].pop(run.run_id, None)
            else:
                self._in_progress[run.task][run.run_id] = run

    def raise_fence(self, task: str, fence: int | None) -> None:
        """A fence was given out."""
        if fence is not None:
            self.task(task).fence = fence

    def close_slot(self, skip: Skip) -> None:
        """A slot was closed for everybody."""
        self._closings[skip.task, skip.slot_ms] = skip
        self._new_closings.append(skip)
        self.task(skip.task).closings += 1

    def task(self, name: str) -> TaskRow:
        """A task that is about to be changed."""
        self._changed_tasks.add(name)
        return self.tasks[name]

    # ---------------------------------------------------------------- writing

    def save(self) -> None:
        """Write back what has changed."""
        self._write_runs("add_run", self._new_runs)
        self._write_runs("save_run", self._changed_runs)
        self._write("add_skip", [skip_values(self.tasks[skip.task].id, skip) for skip in self._new_closings])
        self._write("save_task", [_task_values(self.tasks[name]) for name in self._changed_tasks])
        self._new_closings.clear()
        self._changed_tasks.clear()

    def save_leases(self) -> None:
        """Write back what has changed, when that is the ends of leases only."""
        self._write_runs("save_lease", self._changed_runs)

    def _write_runs(self, statement: str, keys: set[tuple[str, str]]) -> None:
        self._write(statement, [run_values(self.tasks[key[0]].id, self._runs[key]) for key in sorted(keys)])
        keys.clear()

    def _write(self, statement: str, rows: Sequence[dict[str, object]]) -> None:
        if rows:
            self.connection.executemany(sql(statement), rows)


class _InProgress(Sequence[Run]):
    def __init__(self, slate: Slate, task: str) -> None:
        self._slate = slate
        self._task = task

    @overload
    def __getitem__(self, index: int) -> Run: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Run]: ...
    def __getitem__(self, index: int | slice) -> Run | Sequence[Run]:
        return self._slate.runs_in_progress(self._task)[index]

    def __iter__(self) -> Iterator[Run]:
        return iter(self._slate.runs_in_progress(self._task))

    def __len__(self) -> int:
        return len(self._slate.runs_in_progress(self._task))


def rules_of(row: Sequence[Any]) -> TaskRecord:
    """The rules of a task from the first columns of task_rows after its id."""
    return TaskRecord(
        name=row[0],
        schedule=row[1],
        handler=row[2],
        jitter_ms=row[3],
        max_late_ms=row[4],
        timeout_ms=row[5],
        overlap=row[6],
        max_attempts=row[7],
        history_size=row[8],
        history_ttl_ms=row[9],
        late_claim_ms=row[10],
        catch_up_ms=row[11],
    )


def rules_values(rules: TaskRecord) -> dict[str, object]:
    """Trimming rules as the parameters of add_task and save_rules."""
    return {
        "name": rules.name,
        "schedule": rules.schedule,
        "handler": rules.handler,
        "jitter_ms": rules.jitter_ms,
        "max_late_ms": rules.max_late_ms,
        "timeout_ms": rules.timeout_ms,
        "overlap": rules.overlap,
        "max_attempts": rules.max_attempts,
        "history_size": rules.history_size,
        "history_ttl_ms": rules.history_ttl_ms,
        "late_claim_ms": rules.late_claim_ms,
        "catch_up_ms": rules.catch_up_ms,
    }


def _task_values(task: TaskRow) -> dict[str, object]:
    return {
        "id": task.id,
        "fence": task.fence,
        "floor_ms": task.floor_ms,
        "finals": task.finals,
        "closings": task.closings,
        "excuses": task.excuses,
        "pauses": pauses_text(task.pauses),
        "paused": is_paused(task.pauses),
    }
