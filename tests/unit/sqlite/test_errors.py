"""Every exception of sqlite3 becomes one of ours, with its cause."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from anarchon.errors import BackendError, BackendMisconfiguredError, BackendUnavailableError, OutcomeUnknownError
from anarchon_sqlite.errors import CommitError, commit_errors, is_busy, spoils_connection, translated


def raised(code: int, message: str = "what SQLite says") -> sqlite3.OperationalError:
    error = sqlite3.OperationalError(message)
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    ("code", "ours"),
    [
        (sqlite3.SQLITE_BUSY, BackendUnavailableError),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, BackendUnavailableError),
        (sqlite3.SQLITE_BUSY_RECOVERY, BackendUnavailableError),
        (sqlite3.SQLITE_LOCKED, BackendUnavailableError),
        (sqlite3.SQLITE_PROTOCOL, BackendUnavailableError),
        (sqlite3.SQLITE_FULL, BackendUnavailableError),
        (sqlite3.SQLITE_IOERR, BackendUnavailableError),
        (sqlite3.SQLITE_IOERR_WRITE, BackendUnavailableError),
        (sqlite3.SQLITE_NOMEM, BackendUnavailableError),
        (sqlite3.SQLITE_READONLY_DBMOVED, BackendUnavailableError),
        (sqlite3.SQLITE_READONLY, BackendMisconfiguredError),
        (sqlite3.SQLITE_CANTOPEN, BackendMisconfiguredError),
        (sqlite3.SQLITE_NOTADB, BackendMisconfiguredError),
        (sqlite3.SQLITE_CORRUPT, BackendMisconfiguredError),
        (sqlite3.SQLITE_PERM, BackendMisconfiguredError),
        (sqlite3.SQLITE_ERROR, BackendMisconfiguredError),
        (sqlite3.SQLITE_CONSTRAINT_UNIQUE, BackendMisconfiguredError),
    ],
)
def test_a_result_code_has_one_meaning_and_the_message_names_the_file(code: int, ours: type[BackendError]) -> None:
    error = raised(code)

    told = translated(error, "/nowhere/x.db")

    assert type(told) is ours
    assert told.__cause__ is error
    assert "/nowhere/x.db" in str(told)
    assert "what SQLite says" in str(told)


def test_a_file_that_exists_and_cannot_be_opened_just_now_passes(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    path.touch()

    assert type(translated(raised(sqlite3.SQLITE_CANTOPEN), str(path))) is BackendUnavailableError


@pytest.mark.parametrize("error", [OverflowError("too large"), KeyError("x"), sqlite3.ProgrammingError("closed")])
def test_whatever_else_is_raised_is_ours_too(error: Exception) -> None:
    told = translated(error, "x.db")

    assert type(told) is BackendMisconfiguredError
    assert told.__cause__ is error


def test_an_error_of_ours_is_made_anew_for_each_caller() -> None:
    error = BackendMisconfiguredError("why")

    told = translated(error, "x.db")

    assert (type(told), str(told)) == (BackendMisconfiguredError, "why")
    assert told is not error


def test_an_error_at_the_end_of_a_transaction_leaves_the_outcome_unknown() -> None:
    error = raised(sqlite3.SQLITE_IOERR_FSYNC)

    with pytest.raises(CommitError) as caught, commit_errors():
        raise error

    told = translated(caught.value, "x.db")
    assert type(told) is OutcomeUnknownError
    assert told.__cause__ is error


def test_a_lock_that_was_not_to_be_had_at_the_end_is_not_unknown() -> None:
    with pytest.raises(sqlite3.OperationalError), commit_errors():
        raise raised(sqlite3.SQLITE_BUSY)


@pytest.mark.parametrize(
    ("code", "busy", "spoils"),
    [
        (sqlite3.SQLITE_BUSY, True, False),
        (sqlite3.SQLITE_LOCKED, True, False),
        (sqlite3.SQLITE_CONSTRAINT, False, False),
        (sqlite3.SQLITE_IOERR, False, True),
        (sqlite3.SQLITE_CORRUPT, False, True),
        (sqlite3.SQLITE_NOTADB, False, True),
    ],
)
def test_which_errors_are_waited_out_and_which_need_a_new_connection(code: int, busy: bool, spoils: bool) -> None:
    assert (is_busy(raised(code)), spoils_connection(raised(code))) == (busy, spoils)
