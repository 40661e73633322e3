"""What sqlite3 raises, in anarchon's words. Nothing else in this package decides what a driver's exception means."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from anarchon.errors import BackendError, BackendMisconfiguredError, BackendUnavailableError, OutcomeUnknownError

BUSY: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL})
"""Somebody else holds the lock: nothing was applied, and waiting helps."""

# Primary result code -> what it is called here, and the way out. What is not named here is misconfigured.
_PASSING: Final = {
    sqlite3.SQLITE_BUSY: "is locked by another program, which has to end its transaction",
    sqlite3.SQLITE_LOCKED: "is locked by another program, which has to end its transaction",
    sqlite3.SQLITE_PROTOCOL: "is locked by another program, which has to end its transaction",
    sqlite3.SQLITE_NOMEM: "could not be worked on: this process is out of memory",
    sqlite3.SQLITE_INTERRUPT: "could not be worked on: the statement was interrupted",
    sqlite3.SQLITE_IOERR: "met an I/O error: look at the disk and the system's log",
    sqlite3.SQLITE_FULL: "cannot grow: free space on its disk",
    sqlite3.SQLITE_SCHEMA: "changed its schema while a statement ran",
}
_LASTING: Final = {
    sqlite3.SQLITE_NOTADB: "is not a SQLite database, or is encrypted: name another file, or move this one away",
    sqlite3.SQLITE_CORRUPT: "is damaged: restore it from a backup, or move it away to start with an empty one",
    sqlite3.SQLITE_READONLY: (
        "may not be written by this user: grant write permission on the file and on its directory, in which SQLite "
        "keeps the -wal and -shm files beside it"
    ),
    sqlite3.SQLITE_PERM: "may not be opened by this user: grant permission on the file and on its directory",
    sqlite3.SQLITE_CANTOPEN: (
        "cannot be opened: its directory must exist, and this user needs write permission on the file and on the "
        "directory, in which SQLite keeps the -wal and -shm files beside it"
    ),
}

# The connection is as good as before; after anything else it is opened anew.
_HARMLESS: Final = BUSY | {sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH}


def code_of(error: BaseException) -> int:
    """The primary result code, or SQLITE_ERROR where the error has none."""
    code = getattr(error, "sqlite_errorcode", None)
    return code & 0xFF if isinstance(code, int) else sqlite3.SQLITE_ERROR


def is_busy(error: BaseException) -> bool:
    """Whether somebody else held the lock."""
    return isinstance(error, sqlite3.Error) and code_of(error) in BUSY


def spoils_connection(error: BaseException) -> bool:
    """Whether the connection has to be opened anew after this error."""
    return not isinstance(error, sqlite3.Error) or code_of(error) not in _HARMLESS


class CommitError(Exception):
    """COMMIT raised its cause: the transaction may come back from the log when the file is opened next."""


def translated(error: BaseException, path: str) -> BackendError:
    """The error to raise for `error`, which stays its cause. The transaction in which it arose was rolled back."""
    if isinstance(error, BackendError):
        # Every caller gets an exception of its own: one that several raise would gather their tracebacks.
        mine: BackendError = type(error)(*error.args)
        cause: BaseException = error.__cause__ or error
    elif isinstance(error, CommitError):
        cause = error.__cause__ or error
        mine = OutcomeUnknownError(f"{path}: the end of a transaction failed: {_told(cause)}")
    elif isinstance(error, sqlite3.Error):
        mine, cause = _of_sqlite(error, path), error
    else:
        cause = error
        mine = BackendMisconfiguredError(f"{path}: a request could not be worked on: {_told(error)}")
    mine.__cause__ = cause
    return mine


def _of_sqlite(error: sqlite3.Error, path: str) -> BackendError:
    code = code_of(error)
    if code == sqlite3.SQLITE_CANTOPEN and _seems_usable(path):
        # Also what SQLite says when the process has no file descriptor left, which passes.
        return BackendUnavailableError(f"{path} cannot be opened just now: {_told(error)}")
    if code == sqlite3.SQLITE_READONLY and error.sqlite_errorcode == sqlite3.SQLITE_READONLY_DBMOVED:
        return BackendUnavailableError(f"{path} was moved away while it was open: {_told(error)}")
    if code in _PASSING:
        return BackendUnavailableError(f"{path} {_PASSING[code]} ({_told(error)})")
    if code in _LASTING:
        return BackendMisconfiguredError(f"{path} {_LASTING[code]} ({_told(error)})")
    return BackendMisconfiguredError(f"{path}: SQLite refused a statement: {_told(error)}")


def _seems_usable(path: str) -> bool:
    return (
        os.path.isfile(path)
        and os.access(path, os.R_OK | os.W_OK)
        and os.access(os.path.dirname(path), os.W_OK | os.X_OK)
    )


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


@contextmanager
def commit_errors() -> Generator[None, None, None]:
    """Around COMMIT: an error there leaves the outcome unknown, unless the lock was not to be had."""
    try:
        yield
    except sqlite3.Error as error:
        if is_busy(error):
            raise
        raise CommitError from error
