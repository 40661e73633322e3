"""Rows to values and back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TypeAlias

from anarchon.model.run import Attempt, Pause, Run, Skip

Row: TypeAlias = tuple[Any, ...]
Values: TypeAlias = dict[str, Any]


def run_of(task: str, row: Row) -> Run:
    """A run from the columns that every statement about runs selects; the first is the task's id."""
    (
        _task_id,
        run_id,
        slot_ms,
        scheduled_at_ms,
        reason,
        status,
        instance_id,
        token,
        attempt,
        max_attempts,
        fence,
        lease_ends_at_ms,
        claimed_at_ms,
        started_at_ms,
        finished_at_ms,
        error,
        traceback,
        checkpoint,
        attempts,
    ) = row
    return Run(
        run_id=run_id,
        task=task,
        slot_ms=slot_ms,
        scheduled_at_ms=scheduled_at_ms,
        reason=reason,
        status=status,
        instance_id=instance_id,
        token=token,
        attempt=attempt,
        max_attempts=max_attempts,
        fence=fence,
        lease_ends_at_ms=lease_ends_at_ms,
        claimed_at_ms=claimed_at_ms,
        started_at_ms=started_at_ms,
        finished_at_ms=finished_at_ms,
        error=error,
        traceback=traceback,
        checkpoint=checkpoint,
        attempts=tuple(_attempt_of(each) for each in json.loads(attempts)),
    )


def run_values(task_id: int, run: Run) -> Values:
    """A run as the parameters of add_run and save_run."""
    return {
        "task_id": task_id,
        "run_id": run.run_id,
        "slot_ms": run.slot_ms,
        "scheduled_at_ms": run.scheduled_at_ms,
        "reason": run.reason,
        "status": run.status,
        "instance_id": run.instance_id,
        "token": run.token,
        "attempt": run.attempt,
        "max_attempts": run.max_attempts,
        "fence": run.fence,
        "lease_ends_at_ms": run.lease_ends_at_ms,
        "claimed_at_ms": run.claimed_at_ms,
        "started_at_ms": run.started_at_ms,
        "finished_at_ms": run.finished_at_ms,
        "error": _storable(run.error),
        "traceback": _storable(run.traceback),
        "checkpoint": _storable(run.checkpoint),
        "attempts": json.dumps([_attempt_values(each) for each in run.attempts], separators=(",", ":")),
    }


def _storable(text: str | None) -> str | None:
    # What a handler raises may quote file names that are not Unicode; SQLite takes none of that.
    return None if text is None else text.encode("utf-8", "backslashreplace").decode("utf-8")


def _attempt_of(values: Values) -> Attempt:
    return Attempt(
        number=values["number"],
        instance_id=values["instance_id"],
        reason=values["reason"],
        claimed_at_ms=values["claimed_at_ms"],
        started_at_ms=values["started_at_ms"],
        ended_at_ms=values["ended_at_ms"],
        status=values["status"],
        outlived=values["outlived"],
        handler_ended_at_ms=values["handler_ended_at_ms"],
    )


def _attempt_values(attempt: Attempt) -> Values:
    return {
        "number": attempt.number,
        "instance_id": attempt.instance_id,
        "reason": attempt.reason,
        "claimed_at_ms": attempt.claimed_at_ms,
        "started_at_ms": attempt.started_at_ms,
        "ended_at_ms": attempt.ended_at_ms,
        "status": attempt.status,
        "outlived": attempt.outlived,
        "handler_ended_at_ms": attempt.handler_ended_at_ms,
    }


def skip_of(task: str, row: Row) -> Skip:
    """A skip from the columns that every statement about skips selects; the first is the task's id."""
    _task_id, slot_ms, reason, instance_id, at_ms, until_ms, token, detail, met_run_id, took_up = row
    return Skip(
        task=task,
        slot_ms=slot_ms,
        reason=reason,
        instance_id=instance_id,
        at_ms=at_ms,
        until_ms=until_ms,
        token=token,
        detail=detail,
        met_run_id=met_run_id,
        took_up=bool(took_up),
    )


def skip_values(task_id: int, skip: Skip) -> Values:
    """A skip as the parameters of add_skip."""
    return {
        "task_id": task_id,
        "slot_ms": skip.slot_ms,
        "reason": skip.reason,
        "instance_id": skip.instance_id,
        "at_ms": skip.at_ms,
        "until_ms": skip.until_ms,
        "token": skip.token,
        "detail": skip.detail,
        "met_run_id": skip.met_run_id,
        "took_up": skip.took_up,
    }


def pauses_of(text: str) -> tuple[Pause, ...]:
    """The spans in which a task was paused."""
    return tuple(Pause(from_ms=each["from_ms"], to_ms=each["to_ms"], by=each["by"]) for each in json.loads(text))


def pauses_text(pauses: Sequence[Pause]) -> str:
    """What is stored of them."""
    spans = [{"from_ms": each.from_ms, "to_ms": each.to_ms, "by": each.by} for each in pauses]
    return json.dumps(spans, separators=(",", ":"))
