"""The recorded cases: expressions with their slots, and inputs with their refusals."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from anarchon.errors import (
    ConfigurationError,
    InvalidBaselineError,
    InvalidCronError,
    InvalidInstantError,
    InvalidIntervalError,
    InvalidTimezoneError,
)
from anarchon.times.cron_next import next_cron_fire
from anarchon.times.duration import parse_interval
from anarchon.times.grid import next_baseline_fire
from anarchon.times.instants import to_ms
from anarchon.times.schedule import at, cron
from anarchon.times.zones import zone
from tests.support.schedules import instant

DATA = Path(__file__).parents[2] / "data"
Row = dict[str, Any]


def rows(file: str) -> list[Row]:
    return [json.loads(line) for line in (DATA / file).read_text("utf-8").splitlines()]


def named(row: Row) -> str:
    return str(row["id"])


VECTORS = rows("vectors.jsonl")
SPECS = [row for row in rows("specs.jsonl") if row["kind"] != "spec"]
VALID = [row for row in SPECS if row["valid"]]
REFUSED = [row for row in SPECS if not row["valid"]]


@pytest.mark.parametrize("row", VECTORS, ids=named)
def test_a_vector_has_its_slots_forwards_and_backwards(row: Row) -> None:
    schedule = cron(row["expr"], timezone=row["tz"])
    expected = [instant(slot) for slot in row["next"]]

    forwards = [schedule.next(after) for after in [instant(row["after"]), *expected[:-1]]]
    backwards = [schedule.prev(slot - 1) for slot in expected[1:]]

    assert forwards == expected, row["why"]
    assert backwards == expected[:-1], row["why"]


@pytest.mark.parametrize("row", VECTORS, ids=named)
def test_a_vector_keeps_the_promise_of_the_shortest_gap(row: Row) -> None:
    slots = [instant(slot) for slot in row["next"]]

    closest = min((b - a for a, b in itertools.pairwise(slots)), default=None)

    assert closest is None or cron(row["expr"], timezone=row["tz"]).shortest_gap() <= closest


def read(row: Row) -> object:
    """What the input of a row comes to, in the form of its expectation."""
    given = row["input"]
    if row["kind"] == "interval":
        return parse_interval(given)
    if row["kind"] == "timezone":
        return zone(given).name
    if row["kind"] == "at":
        return at(given).at_ms
    after = instant(row.get("after", "2026-12-01T00:00:00Z"))
    if row["kind"] == "baseline":
        fire = next_baseline_fire(given, row.get("tz", "UTC"), after)
        return None if fire is None else to_ms(fire)
    found: list[int] = []
    for _ in row.get("expect", [0]):
        fire = next_cron_fire(given, found[-1] if found else after, row.get("tz", "UTC"))
        assert fire is not None
        found.append(to_ms(fire))
    return found


EXPECTED: dict[str, Callable[[Any], object]] = {
    "interval": int,
    "timezone": str,
    "at": instant,
    "baseline": instant,
    "cron": lambda slots: [instant(slot) for slot in slots],
}
ERRORS: dict[str, type[ConfigurationError]] = {
    "interval": InvalidIntervalError,
    "timezone": InvalidTimezoneError,
    "at": InvalidInstantError,
    "baseline": InvalidBaselineError,
    "cron": InvalidCronError,
}


@pytest.mark.parametrize("row", VALID, ids=named)
def test_a_valid_input_means_what_is_recorded(row: Row) -> None:
    assert read(row) == EXPECTED[row["kind"]](row["expect"]), row["why"]


@pytest.mark.parametrize("row", REFUSED, ids=named)
def test_a_refused_input_is_refused_with_the_error_of_its_kind(row: Row) -> None:
    with pytest.raises(ERRORS[row["kind"]]) as caught:
        read(row)

    assert type(caught.value) is ERRORS[row["kind"]], row["reason"]
