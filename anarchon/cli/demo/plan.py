"""What the demo runs: three tasks, the same in every process."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from anarchon.context import RunContext
from anarchon.scheduler import Scheduler
from anarchon_sqlite import SQLiteBackend

NAMESPACE: Final = "demo"
PROCESSES: Final = ("A", "B", "C")

FAST: Final = "fast"
MINUTE: Final = "minute"
LONG: Final = "long"
TASKS: Final = (FAST, MINUTE, LONG)

STORE: Final = "demo.db"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long things take."""

    lease_ms: int = 3_000
    """Short, so that a run of the killed process is soon free for another."""
    long_every_ms: int = 10_000
    long_takes_ms: int = 6_000
    beat_ms: int = 500
    """How often the long handler writes that it is alive."""
    kill_after_ms: int = 2_500
    """How far the long handler gets before its process is killed."""


DEFAULT_PACE: Final = Pace()


def _nothing(ctx: RunContext) -> None: ...


@dataclass(frozen=True, slots=True)
class Handlers:
    """What the tasks do; by default nothing, which is enough for a scheduler that is only asked for its slots."""

    short: Callable[[RunContext], object] = _nothing
    long: Callable[[RunContext], object] = _nothing


_NO_HANDLERS: Final = Handlers()


def make_scheduler(
    store: str | os.PathLike[str], pace: Pace, handlers: Handlers = _NO_HANDLERS, instance_id: str | None = None
) -> Scheduler[SQLiteBackend]:
    """The scheduler that every process of the demo makes. Does no I/O."""
    scheduler = Scheduler(
        SQLiteBackend(store), namespace=NAMESPACE, instance_id=instance_id, lease_ttl_ms=pace.lease_ms, jitter_ms=250
    )
    scheduler.every(FAST, "1s", handlers.short, overlap="allow")
    scheduler.cron(MINUTE, "* * * * *", handlers.short, timeout_ms=10_000)
    # Half an interval off the full minute, so that the demo's end does not find it at work.
    offset_ms = pace.long_every_ms // 2
    timeout_ms = 10 * pace.long_takes_ms
    scheduler.every(LONG, pace.long_every_ms, handlers.long, offset_ms=offset_ms, overlap="skip", timeout_ms=timeout_ms)
    return scheduler
