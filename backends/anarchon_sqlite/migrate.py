"""Numbered migrations, forward only, each in one transaction that begins as a writer.

A migration says in its header which schema a release must know at least to go on working on the result, so that
the previous release keeps working during a deploy.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from anarchon.errors import BackendMisconfiguredError
from anarchon_sqlite.statements import sql

_COMPATIBLE = re.compile(r"^-- compatible-with: (\d+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Migration:
    """One file of `migrations/`."""

    version: int
    name: str
    compatible_with: int
    statements: tuple[str, ...]


@cache
def migrations() -> tuple[Migration, ...]:
    """All that this release knows, oldest first."""
    directory = files("anarchon_sqlite").joinpath("migrations")
    names = sorted(entry.name for entry in directory.iterdir() if entry.name.endswith(".sql"))
    return tuple(_parsed(name, directory.joinpath(name).read_text(encoding="utf-8")) for name in names)


def _parsed(name: str, text: str) -> Migration:
    compatible = _COMPATIBLE.search(text)
    assert compatible is not None, f"{name} does not say which releases can work on it"
    return Migration(int(name[:4]), name.removesuffix(".sql"), int(compatible[1]), tuple(_statements(text)))


def _statements(text: str) -> Iterator[str]:
    # Not executescript: it would commit the transaction that it is run in.
    statement = ""
    for line in text.splitlines(keepends=True):
        statement += line
        if line.rstrip().endswith(";") and sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def schema_of(connection: sqlite3.Connection) -> tuple[int, int]:
    """The version of the file and the oldest one that a release must know to work on it; 0, 0 for a file without."""
    if connection.execute(sql("schema_known")).fetchone() is None:
        return 0, 0
    version, compatible_with = connection.execute(sql("schema_version")).fetchone() or (0, 0)
    return version, compatible_with


def check(connection: sqlite3.Connection, path: str) -> None:
    """Refuse a file that this release cannot read."""
    known = migrations()[-1].version
    version, compatible_with = schema_of(connection)
    if version == 0:
        raise BackendMisconfiguredError(
            f"{path} holds no tables of anarchon: start a scheduler on it, or migrate() it, before reading from it"
        )
    if compatible_with > known:
        raise BackendMisconfiguredError(
            f"{path} was written by a newer release: its schema {version} needs a release that knows schema "
            f"{compatible_with}, and this one knows {known}; upgrade anarchon here"
        )


def migrate(connection: sqlite3.Connection, path: str) -> int:
    """Bring the file up to date, whoever else does so at the same time, and answer the schema it has then."""
    latest = migrations()[-1].version
    version, _ = schema_of(connection)
    if version < latest:
        connection.execute("BEGIN IMMEDIATE")
        try:
            # Read again: another instance may have been faster.
            version, _ = schema_of(connection)
            for migration in migrations():
                if migration.version > version:
                    _apply(connection, migration)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
    check(connection, path)
    return max(version, latest)


def _apply(connection: sqlite3.Connection, migration: Migration) -> None:
    for statement in migration.statements:
        connection.execute(statement)
    connection.execute(
        sql("add_schema"),
        {
            "version": migration.version,
            "name": migration.name,
            "compatible_with": migration.compatible_with,
        },
    )
