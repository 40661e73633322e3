"""`anarchon history`: what ran, when and how it ended, read from a store without taking part in it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import typer
from rich.console import Console
from rich.text import Text

from anarchon.cli.output import (
    clean,
    clock_time,
    complain,
    duration,
    iso_or_none,
    lines_on_stdout,
    local_time,
    print_json,
    refusals,
    refuse,
    styled,
)
from anarchon.errors import AnarchonError
from anarchon.model.run import Attempt, Run
from anarchon.registry import open_backend
from anarchon.times.zones import Zone, zone

MOST: Final = 10_000
"""The most runs of a task that one call lists."""

STYLES: Final = {
    "succeeded": "green",
    "failed": "red",
    "interrupted": "red",
    "running": "cyan",
    "handed-over": "yellow",
}


@dataclass(frozen=True, slots=True)
class _Shown:
    """What a store told."""

    backend: str
    namespace: str
    known: Sequence[str]
    runs: Mapping[str, Sequence[Run]]


def history(
    task: Annotated[
        str | None, typer.Argument(metavar="[TASK]", show_default=False, help="One task; without it every task.")
    ] = None,
    backend: Annotated[
        str | None,
        typer.Option(
            "--backend",
            metavar="URL",
            envvar="ANARCHON_BACKEND",
            show_default=False,
            help="The store, such as sqlite:///app.db.",
        ),
    ] = None,
    namespace: Annotated[str, typer.Option("--namespace", metavar="NAME", help="Whose tasks.")] = "default",
    count: Annotated[int, typer.Option("-n", metavar="N", min=1, max=MOST, help="How many runs of each task.")] = 10,
    tz: Annotated[str, typer.Option("--tz", metavar="ZONE", help="The zone in which times are shown.")] = "UTC",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """List the runs that a store knows, newest first.

    The store is opened for reading: nothing is created and no instance appears.

    Example: anarchon history nightly --backend sqlite:///app.db -n 5
    """
    if not backend:
        refuse("which store? Give --backend URL, such as --backend sqlite:///app.db, or set ANARCHON_BACKEND")
    with refusals():
        in_zone = zone(tz)
        try:
            shown = asyncio.run(_read(backend, namespace, task, count))
        except AnarchonError as error:
            raise type(error)(without_url(str(error), backend)) from None
    if task is not None and task not in shown.known:
        names = ", ".join(map(repr, shown.known)) or "none"
        refuse(f"{shown.backend} knows no task {task!r} in namespace {namespace!r}; it knows: {names}")
    if as_json:
        print_json(_document(shown))
        return
    if not shown.runs:
        complain(f"{shown.backend} knows no task in namespace {namespace!r}")
    out = lines_on_stdout()
    for number, (name, runs) in enumerate(shown.runs.items()):
        if number:
            out.print()
        _print_task(out, name, runs, in_zone)


def without_url(message: str, url: str) -> str:
    """The message with no more of the URL than its scheme, whoever wrote it."""
    try:
        parts = urlsplit(url)
        inner = [parts.netloc, parts.password] if parts.password else []
    except ValueError:
        inner = []
    for secret in (url, *inner):
        message = message.replace(secret or url, "***")
    return message


async def _read(url: str, namespace: str, task: str | None, count: int) -> _Shown:
    backend = open_backend(url)
    try:
        await backend.open(namespace, None)
        known = await backend.task_names()
        wanted = known if task is None else [name for name in known if name == task]
        runs = {name: await backend.history(name, count) for name in wanted}
    finally:
        await backend.close()
    return _Shown(backend.name, namespace, known, runs)


# ------------------------------------------------------------------ JSON


def _document(shown: _Shown) -> dict[str, Any]:
    return {
        "backend": shown.backend,
        "namespace": shown.namespace,
        "tasks": [{"task": task, "runs": [run_as_json(run) for run in runs]} for task, runs in shown.runs.items()],
    }


def run_as_json(run: Run) -> dict[str, Any]:
    """One run: each instant as epoch ms (`..._ms`) and in ISO 8601, durations in ms, null for what is not known."""
    return {
        "run_id": run.run_id,
        "task": run.task,
        "slot_ms": run.slot_ms,
        "slot": iso_or_none(run.slot_ms),
        "scheduled_at_ms": run.scheduled_at_ms,
        "scheduled_at": iso_or_none(run.scheduled_at_ms),
        "reason": run.reason,
        "status": run.status,
        "instance_id": run.instance_id,
        "attempt": run.attempt,
        "max_attempts": run.max_attempts,
        "fence": run.fence,
        "claimed_at_ms": run.claimed_at_ms,
        "claimed_at": iso_or_none(run.claimed_at_ms),
        "started_at_ms": run.started_at_ms,
        "started_at": iso_or_none(run.started_at_ms),
        "finished_at_ms": run.finished_at_ms,
        "finished_at": iso_or_none(run.finished_at_ms),
        "late_ms": late_ms(run),
        "duration_ms": duration_ms(run),
        "error": run.error,
        "attempts": [_attempt_as_json(attempt) for attempt in run.attempts],
    }


def _attempt_as_json(attempt: Attempt) -> dict[str, Any]:
    return {
        "number": attempt.number,
        "instance_id": attempt.instance_id,
        "reason": attempt.reason,
        "status": attempt.status,
        "claimed_at_ms": attempt.claimed_at_ms,
        "claimed_at": iso_or_none(attempt.claimed_at_ms),
        "started_at_ms": attempt.started_at_ms,
        "started_at": iso_or_none(attempt.started_at_ms),
        "ended_at_ms": attempt.ended_at_ms,
        "ended_at": iso_or_none(attempt.ended_at_ms),
    }


def late_ms(run: Run) -> int | None:
    """How long after its slot the last attempt began."""
    return None if run.started_at_ms is None else run.started_at_ms - run.scheduled_at_ms


def duration_ms(run: Run) -> int | None:
    """How long the last attempt took."""
    if run.started_at_ms is None or run.finished_at_ms is None:
        return None
    return run.finished_at_ms - run.started_at_ms


# ------------------------------------------------------------------ lines


def _print_task(out: Console, name: str, runs: Sequence[Run], in_zone: Zone) -> None:
    out.print(styled((clean(name), "bold"), "" if runs else ": no run yet"))
    if not runs:
        return
    rows = [
        (
            local_time(run.scheduled_at_ms, in_zone),
            run.reason,
            run.status,
            _started(run, in_zone),
            "" if (late := late_ms(run)) is None else duration(late),
            "" if (took := duration_ms(run)) is None else duration(took),
        )
        for run in runs
    ]
    head = ("slot", "reason", "status", "started", "late", "took")
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    out.print(styled(("  " + _row(head, widths), "dim")))
    for run, row in zip(runs, rows, strict=True):
        line = Text(f"  {_row(row, widths)}", no_wrap=True)
        begin = 2 + widths[0] + 2 + widths[1] + 2
        line.stylize(STYLES.get(run.status, ""), begin, begin + len(run.status))
        out.print(line)
        for attempt in _attempts(run):
            out.print(styled((f"      {attempt}", "dim")))
        if run.error is not None:
            out.print(styled((f"      {clean(run.error)}", "red")))


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def _started(run: Run, in_zone: Zone) -> str:
    if run.started_at_ms is None:
        return ""
    return clock_time(run.started_at_ms + in_zone.offset_at(run.started_at_ms // 1_000) * 1_000)


def _attempts(run: Run) -> list[str]:
    """Who ran it; with more than one attempt also why each began and how it ended."""
    if len(run.attempts) <= 1:
        return [f"on {clean(run.instance_id)}"]
    return [
        f"attempt {attempt.number} ({attempt.reason}) on {clean(attempt.instance_id)}: {attempt.status}"
        for attempt in run.attempts
    ]
