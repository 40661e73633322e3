"""`anarchon run`: one instance in the foreground, and every way to name it wrongly."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from anarchon.cli.app import app

APP = """
from pathlib import Path
from anarchon import Scheduler
from anarchon_sqlite import SQLiteBackend

scheduler = Scheduler(SQLiteBackend(Path(__file__).with_name("app.db")), instance_id="here")

@scheduler.every("ping", "100ms")
async def ping():
    print("ping has run", flush=True)

class Holder:
    inner = scheduler

answer = 42
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "planned_app.py").write_text(APP)
    (tmp_path / "planned_broken.py").write_text("def here():\n    return 1 / 0\nhere()\n")
    (tmp_path / "planned_needy.py").write_text("import no_such_package_at_all\n")
    (tmp_path / "planned_wrong.py").write_text("def (:\n")
    (tmp_path / "planned_empty.py").write_text("scheduler = None\n")
    return tmp_path


@pytest.fixture(autouse=True)
def own_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test imports and where it looked are forgotten after it, and so is the logging it set up."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr("logging.basicConfig", lambda **_: None)
    monkeypatch.setattr("logging.captureWarnings", lambda _: None)
    for name in [name for name in sys.modules if name.startswith("planned_")]:
        del sys.modules[name]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["run", *arguments])


@pytest.mark.processes
@pytest.mark.parametrize("target", ["planned_app:scheduler", "planned_app:Holder.inner"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_runs_until_a_signal_and_ends_with_0(folder: Path, target: str, number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", "from anarchon.cli import main; main()", "run", target, "--app-dir", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ping has run\n"
            process.send_signal(number)
            _, log = process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == 0, log
    assert "INFO    anarchon: scheduler started: instance_id='here' tasks=1" in log
    assert "scheduler stopped: instance_id='here'" in log
    assert "Traceback" not in log


@pytest.mark.processes
def test_the_module_is_looked_for_where_the_command_is_given(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", "from anarchon.cli import main; main()", "run", "planned_app:answer"],
        cwd=folder,
        env={**os.environ},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "planned_app:answer is a int, not a Scheduler object; there is planned_app:scheduler" in done.stderr


@pytest.mark.parametrize("target", ["planned_app", "planned_app:", ":scheduler", ""])
def test_a_target_that_is_not_module_and_name_is_told_how_to_write_it(folder: Path, target: str) -> None:
    result = run(target, "--app-dir", str(folder))
    assert result.exit_code == 2
    assert "write module:name, such as myapp.tasks:scheduler" in result.stderr


@pytest.mark.parametrize("name", ["planned_app.py", "./planned_app", "planned/app", "..", ".app", "a b", "planned-app"])
def test_the_name_of_a_file_is_told_to_be_written_as_a_module(folder: Path, name: str) -> None:
    result = run(f"{name}:scheduler", "--app-dir", str(folder))
    assert result.exit_code == 2
    assert result.stderr.startswith(f"anarchon: error: {name!r} is not the name of a module")
    assert "without .py, with dots for slashes" in result.stderr


@pytest.mark.parametrize("module", ["planned_none", "planned_none.tasks", "planned_app.tasks"])
def test_a_module_that_is_not_there_is_told_where_it_was_looked_for(folder: Path, module: str) -> None:
    result = run(f"{module}:scheduler", "--app-dir", str(folder))
    assert result.exit_code == 2
    assert f"there is no module {module!r}" in result.stderr
    assert str(folder) in result.stderr
    assert "--app-dir" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_name_that_is_not_there_is_answered_with_the_schedulers_there_are(folder: Path) -> None:
    result = run("planned_app:app", "--app-dir", str(folder))
    assert result.exit_code == 2
    assert result.stderr == ("anarchon: error: module 'planned_app' has no 'app'; there is planned_app:scheduler\n")


def test_a_module_without_a_scheduler_is_told_to_make_one(folder: Path) -> None:
    result = run("planned_empty:scheduler", "--app-dir", str(folder))
    assert result.exit_code == 2
    assert "planned_empty:scheduler is a NoneType, not a Scheduler object; make one" in result.stderr


@pytest.mark.parametrize(
    ("module", "shown", "said"),
    [
        ("planned_broken", "return 1 / 0", "it raised ZeroDivisionError, see above"),
        ("planned_needy", "import no_such_package_at_all", "install what it needs"),
        ("planned_wrong", "def (:", "SyntaxError"),
    ],
)
def test_a_module_that_does_not_import_shows_where_and_why(folder: Path, module: str, shown: str, said: str) -> None:
    result = run(f"{module}:scheduler", "--app-dir", str(folder))
    assert result.exit_code == 2
    assert shown in result.stderr
    last = result.stderr.splitlines()[-1]
    assert last.startswith(f"anarchon: error: importing {module!r} failed: ")
    assert said in last
    assert "anarchon/cli" not in result.stderr


def test_a_directory_that_is_not_there_is_refused(folder: Path) -> None:
    result = run("planned_app:scheduler", "--app-dir", str(folder / "none"))
    assert result.exit_code == 2
    assert "is not a directory" in result.stderr


def test_an_unknown_log_level_is_refused(folder: Path) -> None:
    assert run("planned_app:scheduler", "--app-dir", str(folder), "--log-level", "loud").exit_code == 2


def test_a_scheduler_that_cannot_start_is_told_in_a_line(folder: Path) -> None:
    (folder / "planned_bare.py").write_text(APP.replace("@scheduler.every", "lost = scheduler.every") + "\n")
    (folder / "planned_bare.py").write_text(APP + "\nscheduler.every('bare', '1m')\n")
    result = run("planned_bare:scheduler", "--app-dir", str(folder))
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert line.startswith("anarchon: error: ")


def test_a_store_that_cannot_be_used_is_told_in_a_line(folder: Path) -> None:
    (folder / "app.db").mkdir()
    result = run("planned_app:scheduler", "--app-dir", str(folder))
    assert result.exit_code == 3
    assert result.stderr.splitlines()[-1].startswith("anarchon: error: ")
    assert "Traceback" not in result.stderr
