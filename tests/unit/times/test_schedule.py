"""The three schedules as a user makes them: what is refused, and how they call themselves."""

from __future__ import annotations

import copy
import itertools
import pickle
from dataclasses import FrozenInstanceError, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from anarchon.errors import (
    ConfigurationError,
    InvalidBaselineError,
    InvalidCronError,
    InvalidInstantError,
    InvalidIntervalError,
    InvalidTimezoneError,
    UnsafeOptionError,
)
from anarchon.times.cron import parse_cron
from anarchon.times.schedule import At, Every, Schedule, at, cron, every
from anarchon.times.zones import AnarchonWarning
from tests.support.schedules import instant, shown, slots_between

NEW_YEAR = "2027-01-01T00:00:00Z"
ALL: list[Schedule] = [
    every("5m"),
    every("1h", offset_ms=60_000),
    every("2h", baseline="02:30", timezone="Europe/Berlin"),
    cron("0 2 * * *", timezone="Europe/Berlin"),
    at(NEW_YEAR),
]


@pytest.mark.parametrize(
    ("schedule", "canonical", "words"),
    [
        (every("5m"), "every 5m", "every 5 minutes"),
        (every("60s"), "every 1m", "every minute"),
        (every("90m"), "every 1h30m", "every 1 hour 30 minutes"),
        (every("250ms"), "every 250ms", "every 250 milliseconds"),
        (every("24h"), "every 1d", "every day at 00:00 UTC"),
        (every("7d"), "every 1w", "every week on Thursday at 00:00 UTC"),
        (every("2d"), "every 2d", "every 2 days at 00:00 UTC, counted from 1970-01-01"),
        (every("2w"), "every 2w", "every 2 weeks on Thursday at 00:00 UTC, counted from 1970-01-01"),
        (every("1h", offset_ms=300_000), "every 1h offset 5m", "every hour, 5m after the full interval"),
        (every("1d", offset_ms=9_000_000), "every 1d offset 2h30m", "every day at 02:30 UTC"),
        (every("1w", offset_ms=345_600_500), "every 1w offset 4d500ms", "every week on Monday at 00:00:00.500 UTC"),
        (every("2h", baseline="02:30"), "every 2h from 02:30 UTC", "every 2 hours from 02:30 UTC"),
        (
            every("24h", baseline="02:30", timezone="europe/berlin"),
            "every 1d from 02:30 Europe/Berlin",
            "every day at 02:30 Europe/Berlin",
        ),
        (
            cron("0 2 * * mon", timezone="europe/berlin"),
            "cron 0 2 * * 1 Europe/Berlin",
            "every Monday at 02:00 Europe/Berlin",
        ),
        (at(NEW_YEAR), "at 2027-01-01T00:00:00Z", "once, at 2027-01-01 00:00:00 UTC"),
        (at(1), "at 1970-01-01T00:00:00.001Z", "once, at 1970-01-01 00:00:00.001 UTC"),
    ],
)
def test_a_schedule_has_a_canonical_text_and_words(schedule: Schedule, canonical: str, words: str) -> None:
    assert schedule.canonical == canonical
    assert schedule.describe() == words


@pytest.mark.parametrize(
    "spellings",
    [
        [every("1h30m"), every("90m"), every(5_400_000), every(timedelta(minutes=90))],
        [cron("@daily", timezone="UTC"), cron(" 0  0 * * * ", timezone="utc"), cron("0 0 1-31 * 1", timezone="UTC")],
        [at(NEW_YEAR), at("2027-01-01T02:00+02:00"), at(datetime(2027, 1, 1, tzinfo=UTC)), at(1_798_761_600_000)],
    ],
)
def test_spellings_of_one_grid_have_one_canonical_text(spellings: list[Schedule]) -> None:
    assert len({schedule.canonical for schedule in spellings}) == 1
    asked = instant("2026-12-30T07:11:13Z")
    assert len({(schedule.next(asked), schedule.prev(asked)) for schedule in spellings}) == 1


def test_a_day_is_midnight_in_utc_and_a_week_a_thursday() -> None:
    asked = instant("2026-12-01T12:00Z")

    assert shown(every("1d").next(asked)) == "2026-12-02T00:00Z"
    assert shown(every("1w").next(asked)) == "2026-12-03T00:00Z"


def test_a_clock_change_never_moves_a_plain_interval() -> None:
    slots = slots_between(every("6h").next, "2026-03-28T00:00Z", "2026-03-31T00:00Z")

    assert {b - a for a, b in itertools.pairwise(slots)} == {21_600_000}


@pytest.mark.parametrize(
    ("arguments", "error", "reason"),
    [
        ({"interval": "99ms"}, InvalidIntervalError, "at least 100 ms"),
        ({"interval": 1}, InvalidIntervalError, "at least 100 ms"),
        ({"interval": "soon"}, InvalidIntervalError, "not a duration"),
        ({"interval": None}, InvalidIntervalError, "NoneType"),
        ({"interval": "1h", "offset_ms": 3_600_000}, InvalidIntervalError, "0 gives the same slots"),
        ({"interval": "1h", "offset_ms": -60_000}, InvalidIntervalError, "3540000 gives the same slots"),
        ({"interval": "1h", "offset_ms": "5m"}, InvalidIntervalError, "offset_ms must be whole milliseconds"),
        ({"interval": "1h", "offset_ms": 1.0}, InvalidIntervalError, "offset_ms must be whole milliseconds"),
        ({"interval": "1h", "offset_ms": True}, InvalidIntervalError, "offset_ms must be whole milliseconds"),
        ({"interval": "1h", "offset_ms": 1, "baseline": "02:30"}, UnsafeOptionError, "exclude each other"),
        ({"interval": "1h", "timezone": "UTC"}, UnsafeOptionError, "means nothing without a baseline"),
        ({"interval": "1h", "baseline": "24:00"}, InvalidBaselineError, "HH:MM"),
        ({"interval": "1h", "baseline": 230}, InvalidBaselineError, "HH:MM"),
        ({"interval": "24h1ms", "baseline": "02:30"}, InvalidIntervalError, "wrong order|at most 24 hours"),
        ({"interval": "1d1ms", "baseline": "02:30"}, InvalidIntervalError, "at most 24 hours"),
        ({"interval": "1h", "baseline": "02:30", "timezone": "Berlin"}, InvalidTimezoneError, "Europe/Berlin"),
    ],
)
def test_an_interval_that_cannot_work_is_refused(
    arguments: dict[str, Any], error: type[ConfigurationError], reason: str
) -> None:
    with pytest.raises(error, match=reason):
        every(**arguments)


def test_cron_and_at_refuse_what_their_parts_refuse() -> None:
    with pytest.raises(InvalidCronError):
        cron("0 0 30 2 *", timezone="UTC")
    with pytest.raises(InvalidTimezoneError):
        cron("0 0 1 2 *", timezone="Factory")
    with pytest.raises(InvalidInstantError):
        at("2027-01-01T00:00:00")


def test_a_schedule_that_is_invalid_cannot_be_built_by_hand_either() -> None:
    with pytest.raises(InvalidIntervalError):
        Every(interval_ms=99)
    with pytest.raises(InvalidIntervalError):
        Every(interval_ms=10**30)
    with pytest.raises(InvalidBaselineError, match="needs a zone"):
        Every(interval_ms=1_000, baseline="02:30")
    with pytest.raises(InvalidInstantError):
        At(at_ms=10**30)


def test_a_schedule_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        every("5m").interval_ms = 5  # type: ignore[misc]


def test_a_schedule_in_the_zone_of_the_machine_warns_where_it_was_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")

    with pytest.warns(AnarchonWarning, match="Europe/Berlin") as caught:
        schedule = cron("0 2 * * *", timezone="local")

    assert caught[0].filename == __file__
    assert schedule.canonical == "cron 0 2 * * * Europe/Berlin"


def test_a_single_instant_is_one_slot() -> None:
    schedule = at(NEW_YEAR)
    slot = instant(NEW_YEAR)

    assert (schedule.next(slot - 1), schedule.next(slot)) == (slot, None)
    assert (schedule.prev(slot), schedule.prev(slot - 1)) == (slot, None)
    assert schedule.shortest_gap() is None


def test_an_instant_in_the_past_is_no_error() -> None:
    assert at("1999-01-01T00:00:00Z").at_ms == instant("1999-01-01T00:00:00Z")


def test_a_parsed_expression_makes_a_schedule_as_its_text_does() -> None:
    assert cron(parse_cron("0 2 * * *"), timezone="UTC") == cron("0 2 * * *", timezone="UTC")


@pytest.mark.parametrize("schedule", ALL, ids=lambda schedule: schedule.canonical)
def test_a_schedule_is_a_frozen_value_that_can_be_copied(schedule: Schedule) -> None:
    asked = instant("2026-12-01T12:34:56Z")
    schedule.next(asked)

    for twin in (copy.copy(schedule), copy.deepcopy(schedule), pickle.loads(pickle.dumps(schedule)), replace(schedule)):
        assert twin == schedule
        assert hash(twin) == hash(schedule)
        assert twin.next(asked) == schedule.next(asked)


@pytest.mark.parametrize(
    ("schedule", "timezone"),
    [(every("5m"), None), (every("2h", baseline="02:30"), "UTC"), (cron("@daily", timezone="gb"), "GB"), (at(5), None)],
)
def test_a_schedule_names_its_zone(schedule: Schedule, timezone: str | None) -> None:
    assert schedule.timezone == timezone
