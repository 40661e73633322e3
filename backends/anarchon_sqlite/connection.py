"""Opening the file, and noticing that it is no longer the one that was opened."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Final, Literal, TypeAlias

from anarchon.errors import BackendMisconfiguredError
from anarchon_sqlite import migrate
from anarchon_sqlite.statements import sql

Synchronous: TypeAlias = Literal["FULL", "NORMAL"]

SLICE_MS: Final = 100
"""How long SQLite itself waits for a lock before the thread looks whether somebody has given up."""

# Upserts, row values and json_each, which every build has from this version on.
_OLDEST: Final = (3, 31, 0)

_SYNCHRONOUS: Final[dict[Synchronous, str]] = {
    "FULL": "PRAGMA synchronous = FULL",
    "NORMAL": "PRAGMA synchronous = NORMAL",
}


class Link:
    """A connection to one file. Made, used and closed on one thread; making it never waits longer than a slice."""

    def __init__(self, path: str, *, synchronous: Synchronous, creates: bool, reads_only: bool) -> None:
        """Raises sqlite3.Error, or BackendMisconfiguredError, and leaves nothing open then."""
        if sqlite3.sqlite_version_info < _OLDEST:
            raise BackendMisconfiguredError(
                f"SQLite {sqlite3.sqlite_version} is too old: 3.31 or later is needed; use a newer Python"
            )
        self.path = path
        if not creates and not os.path.exists(path):
            raise BackendMisconfiguredError(
                f"{path} does not exist: start a scheduler on it, or migrate() it, before reading from it"
            )
        # By URI, because only that can say "do not create"; as_uri quotes what a path may hold.
        self.connection = sqlite3.connect(
            f"{Path(path).as_uri()}?mode={'rwc' if creates else 'rw'}",
            uri=True,
            timeout=SLICE_MS / 1_000,
            isolation_level=None,
            cached_statements=256,
        )
        try:
            if not creates:
                migrate.check(self.connection, self.path)
            if reads_only:
                self.connection.execute("PRAGMA query_only = ON")
            else:
                self._prepare_to_write(synchronous)
            self._identity = _identity(path)
        except BaseException:
            self.connection.close()
            raise

    def _prepare_to_write(self, synchronous: Synchronous) -> None:
        (mode,) = self.connection.execute("PRAGMA journal_mode").fetchone()
        if mode != "wal":
            (mode,) = self.connection.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            raise BackendMisconfiguredError(
                f"{self.path} cannot use write-ahead logging (journal mode {mode!r}): it needs a local disk, since "
                "network file systems have no shared memory"
            )
        self.connection.execute(_SYNCHRONOUS[synchronous])
        self.connection.execute("PRAGMA journal_size_limit = 67108864")
        self.schema = migrate.migrate(self.connection, self.path)

    def is_current(self) -> bool:
        """Whether the path still names the file that was opened."""
        return _identity(self.path) == self._identity

    def now_ms(self, instead: int | None) -> int:
        """The store's clock; to be asked once the lock is had."""
        (now_ms,) = self.connection.execute(sql("clock"), {"now_ms": instead}).fetchone()
        return int(now_ms)

    def close(self) -> None:
        """Let go of the file. The last one to do so folds the log into it."""
        self.connection.close()


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
