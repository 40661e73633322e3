"""Opening a file: what is made, what is refused, and in which words."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from anarchon.errors import BackendMisconfiguredError, BackendUnavailableError, StateError
from anarchon.model.asks import LOST
from anarchon.testing.conformance.kit import finish, record
from anarchon_sqlite import SQLiteBackend, migrate
from tests.unit.sqlite.support import ask, foreign, instance, locked, on_a_loop, opened, win

ROOT = Path(__file__).parents[3]


@on_a_loop
async def test_a_missing_file_is_made_with_write_ahead_logging(tmp_path: Path) -> None:
    async with opened(tmp_path / "x.db") as backend:
        await win(backend)

    with foreign(tmp_path / "x.db") as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("SELECT count(*) FROM anarchon_run").fetchone() == (1,)


@on_a_loop
async def test_the_last_one_to_close_leaves_one_file(tmp_path: Path) -> None:
    async with opened(tmp_path / "x.db", "a") as one:
        async with opened(tmp_path / "x.db", "b") as two:
            await win(two)
        await win(one, 1)

    assert os.listdir(tmp_path) == ["x.db"]


@on_a_loop
async def test_the_store_s_clock_is_the_host_s(tmp_path: Path) -> None:
    (tmp_path / "before").touch()
    async with opened(tmp_path / "x.db") as backend:
        now_ms = (await backend.survey("a", 15_000)).store_now_ms
    (tmp_path / "after").touch()

    # A file system may stamp with the last tick of its own clock.
    assert (
        (tmp_path / "before").stat().st_mtime_ns // 1_000_000 - 20
        <= now_ms
        <= (tmp_path / "after").stat().st_mtime_ns // 1_000_000 + 20
    )


@on_a_loop
async def test_the_application_s_own_tables_are_left_alone(tmp_path: Path) -> None:
    with foreign(tmp_path / "x.db") as connection:
        connection.execute("CREATE TABLE task (id)")
        connection.execute("INSERT INTO task VALUES (7)")
        connection.execute("PRAGMA user_version = 42")

    async with opened(tmp_path / "x.db") as backend:
        await win(backend)

    with foreign(tmp_path / "x.db") as connection:
        assert connection.execute("SELECT id FROM task").fetchall() == [(7,)]
        assert connection.execute("PRAGMA user_version").fetchone() == (42,)


@on_a_loop
async def test_a_path_with_signs_of_urls_is_taken_literally(tmp_path: Path) -> None:
    odd = tmp_path / "a b?mode=ro#%20é.db"

    async with opened(odd) as backend:
        await win(backend)

    assert os.listdir(tmp_path) == [odd.name]


# ------------------------------------------------------------------ refused


@on_a_loop
async def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(BackendMisconfiguredError, match="directory must exist") as caught:
        await SQLiteBackend(tmp_path / "nowhere" / "x.db").open("ns", instance("a"))

    assert str(tmp_path / "nowhere" / "x.db") in str(caught.value)
    assert isinstance(caught.value.__cause__, sqlite3.OperationalError)


@on_a_loop
async def test_a_directory_in_the_file_s_place_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BackendMisconfiguredError, match="cannot be opened"):
        await SQLiteBackend(tmp_path).open("ns", instance("a"))


@pytest.mark.parametrize("content", [b"This is a diary, and not a database at all. " * 40, b"\0" * 5_000])
@on_a_loop
async def test_a_file_that_is_no_database_is_refused_and_left_as_it_is(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "diary"
    path.write_bytes(content)

    with pytest.raises(BackendMisconfiguredError, match="not a SQLite database") as caught:
        await SQLiteBackend(path).open("ns", instance("a"))

    assert isinstance(caught.value.__cause__, sqlite3.DatabaseError)
    assert path.read_bytes() == content


@on_a_loop
async def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    async with opened(path) as backend:
        await backend.register([record(f"task {number}") for number in range(500)])
    content = bytearray(path.read_bytes())
    content[4_096:] = b"\xa5" * (len(content) - 4_096)
    path.write_bytes(content)

    with pytest.raises(BackendMisconfiguredError, match="damaged"):
        async with opened(path) as backend:
            await win(backend)


@on_a_loop
async def test_a_backend_that_could_not_be_opened_can_be_opened_later(tmp_path: Path) -> None:
    backend = SQLiteBackend(tmp_path / "later" / "x.db")
    with pytest.raises(BackendMisconfiguredError):
        await backend.open("ns", instance("a"))
    (tmp_path / "later").mkdir()

    await backend.open("ns", instance("a"))
    await win(backend)
    await backend.close()


@on_a_loop
async def test_opening_a_locked_file_gives_up_in_time(tmp_path: Path) -> None:
    async with opened(tmp_path / "x.db") as backend:
        await win(backend)
    with locked(tmp_path / "x.db"), pytest.raises(BackendUnavailableError, match="locked by another program"):
        await SQLiteBackend(tmp_path / "x.db", busy_timeout_ms=200).open("ns", instance("b"))


READ_ONLY = """
import asyncio, os, sys
from anarchon.errors import BackendMisconfiguredError
from anarchon_sqlite import SQLiteBackend
from tests.unit.sqlite.support import instance
if os.getuid() == 0:
    os.setuid(65534)
async def main():
    backend = SQLiteBackend(sys.argv[1])
    try:
        await backend.open("ns", instance("a"))
        await backend.register([])
    except BackendMisconfiguredError as error:
        print(error)
    finally:
        await backend.close()
asyncio.run(main())
"""


@pytest.mark.processes
@pytest.mark.parametrize(("file_mode", "directory_mode"), [(0o444, 0o777), (0o666, 0o555), (0o000, 0o777)])
def test_missing_rights_are_named(file_mode: int, directory_mode: int, tmp_path: Path) -> None:
    directory = Path(os.path.realpath(tmp_path)) / "d"
    directory.mkdir()
    path = directory / "x.db"
    with foreign(path) as connection:
        connection.execute("CREATE TABLE mine (id)")
    path.chmod(file_mode)
    directory.chmod(directory_mode)
    for parent in directory.parents:
        # Temporary directories are private; another user has to get through.
        if parent.owner() == directory.owner() and parent != Path(parent.root) and "pytest" in str(parent):
            parent.chmod(stat.S_IMODE(parent.stat().st_mode) | 0o055)

    said = subprocess.run(
        [sys.executable, "-c", READ_ONLY, str(path)],
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'backends'}"},
        capture_output=True,
        text=True,
        check=False,
    )
    directory.chmod(0o777)

    assert str(path) in said.stdout, said.stderr
    assert "permission" in said.stdout


# ------------------------------------------------------------------ readers


@on_a_loop
async def test_a_reader_does_not_make_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(BackendMisconfiguredError, match="does not exist") as caught:
        await SQLiteBackend(tmp_path / "x.db").open("ns", None)

    assert str(tmp_path / "x.db") in str(caught.value)
    assert os.listdir(tmp_path) == []


@on_a_loop
async def test_a_reader_does_not_make_tables(tmp_path: Path) -> None:
    with foreign(tmp_path / "x.db") as connection:
        connection.execute("CREATE TABLE mine (id)")

    with pytest.raises(BackendMisconfiguredError, match="no tables of anarchon"):
        await SQLiteBackend(tmp_path / "x.db").open("ns", None)

    with foreign(tmp_path / "x.db") as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("mine",)]
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)


@on_a_loop
async def test_a_reader_cannot_write(tmp_path: Path) -> None:
    async with opened(tmp_path / "x.db"), opened(tmp_path / "x.db", None) as reader:
        with pytest.raises(StateError, match="opened for reading"):
            await reader.claim([ask()])
        with pytest.raises(StateError, match="opened for reading"):
            await reader.survey("a", 15_000)


@on_a_loop
async def test_a_reader_reads_while_another_program_holds_the_lock(tmp_path: Path) -> None:
    async with opened(tmp_path / "x.db") as writer:
        await writer.register([record()])
        await writer.finish([finish(await win(writer))])
        with locked(tmp_path / "x.db"):
            async with opened(tmp_path / "x.db", None) as reader:
                assert len(await reader.history("t", 10)) == 1
            assert list(await writer.task_names()) == ["t"]


# ------------------------------------------------------------------ the schema


@on_a_loop
async def test_migrating_by_hand_makes_the_file_and_may_be_repeated(tmp_path: Path) -> None:
    backend = SQLiteBackend(tmp_path / "x.db")

    assert await backend.migrate() == await backend.migrate() == migrate.migrations()[-1].version

    async with opened(tmp_path / "x.db", None) as reader:
        assert list(await reader.task_names()) == []


@on_a_loop
async def test_a_file_can_be_migrated_while_it_is_in_use(tmp_path: Path) -> None:
    async with opened(tmp_path / "x.db") as backend:
        await backend.migrate()
        await win(backend)


def newer(path: Path, compatible_with: int) -> None:
    with foreign(path) as connection:
        connection.execute("ALTER TABLE anarchon_run ADD COLUMN priority INTEGER")
        connection.execute("CREATE TABLE anarchon_trigger (id)")
        connection.execute("INSERT INTO anarchon_schema VALUES (99, 'future', ?)", (compatible_with,))


@on_a_loop
async def test_a_newer_file_that_is_marked_compatible_goes_on_working(tmp_path: Path) -> None:
    async with opened(tmp_path / "x.db") as running:
        run = await win(running)
        newer(tmp_path / "x.db", compatible_with=1)
        assert list(await running.finish([finish(run)])) == [True]

    async with opened(tmp_path / "x.db", "b") as started:
        assert list(await started.claim([ask(by="b")])) == [LOST]
        await win(started, 1, by="b")
    async with opened(tmp_path / "x.db", None) as reader:
        assert len(await reader.history("t", 10)) == 2


@pytest.mark.parametrize("instance_id", ["a", None])
@on_a_loop
async def test_a_newer_file_that_is_not_compatible_is_refused(instance_id: str | None, tmp_path: Path) -> None:
    await SQLiteBackend(tmp_path / "x.db").migrate()
    newer(tmp_path / "x.db", compatible_with=99)

    with pytest.raises(BackendMisconfiguredError, match=r"newer release.*upgrade anarchon"):
        async with opened(tmp_path / "x.db", instance_id):
            pass


def test_migrations_are_numbered_without_a_gap() -> None:
    known = migrate.migrations()

    assert [each.version for each in known] == list(range(1, len(known) + 1))
    assert all(1 <= each.compatible_with <= each.version for each in known)
