"""Runs the blocks of a page, top to bottom, in a directory of its own."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import tomllib
import types
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tests.docs import timelines
from tests.docs.pages import Block, Page

SOON_S = 30
"""Longer than anything that is waited for takes; a wait that reaches it has failed."""

_PROGRAM = re.compile(r'(\S+\.py)(?: x(\d+))?(?: until "(.+)")?')
_UNTIL = re.compile(r'until "(.+)"')
_COMMANDS = ("anarchon", "python")


class Runner:
    """One page being run. Python blocks share a namespace and a loop."""

    def __init__(self, page: Page, directory: Path) -> None:
        self.page = page
        self.directory = directory
        self.files_unused: set[str] = set()
        self.printed = ""
        self.printed_by: dict[str, str] = {}
        """What each program has printed."""
        self._loop = asyncio.Runner()
        self._module = self._new_module()

    def run(self) -> None:
        """Run every block; raise AssertionError, naming it, for the first that does not do what it says."""
        try:
            for block in self.page.blocks:
                self._check(block)
        finally:
            self._loop.close()
            sys.modules.pop(self._module.__name__, None)
        assert not self.files_unused, f"{self.page.name}: no block uses {self.files_unused}"

    def _check(self, block: Block) -> None:
        try:
            self._how(block)(block)
        except Exception as error:
            raise AssertionError(f"{block.where}: {type(error).__name__}: {error}") from error

    def _how(self, block: Block) -> Callable[[Block], None]:
        by_marker = {
            "not run": _nothing,
            "program": self._program,
            "command": self._command_until,
            "file": self._file,
            "prints": self._prints,
            "timeline": _timeline,
        }
        by_language = {
            "python": self._python,
            "pycon": self._session,
            "sh": self._shell,
            "console": self._console,
            "toml": _toml,
            "text": _nothing,
        }
        return by_marker.get(block.marker) or by_language[block.language]

    # ---------------------------------------------------------------- Python

    def _new_module(self) -> types.ModuleType:
        # A real module: dataclasses and annotations are looked up in it.
        module = types.ModuleType(re.sub(r"\W", "_", self.page.name))
        sys.modules[module.__name__] = module
        return module

    def _python(self, block: Block) -> None:
        if block.marker == "fresh":
            self._module = self._new_module()
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            self._execute(_compiled(block.text, block.where, "exec"))
        self.printed = printed.getvalue()

    def _execute(self, code: types.CodeType) -> Any:
        if code.co_flags & inspect.CO_COROUTINE:
            return self._loop.run(_awaited(code, vars(self._module)))
        return eval(code, vars(self._module))

    def _prints(self, block: Block) -> None:
        _same(self.printed, block.text)

    def _session(self, block: Block) -> None:
        """An interactive session; an error is shown by its last line alone."""
        for command, expected in _exchanges(block.text, ">>> ", "... "):
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                try:
                    self._interact(command, block.where)
                except Exception as error:
                    printed.write(f"{type(error).__name__}: {error}\n")
            _same_words(printed.getvalue(), expected)

    def _interact(self, command: str, where: str) -> None:
        if isinstance(ast.parse(command).body[-1], ast.Expr):
            value = self._execute(_compiled(command, where, "eval"))
            if value is not None:
                print(repr(value))
        else:
            self._execute(_compiled(command, where, "exec"))

    # ---------------------------------------------------------------- commands

    def _shell(self, block: Block) -> None:
        for line in block.text.splitlines():
            done = self._command(line)
            assert done.returncode == 0, f"{line}\n{done.stdout}"

    def _console(self, block: Block) -> None:
        for command, expected in _exchanges(block.text, "$ ", "> "):
            _same(self._command(command).stdout, expected)

    def _command(self, line: str) -> subprocess.CompletedProcess[str]:
        assert line.split()[0] in _COMMANDS, f"{line!r} is no command that a test may run"
        self.files_unused = {name for name in self.files_unused if Path(name).stem not in line}
        return subprocess.run(
            line, shell=True, cwd=self.directory, env=environment(), timeout=SOON_S, check=False, **_TEXT
        )

    def _command_until(self, block: Block) -> None:
        match = _UNTIL.fullmatch(block.argument)
        assert match is not None, block.argument
        words = shlex.split(block.text)
        assert words[0] in _COMMANDS, block.text
        run_until(self.directory, words, name=words[0], until=match[1])

    def _file(self, block: Block) -> None:
        self._write(block.argument, block.text)
        self.files_unused.add(block.argument)

    def _write(self, name: str, text: str) -> None:
        if name.endswith(".py"):
            _compiled(text, name, "exec")
        (self.directory / name).write_text(text, encoding="utf-8")

    def _program(self, block: Block) -> None:
        match = _PROGRAM.fullmatch(block.argument)
        assert match is not None, block.argument
        name, count, until = match[1], int(match[2] or 1), match[3]
        self._write(name, block.text)
        self.printed = run_programs(self.directory, name, count=count, until=until, times=min(count, 2))
        self.printed_by[name] = self.printed


def run_programs(directory: Path, name: str, *, count: int = 1, until: str | None = None, times: int = 1) -> str:
    """Start a program so many times, wait for a text in what they print, stop them, and answer all they printed.

    Without a text they are waited for until they end by themselves.
    """
    command = [sys.executable, "-W", "error", name]
    return run_until(directory, command, name=name, count=count, until=until, times=times)


def run_until(
    directory: Path, command: list[str], *, name: str, count: int = 1, until: str | None = None, times: int = 1
) -> str:
    """As `run_programs`, with any command."""
    paths = [directory / f"{name}.{number}.out" for number in range(count)]
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for path in paths:
            with path.open("wb") as out:
                process = subprocess.Popen(
                    command, cwd=directory, env=environment(), stdout=out, stderr=subprocess.STDOUT
                )
            processes.append(process)
        if until is not None:
            _wait_for(paths, until, times, processes)
            for process in processes:
                process.send_signal(signal.SIGTERM)
        codes = [process.wait(SOON_S) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    printed = _all_text(paths)
    assert codes == [0] * count, f"{name} ended with {codes} and printed:\n{printed}"
    return printed


def _wait_for(paths: Iterable[Path], text: str, times: int, processes: Iterable[subprocess.Popen[bytes]]) -> None:
    # A look at the files is all there is to wait on: the programs are the reader's, and tell nothing but by printing.
    deadline = time.monotonic() + SOON_S
    while _all_text(paths).count(text) < times:
        assert all(process.poll() is None for process in processes), f"a process ended: {_all_text(paths)}"
        assert time.monotonic() < deadline, f"{text!r} was not printed {times} times: {_all_text(paths)}"
        time.sleep(0.05)


def _all_text(paths: Iterable[Path]) -> str:
    return "".join(path.read_text(encoding="utf-8", errors="replace") for path in paths)


def environment() -> dict[str, str]:
    """What a reader's terminal has, without what this test run has set."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV", "ANARCHON"))}
    path = os.pathsep.join([str(Path(sys.executable).parent), kept.get("PATH", "")])
    return {
        **kept,
        "PATH": path,
        "COLUMNS": "100",
        "NO_COLOR": "1",
        "TERM": "dumb",
        "TZ": "UTC",
        "PYTHONUNBUFFERED": "1",
    }


_TEXT: dict[str, Any] = {
    "stdin": subprocess.DEVNULL,
    "stdout": subprocess.PIPE,
    "stderr": subprocess.STDOUT,
    "text": True,
}


def _nothing(block: Block) -> None:
    pass


def _toml(block: Block) -> None:
    tomllib.loads(block.text)


def _timeline(block: Block) -> None:
    _same(timelines.told(block.argument), block.text)


def _compiled(text: str, where: str, mode: str) -> types.CodeType:
    code = compile(text, where, mode, flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    assert isinstance(code, types.CodeType)
    return code


async def _awaited(code: types.CodeType, namespace: dict[str, Any]) -> Any:
    async with asyncio.timeout(SOON_S):
        return await eval(code, namespace)


def _exchanges(text: str, prompt: str, more: str) -> list[tuple[str, str]]:
    """Commands, each with the lines that follow it."""
    found: list[tuple[list[str], list[str]]] = []
    for line in text.splitlines():
        if line.startswith(prompt):
            found.append(([line.removeprefix(prompt)], []))
        elif line.startswith(more) and not found[-1][1]:
            found[-1][0].append(line.removeprefix(more))
        else:
            found[-1][1].append(line)
    return [("\n".join(command), "".join(f"{line}\n" for line in lines)) for command, lines in found]


def _same(got: str, expected: str) -> None:
    """Line by line equal but for how wide blanks are; `...` stands for anything in a line, alone for any lines."""
    pattern = "".join(_line_pattern(line) for line in expected.splitlines())
    text = "".join(f"{' '.join(line.split())}\n" for line in got.splitlines())
    assert re.fullmatch(pattern, text), f"printed:\n{got}\nand the page says:\n{expected}"


def _line_pattern(line: str) -> str:
    if line.strip() == "...":
        return r"(?:.*\n)*"
    return f"{_pattern(line)}\n"


def _same_words(got: str, expected: str) -> None:
    """Equal but for how lines are broken; `...` stands for anything."""
    assert re.fullmatch(_pattern(expected), " ".join(got.split())), f"printed:\n{got}\nand the page says:\n{expected}"


def _pattern(text: str) -> str:
    return ".*".join(re.escape(part) for part in " ".join(text.split()).split("..."))
