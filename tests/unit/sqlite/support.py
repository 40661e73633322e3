"""Short ways to ask a SQLite backend, and another program that holds the lock."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import asynccontextmanager, contextmanager
from functools import update_wrapper
from pathlib import Path
from typing import Any, ParamSpec

from anarchon.model.asks import Claim, InstanceRecord, LeaseTerms, Won
from anarchon.model.run import Run, run_id_of_slot
from anarchon_sqlite import SQLiteBackend

Params = ParamSpec("Params")

SLOT = 1_900_000_000_000


def on_a_loop(test: Callable[Params, Coroutine[Any, Any, None]]) -> Callable[Params, None]:
    """Run an `async def` test."""

    def run(*args: Params.args, **kwargs: Params.kwargs) -> None:
        async def play() -> None:
            async with asyncio.timeout(60):
                await test(*args, **kwargs)

        asyncio.run(play())

    update_wrapper(run, test)
    return run


def instance(instance_id: str) -> InstanceRecord:
    # Not that of the conformance kit, which imports pytest: the processes of these tests start in a third of the time.
    return InstanceRecord(
        instance_id=instance_id, host="test", pid=1, version="1", python="3", tz_database="", lease_ms=15_000
    )


@asynccontextmanager
async def opened(
    path: Path | str, instance_id: str | None = "a", **options: Any
) -> AsyncGenerator[SQLiteBackend, None]:
    backend = SQLiteBackend(path, **options)
    await backend.open("ns", None if instance_id is None else instance(instance_id))
    try:
        yield backend
    finally:
        await backend.close()


def ask(slot: int = 0, *, task: str = "t", by: str = "a") -> Claim[LeaseTerms]:
    slot_ms = SLOT + slot * 1_000
    return Claim(
        task=task,
        slot_ms=slot_ms,
        run_id=run_id_of_slot("ns", task, slot_ms),
        token=f"{by}:{slot_ms}",
        instance_id=by,
        reason="schedule",
        terms=LeaseTerms(lease_ms=15_000, overlap="allow", max_attempts=3),
    )


async def win(backend: SQLiteBackend, slot: int = 0, *, task: str = "t", by: str = "a") -> Run:
    (answer,) = await backend.claim([ask(slot, task=task, by=by)])
    assert isinstance(answer, Won), answer
    return answer.run


@contextmanager
def foreign(path: Path) -> Generator[sqlite3.Connection, None, None]:
    """Another program's connection."""
    connection = sqlite3.connect(path, isolation_level=None, timeout=5)
    try:
        yield connection
    finally:
        connection.close()


@contextmanager
def locked(path: Path) -> Generator[sqlite3.Connection, None, None]:
    """Another program holds the write lock."""
    with foreign(path) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield connection
        if connection.in_transaction:
            connection.execute("ROLLBACK")
