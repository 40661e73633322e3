"""Instants at the edge: datetimes, epoch milliseconds and ISO 8601."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from anarchon.errors import InvalidInstantError
from anarchon.times.instants import FIRST_MS, LAST_MS, iso, parse_instant, to_datetime, to_ms
from tests.support.schedules import instant

NEW_YEAR = instant("2027-01-01T00:00Z")


class NoOffset(tzinfo):
    """A tzinfo that says nothing, which leaves its datetimes naive."""

    def utcoffset(self, dt: datetime | None) -> None:
        return None

    def dst(self, dt: datetime | None) -> None:
        return None

    def tzname(self, dt: datetime | None) -> None:
        return None


@pytest.mark.parametrize(
    "given_value",
    [
        "2027-01-01T00:00:00Z",
        "2027-01-01T00:00Z",
        "2027-01-01t00:00:00z",
        "2027-01-01 00:00:00+00:00",
        "2027-01-01T00:00:00-00:00",
        "2027-01-01T02:00:00+02:00",
        "2027-01-01T02:00:00+0200",
        "2027-01-01T02:00:00+02",
        "2026-12-31T18:15:00.000-05:45",
        "2027-01-01T00:00:00,0Z",
        "2027-01-01T00:00:00.000999999Z",
        NEW_YEAR,
        datetime(2027, 1, 1, tzinfo=UTC),
        datetime(2027, 1, 1, 1, tzinfo=ZoneInfo("Europe/Berlin")),
        datetime(2027, 1, 1, 0, 0, 0, 999, tzinfo=UTC),
    ],
)
def test_one_instant_has_many_spellings(given_value: Any) -> None:
    assert parse_instant(given_value) == NEW_YEAR


@pytest.mark.parametrize(
    ("text", "milliseconds"), [("00.5", 500), ("00.05", 50), ("00.1234", 123), ("59.999999999", 59_999)]
)
def test_a_fraction_is_kept_down_to_the_millisecond(text: str, milliseconds: int) -> None:
    assert parse_instant(f"2027-01-01T00:00:{text}Z") == NEW_YEAR + milliseconds


@pytest.mark.parametrize(
    ("given_value", "reason"),
    [
        ("2027-01-01T00:00:00", "no offset"),
        ("2027-01-01", "not an instant"),
        ("2027-01-01Z", "not an instant"),
        ("2027-W01-1T00:00:00Z", "not an instant"),
        ("2027-001T00:00:00Z", "not an instant"),
        ("20270101T000000Z", "not an instant"),
        ("2027-1-1T00:00:00Z", "not an instant"),
        ("2027-01-01T00Z", "not an instant"),
        ("2027-01-01X00:00:00Z", "not an instant"),
        ("2027-01-01T00:00:00 Z", "not an instant"),
        (" 2027-01-01T00:00:00Z", "not an instant"),
        ("2027-01-01T00:00:00Z\n", "not an instant"),
        ("２０２７-01-01T00:00:00Z", "not an instant"),
        ("2027-01-01T00:00:00+02:00:30", "not an instant"),
        ("2027-01-01T00:00:00[Europe/Berlin]", "not an instant"),
        ("+12027-01-01T00:00:00Z", "not an instant"),
        ("1798761600000", "not an instant"),
        ("now", "not an instant"),
        ("", "not an instant"),
        ("2026-12-31T23:59:60Z", "leap second"),
        ("2027-02-29T00:00:00Z", "does not exist"),
        ("2027-13-01T00:00:00Z", "does not exist"),
        ("2027-04-31T00:00:00Z", "does not exist"),
        ("2027-01-01T24:00:00Z", "does not exist"),
        ("2027-01-01T00:60:00Z", "does not exist"),
        ("2027-01-01T00:00:61Z", "does not exist"),
        ("0000-01-01T00:00:00Z", "does not exist"),
        ("2027-01-01T00:00:00+24:00", "does not exist"),
        ("2027-01-01T00:00:00+02:60", "does not exist"),
        ("0001-01-01T00:00:00+01:00", "UTC|outside"),
        ("9999-12-31T23:59:59-01:00", "UTC|outside"),
        (datetime(2027, 1, 1), "naive"),  # noqa: DTZ001 - what is to be refused
        (datetime(2027, 1, 1, tzinfo=NoOffset()), "naive"),
        (datetime.min.replace(tzinfo=timezone(timedelta(hours=1))), "UTC|outside"),
        (datetime.max.replace(tzinfo=timezone(-timedelta(hours=1))), "UTC|outside"),
        (LAST_MS + 1, "outside the years"),
        (FIRST_MS - 1, "outside the years"),
        (True, "not an instant"),
        (1.5, "not an instant"),
        (None, "not an instant"),
        (datetime(2027, 1, 1).date(), "not an instant"),  # noqa: DTZ001
        (timedelta(days=1), "not an instant"),
    ],
)
def test_anything_else_is_refused_with_its_reason(given_value: Any, reason: str) -> None:
    with pytest.raises(InvalidInstantError, match=reason):
        parse_instant(given_value)


@pytest.mark.parametrize(("at_ms", "text"), [(0, "1970-01-01T00:00:00Z"), (-1, "1969-12-31T23:59:59.999Z")])
def test_an_instant_is_shown_in_utc(at_ms: int, text: str) -> None:
    assert iso(at_ms) == text
    assert parse_instant(text) == at_ms


@pytest.mark.parametrize("at_ms", [FIRST_MS, -1, 0, NEW_YEAR, LAST_MS])
def test_milliseconds_and_datetimes_go_back_and_forth(at_ms: int) -> None:
    assert to_ms(to_datetime(at_ms)) == at_ms
    assert to_datetime(at_ms).tzinfo is UTC


def test_a_wall_time_in_a_gap_counts_by_the_offset_before_it() -> None:
    missing = datetime(2026, 3, 29, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))

    assert to_ms(missing) == instant("2026-03-29T01:30Z")


def test_an_int_of_more_digits_than_python_prints_is_refused_as_well() -> None:
    with pytest.raises(InvalidInstantError, match="thousands of digits"):
        parse_instant(10**5_000)
