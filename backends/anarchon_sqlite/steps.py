"""The atomic steps of the store: load, let `anarchon.model.leasing` decide, write back.

Each runs inside a transaction that began as a writer, so that nothing changes between reading and writing, and
takes its answer from the pure function alone.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from anarchon.model import leasing
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
)
from anarchon.model.run import Run, is_paused
from anarchon.model.trimming import ALIVE_MS, SURVEY_PAGE, sweep_is_due
from anarchon_sqlite.history import trim_task
from anarchon_sqlite.migrate import schema_of
from anarchon_sqlite.rows import run_of
from anarchon_sqlite.slate import Slate, rules_values
from anarchon_sqlite.statements import sql

AskT = TypeVar("AskT", Finish, HandOver, Checkpoint)


def register(slate: Slate, tasks: Sequence[TaskRecord]) -> list[int | None]:
    """Since when each has been known with its schedule."""
    slate.load_tasks((task.name for task in tasks), create=True)
    since: list[int | None] = []
    for task in tasks:
        task_id = slate.tasks[task.name].id
        key = {"task_id": task_id, "schedule": task.schedule}
        slate.connection.execute(sql("save_rules"), {**rules_values(task), "id": task_id})
        slate.connection.execute(sql("add_schedule"), {**key, "now_ms": slate.now_ms})
        since.append(slate.connection.execute(sql("known_since"), key).fetchone()[0])
    return since


def claim(slate: Slate, claims: Sequence[Claim[LeaseTerms]]) -> list[LeaseOutcome]:
    """Who gets each slot."""
    slate.load_tasks((each.task for each in claims), create=True)
    slate.load_slots((each.task, each.slot_ms) for each in claims)
    answers: list[LeaseOutcome] = []
    for each in claims:
        task = slate.tasks[each.task]
        decision = decide_claim(
            each,
            now_ms=slate.now_ms,
            floor_ms=task.floor_ms,
            last_fence=task.fence,
            same_slot=slate.of_slot(each.task, each.slot_ms),
            closing=slate.closing(each.task, each.slot_ms),
            pauses=task.pauses,
            in_progress=slate.in_progress(each.task),
        )
        answers.append(_decided(slate, each.task, decision))
    slate.save()
    return answers


def run_now(slate: Slate, ask: Manual) -> LeaseOutcome:
    """Whether a run by hand may be started."""
    slate.load_tasks([ask.task], create=False)
    task = slate.tasks.get(ask.task)
    if task is None:
        return LOST
    slate.load_runs([(ask.task, ask.run_id)])
    decision = decide_manual(
        ask,
        now_ms=slate.now_ms,
        last_fence=task.fence,
        run=slate.run(ask.task, ask.run_id),
        in_progress=slate.in_progress(ask.task),
    )
    answer = _decided(slate, ask.task, decision)
    slate.save()
    return answer


def _decided(slate: Slate, task: str, decision: ClaimDecision) -> LeaseOutcome:
    for run in decision.runs:
        slate.put(run)
    slate.raise_fence(task, decision.fence)
    if decision.skip is not None:
        slate.close_slot(decision.skip)
    return decision.answer


def take_up(slate: Slate, asks: Sequence[TakeUp]) -> list[TakeUpOutcome]:
    """Who gets each owed run."""
    slate.load_tasks((ask.task for ask in asks), create=False)
    slate.load_runs((ask.task, ask.run_id) for ask in asks)
    answers: list[TakeUpOutcome] = []
    for ask in asks:
        task = slate.tasks.get(ask.task)
        if task is None:
            answers.append(LOST)
            continue
        decision = decide_take_up(
            ask,
            now_ms=slate.now_ms,
            last_fence=task.fence,
            run=slate.run(ask.task, ask.run_id),
            paused=is_paused(task.pauses),
            in_progress=slate.in_progress(ask.task),
        )
        if decision.run is not None:
            slate.put(decision.run)
        slate.raise_fence(ask.task, decision.fence)
        answers.append(decision.answer)
    slate.save()
    return answers


def renew(slate: Slate, leases: Sequence[Lease], lease_ms: int) -> list[bool]:
    """Which leases are held on."""
    slate.load_tasks((lease.task for lease in leases), create=False)
    slate.load_runs((lease.task, lease.run_id) for lease in leases)
    answers: list[bool] = []
    for lease in leases:
        run = slate.run(lease.task, lease.run_id)
        renewed = decide_renewal(run, lease, now_ms=slate.now_ms, lease_ms=lease_ms)
        if renewed is not None:
            slate.put(renewed)
        answers.append(renewed is not None)
    slate.save_leases()
    return answers


def hand_over(slate: Slate, asks: Sequence[HandOver]) -> list[bool]:
    """Which runs were given back."""
    return _write_as_holder(slate, asks, decide_hand_over)


def save_checkpoints(slate: Slate, asks: Sequence[Checkpoint]) -> list[bool]:
    """Which of them were kept."""
    return _write_as_holder(slate, asks, decide_checkpoint)


def pause(slate: Slate, task: str, by: str) -> PauseOutcome:
    """Pause a task that is known."""
    slate.load_tasks([task], create=False)
    if task not in slate.tasks:
        return PauseOutcome(known=False, changed=False)
    outcome = decide_pause(slate.tasks[task].pauses, now_ms=slate.now_ms, by=by)
    _paused(slate, task, outcome)
    return outcome


def resume(slate: Slate, task: str, by: str) -> PauseOutcome:
    """Let a task that is known go on."""
    slate.load_tasks([task], create=False)
    if task not in slate.tasks:
        return PauseOutcome(known=False, changed=False)
    in_progress = slate.in_progress(task)
    outcome = decide_resume(slate.tasks[task].pauses, now_ms=slate.now_ms, by=by, in_progress=in_progress)
    _paused(slate, task, outcome)
    return outcome


def _paused(slate: Slate, task: str, outcome: PauseOutcome) -> None:
    slate.task(task).pauses = outcome.pauses
    for run in outcome.interrupted:
        slate.put(run)
    slate.save()


def free(slate: Slate, task: str, by: str) -> list[Run]:
    """End what is in progress."""
    slate.load_tasks([task], create=False)
    if task not in slate.tasks:
        return []
    freed = leasing.free(slate.in_progress(task), now_ms=slate.now_ms, by=by)
    for run in freed:
        slate.put(run)
    slate.save()
    return list(freed)


def finish(slate: Slate, finishes: Sequence[Finish]) -> list[bool]:
    """Which outcomes were taken; then a little trimming of the tasks that they belong to."""
    answers = _write_as_holder(slate, finishes, decide_finish)
    for name in sorted(slate.tasks):
        trim_task(slate, name)
    slate.save()
    return answers


def _write_as_holder(
    slate: Slate, asks: Sequence[AskT], decide: Callable[[Run | None, AskT], tuple[bool, Run | None]]
) -> list[bool]:
    """Which of the writes of runs' holders were taken: each is compared with the fence of its run."""
    slate.load_tasks((ask.task for ask in asks), create=False)
    slate.load_runs((ask.task, ask.run_id) for ask in asks)
    answers: list[bool] = []
    for ask in asks:
        taken, run = decide(slate.run(ask.task, ask.run_id), ask)
        if run is not None:
            slate.put(run)
        answers.append(taken)
    slate.save()
    return answers


def arrive(connection: sqlite3.Connection, namespace: str, instance: InstanceRecord, now_ms: int) -> None:
    """An instance is alive."""
    connection.execute(
        sql("instance_arrives"),
        {
            "namespace": namespace,
            "instance_id": instance.instance_id,
            "host": instance.host,
            "pid": instance.pid,
            "version": instance.version,
            "python": instance.python,
            "tz_database": instance.tz_database,
            "lease_ms": instance.lease_ms,
            "now_ms": now_ms,
        },
    )


def leave(connection: sqlite3.Connection, namespace: str, instance_id: str) -> None:
    """An instance has gone."""
    connection.execute(sql("instance_leaves"), {"namespace": namespace, "instance_id": instance_id})


def now(_connection: sqlite3.Connection, now_ms: int) -> int:
    """The store's clock."""
    return now_ms


def schema(connection: sqlite3.Connection, _now_ms: int) -> int:
    """The version of the file."""
    return schema_of(connection)[0]


def survey(slate: Slate, instance: InstanceRecord, lease_ms: int, page: str | None) -> SurveyAnswer:
    """Stamp the instance as alive, and tell what is owed."""
    connection, now_ms = slate.connection, slate.now_ms
    place = {"namespace": slate.namespace, "now_ms": now_ms}
    me = {**place, "instance_id": instance.instance_id, "lease_ms": lease_ms}
    if connection.execute(sql("instance_seen"), me).rowcount == 0:
        arrive(connection, slate.namespace, instance, now_ms)
        connection.execute(sql("instance_seen"), me)
    after_end, after_task, after_run_id = (-1, "", "") if page is None else json.loads(page)
    after = {"after_end": after_end, "after_task": after_task, "after_run_id": after_run_id}
    # One more than a page, to see whether there is another.
    rows = connection.execute(sql("owed_runs"), {**place, **after, "limit": SURVEY_PAGE + 1}).fetchall()
    owed = tuple(run_of(task, tuple(row)) for task, *row in rows[:SURVEY_PAGE])
    earliest = connection.execute(sql("earliest_lease_end"), place).fetchone()
    (shortest,) = connection.execute(
        sql("shortest_other_lease"), {**me, "alive_after_ms": now_ms - ALIVE_MS}
    ).fetchone()
    return SurveyAnswer(
        store_now_ms=now_ms,
        owed=owed,
        next_page=None
        if len(rows) <= SURVEY_PAGE
        else json.dumps((owed[-1].lease_ends_at_ms, owed[-1].task, owed[-1].run_id)),
        earliest_lease_end_ms=None if earliest is None else earliest[0],
        shortest_other_lease_ms=shortest,
        sweep=page is None and _take_sweep_turn(connection, place, now_ms),
    )


def _take_sweep_turn(connection: sqlite3.Connection, place: Mapping[str, object], now_ms: int) -> bool:
    swept = connection.execute(sql("swept_at"), place).fetchone()
    due = sweep_is_due(None if swept is None else swept[0], now_ms)
    if due:
        connection.execute(sql("give_sweep_turn"), place)
    return due
