"""Fixed intervals: from the epoch, and from a wall time of each local day."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from anarchon.errors import InvalidBaselineError
from anarchon.times.grid import next_baseline_fire, next_on_grid, parse_baseline, prev_on_grid
from anarchon.times.instants import FIRST_MS, LAST_MS
from anarchon.times.schedule import every
from tests.support.schedules import instant, shown, slots_from

REFUSED = [
    "", "24:00", "25:00", "00:60", "2:30", "02:3", "002:30", "02:30:00", "0230", "02.30", "02:30 ", " 02:30", "02:30\n",
    "-1:00", "+2:30", "02:30 PM", "2:30pm", "noon", "１２:00", "٠٢:30", "02：30", "02:30Z", "02:3O", "\x0002:30", ":",
    "99:99", "9" * 5_000,
]  # fmt: skip


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: ascii(text[:12]))
def test_a_baseline_that_is_no_wall_time_is_refused(text: str) -> None:
    with pytest.raises(InvalidBaselineError, match="HH:MM") as caught:
        parse_baseline(text)

    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("value", [None, 150, 2.5, b"02:30", datetime(2026, 1, 1, tzinfo=UTC).time()])
def test_a_baseline_that_is_no_text_is_refused(value: Any) -> None:
    with pytest.raises(InvalidBaselineError, match="HH:MM") as caught:
        next_baseline_fire(value, "UTC", 0)

    assert str(caught.value).startswith(f"baseline {value!r}, a ")


@pytest.mark.parametrize(("text", "expected"), [("00:00", (0, 0)), ("09:05", (9, 5)), ("23:59", (23, 59))])
def test_a_baseline_is_an_hour_and_a_minute(text: str, expected: tuple[int, int]) -> None:
    assert parse_baseline(text) == expected


def test_the_grid_is_counted_from_the_epoch_in_both_directions() -> None:
    assert [next_on_grid(after, 100, 30) for after in (-171, -170, -70, -1, 29, 30, 31)] == [
        -170, -70, 30, 30, 30, 130, 130,
    ]  # fmt: skip
    assert [prev_on_grid(at, 100, 30) for at in (-70, -1, 29, 30, 31)] == [-70, -70, -70, 30, 30]


def test_the_grid_ends_with_the_calendar() -> None:
    assert next_on_grid(LAST_MS, 1_000, 0) is None
    assert prev_on_grid(FIRST_MS - 1, 1_000, 0) is None
    assert next_on_grid(-(10**30), 1_000, 0) == FIRST_MS
    assert prev_on_grid(10**30, 1_000, 0) == LAST_MS - 999


@pytest.mark.parametrize(
    ("interval", "after", "slots"),
    [
        # An ordinary day; 24 hours are no multiple of 7.
        ("7h", "2026-07-01T00:00Z",
         ["2026-07-01T00:30Z", "2026-07-01T07:30Z", "2026-07-01T14:30Z", "2026-07-01T21:30Z", "2026-07-02T00:30Z"]),
        # The baseline is missing and counts as 03:30; the day is an hour short at its end.
        ("6h", "2026-03-28T20:00Z",
         ["2026-03-29T01:30Z", "2026-03-29T07:30Z", "2026-03-29T13:30Z", "2026-03-29T19:30Z", "2026-03-30T00:30Z"]),
        # The baseline occurs twice and its first pass counts; no fifth slot 24 hours later.
        ("6h", "2026-10-24T19:00Z",
         ["2026-10-25T00:30Z", "2026-10-25T06:30Z", "2026-10-25T12:30Z", "2026-10-25T18:30Z", "2026-10-26T01:30Z"]),
        ("24h", "2026-03-28T00:00Z", ["2026-03-28T01:30Z", "2026-03-29T01:30Z", "2026-03-30T00:30Z"]),
    ],
)  # fmt: skip
def test_slots_of_a_local_day_are_whole_intervals_of_real_time_after_its_baseline(
    interval: str, after: str, slots: list[str]
) -> None:
    schedule = every(interval, baseline="02:30", timezone="Europe/Berlin")

    assert slots_from(schedule.next, after, len(slots)) == slots
    assert [shown(schedule.prev(instant(slot) - 1)) for slot in slots[1:]] == slots[:-1]


def test_an_hour_that_a_long_day_adds_has_no_slot_past_24_hours() -> None:
    schedule = every("1h", baseline="00:00", timezone="Europe/Berlin")

    assert shown(schedule.next(instant("2026-10-25T21:00Z"))) == "2026-10-25T23:00Z"
    assert shown(schedule.prev(instant("2026-10-25T22:59Z"))) == "2026-10-25T21:00Z"


def test_a_day_that_never_was_adds_no_slot() -> None:
    schedule = every("12h", baseline="09:00", timezone="Pacific/Apia")

    assert slots_from(schedule.next, "2011-12-29T00:00Z", 5) == [
        "2011-12-29T07:00Z", "2011-12-29T19:00Z", "2011-12-30T07:00Z", "2011-12-30T19:00Z", "2011-12-31T07:00Z",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("interval", "zone", "gap_ms"),
    [
        ("6h", "UTC", 21_600_000),
        ("7h", "UTC", 3 * 3_600_000),
        ("24h", "UTC", 86_400_000),
        ("24h", "Europe/Berlin", 23 * 3_600_000),
        ("6h", "Europe/Berlin", 5 * 3_600_000),
        ("7h", "Europe/Berlin", 2 * 3_600_000),
        ("1h", "Europe/Berlin", 3_600_000),
        ("1h", "Australia/Lord_Howe", 1_800_000),
        ("5m", "Europe/Berlin", 300_000),
    ],
)
def test_the_shortest_gap_is_what_a_day_leaves_before_the_next(interval: str, zone: str, gap_ms: int) -> None:
    assert every(interval, baseline="02:30", timezone=zone).shortest_gap() == gap_ms


def test_a_baseline_grid_ends_with_the_calendar() -> None:
    schedule = every("6h", baseline="02:30", timezone="Europe/Berlin")

    assert schedule.next(10**30) is None
    assert schedule.next(LAST_MS) is None
    assert schedule.prev(-(10**30)) is None
    last = schedule.prev(10**30)
    assert last is not None
    assert schedule.next(last) is None
    first = schedule.next(-(10**30))
    assert first is not None
    assert schedule.prev(first - 1) is None


def test_the_next_baseline_is_found_in_the_zone_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    after = datetime(2026, 3, 28, 12, tzinfo=UTC)

    assert next_baseline_fire("02:30", "Europe/Berlin", after) == datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
    assert next_baseline_fire("02:30", None, after) == datetime(2026, 3, 28, 17, 30, tzinfo=UTC)
    assert next_baseline_fire("02:30", "UTC", LAST_MS) is None
