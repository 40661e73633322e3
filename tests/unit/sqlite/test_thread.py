"""The thread in front of the file: one bad request, a hanging disk, a commit that fails, a file that was replaced."""

from __future__ import annotations

import asyncio
import gc
import os
import sqlite3
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest

from anarchon.errors import (
    BackendError,
    BackendMisconfiguredError,
    BackendUnavailableError,
    OutcomeUnknownError,
    StateError,
)
from anarchon.model.asks import LOST, Won
from anarchon.testing.conformance.kit import finish, record
from anarchon_sqlite import SQLiteBackend, steps, thread
from anarchon_sqlite.connection import Link
from tests.unit.sqlite.support import ask, foreign, instance, locked, on_a_loop, opened, win


@on_a_loop
async def test_a_request_that_cannot_be_stored_fails_alone(tmp_path: Path) -> None:
    async with opened(tmp_path / "x.db") as backend:
        with locked(tmp_path / "x.db"):
            good = [asyncio.create_task(win(backend, slot)) for slot in range(3)]
            bad = asyncio.create_task(win(backend, 2**63))
            more = [asyncio.create_task(win(backend, slot)) for slot in range(3, 6)]
            await asyncio.sleep(0.05)

        runs = await asyncio.gather(*good, *more)
        with pytest.raises(BackendMisconfiguredError, match="OverflowError"):
            await bad

        assert {run.run_id for run in await backend.history("t", 10)} == {run.run_id for run in runs}


@on_a_loop
async def test_a_failed_commit_is_an_unknown_outcome_and_asking_again_settles_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = iter([True])

    class Failing(sqlite3.Connection):
        def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
            if sql == "COMMIT" and armed.is_set() and next(failures, False):
                error = sqlite3.OperationalError("disk I/O error")
                error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
                raise error
            return super().execute(sql, *parameters)

    armed = threading.Event()
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: connect(*a, factory=Failing, **k))
    async with opened(tmp_path / "x.db") as backend:
        armed.set()

        with pytest.raises(OutcomeUnknownError, match="disk I/O error") as caught:
            await win(backend)

        assert isinstance(caught.value.__cause__, sqlite3.OperationalError)
        assert (await win(backend)).instance_id == "a"


@on_a_loop
async def test_a_disk_that_hangs_is_given_up_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread, "GRACE_MS", 100)
    hanging, released = threading.Event(), threading.Event()
    finish_step = steps.finish

    def hang(*arguments: Any) -> Any:
        hanging.set()
        released.wait(10)
        return finish_step(*arguments)

    monkeypatch.setattr(steps, "finish", hang)
    async with opened(tmp_path / "x.db", busy_timeout_ms=200) as backend:
        await backend.register([record()])
        run = await win(backend)
        begun = asyncio.create_task(backend.finish([finish(run)]))
        await asyncio.to_thread(hanging.wait, 10)
        waiting = asyncio.create_task(win(backend, 1))

        with pytest.raises(OutcomeUnknownError):
            await begun
        with pytest.raises(BackendUnavailableError):
            await waiting

        released.set()
        assert list(await backend.finish([finish(run)])) == [True]
        assert [run.run_id for run in await backend.history("t", 10)] == [run.run_id]


@on_a_loop
async def test_many_requests_at_once_share_transactions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []
    read_clock = Link.now_ms

    def counted(link: Link, instead: int | None) -> int:
        begun.append(1)
        return read_clock(link, instead)

    monkeypatch.setattr(Link, "now_ms", counted)
    async with opened(tmp_path / "x.db") as backend:
        begun.clear()

        answers = await asyncio.gather(*(backend.claim([ask(slot)]) for slot in range(200)))

        assert all(isinstance(answer, Won) for (answer,) in answers)
        assert len(begun) < 50


# ------------------------------------------------------------------ the file is another one


def replace_with(other: Path, path: Path) -> None:
    """Restore a backup as one should."""
    for suffix in ("-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    os.replace(other, path)


@on_a_loop
async def test_a_file_that_was_replaced_is_used_at_once(tmp_path: Path) -> None:
    path, other = tmp_path / "x.db", tmp_path / "other.db"
    async with opened(other, "b") as backend:
        await win(backend, 5, by="b")
    async with opened(path) as backend:
        await win(backend, 1)
        replace_with(other, path)

        assert list(await backend.claim([ask(5)])) == [LOST]
        await win(backend, 1)


@on_a_loop
async def test_a_file_that_was_deleted_is_made_again_and_told_what_it_has_to_know(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    async with opened(path) as backend, opened(path, "b") as other:
        await backend.register([record("t", history_size=7)])
        first = await win(backend)
        for each in tmp_path.iterdir():
            each.unlink()

        second = await win(backend)

        assert (second.fence or 0) >= (first.fence or 0)
        assert list(await other.task_names()) == ["t"]
        assert (await other.survey("b", 15_000)).shortest_other_lease_ms == 15_000
        with foreign(path) as connection:
            assert connection.execute("SELECT history_size FROM anarchon_task").fetchall() == [(7,)]


@on_a_loop
async def test_a_store_that_is_away_for_a_while_is_found_again(tmp_path: Path) -> None:
    home, away = tmp_path / "home", tmp_path / "away"
    home.mkdir()
    async with opened(home / "x.db") as backend:
        await win(backend)
        home.rename(away)
        with pytest.raises(BackendError):
            await win(backend, 1)
        away.rename(home)

        assert (await win(backend, 1)).slot_ms is not None
        assert len(await backend.history("t", 10)) == 2


@on_a_loop
async def test_a_reader_notices_that_the_file_was_replaced(tmp_path: Path) -> None:
    path, other = tmp_path / "x.db", tmp_path / "other.db"
    async with opened(other) as backend:
        await backend.register([record("new")])
    async with opened(path) as backend:
        await backend.register([record("old")])
    async with opened(path, None) as reader:
        assert list(await reader.task_names()) == ["old"]
        replace_with(other, path)

        assert list(await reader.task_names()) == ["new"]


# ------------------------------------------------------------------ ending


@on_a_loop
async def test_nothing_is_left_open(tmp_path: Path) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        async with opened(tmp_path / "x.db") as backend:
            await win(backend)
        with pytest.raises(BackendMisconfiguredError):
            await SQLiteBackend(tmp_path / "nowhere" / "x.db").open("ns", instance("a"))
        with pytest.raises(BackendMisconfiguredError):
            await SQLiteBackend(tmp_path / "nothing.db").open("ns", None)
        del backend
        gc.collect()

    assert [str(each.message) for each in caught] == []
    assert not [each for each in os.listdir("/proc/self/fd") if "x.db" in _target(each)]


def _target(descriptor: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return ""


@on_a_loop
async def test_an_open_that_is_cancelled_leaves_nothing_behind(tmp_path: Path) -> None:
    async with opened(tmp_path / "x.db"):
        threads = threading.active_count()
        backend = SQLiteBackend(tmp_path / "x.db")
        with locked(tmp_path / "x.db"):
            opening = asyncio.create_task(backend.open("ns", instance("b")))
            await asyncio.sleep(0.05)
            opening.cancel()
            with pytest.raises(asyncio.CancelledError):
                await opening
        assert threading.active_count() == threads

        await backend.open("ns", instance("b"))
        await backend.close()


def test_a_loop_that_ended_before_the_answer_does_not_stop_the_thread(tmp_path: Path) -> None:
    backend = SQLiteBackend(tmp_path / "x.db")

    async def leave_a_call_behind() -> None:
        await backend.open("ns", instance("a"))
        with locked(tmp_path / "x.db"):
            asyncio.ensure_future(win(backend))  # noqa: RUF006 - it is meant to be lost
            await asyncio.sleep(0.02)

    async def go_on() -> None:
        await win(backend, 1)
        await backend.close()

    asyncio.run(leave_a_call_behind())
    asyncio.run(go_on())


@on_a_loop
async def test_two_schedulers_cannot_share_one_backend(tmp_path: Path) -> None:
    backend = SQLiteBackend(tmp_path / "x.db")
    one, two = await asyncio.gather(
        backend.open("ns", instance("a")), backend.open("ns", instance("b")), return_exceptions=True
    )

    assert isinstance(two, StateError)
    assert not isinstance(one, BaseException)
    await backend.close()
