"""What a run of the demo leaves behind: the store's history, and what the handlers wrote down themselves."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, cast

from anarchon.cli.demo.plan import NAMESPACE, TASKS
from anarchon.context import RunContext
from anarchon.model.run import Run, Skip
from anarchon.protocol import Backend
from anarchon.times.instants import to_ms

What: TypeAlias = Literal["began", "alive", "ended", "stopped"]

MOST: Final = 10_000
"""How many runs and skips of a task are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerRecord:
    """One line that a handler wrote: the attempt it worked for and how far it was."""

    task: str
    slot_ms: int
    attempt: int
    instance_id: str
    what: What
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """The process that was killed, and the run it was at work on."""

    instance_id: str
    task: str
    slot_ms: int
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Everything the check looks at. By task: runs, skips and due slots."""

    runs: Mapping[str, Sequence[Run]]
    skips: Mapping[str, Sequence[Skip]]
    records: Sequence[HandlerRecord]
    unreadable: Sequence[str]
    """Where a handler's file holds something that is no record."""
    due: Mapping[str, Sequence[int]]
    kill: Kill | None


class HandlerFile:
    """The file that the handlers of one process append to, one line at a time."""

    def __init__(self, folder: Path, process: str, instance_id: str) -> None:
        # One system call per line, so that lines of two threads do not mix and a killed process takes none back.
        self._file = os.open(folder / f"handlers-{process}.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._instance_id = instance_id

    def write(self, ctx: RunContext, what: What, at_ms: int) -> None:
        """Write one record."""
        record = HandlerRecord(
            task=ctx.task,
            slot_ms=to_ms(ctx.scheduled_at),
            attempt=ctx.attempt,
            instance_id=self._instance_id,
            what=what,
            at_ms=at_ms,
        )
        os.write(self._file, f"{json.dumps(asdict(record))}\n".encode())

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def read_records(folder: Path) -> tuple[list[HandlerRecord], list[str]]:
    """Every record of every process, in the order of their instants, and the places that hold none."""
    found: list[HandlerRecord] = []
    unreadable: list[str] = []
    for path in sorted(folder.glob("handlers-*.jsonl")):
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            record = _record(line)
            if record is None:
                unreadable.append(f"{path.name}, line {number},")
            else:
                found.append(record)
    found.sort(key=lambda record: record.at_ms)
    return found, unreadable


def _record(line: str) -> HandlerRecord | None:
    try:
        given: object = json.loads(line)
    except ValueError:
        return None
    if not isinstance(given, dict):
        return None
    try:
        return HandlerRecord(**cast("dict[str, Any]", given))
    except TypeError:
        return None


async def read_evidence(
    store: Backend, folder: Path, *, due: Mapping[str, Sequence[int]], kill: Kill | None
) -> Evidence:
    """Everything that is known once the processes have ended."""
    records, unreadable = read_records(folder)
    await store.open(NAMESPACE, None)
    try:
        runs = {task: await store.history(task, MOST) for task in TASKS}
        skips = {task: await store.skips(task, MOST) for task in TASKS}
    finally:
        await store.close()
    return Evidence(runs=runs, skips=skips, records=records, unreadable=unreadable, due=due, kill=kill)
