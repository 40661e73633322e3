"""The command as a whole: help, version, and what it says without its libraries."""

from __future__ import annotations

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from anarchon import cli
from anarchon._version import __version__
from anarchon.cli.app import app
from anarchon.cli.output import away, clean, duration

COMMANDS = ["demo", "run", "next", "history"]


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_without_its_libraries_it_names_the_extra_that_brings_them(
    monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == (
        f'anarchon: the command line needs {missing}; install it with: pip install "anarchon[cli]"'
    )


def test_a_text_as_exit_code_ends_a_process_with_1() -> None:
    code = "import sys; sys.modules['typer'] = None; from anarchon.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    assert 'pip install "anarchon[cli]"' in done.stderr


def test_the_version_is_shown() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert result.exit_code == 0
    assert result.stdout == f"anarchon {__version__}\n"


def test_it_can_be_called_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "anarchon", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"anarchon {__version__}\n"


def test_the_help_shows_every_command_with_an_example() -> None:
    result = CliRunner().invoke(app, ["--help"])
    assert result.exit_code == 0
    for command in COMMANDS:
        assert f"anarchon {command}" in result.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_s_help_has_an_example(command: str) -> None:
    result = CliRunner().invoke(app, [command, "--help"])
    assert result.exit_code == 0
    assert f"Example: anarchon {command}" in result.stdout


def test_an_unknown_command_is_wrong_use() -> None:
    assert CliRunner().invoke(app, ["dance"]).exit_code == 2


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1_000, "1 s"),
        (2_449, "2.4 s"),
        (59_960, "1 min"),
        (60_000, "1 min"),
        (90_000, "1 min 30 s"),
        (3_600_000, "1 h"),
        (3_605_000, "1 h"),
        (11_100_000, "3 h 5 min"),
        (90_061_000, "1 d 1 h"),
    ],
)
def test_a_duration_is_told_by_its_two_largest_units(ms: int, text: str) -> None:
    assert duration(ms) == text


def test_how_far_away_an_instant_is_has_a_direction() -> None:
    assert away(0, 10_800_000) == "in 3 h"
    assert away(12_900, 0) == "12 s ago"
    assert away(0, 999) == "now"


def test_text_from_elsewhere_cannot_steer_the_terminal() -> None:
    assert clean("\x1b[31mred\nand\tmore\x07") == "[31mred and more"
    assert clean("x" * 300, 10) == "xxxxxxx..."
