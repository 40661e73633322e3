"""Which changed lines of the engine does no fast test notice?

Changes one place of a module at a time (a statement left out, a comparison, a condition or a bound turned round), in
a copy of the tree, and runs the fast tests against it. What none of them notices is looked up in
`mutants-survivors.txt`, which gives the reason why it changes nothing; what is not there is printed, and the answer
is 1.

    python scripts/mutants.py [MODULE ...] [--sample N] [--jobs N] [--only TEXT]
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).parents[1]
SURVIVORS = Path(__file__).with_name("mutants-survivors.txt")
TIMEOUT_S = 240

MODULES = (
    "anarchon/model/leasing.py",
    "anarchon/model/settling.py",
    "anarchon/model/slots.py",
    "anarchon/model/trimming.py",
    "anarchon/engine/active.py",
    "anarchon/engine/catch_up.py",
    "anarchon/engine/claimer.py",
    "anarchon/engine/engine.py",
    "anarchon/engine/env.py",
    "anarchon/engine/keeper.py",
    "anarchon/engine/planner.py",
    "anarchon/engine/recorder.py",
    "anarchon/engine/runner.py",
    "anarchon/engine/survey.py",
)

PYTEST = ("-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "not slow and not processes")
# From quick to slow, so that most mutants fall early.
STAGES: dict[str, tuple[tuple[str, ...], ...]] = {
    "model": (
        (*PYTEST, "tests/unit/model"),
        ("-m", "tests.simulation.run", "--seeds", "5", "--jobs", "1"),
        (*PYTEST, "tests/unit/engine", "tests/scenarios"),
        ("-m", "tests.simulation.run", "--first", "5", "--seeds", "45", "--jobs", "1"),
    ),
    "engine": (
        ("-m", "tests.simulation.run", "--seeds", "5", "--jobs", "1"),
        (*PYTEST, "tests/unit/engine", "tests/scenarios"),
        ("-m", "tests.simulation.run", "--first", "5", "--seeds", "45", "--jobs", "1"),
    ),
}

_TURNED: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
_SIGNS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "in",
    ast.NotIn: "not in",
}


@dataclass(frozen=True)
class Mutant:
    """One change."""

    module: str
    where: str
    """The function."""
    old: str
    new: str
    start: int
    end: int
    """Offsets into the source."""

    context: str
    """The line that it is in."""

    @property
    def key(self) -> str:
        """What it is called in the list of survivors: no line number, which every edit would move."""
        change = f"{' '.join(self.old.split())} -> {' '.join(self.new.split())}"
        return f"{self.module}::{self.where}: {change} | {self.context}"

    def applied(self, source: str) -> str:
        """The module with the change in it."""
        return source[: self.start] + self.new + source[self.end :]


def mutants_of(module: str) -> list[Mutant]:
    """Every change of a module that compiles and says something else."""
    source = (ROOT / module).read_text(encoding="utf-8")
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def at(line: int, column: int) -> int:
        text = source[starts[line - 1] : starts[line]]
        return starts[line - 1] + len(text.encode()[:column].decode())

    def span(node: ast.expr | ast.stmt) -> tuple[int, int]:
        return at(node.lineno, node.col_offset), at(node.end_lineno or node.lineno, node.end_col_offset or 0)

    found: list[Mutant] = []

    def add(where: str, start: int, end: int, new: str) -> None:
        line = source[source.rfind("\n", 0, start) + 1 : source.find("\n", start)].strip()
        mutant = Mutant(module, where, source[start:end], new, start, end, line)
        try:
            compile(mutant.applied(source), module, "exec")
        except SyntaxError:
            return
        found.append(mutant)

    for where, node in _inside_functions(ast.parse(source)):
        if isinstance(node, ast.stmt) and _may_go(node):
            add(where, *span(node), "pass")
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _TURNED:
            (_, left), (right, _) = span(node.left), span(node.comparators[0])
            kind = type(node.ops[0])
            add(where, left, right, source[left:right].replace(_SIGNS[kind], _TURNED[kind]))
        if isinstance(node, ast.Compare) and len(node.ops) == 2:
            add(where, *span(node), "True")
        if isinstance(node, ast.BoolOp):
            for value in node.values:
                if isinstance(value, ast.Constant):
                    continue  # `or 0`: False is 0
                add(where, *span(value), "True" if isinstance(node.op, ast.And) else "False")
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            add(where, *span(node), source[slice(*span(node.operand))])
        if isinstance(node, ast.If | ast.IfExp | ast.While) and not isinstance(node.test, ast.Constant):
            for constant in ("True", "False"):
                if not (isinstance(node, ast.While) and constant == "True"):
                    add(where, *span(node.test), constant)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("min", "max"):
            add(where, *span(node.func), "max" if node.func.id == "min" else "min")
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
            (_, left), (right, _) = span(node.left), span(node.right)
            sign = source[left:right]
            add(where, left, right, sign.replace("+", "-") if "+" in sign else sign.replace("-", "+"))
    return found


def _inside_functions(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    def walk(node: ast.AST, names: tuple[str, ...]) -> Iterator[tuple[str, ast.AST]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                for statement in child.body:
                    yield from visit(statement, (*names, child.name))
            elif isinstance(child, ast.ClassDef):
                yield from walk(child, (*names, child.name))

    def visit(node: ast.AST, names: tuple[str, ...]) -> Iterator[tuple[str, ast.AST]]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for statement in node.body:
                yield from visit(statement, (*names, node.name))
            return
        yield ".".join(names), node
        if isinstance(node, ast.Assert):
            return
        for field, value in ast.iter_fields(node):
            if field in ("annotation", "returns"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from visit(child, names)

    yield from walk(tree, ())


def _may_go(node: ast.stmt) -> bool:
    """A statement that does something when it is there."""
    if isinstance(node, ast.Expr):
        if isinstance(node.value, ast.Constant):
            return False
        text = ast.unparse(node)
        return not text.startswith(("logger.", "run_logger."))
    if isinstance(node, ast.AnnAssign):
        return node.value is not None
    return isinstance(node, ast.Assign | ast.AugAssign | ast.Return | ast.Raise | ast.Continue | ast.Break | ast.Delete)


# ------------------------------------------------------------------ running the tests


def copy_tree(place: Path) -> None:
    """What the fast tests need."""
    for name in ("anarchon", "backends", "tests", "docs", "examples"):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", place)


def notices(place: Path, mutant: Mutant) -> str | None:
    """What noticed the change; None: nothing did."""
    target = place / mutant.module
    source = target.read_text(encoding="utf-8")
    target.write_text(mutant.applied(source), encoding="utf-8")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(place), str(place / "backends")]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HYPOTHESIS_PROFILE": "quick",
    }
    try:
        for stage in STAGES[mutant.module.split("/")[1]]:
            command = [sys.executable, *stage]
            try:
                done = subprocess.run(
                    command, cwd=place, env=environment, capture_output=True, timeout=TIMEOUT_S, check=False
                )
            except subprocess.TimeoutExpired:
                return "time"
            if done.returncode:
                return stage[-1] if "pytest" in stage else "simulation"
        return None
    finally:
        target.write_text(source, encoding="utf-8")


def known_survivors() -> dict[str, str]:
    """Those that change nothing, each with its reason."""
    known: dict[str, str] = {}
    for line in SURVIVORS.read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            key, _, reason = line.partition("  # ")
            known[key.strip()] = reason.strip()
    return known


def main() -> int:
    """Answer 1 when something survived that has no reason to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", default=list(MODULES))
    parser.add_argument("--sample", type=int, help="only so many, drawn at random")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", default="", help="only those whose name contains this text")
    parser.add_argument("--list", action="store_true", help="only say which there are")
    options = parser.parse_args()
    mutants = [mutant for module in options.modules for mutant in mutants_of(module) if options.only in mutant.key]
    if options.sample is not None and options.sample < len(mutants):
        mutants = random.Random(options.seed).sample(mutants, options.sample)
    if options.list:
        print("\n".join(mutant.key for mutant in mutants))
        return 0
    known = known_survivors()
    mutants = [mutant for mutant in mutants if mutant.key not in known]
    began = time.monotonic()
    survivors: list[Mutant] = []
    with tempfile.TemporaryDirectory() as directory:
        places: SimpleQueue[Path] = SimpleQueue()
        for number in range(options.jobs):
            place = Path(directory) / str(number)
            copy_tree(place)
            places.put(place)

        def judge(mutant: Mutant) -> None:
            place = places.get()
            try:
                noticed = notices(place, mutant)
            finally:
                places.put(place)
            if noticed is None:
                survivors.append(mutant)
                print(f"SURVIVED {mutant.key}", flush=True)
            else:
                print(f"  {noticed}: {mutant.key}", flush=True)

        with ThreadPoolExecutor(options.jobs) as pool:
            list(pool.map(judge, mutants))
    told = f"{len(mutants)} mutants, {len(survivors)} unexplained survivors, in {time.monotonic() - began:.0f} s"
    print("\n".join(["", *sorted(mutant.key for mutant in survivors), told]))
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
