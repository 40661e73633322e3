"""History and skips: keeping them in bounds, and reading them."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from anarchon.model.run import Run, Skip
from anarchon.model.trimming import (
    GONE_MS,
    SKIPS_KEPT,
    SWEEP_BATCH,
    TRIM_BATCH,
    Record,
    closes,
    closing_record,
    may_trim,
    raised_floor,
    run_record,
    trim,
)
from anarchon_sqlite.rows import run_of, skip_of, skip_values
from anarchon_sqlite.slate import Slate
from anarchon_sqlite.statements import sql


def trim_task(slate: Slate, name: str) -> int:
    """Drop what may go of a loaded task, raise its floor, and answer how many records went."""
    task = slate.tasks[name]
    rules = task.rules
    gone: int = 0
    if may_trim(stored=task.finals, keep=rules.history_size, rules=rules):
        runs = trim(
            _oldest_finals(slate, task.id),
            stored=task.finals,
            keep=rules.history_size,
            rules=rules,
            now_ms=slate.now_ms,
        )
        if runs:
            slate.connection.executemany(sql("forget_run"), [{"id": record.key} for record in runs])
            slate.task(name).finals -= len(runs)
            task.floor_ms = raised_floor(task.floor_ms, runs)
            gone += len(runs)
    if may_trim(stored=task.closings, keep=SKIPS_KEPT, rules=rules):
        closings = trim(
            _oldest_closings(slate, task.id), stored=task.closings, keep=SKIPS_KEPT, rules=rules, now_ms=slate.now_ms
        )
        if closings:
            _forget_skips(slate, task.id, [record.key for record in closings])
            slate.task(name).closings -= len(closings)
            task.floor_ms = raised_floor(task.floor_ms, closings)
            gone += len(closings)
    return gone


def _oldest_finals(slate: Slate, task_id: int) -> list[Record[int]]:
    rows = slate.connection.execute(sql("oldest_finals"), {"task_id": task_id, "limit": TRIM_BATCH})
    return [
        run_record(row_id, slot_ms=slot_ms, scheduled_at_ms=scheduled_at_ms, finished_at_ms=finished_at_ms)
        for row_id, slot_ms, scheduled_at_ms, finished_at_ms in rows
    ]


def _oldest_closings(slate: Slate, task_id: int) -> list[Record[tuple[int, str, str]]]:
    rows = slate.connection.execute(sql("oldest_closings"), {"task_id": task_id, "limit": TRIM_BATCH})
    return [
        closing_record((slot_ms, reason, instance_id), slot_ms=slot_ms, at_ms=at_ms)
        for slot_ms, reason, instance_id, at_ms in rows
    ]


def _forget_skips(slate: Slate, task_id: int, keys: Sequence[tuple[int, str, str]]) -> None:
    slate.connection.executemany(
        sql("forget_skip"),
        [
            {"task_id": task_id, "slot_ms": slot_ms, "reason": reason, "instance_id": instance_id}
            for slot_ms, reason, instance_id in keys
        ],
    )


def sweep(slate: Slate) -> int:
    """Trim tasks in order of their names, up to a batch, and forget who has long gone."""
    place = {"namespace": slate.namespace, "gone_at_ms": slate.now_ms - GONE_MS, "skips_kept": SKIPS_KEPT}
    swept = slate.connection.execute(sql("forget_instances"), place).rowcount
    names = [name for (name,) in slate.connection.execute(sql("tasks_to_sweep"), place)]
    slate.load_tasks(names, create=False)
    for name in names:
        if swept >= SWEEP_BATCH:
            break
        swept += trim_task(slate, name)
    slate.save()
    return swept


def record_skips(slate: Slate, skips: Sequence[Skip]) -> None:
    """Keep why slots did not run. What closed a slot was recorded by its claim."""
    excuses = [skip for skip in skips if not closes(skip)]
    slate.load_tasks((skip.task for skip in excuses), create=True)
    for skip in excuses:
        task = slate.tasks[skip.task]
        added = slate.connection.execute(sql("add_skip"), skip_values(task.id, skip)).rowcount
        if added:
            slate.task(skip.task).excuses += 1
    for task in slate.tasks.values():
        beyond = task.excuses - SKIPS_KEPT
        if beyond > 0:
            found = slate.connection.execute(sql("oldest_excuses"), {"task_id": task.id, "limit": beyond})
            _forget_skips(slate, task.id, found.fetchall())
            task.excuses -= beyond
    slate.save()


def history(connection: sqlite3.Connection, namespace: str, task: str, limit: int) -> list[Run]:
    """The newest runs."""
    rows = connection.execute(sql("history"), {"namespace": namespace, "task": task, "limit": max(limit, 0)})
    return [run_of(task, row) for row in rows]


def skips(connection: sqlite3.Connection, namespace: str, task: str, limit: int) -> list[Skip]:
    """The newest skips of both kinds."""
    rows = connection.execute(sql("skips"), {"namespace": namespace, "task": task, "limit": max(limit, 0)})
    return [skip_of(task, row) for row in rows]


def task_names(connection: sqlite3.Connection, namespace: str) -> list[str]:
    """Every task that was registered or asked for."""
    return [name for (name,) in connection.execute(sql("task_names"), {"namespace": namespace})]
