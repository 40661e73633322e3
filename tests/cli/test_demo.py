"""The demo with real processes: as promised, tampered with, and interrupted."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from anarchon.cli.app import app
from anarchon.cli.demo.command import conclude, play
from anarchon.cli.demo.evidence import Kill
from anarchon.cli.demo.plan import Pace
from anarchon.cli.demo.play import Report, report_on
from anarchon.cli.demo.stage import Actor, LineStage, LiveStage, Scene, stage_for
from anarchon.cli.output import clock_time

QUICK = Pace(lease_ms=2_000, long_every_ms=4_000, long_takes_ms=2_500, beat_ms=250, kill_after_ms=1_000)
COMMAND = [sys.executable, "-c", "from anarchon.cli import main; main()", "demo"]
ENDS_WITHIN_S = 60


@dataclass(frozen=True)
class Played:
    """One real run of the demo: what it printed, and an untouched copy of what it left."""

    said: str
    document: dict[str, Any]
    copy: Path

    def copied(self, to: Path) -> Path:
        return Path(shutil.copytree(self.copy, to))

    def report(self, folder: Path) -> Report:
        kill = self.document["kill"]
        return asyncio.run(
            report_on(
                store=folder / "demo.db",
                folder=folder,
                pace=QUICK,
                began_ms=self.document["from_ms"],
                ended_ms=self.document["to_ms"],
                kill=Kill(
                    instance_id=kill["instance_id"], task=kill["task"], slot_ms=kill["slot_ms"], at_ms=kill["at_ms"]
                ),
            )
        )


def lines_of(path: Path) -> list[str]:
    return path.read_text("utf-8").splitlines(keepends=True)


def some_end(folder: Path, task: str) -> tuple[Path, str]:
    """A file and the line in it with which a handler of the task said that it had ended."""
    return next(
        (path, line)
        for path in sorted(folder.glob("handlers-*.jsonl"))
        for line in lines_of(path)
        if json.loads(line)["task"] == task and json.loads(line)["what"] == "ended"
    )


def concluded(report: Report) -> tuple[int, str]:
    out = io.StringIO()
    code = conclude(report, Console(file=out, width=80), store=None, folder=None, as_json=False)
    return code, out.getvalue()


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    copy = tmp_path_factory.mktemp("demo") / "left"
    said, printed = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("typer.echo", lambda text, err=False: None if err else printed.write(text))
        code = play(
            LineStage(said),
            Console(file=io.StringIO()),
            seconds=9,
            as_json=True,
            pace=QUICK,
            before_check=lambda folder: shutil.copytree(folder, copy),
        )
    document = json.loads(printed.getvalue())
    assert code == 0, document["problems"]
    return Played(said.getvalue(), document, copy)


@pytest.mark.processes
def test_every_due_slot_is_accounted_for(played: Played) -> None:
    assert played.document["ok"] is True
    fast, _, long = played.document["tasks"]
    assert fast["due"] == fast["in_history"] == fast["by_handlers"] >= 8
    assert long["due"] == long["in_history"] + long["overlaps"] >= 2
    assert long["in_history"] == long["by_handlers"] >= 1
    assert [each["duplicates"] + each["missed"] for each in played.document["tasks"]] == [0, 0, 0]


@pytest.mark.processes
def test_the_killed_run_goes_on_elsewhere_soon_after_its_lease_s_end(played: Played) -> None:
    kill, recovery = played.document["kill"], played.document["recovery"]
    assert recovery["slot_ms"] == kill["slot_ms"]
    assert recovery["instance_id"] != kill["instance_id"]
    assert 0 <= recovery["after_lease_end_ms"] <= 3_000
    assert recovery["after_lease_end_ms"] < recovery["after_kill_ms"] <= 2_000 + 3_000


@pytest.mark.processes
def test_the_lines_tell_who_ran_what_and_who_was_killed(played: Played) -> None:
    victim = played.document["kill"]["instance_id"][0]
    assert len(re.findall(r"  [ABC] is up, as instance [ABC]-\d+", played.said)) == 3
    assert re.search(rf"  {victim} killed \(SIGKILL\) while it ran long \d\d:\d\d:\d\d", played.said)
    assert re.search(r"  [ABC] begins long \d\d:\d\d:\d\d again, as attempt 2", played.said)
    assert len(re.findall(r"  [ABC] stopped", played.said)) == 2
    assert "Traceback" not in "".join(path.read_text("utf-8") for path in played.copy.glob("*.log"))


@pytest.mark.processes
def test_what_was_not_touched_is_as_promised(played: Played, tmp_path: Path) -> None:
    code, printed = concluded(played.report(played.copied(tmp_path / "same")))
    assert code == 0, printed
    assert "All as promised" in printed
    assert max(map(len, printed.splitlines())) <= 80


@pytest.mark.processes
@pytest.mark.parametrize("task", ["fast", "long"])
def test_a_planted_duplicate_record_makes_it_exit_1_and_names_the_slot(
    played: Played, tmp_path: Path, task: str
) -> None:
    folder = played.copied(tmp_path / "tampered")
    path, line = some_end(folder, task)
    with path.open("a", encoding="utf-8") as file:
        file.write(line)
    code, printed = concluded(played.report(folder))
    assert code == 1
    assert "NOT as promised" in printed
    assert f"{task}, slot {clock_time(json.loads(line)['slot_ms'])} UTC: ran twice" in printed


@pytest.mark.processes
@pytest.mark.parametrize("task", ["fast", "long"])
def test_a_removed_record_makes_it_exit_1_and_names_the_slot(played: Played, tmp_path: Path, task: str) -> None:
    folder = played.copied(tmp_path / "tampered")
    path, line = some_end(folder, task)
    path.write_text("".join(each for each in lines_of(path) if each != line), encoding="utf-8")
    code, printed = concluded(played.report(folder))
    assert code == 1
    where = f"{task}, slot {clock_time(json.loads(line)['slot_ms'])} UTC: the history says that it succeeded"
    assert where in " ".join(printed.split())


@pytest.mark.processes
def test_tampering_between_run_and_check_is_noticed_by_the_demo_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    planted: list[int] = []

    def plant(folder: Path) -> None:
        path, line = some_end(folder, "fast")
        planted.append(json.loads(line)["slot_ms"])
        with path.open("a", encoding="utf-8") as file:
            file.write(line)

    out = io.StringIO()
    code = play(LineStage(io.StringIO()), Console(file=out, width=80), seconds=1, pace=QUICK, before_check=plant)
    assert code == 1
    assert f"fast, slot {clock_time(planted[0])} UTC: ran twice" in out.getvalue()
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------ the command


@pytest.mark.processes
def test_with_json_there_is_one_document_on_stdout_and_files_stay_where_they_were_asked_for(tmp_path: Path) -> None:
    store, temporary = tmp_path / "mine.db", tmp_path / "temporary"
    temporary.mkdir()
    done = subprocess.run(
        [*COMMAND, "--seconds", "1", "--json", "--file", str(store)],
        env={**os.environ, "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        check=False,
        timeout=ENDS_WITHIN_S * 2,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    document = json.loads(done.stdout)
    assert document["ok"] is True
    assert document["store"] == str(store)
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["mine.db"]
    assert list(temporary.iterdir()) == []
    listed = CliRunner().invoke(app, ["history", "long", "--backend", f"sqlite:///{store}", "--namespace", "demo"])
    assert "attempt 2 (recovery)" in listed.stdout


def test_a_file_that_exists_is_left_alone(tmp_path: Path) -> None:
    store = tmp_path / "mine.db"
    store.write_text("mine")
    result = CliRunner().invoke(app, ["demo", "--file", str(store)])
    assert result.exit_code == 2
    assert "exists, and the demo begins with a fresh file" in result.stderr
    assert store.read_text() == "mine"


def test_a_place_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["demo", "--file", str(tmp_path / "none" / "mine.db")])
    assert result.exit_code == 2
    assert "is not a directory" in result.stderr


@contextmanager
def running_demo(temporary: Path) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """The demo with its processes up, and a descriptor for each of them that is readable once it has ended."""
    watched: list[int] = []
    with subprocess.Popen(
        COMMAND,
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if found := re.search(r"is up, as instance [ABC]-(\d+)", line):
                    watched.append(os.pidfd_open(int(found[1])))
                if len(watched) == 3:
                    break
            yield process, watched
        finally:
            process.kill()
            for descriptor in watched:
                os.close(descriptor)


def have_ended(watched: list[int]) -> bool:
    waiting = select.poll()
    for descriptor in watched:
        waiting.register(descriptor, select.POLLIN)
    left = set(watched)
    while left:
        ended = waiting.poll(ENDS_WITHIN_S * 1_000)
        if not ended:
            return False
        for descriptor, _ in ended:
            waiting.unregister(descriptor)
            left.discard(descriptor)
    return True


@pytest.mark.processes
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_demo_leaves_no_process_and_no_file(tmp_path: Path, number: signal.Signals) -> None:
    with running_demo(tmp_path) as (process, watched):
        process.send_signal(number)
        _, errors = process.communicate(timeout=ENDS_WITHIN_S)
        assert have_ended(watched)
    assert process.returncode == 130
    assert errors == "anarchon: interrupted; every process of the demo has been ended\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.processes
def test_a_killed_demo_leaves_no_process(tmp_path: Path) -> None:
    with running_demo(tmp_path) as (process, watched):
        process.kill()
        assert have_ended(watched)


@pytest.mark.processes
def test_a_process_that_ends_by_itself_ends_the_demo_with_a_reason(tmp_path: Path) -> None:
    with running_demo(tmp_path) as (process, watched):
        signal.pidfd_send_signal(watched[0], signal.SIGKILL)
        _, errors = process.communicate(timeout=ENDS_WITHIN_S)
        assert have_ended(watched)
    assert process.returncode == 1
    assert re.match(
        r"anarchon: error: the demo could not be played: process [ABC] ended by itself with code -9", errors
    )
    assert "Traceback" not in errors
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------ the table on a terminal


def test_on_a_terminal_a_table_shows_each_process_within_80_columns() -> None:
    out = io.StringIO()
    console = Console(file=out, width=80, height=40, force_terminal=True, color_system=None)
    noon = 1_800_014_400_000
    scene = Scene(actors={"A": Actor("A"), "B": Actor("B")}, long_takes_ms=6_000, started_at_ms=noon)
    stage = stage_for(console, lambda: noon + 13_000)
    assert isinstance(stage, LiveStage)
    with stage:
        stage.set(scene)
        scene.until_ms = noon + 25_000
        scene.actors["A"].state = "up"
        scene.actors["A"].fast.extend(range(noon, noon + 20_000, 1_000))
        scene.actors["A"].long, scene.actors["A"].long_since_ms = "12:00:10", noon + 10_000
        scene.actors["B"].state, scene.actors["B"].long = "killed", "12:00:10 lost"
        stage.say(noon + 12_600, "B killed (SIGKILL) while it ran long 12:00:10")
        stage.say(noon + 12_700, "A runs fast 12:00:12", detail=True)
    shown = out.getvalue().rsplit("no leader", 1)[1]
    assert "13 s of about 25 s" in shown
    assert re.search(r"A up +:13 :14 :15 :16 :17 :18 :19 +12:00:10 ###\.\.\.", shown)
    assert re.search(r"B killed +12:00:10 lost", shown)
    assert "12:00:12.6  B killed (SIGKILL)" in shown
    assert "A runs fast" not in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_without_a_terminal_there_are_lines() -> None:
    assert isinstance(stage_for(Console(file=io.StringIO()), lambda: 0), LineStage)
