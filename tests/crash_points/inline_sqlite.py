"""SQLite without its thread, so that its transactions happen in virtual time, one after the other, on the loop."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar
from unittest.mock import patch

import anarchon_sqlite.backend
from anarchon_sqlite.connection import Link
from anarchon_sqlite.thread import Answer, FileThread, Request

ResultT = TypeVar("ResultT")


class InlineThread(FileThread):
    """Does each piece of work when it is asked to."""

    def __init__(self, path: str, connect: Callable[[], Link], clock: Callable[[], int] | None) -> None:
        self._path = path
        self._connect = connect
        self._clock = clock
        self._link = None

    def submit(
        self, work: Callable[[sqlite3.Connection, int], ResultT], *, writes: bool, busy_ms: int
    ) -> Request[ResultT]:
        """Nobody else holds the lock, since each transaction ends before the next begins."""
        request = Request(self._path, work, writes=writes, busy_ms=busy_ms)
        waits = self._write([request]) if writes else self._read([request])
        assert not waits, "two transactions at once on one thread"
        return request

    async def stop(self) -> None:
        """Close the connection."""
        self._disconnect()

    def _answer(self, answers: Sequence[Answer]) -> None:
        for request, result, error in answers:
            request.settle(result, error)


@contextmanager
def sqlite_inline() -> Generator[None, Any, None]:
    """SQLite backends made inside have no thread."""
    with patch.object(anarchon_sqlite.backend, "FileThread", InlineThread):
        yield
