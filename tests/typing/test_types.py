"""What a type checker says of right and wrong uses. Each checker runs once per session over all files."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FILES = ("positive.py", "negative.py", "third_party.py")
SOURCES = os.pathsep.join((str(ROOT), str(ROOT / "backends")))
MARK = re.compile(r"# E: (?P<mypy>\S+) / (?P<pyright>\S+)(?: / (?P<text>.+))?$")
CHECKERS = ("mypy", "pyright")


class Diagnostic(NamedTuple):
    file: str
    line: int
    code: str
    message: str


def run(command: list[str], **environment: str) -> str:
    done = subprocess.run(
        command, cwd=HERE, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    # 0: nothing found, 1: something found; all else is a failure of the checker.
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


def run_mypy() -> list[Diagnostic]:
    cache_dir = str(ROOT / ".mypy_cache" / "typing")
    options = ["--strict", "--output", "json", "--python-version", "3.11", "--config-file", os.devnull]
    output = run([sys.executable, "-m", "mypy", *options, "--cache-dir", cache_dir, *FILES], MYPYPATH=SOURCES)
    rows = [json.loads(line) for line in output.splitlines()]
    return [
        Diagnostic(row["file"], row["line"], row["code"], row["message"]) for row in rows if row["severity"] == "error"
    ]


def run_pyright() -> list[Diagnostic]:
    # Beside the interpreter, so that it is found where the environment is not activated.
    program = Path(sys.executable).with_name("pyright")
    output = run([str(program), "--outputjson", "--project", str(HERE), "--pythonpath", sys.executable])
    rows = [row for row in json.loads(output)["generalDiagnostics"] if row["severity"] == "error"]
    return [
        Diagnostic(Path(row["file"]).name, row["range"]["start"]["line"] + 1, row.get("rule", ""), row["message"])
        for row in rows
    ]


@cache
def diagnostics(checker: str) -> list[Diagnostic]:
    return run_mypy() if checker == "mypy" else run_pyright()


def marks(checker: str) -> dict[int, tuple[str, str]]:
    """The marked lines of negative.py: the code that the checker must give and the text that its message must hold."""
    lines = enumerate((HERE / "negative.py").read_text(encoding="utf-8").splitlines(), 1)
    found = {number: mark for number, line in lines if (mark := MARK.search(line))}
    return {number: (mark[checker], mark["text"] or "") for number, mark in found.items() if mark[checker] != "-"}


@pytest.mark.slow
@pytest.mark.parametrize("checker", CHECKERS)
def test_right_uses_pass(checker: str) -> None:
    assert [each for each in diagnostics(checker) if each.file != "negative.py"] == []


@pytest.mark.slow
@pytest.mark.parametrize("checker", CHECKERS)
def test_wrong_uses_are_errors_with_readable_texts(checker: str) -> None:
    found = [each for each in diagnostics(checker) if each.file == "negative.py"]
    missed = {
        number: (code, text, [each for each in found if each.line == number])
        for number, (code, text) in marks(checker).items()
        if not any(each.line == number and each.code == code and text in each.message for each in found)
    }

    assert missed == {}
    assert len(marks(checker)) > 80


@pytest.mark.slow
@pytest.mark.parametrize("checker", CHECKERS)
def test_nothing_else_is_an_error(checker: str) -> None:
    marked = marks(checker).keys()

    assert [each for each in diagnostics(checker) if each.file == "negative.py" and each.line not in marked] == []


@pytest.mark.slow
@pytest.mark.parametrize("checker", CHECKERS)
def test_the_messages_about_options_are_short(checker: str) -> None:
    about = [each for each in diagnostics(checker) if "Needs" in each.message]

    assert about
    assert max(len(each.message.splitlines()[0]) for each in about) < 200


@pytest.mark.processes
def test_right_uses_run() -> None:
    output = run([sys.executable, "-W", "error", "positive.py"], PYTHONPATH=SOURCES)

    assert output == "positive: ok\n"
