"""Links lead somewhere, names are those of things that exist, and no page speaks of what is not there."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module

import pytest

from tests.docs.pages import ROOT, Page, bare, page, pages

LONGEST_PAGE = 200

_TEST = re.compile(r"`([\w./-]+\.py)::(test_\w+)`")
_DEFINED = re.compile(r"^\s*(?:async )?def (test_\w+)\(", re.MULTILINE)
_OBJECT = re.compile(r"`(anarchon[\w.]*):([\w.]+)`")
_PATH = re.compile(r"`((?:anarchon|backends|tests|scripts|docs)/[\w./*-]+)`")

every_page = pytest.mark.parametrize("each", pages(), ids=lambda each: each.name)


@every_page
def test_a_page_is_short(each: Page) -> None:
    assert len(each.lines) < LONGEST_PAGE


@every_page
def test_a_page_has_one_title_and_no_heading_twice(each: Page) -> None:
    assert [heading.level for heading in each.headings].count(1) == 1
    assert each.headings[0].level == 1
    assert len(each.anchors) == len(each.headings)


@every_page
def test_links_inside_the_project_lead_somewhere(each: Page) -> None:
    lost: list[str] = []
    for link in each.links:
        if "://" in link.target:
            continue
        path, _, anchor = link.target.partition("#")
        target = (each.path.parent / path).resolve() if path else each.path
        if not target.is_relative_to(ROOT) or not target.exists():
            lost.append(f"{link.where}: {link.target}")
        elif anchor and anchor not in Page(target).anchors:
            lost.append(f"{link.where}: no heading for #{anchor}")

    assert lost == []


@cache
def names_of_tests(name: str) -> frozenset[str]:
    path = ROOT / name
    return frozenset(_DEFINED.findall(path.read_text(encoding="utf-8"))) if path.is_file() else frozenset()


@every_page
def test_the_tests_that_a_page_names_exist(each: Page) -> None:
    by_name = _TEST.findall(each.text)
    linked = [(link.target, bare(link.text)) for link in each.links if bare(link.text).startswith("test_")]

    assert [f"{path}::{test}" for path, test in (*by_name, *linked) if test not in names_of_tests(path)] == []


@every_page
def test_the_objects_that_a_page_names_exist(each: Page) -> None:
    for module, name in _OBJECT.findall(each.text):
        found: object = import_module(module)
        for part in name.split("."):
            assert hasattr(found, part), f"{each.name} names {module}:{name}"
            found = getattr(found, part)


@every_page
def test_the_files_that_a_page_names_exist(each: Page) -> None:
    named = [name for name in _PATH.findall(each.text) if "::" not in name]

    assert [name for name in named if not any(ROOT.glob(name))] == []


def test_every_page_is_reached_from_the_index() -> None:
    index = page("docs/index.md")
    linked = {(index.path.parent / link.target.partition("#")[0]).resolve() for link in index.links}

    assert [each.name for each in pages() if each.path not in linked | {index.path} and each.name != "README.md"] == []


def test_each_rule_of_a_slots_life_names_a_function_and_a_test() -> None:
    rows = [row for table in page("docs/slot-life.md").tables() for row in table]

    assert len(rows) >= 25
    for row in rows:
        assert _OBJECT.fullmatch(row["decided by"]), row
        assert _TEST.fullmatch(row["proved by"]), row


def test_each_guarantee_of_the_readme_links_to_its_proof() -> None:
    rows = page("README.md").table("what holds")

    assert len(rows) >= 8
    assert all(re.fullmatch(r"\[`test_\w+`\]\(\S+\.py\)", row["proof"]) for row in rows)


def test_each_guarantee_names_at_least_one_test() -> None:
    parts = re.split(r"^\*\*\d+\. ", page("docs/guarantees.md").section("The list"), flags=re.MULTILINE)[1:]

    assert len(parts) == 9
    assert [part.splitlines()[0] for part in parts if not _TEST.search(part)] == []


# ------------------------------------------------------------------ what is not there

NOT_THERE = re.compile(
    r"postgres|redis|valkey|rabbitmq|\bnats\b|trigger|\bpauses? a task|\bpaus(?:e|ing)\(|run_now|run-now|\bwhy\(|"
    r"missed record|records? of missed|checkpoint|leader[_ ]gat|not-leader|\baudit|watchdog|dashboard|"
    r"prometheus|opentelemetry|prune_claims|misfire|\bjobs=|"
    r"anarchon (?:tasks|why|pause|resume|doctor|migrate|status)\b",
    re.IGNORECASE,
)


@every_page
def test_a_page_speaks_only_of_what_is_there(each: Page) -> None:
    text = each.text
    if each.name == "README.md":
        text = text.replace(each.section("What is not there yet"), "")
    # The class is there, and its page says that nothing raises it.
    text = text.replace("TriggerConflictError", "").replace("`trigger-conflict`", "")

    assert [line for line in text.splitlines() if NOT_THERE.search(line)] == []


def test_the_changelog_speaks_only_of_what_is_there() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")

    assert "## Unreleased" in text
    assert [line for line in text.splitlines() if NOT_THERE.search(line)] == []


def test_the_readme_says_in_one_place_what_is_not_there() -> None:
    missing = page("README.md").section("What is not there yet")

    assert all(word in missing for word in ("PostgreSQL", "Redis", "RabbitMQ", "NATS", "triggers", "dashboard"))


def test_the_readme_keeps_its_order() -> None:
    titles = [heading.text for heading in page("README.md").headings if heading.level == 2]

    assert titles == [
        "Who it is for",
        "Install",
        "The smallest whole example",
        "What it guarantees",
        "Limits",
        "What is not there yet",
    ]


def test_every_decision_weighs_what_was_turned_down() -> None:
    decisions = [each for each in pages() if each.name.startswith("docs/decisions/")]

    assert [each.path.name[:4] for each in decisions] == [f"{number:04}" for number in range(1, len(decisions) + 1)]
    for each in decisions:
        titles = [heading.text for heading in each.headings if heading.level == 2]
        assert titles == ["Context", "Choice", "Turned down", "What would change our mind"], each.name
