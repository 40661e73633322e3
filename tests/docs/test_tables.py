"""The tables of the documentation say what the code says."""

from __future__ import annotations

import dataclasses
import inspect
import logging
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

import anarchon
from anarchon import AnarchonError, Event, RunContext, Scheduler, errors
from anarchon.engine.env import Counters
from anarchon.event_log import LEVELS
from anarchon.model import events
from anarchon.protocol import Backend
from anarchon.testing import MemoryBackend
from anarchon.times.schedule import cron
from anarchon_sqlite import SQLiteBackend
from tests.docs.pages import bare, coded, page

OPTIONS = page("docs/options.md")

# ------------------------------------------------------------------ options


def parameters(method: Callable[..., Any]) -> set[str]:
    return {
        name
        for name, parameter in inspect.signature(method).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }


def test_every_option_of_a_task_has_a_section() -> None:
    sections = {
        name for heading in OPTIONS.headings if heading.level == 3 for name in re.split(r", | and ", heading.text)
    }

    assert sections == parameters(Scheduler.every) | parameters(Scheduler.cron) | parameters(Scheduler.at)


def test_every_option_of_a_scheduler_is_listed_with_its_default() -> None:
    rows = {bare(row["option"]): row["default"].strip('`"') for row in OPTIONS.table("option", "default")}
    words = {"made anew at each start": None, "no limit": None, "none": None, "UTC": None}

    shown = {name: str(words.get(default, default)) for name, default in rows.items()}

    signature = inspect.signature(Scheduler.__init__)
    assert shown == {name: str(signature.parameters[name].default) for name in parameters(Scheduler.__init__)}


def register_of_the_page() -> dict[str, Any]:
    (block,) = [block for block in OPTIONS.blocks if block.language == "python"]
    namespace: dict[str, Any] = {}
    exec(compile(block.text, block.where, "exec", dont_inherit=True), namespace)
    return namespace


@pytest.mark.parametrize("kind", ["sqlite", "memory"])
@pytest.mark.filterwarnings("error")
def test_every_example_registration_is_accepted_with_the_values_of_the_table(kind: str, tmp_path: Path) -> None:
    backend: Backend = SQLiteBackend(tmp_path / "app.db") if kind == "sqlite" else MemoryBackend()
    scheduler = Scheduler(backend)

    register_of_the_page()["register"](scheduler)

    columns = ("max_attempts", "catch_up_ms", "timeout_ms", "max_late_ms", "jitter_ms")
    shown = {row["kind"]: {name: row[name] for name in columns} for row in OPTIONS.table("kind")}
    real = {
        task.name: {name: str(getattr(task, name)).replace("None", "none") for name in columns}
        for task in scheduler.list()
    }
    assert real == shown
    assert len(real) == 7


# ------------------------------------------------------------------ errors

ERRORS = page("docs/errors.md")


def test_every_error_class_is_described_under_its_code_and_no_other() -> None:
    real = {
        name: kind.code
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, AnarchonError)
    }

    shown = {heading.text: coded(ERRORS.section(heading.text))[0] for heading in ERRORS.headings if heading.level == 3}

    assert shown == real


def test_the_tree_of_errors_is_drawn_as_it_is() -> None:
    tree = next(block.text for block in ERRORS.blocks if block.language == "text")

    parents: dict[int, str] = {}
    for line in tree.splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        for name in re.findall(r"\b(?!ValueError|RuntimeError)\w+Error\b", line):
            base = getattr(errors, name).__mro__[1].__name__
            assert base == (parents[depth - 1] if depth else "Exception"), name
            parents[depth] = name
    assert set(re.findall(r"\w+Error", tree)) - {"ValueError", "RuntimeError"} == {
        name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, AnarchonError)
    }


def test_every_error_can_be_imported_from_the_package() -> None:
    assert [
        heading.text for heading in ERRORS.headings if heading.level == 3 and not hasattr(anarchon, heading.text)
    ] == []


# ------------------------------------------------------------------ events

EVENTS = page("docs/events.md")


def all_events() -> list[type[Event]]:
    return [kind for kind in vars(events).values() if isinstance(kind, type) and issubclass(kind, Event)]


def own_fields(kind: type[Event]) -> list[str]:
    inherited = {
        field.name for base in kind.__mro__[1:] if dataclasses.is_dataclass(base) for field in dataclasses.fields(base)
    }
    return [field.name for field in dataclasses.fields(kind) if field.name not in inherited]


def test_every_event_is_listed_with_its_base_its_fields_and_its_level() -> None:
    shown = {
        bare(row["event"]): (bare(row["base"]), coded(row["own fields"]), row["logged as"])
        for row in EVENTS.table("event")
    }

    assert shown == {
        kind.__name__: (
            kind.__mro__[1].__name__.replace("object", ""),
            own_fields(kind),
            logging.getLevelName(LEVELS[kind][0]) if kind in LEVELS else "",
        )
        for kind in all_events()
    }


def test_every_event_can_be_imported_from_the_package() -> None:
    assert [kind.__name__ for kind in all_events() if not hasattr(anarchon, kind.__name__)] == []


def test_every_counter_is_listed() -> None:
    shown = [name for row in EVENTS.table("counter") for name in coded(row["counter"])]

    assert sorted(shown) == sorted(field.name for field in dataclasses.fields(Counters))


# ------------------------------------------------------------------ handlers, times, words


def test_every_attribute_of_the_context_is_listed() -> None:
    shown = {bare(row["attribute"]) for row in page("docs/handlers.md").table("attribute")}

    assert shown == {f"ctx.{name.removeprefix('_')}" for name in RunContext.__slots__}


BERLIN = ZoneInfo("Europe/Berlin")


def slots_of(expression: str, day: date) -> str:
    """As the table shows the slots of a day in Berlin."""
    schedule = cron(expression, timezone="Europe/Berlin")
    first, end = (
        int(datetime(each.year, each.month, each.day, tzinfo=BERLIN).timestamp() * 1_000)
        for each in (day, day + timedelta(days=1))
    )
    found: list[str] = []
    slot_ms = schedule.next(first - 1)
    while slot_ms is not None and slot_ms < end:
        text = datetime.fromtimestamp(slot_ms / 1_000, UTC).astimezone(BERLIN).isoformat()
        found.append(f"{text[11:16]} ({text[-6:]})")
        slot_ms = schedule.next(slot_ms)
    return ", ".join(found) if len(found) < 10 else f"{len(found)} slots"


def test_the_table_of_clock_changes_in_berlin_is_true() -> None:
    rows = page("docs/timing.md").table("expression")
    spring, autumn = list(rows[0])[1:]

    assert len(rows) >= 8
    for row in rows:
        expression = bare(row["expression"])
        assert row[spring] == slots_of(expression, date(2026, 3, 29)), expression
        assert row[autumn] == slots_of(expression, date(2026, 10, 25)), expression


def test_the_glossary_has_each_word_once_and_in_order() -> None:
    words = [row["word"] for row in page("docs/glossary.md").table("word")]

    assert words == sorted(set(words))
    assert len(words) >= 35
