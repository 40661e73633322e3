"""Which test notices a change? Collects the tests once, and forks for each change.

A child puts the changed code into the function that is already loaded, so that nothing is imported again, and then
runs the tests and the simulated clusters until one fails. What has noticed changes of the same function, or of the
same module, comes first; then comes what takes the least time, which is measured once at the beginning.
"""

from __future__ import annotations

import gc
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType, FunctionType

import pytest

from scripts.mutating import ROOT, Mutant, source_of

LIMIT_S = 3
"""How much of the processor's time a unit test or a seed may take with a change in place. An endless loop counts as
noticed."""

LONG_LIMIT_S = 30
"""The same for a scenario."""

IDLE_LIMIT_S = 60
"""How long any of them may take, at work or waiting."""

MEMORY_BYTES = 4 << 30
"""How much a child may take beside what it inherits."""

NOTHING = "nothing"
NOT_YET = "nothing in time"

TESTS = {
    "model": ["tests/unit/model", "tests/conformance/test_memory.py", "tests/unit/engine", "tests/scenarios"],
    "engine": ["tests/unit/engine", "tests/scenarios"],
}
SEEDS = range(50)

Check = Callable[[], bool]
"""Answers whether all is well."""


class Judge:
    """A plugin of pytest that, in place of running the tests, runs them against each change."""

    def __init__(self, mutants: Sequence[Mutant], within_s: float, tell: Callable[[Mutant, str], None]) -> None:
        self._mutants = mutants
        self._within_s = within_s
        self._tell = tell
        self._noticed: Counter[tuple[str, str]] = Counter()
        self._functions: list[FunctionType] = []
        self.kept_going = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Judge each change."""
        if session.testsfailed:
            raise pytest.UsageError("the tests cannot be collected")
        checks = dict(_checks(session))
        gc.collect()
        # In a child, what is frozen is neither looked through nor copied.
        self._functions = [each for each in gc.get_objects() if isinstance(each, FunctionType)]
        gc.freeze()
        took = _measured(checks)
        for mutant in self._mutants:
            where = (mutant.where, mutant.module)
            order = sorted(checks, key=lambda name, where=where: (self._rank(where, name), took[name]))
            name = self._judge(mutant, [(name, checks[name]) for name in order])
            for part in (mutant.where, mutant.module):
                self._noticed[part, name] += 1
            self._tell(mutant, name)
        self.kept_going = True
        return True

    def _rank(self, where: tuple[str, str], name: str) -> tuple[int, ...]:
        return tuple(-self._noticed[part, name] for part in where)

    def _judge(self, mutant: Mutant, checks: Sequence[tuple[str, Check]]) -> str:
        place = tempfile.mkdtemp(prefix="mutant-")
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            _child(mutant, self._functions, checks, self._within_s, Path(place), writing)
        os.close(writing)
        with os.fdopen(reading, encoding="utf-8") as told:
            lines = told.read().splitlines()
        _, status = os.waitpid(child, 0)
        shutil.rmtree(place, ignore_errors=True)
        if lines and lines[-1] == "unchanged":
            raise RuntimeError(f"the change was not put in place: {mutant.key}")
        # A child that was killed, by its limits or by itself, leaves the name of what it was at.
        return lines[-1] if lines else f"signal {os.waitstatus_to_exitcode(status)}"


def _checks(session: pytest.Session) -> Iterator[tuple[str, Check]]:
    """The tests and the seeds, by name."""
    for item in session.items:
        yield item.nodeid, lambda item=item: _passes(item)
    for seed in SEEDS:
        yield f"seed {seed}", lambda seed=seed: _holds(seed)


def _measured(checks: Mapping[str, Check]) -> dict[str, float]:
    """How long each takes while nothing is changed, s. In a child: what the tests leave behind goes with it."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        try:
            silence = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silence, 1)
            os.dup2(silence, 2)
            for name, holds in checks.items():
                began = time.monotonic()
                if not holds():
                    break
                os.write(writing, f"{time.monotonic() - began} {name}\n".encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as told:
        took = {name: float(seconds) for seconds, name in (line.rstrip("\n").split(" ", 1) for line in told)}
    os.wait()
    failed = [name for name in checks if name not in took]
    if failed:
        raise pytest.UsageError(f"without any change, this fails: {failed[0]}")
    return took


def _passes(item: pytest.Item) -> bool:
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
    return not item.session.testsfailed


def _holds(seed: int) -> bool:
    from tests.simulation.run import try_seeds

    return not try_seeds([seed]).failures


def _child(
    mutant: Mutant,
    functions: Sequence[FunctionType],
    checks: Sequence[tuple[str, Check]],
    within_s: float,
    place: Path,
    told: int,
) -> None:
    """Run the checks until one fails; tell each before it begins, so that the last that was told is the answer."""

    def tell(line: str) -> None:
        os.write(told, f"{line}\n".encode())

    try:
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        os.environ["PYTEST_DEBUG_TEMPROOT"] = tempfile.tempdir = str(place)
        for limit in (signal.SIGALRM, signal.SIGPROF):
            signal.signal(limit, signal.SIG_DFL)
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, most))
        if not put_in_place(mutant, functions):
            tell("unchanged")
            os._exit(1)
        until = time.monotonic() + within_s
        for name, holds in checks:
            if time.monotonic() > until:
                tell(NOT_YET)
                os._exit(0)
            tell(name)
            # Each of the two signals ends the process.
            signal.setitimer(signal.ITIMER_PROF, LONG_LIMIT_S if name.startswith("tests/scenarios") else LIMIT_S)
            signal.alarm(IDLE_LIMIT_S)
            if not holds():
                os._exit(0)
        tell(NOTHING)
    finally:
        os._exit(0)


def put_in_place(mutant: Mutant, functions: Sequence[FunctionType]) -> bool:
    """Give the loaded function the changed code."""
    path = str(ROOT / mutant.module)
    source = source_of(mutant.module)
    line = source.count("\n", 0, mutant.start) + 1
    old = {_place(code): code for code in _functions(compile(source, path, "exec"))}
    new = {_place(code): code for code in _functions(compile(mutant.applied(source), path, "exec"))}
    # The function that holds the change begins before it, where both sources are the same.
    place = max((place for place in old if place[0] <= line), key=lambda place: place[0])
    found = [each for each in functions if each.__code__.co_filename == path and _place(each.__code__) == place]
    for function in found:
        function.__code__ = new[place]
    return bool(found) and old[place] != new[place]


def _place(code: CodeType) -> tuple[int, str]:
    return code.co_firstlineno, code.co_qualname


def _functions(code: CodeType) -> Iterator[CodeType]:
    """The functions of a module and the methods of its classes; what is inside them comes with them."""
    for each in code.co_consts:
        if isinstance(each, CodeType):
            if each.co_flags & 0x2:  # CO_NEWLOCALS: a function, no class body
                yield each
            else:
                yield from _functions(each)


def judge(mutants: Sequence[Mutant], layer: str, within_s: float, tell: Callable[[Mutant, str], None]) -> None:
    """Say of each change of a module of this layer what noticed it."""
    plugin = Judge(mutants, within_s, tell)
    # No `--capture`: what is told here is to be seen at once; a child is silent anyway.
    arguments = ["-q", "-s", "-p", "no:cacheprovider", "-m", "not slow and not processes", *TESTS[layer]]
    import anarchon

    if Path(anarchon.__file__).parents[1] != ROOT:
        raise RuntimeError(f"these are other sources: {anarchon.__file__}")
    code = pytest.main(arguments, plugins=[plugin])
    if not plugin.kept_going:
        sys.exit(f"pytest ended early, with {code!r}")
