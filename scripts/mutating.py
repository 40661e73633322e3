"""Which changes of a module there are: a statement left out, a condition forced, a comparison turned round."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]

KINDS = ("statement", "condition", "line", "comparison", "other")
"""In the order in which they are tried. A line: an argument or an entry by name, or a whole loop."""

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

    kind: str
    again: int = 0
    """How many changes before it in the module would have the same name."""

    @property
    def key(self) -> str:
        """What it is called in the list of survivors: no line number, which every edit would move."""
        change = f"{' '.join(self.old.split())} -> {' '.join(self.new.split())}"
        numbered = f" [{self.again + 1}]" if self.again else ""
        return f"{self.module}::{self.where}: {change} | {self.context}{numbered}"

    def applied(self, source: str) -> str:
        """The module with the change in it."""
        return source[: self.start] + self.new + source[self.end :]


@cache
def source_of(module: str) -> str:
    """What it was when it was first looked at: it may be edited while its mutants are tried."""
    return (ROOT / module).read_text(encoding="utf-8")


def mutants_of(module: str) -> list[Mutant]:
    """Every change of a module that compiles and says something else, in the order of `KINDS`."""
    source = source_of(module)
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def at(line: int, column: int) -> int:
        text = source[starts[line - 1] : starts[line]]
        return starts[line - 1] + len(text.encode()[:column].decode())

    def span(node: ast.expr | ast.stmt | ast.keyword) -> tuple[int, int]:
        return at(node.lineno, node.col_offset), at(node.end_lineno or node.lineno, node.end_col_offset or 0)

    found: list[Mutant] = []

    def add(kind: str, where: str, start: int, end: int, new: str) -> None:
        line = source[source.rfind("\n", 0, start) + 1 : source.find("\n", start)].strip()
        mutant = Mutant(module, where, source[start:end], new, start, end, line, kind)
        try:
            compile(mutant.applied(source), module, "exec")
        except SyntaxError:
            return
        found.append(mutant)

    for where, node in _inside_functions(ast.parse(source)):
        if isinstance(node, ast.stmt) and _may_go(node):
            add("statement", where, *span(node), "pass")
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _TURNED:
            (_, left), (right, _) = span(node.left), span(node.comparators[0])
            kind = type(node.ops[0])
            turned = source[left:right].replace(_SIGNS[kind], _TURNED[kind])
            add("comparison", where, left, right, turned)
        if isinstance(node, ast.Compare) and len(node.ops) == 2:
            add("comparison", where, *span(node), "True")
        if isinstance(node, ast.BoolOp):
            for value in node.values:
                if isinstance(value, ast.Constant):
                    continue  # `or 0`: False is 0
                add("condition", where, *span(value), "True" if isinstance(node.op, ast.And) else "False")
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            add("other", where, *span(node), source[slice(*span(node.operand))])
        if isinstance(node, ast.If | ast.IfExp | ast.While) and not isinstance(node.test, ast.Constant):
            for constant in ("True", "False"):
                if not (isinstance(node, ast.While) and constant == "True"):
                    add("condition", where, *span(node.test), constant)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("min", "max"):
            add("other", where, *span(node.func), "max" if node.func.id == "min" else "min")
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
            (_, left), (right, _) = span(node.left), span(node.right)
            sign = source[left:right]
            add("other", where, left, right, sign.replace("+", "-") if "+" in sign else sign.replace("-", "+"))
        if isinstance(node, ast.For | ast.AsyncFor):
            add("line", where, *span(node.iter), "()")
        if isinstance(node, ast.Call):
            for argument in node.keywords:
                if argument.arg is not None:
                    start, end = span(argument)
                    add("line", where, start, _past_comma(source, end), "")
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if key is not None:
                    add("line", where, span(key)[0], _past_comma(source, span(value)[1]), "")
    found.sort(key=lambda mutant: KINDS.index(mutant.kind))
    return _told_apart(found)


def _past_comma(source: str, end: int) -> int:
    rest = source[end:]
    return end + len(rest) - len(rest.lstrip(" \n,"))


def _told_apart(mutants: list[Mutant]) -> list[Mutant]:
    """With a number in the name of each that would be called like one before it."""
    seen: Counter[str] = Counter()
    named: list[Mutant] = []
    for mutant in sorted(mutants, key=lambda mutant: mutant.start):
        named.append(replace(mutant, again=seen[mutant.key]))
        seen[mutant.key] += 1
    return sorted(named, key=lambda mutant: KINDS.index(mutant.kind))


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
