"""Several processes on one file: each slot once, nothing that was acknowledged lost, forks refused."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.unit.sqlite.support import foreign, on_a_loop, opened, win

ROOT = Path(__file__).parents[3]
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'backends'}"}

pytestmark = [pytest.mark.processes, pytest.mark.slow]


def claimer(tmp_path: Path, name: str, first: int, count: int, batch: int) -> subprocess.Popen[bytes]:
    arguments = [str(tmp_path / "x.db"), name, str(tmp_path / "acknowledged"), str(first), str(count), str(batch)]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.unit.sqlite.claimer", *arguments],
        cwd=ROOT,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def succeed(*processes: subprocess.Popen[bytes]) -> None:
    for process in processes:
        output, _ = process.communicate(timeout=120)
        assert process.returncode == 0, output.decode()


def acknowledged(tmp_path: Path) -> list[tuple[int, str]]:
    """Slots and who was told to have won them; a line that was cut off was not acknowledged."""
    text = (tmp_path / "acknowledged").read_text() if (tmp_path / "acknowledged").exists() else ""
    lines = [line for line in text.splitlines(keepends=True) if line.endswith("\n")]
    return [(int(line.split()[0]), line.split()[1]) for line in lines]


def stored(connection: sqlite3.Connection) -> dict[int, str]:
    rows = connection.execute("SELECT slot_ms, instance_id FROM anarchon_run").fetchall()
    return {(slot_ms - 1_900_000_000_000) // 1_000: instance_id for slot_ms, instance_id in rows}


def test_four_processes_that_claim_the_same_slots_win_each_slot_once(tmp_path: Path) -> None:
    succeed(*(claimer(tmp_path, name, 0, 1_000, 5) for name in "abcd"))

    told = acknowledged(tmp_path)
    assert Counter(slot for slot, _ in told) == Counter(range(1_000))
    with foreign(tmp_path / "x.db") as connection:
        assert stored(connection) == dict(told)


def test_twenty_processes_can_open_a_fresh_file_at_once(tmp_path: Path) -> None:
    succeed(*(claimer(tmp_path, f"i{number}", 0, 10, 10) for number in range(20)))

    assert sorted(slot for slot, _ in acknowledged(tmp_path)) == list(range(10))
    assert sorted(os.listdir(tmp_path)) == ["acknowledged", "x.db"]
    with foreign(tmp_path / "x.db") as connection:
        assert connection.execute("SELECT count(*) FROM anarchon_schema").fetchone() == (1,)


def test_killed_writers_lose_nothing_that_was_acknowledged_and_leave_the_file_intact(tmp_path: Path) -> None:
    for number in range(5):
        writers = [claimer(tmp_path, f"i{number}{name}", number * 1_000_000, 1_000_000, 3) for name in "ab"]
        before = len(acknowledged(tmp_path))
        deadline = time.monotonic() + 30
        while len(acknowledged(tmp_path)) < before + 50 and time.monotonic() < deadline:
            time.sleep(0.02)
        for writer in writers:
            writer.send_signal(signal.SIGKILL)
            writer.communicate(timeout=30)

    told = acknowledged(tmp_path)
    assert len(told) >= 250
    with foreign(tmp_path / "x.db") as connection:
        kept = stored(connection)
        assert connection.execute("PRAGMA quick_check").fetchone() == ("ok",)
    assert max(Counter(slot for slot, _ in told).values()) == 1
    assert {slot: kept.get(slot) for slot, _ in told} == dict(told)
    succeed(claimer(tmp_path, "after", 10**8, 1, 1))


FORKED = """
import asyncio, gc, os, sys
from anarchon.errors import StateError
from tests.unit.sqlite.support import opened, win

async def main():
    async with opened(sys.argv[1]) as backend:
        await win(backend)
        child = os.fork()
        if child == 0:
            # What the child says goes through its exit code: the loop belongs to the parent.
            try:
                backend.claim([]).send(None)
            except StopIteration:
                pass
            try:
                win(backend, 1).send(None)
            except StateError as error:
                said = str(error)
            try:
                backend.close().send(None)
            except StopIteration:
                pass
            del backend
            gc.collect()
            os._exit(0 if "do not survive a fork" in said else 1)
        _, status = os.waitpid(child, 0)
        await win(backend, 2)
        print("child", os.waitstatus_to_exitcode(status))
        print("runs", len(await backend.history("t", 10)))

asyncio.run(main())
"""


def test_a_backend_is_refused_in_a_forked_child_and_goes_on_in_the_parent(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKED, str(tmp_path / "x.db")],
        cwd=ROOT,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert done.stdout.split("\n") == ["child 0", "runs 2", ""], done.stderr
    with foreign(tmp_path / "x.db") as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@on_a_loop
async def test_a_process_that_forgets_to_close_ends_and_leaves_a_usable_file(tmp_path: Path) -> None:
    program = (
        "import asyncio, sys\n"
        "from tests.unit.sqlite.support import instance, win\n"
        "from anarchon_sqlite import SQLiteBackend\n"
        "backend = SQLiteBackend(sys.argv[1])\n"
        "async def main():\n"
        "    await backend.open('ns', instance('a'))\n"
        "    await win(backend)\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "x.db")],
        cwd=ROOT,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    async with opened(tmp_path / "x.db", "b") as backend:
        assert len(await backend.history("t", 10)) == 1
        await win(backend, 1, by="b")
