"""The pages of the documentation, cut into headings, blocks and links. Nothing here runs anything.

A block may have a comment on the line before its fence, which says how it is tested:

    <!-- not run: reason -->            it cannot run here; the number of these is limited
    <!-- program: name.py until "x" --> a whole program: started, told to stop once it has printed x, must end well
    <!-- program: name.py x4 until "x" -->  the same in four processes at once
    <!-- command until "x" -->          one command: started, told to stop once it has printed x, must end well
    <!-- file: name.py -->              written to disk for the blocks below it, one of which must name it
    <!-- fresh -->                      Python that begins with an empty namespace
    <!-- prints -->                     what the Python block before it prints
    <!-- timeline: name -->             what the story of that name in timelines.py tells
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]

_FENCE = re.compile(r"^```(\w*)\s*$")
_MARKER = re.compile(r"^<!-- (not run|program|command|file|fresh|prints|timeline)(?::? (.*))? -->$")
_HEADING = re.compile(r"^(#{1,6}) (.+?)\s*$")
_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block."""

    page: str
    line: int
    language: str
    text: str
    marker: str
    """The first word or words of the comment before it; empty without one."""
    argument: str

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading and the line it stands on."""

    line: int
    level: int
    text: str


@dataclass(frozen=True, slots=True)
class Link:
    """A link: what is shown and where it leads."""

    page: str
    line: int
    text: str
    target: str

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}"


class Page:
    """One Markdown file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.relative_to(ROOT).as_posix()
        self.text = path.read_text(encoding="utf-8")
        self.lines = self.text.splitlines()
        self.blocks: list[Block] = []
        self.headings: list[Heading] = []
        self.prose: list[tuple[int, str]] = []
        """The lines outside blocks, with their numbers."""
        self._cut()
        self.links = [
            Link(self.name, number, match[1], match[2]) for number, line in self.prose for match in _LINK.finditer(line)
        ]

    def _cut(self) -> None:
        lines = enumerate(self.lines, 1)
        marker, argument = "", ""
        for number, line in lines:
            if fence := _FENCE.match(line):
                body = "".join(f"{inside}\n" for inside in _until_fence(lines))
                self.blocks.append(Block(self.name, number, fence[1], body, marker, argument))
                marker, argument = "", ""
                continue
            found = _MARKER.match(line)
            marker, argument = (found[1], found[2] or "") if found else ("", "")
            if not line.startswith("<!--"):
                self.prose.append((number, line))
            if heading := _HEADING.match(line):
                self.headings.append(Heading(number, len(heading[1]), heading[2]))

    @property
    def anchors(self) -> set[str]:
        """What a link into this page may name, as GitHub makes it from the headings."""
        return {anchor_of(heading.text) for heading in self.headings}

    def section(self, title: str) -> str:
        """The lines from the heading of that title to the next of its level or above."""
        for index, heading in enumerate(self.headings):
            if heading.text == title:
                later = (each.line for each in self.headings[index + 1 :] if each.level <= heading.level)
                return "\n".join(self.lines[heading.line : next(later, len(self.lines) + 1) - 1])
        raise AssertionError(f"{self.name} has no section {title!r}")

    def tables(self) -> list[list[dict[str, str]]]:
        """Each table as rows by column."""
        found: list[list[dict[str, str]]] = []
        head: list[str] | None = None
        for _, line in [*self.prose, (0, "")]:
            if not line.startswith("|"):
                head = None
            elif head is None:
                head = _cells(line)
                found.append([])
            elif not set(line) <= set("|-: "):
                found[-1].append(dict(zip(head, _cells(line), strict=True)))
        return found

    def table(self, *columns: str) -> list[dict[str, str]]:
        """The one table that begins with these columns."""
        found = [rows for rows in self.tables() if rows and tuple(rows[0])[: len(columns)] == columns]
        assert len(found) == 1, f"{self.name} has {len(found)} tables that begin with {columns}"
        return found[0]


def _until_fence(lines: Iterator[tuple[int, str]]) -> Iterator[str]:
    for _, line in lines:
        if line.rstrip() == "```":
            return
        yield line
    raise AssertionError("a block is not closed")


def _cells(line: str) -> list[str]:
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]


def anchor_of(heading: str) -> str:
    """A heading as GitHub makes an anchor of it."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


@cache
def pages() -> tuple[Page, ...]:
    """README and every page below docs/, in order of their names."""
    return tuple(Page(path) for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))])


def page(name: str) -> Page:
    """One page by its path."""
    return next(each for each in pages() if each.name == name)


def bare(cell: str) -> str:
    """The text of a cell that is one piece of code."""
    return cell.strip("`")


def coded(text: str) -> list[str]:
    """Each piece of code in a text."""
    return re.findall(r"`([^`]+)`", text)
