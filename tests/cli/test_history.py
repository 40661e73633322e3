"""`anarchon history`: what a store tells, without taking part in it."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from anarchon.cli.app import app
from anarchon.cli.history import without_url
from anarchon.model.asks import Claim, Finish, InstanceRecord, LeaseTerms, TakeUp, TaskRecord, Won
from anarchon.model.words import FinalStatus
from anarchon_sqlite import SQLiteBackend

COMMAND = "from anarchon.cli import main; main()"
SLOT = 1_800_000_000_000
TERMS = LeaseTerms(lease_ms=15_000, overlap="allow", max_attempts=3)


class Store:
    """A store with a clock of its own, in which one instance after another does something."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.url = f"sqlite:///{path}"
        self.now_ms = SLOT
        self.backend = SQLiteBackend(path, clock=lambda: self.now_ms)

    async def open(self, instance_id: str) -> None:
        await self.backend.open(
            "billing",
            InstanceRecord(
                instance_id=instance_id, host="h", pid=1, version="0", python="3", tz_database="x", lease_ms=15_000
            ),
        )

    async def register(self, *names: str) -> None:
        await self.backend.register(
            [
                TaskRecord(
                    name=name,
                    schedule="every 1m",
                    history_size=100,
                    history_ttl_ms=None,
                    late_claim_ms=60_000,
                    catch_up_ms=60_000,
                )
                for name in names
            ]
        )

    async def claim(self, task: str, slot_ms: int, instance_id: str) -> Won:
        self.now_ms = slot_ms + 50
        (answer,) = await self.backend.claim(
            [
                Claim(
                    task=task,
                    slot_ms=slot_ms,
                    run_id=f"billing/{task}/{slot_ms}",
                    token=f"{instance_id}{slot_ms}",
                    instance_id=instance_id,
                    reason="schedule",
                    terms=TERMS,
                )
            ]
        )
        assert isinstance(answer, Won)
        return answer

    async def finish(self, won: Won, status: FinalStatus, started_ms: int, error: str | None = None) -> None:
        run = won.run
        self.now_ms = started_ms + 1_500
        taken = await self.backend.finish(
            [
                Finish(
                    task=run.task,
                    run_id=run.run_id,
                    slot_ms=run.slot_ms,
                    scheduled_at_ms=run.scheduled_at_ms,
                    reason=run.reason,
                    instance_id=run.instance_id,
                    attempt=run.attempt,
                    fence=run.fence,
                    status=status,
                    claimed_at_ms=run.claimed_at_ms,
                    started_at_ms=started_ms,
                    finished_at_ms=started_ms + 1_500,
                    error=error,
                )
            ]
        )
        assert list(taken) == [True]


async def filled(path: Path) -> Store:
    """A succeeded, a failed, a recovered and a running run of one task, and a task that has not run."""
    store = Store(path)
    await store.open("i-1")
    try:
        await store.register("nightly", "quiet [red]ta§k")
        await store.finish(await store.claim("nightly", SLOT, "i-1"), "succeeded", SLOT + 120)
        failed = await store.claim("nightly", SLOT + 60_000, "i-1")
        await store.finish(failed, "failed", SLOT + 60_200, "ValueError: bad \x1b[2J\nsecond line")
        lost = await store.claim("nightly", SLOT + 120_000, "i-1")
        store.now_ms += 16_000
        (again,) = await store.backend.take_up(
            [
                TakeUp(
                    task="nightly",
                    run_id=lost.run.run_id,
                    seen_fence=lost.run.fence or 0,
                    token="t",
                    instance_id="i-2",
                    terms=TERMS,
                )
            ]
        )
        assert isinstance(again, Won)
        await store.finish(again, "succeeded", SLOT + 136_100)
        await store.claim("nightly", SLOT + 180_000, "i-2")
    finally:
        await store.backend.close()
    return store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return asyncio.run(filled(tmp_path / "app.db"))


def history(*arguments: str, env: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(app, ["history", *arguments], env=env)


def test_runs_are_listed_newest_first_with_who_ran_them_and_how_they_ended(store: Store) -> None:
    result = history("nightly", "--backend", store.url, "--namespace", "billing")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "nightly",
        "  slot                         reason    status     started       late    took",
        "  Fri 2027-01-15 08:03 +00:00  schedule  running",
        "      on i-2",
        "  Fri 2027-01-15 08:02 +00:00  schedule  succeeded  08:02:16.100  16.1 s  1.5 s",
        "      attempt 1 (schedule) on i-1: interrupted",
        "      attempt 2 (recovery) on i-2: succeeded",
        "  Fri 2027-01-15 08:01 +00:00  schedule  failed     08:01:00.200  200 ms  1.5 s",
        "      on i-1",
        "      ValueError: bad [2J second line",
        "  Fri 2027-01-15 08:00 +00:00  schedule  succeeded  08:00:00.120  120 ms  1.5 s",
        "      on i-1",
    ]


def test_without_a_task_every_task_is_listed(store: Store) -> None:
    result = history("--backend", store.url, "--namespace", "billing", "-n", "1")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "nightly"
    assert lines[-1] == "quiet [red]ta§k: no run yet"


def test_times_are_shown_in_the_zone_that_was_asked_for(store: Store) -> None:
    result = history("nightly", "--backend", store.url, "--namespace", "billing", "--tz", "Asia/Tokyo")
    assert "  Fri 2027-01-15 17:01 +09:00  schedule  failed     17:01:00.2" in result.stdout


def test_json_is_one_document(store: Store) -> None:
    result = history("nightly", "--backend", store.url, "--namespace", "billing", "--json")
    assert result.stderr == ""
    document = json.loads(result.stdout)
    assert (document["backend"], document["namespace"]) == ("SQLite", "billing")
    (task,) = document["tasks"]
    assert task["task"] == "nightly"
    assert [run["status"] for run in task["runs"]] == ["running", "succeeded", "failed", "succeeded"]
    recovered = task["runs"][1]
    assert recovered["run_id"] == f"billing/nightly/{SLOT + 120_000}"
    assert recovered["slot_ms"] == SLOT + 120_000
    assert recovered["slot"] == "2027-01-15T08:02:00Z"
    assert (recovered["late_ms"], recovered["duration_ms"]) == (16_100, 1_500)
    assert [
        (attempt["number"], attempt["instance_id"], attempt["reason"], attempt["status"])
        for attempt in recovered["attempts"]
    ] == [(1, "i-1", "schedule", "interrupted"), (2, "i-2", "recovery", "succeeded")]
    assert task["runs"][2]["error"] == "ValueError: bad \x1b[2J\nsecond line"


def test_the_store_can_be_named_by_the_environment(store: Store) -> None:
    result = history("nightly", "--namespace", "billing", env={"ANARCHON_BACKEND": store.url})
    assert result.exit_code == 0
    assert result.stdout.startswith("nightly\n")


def test_reading_leaves_no_trace(store: Store) -> None:
    before = store.path.read_bytes()
    assert history("--backend", store.url, "--namespace", "billing").exit_code == 0
    assert store.path.read_bytes() == before


def test_a_file_that_does_not_exist_is_not_made(tmp_path: Path) -> None:
    result = history("--backend", f"sqlite:///{tmp_path / 'none.db'}")
    assert result.exit_code == 3
    assert result.stdout == ""
    assert result.stderr.startswith("anarchon: error: ")
    assert len(result.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_task_is_answered_with_those_there_are(store: Store) -> None:
    result = history("nightlie", "--backend", store.url, "--namespace", "billing")
    assert result.exit_code == 2
    assert result.stderr == (
        "anarchon: error: SQLite knows no task 'nightlie' in namespace 'billing'; it knows: 'nightly', "
        "'quiet [red]ta§k'\n"
    )


def test_a_namespace_without_tasks_is_said_to_have_none(store: Store) -> None:
    result = history("--backend", store.url)
    assert result.exit_code == 0
    assert result.stderr == "anarchon: SQLite knows no task in namespace 'default'\n"


def test_without_a_store_it_asks_for_one() -> None:
    result = history(env={"ANARCHON_BACKEND": ""})
    assert result.exit_code == 2
    assert "set ANARCHON_BACKEND" in result.stderr


@pytest.mark.parametrize(
    "url", ["sqlite://ann:s3cret@host/x.db", "carrier-pigeon://ann:s3cret@host", "ann:s3cret@host", "postgresql:s3cret"]
)
def test_no_refusal_shows_a_secret_of_the_url(url: str) -> None:
    result = history("--backend", url)
    assert result.exit_code in (2, 3)
    assert "s3cret" not in result.stderr
    assert "s3cret" not in result.stdout


def test_of_a_url_nothing_is_left_in_a_message() -> None:
    assert without_url("at h:s3cret@x and s3cret", "redis://h:s3cret@x/1") == "at *** and ***"
    assert without_url("see redis://h@x/1 and h", "redis://h@x/1") == "see *** and h"
    assert without_url("see http://[x", "http://[x") == "see ***"


def test_a_terminal_that_cannot_show_a_sign_gets_a_stand_in(store: Store) -> None:
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, "history", "--backend", store.url, "--namespace", "billing"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert done.returncode == 0, done.stderr
    assert "quiet [red]ta?k: no run yet" in done.stdout
