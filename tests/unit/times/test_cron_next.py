"""Slots of cron expressions: clock changes, the calendar, the ends of time, and what a search costs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import FrameType
from zoneinfo import ZoneInfo

import pytest

from anarchon.errors import InvalidCronError, InvalidInstantError, InvalidTimezoneError
from anarchon.times.cron import parse_cron
from anarchon.times.cron_next import next_cron_fire, prev_cron_fire
from anarchon.times.instants import FIRST_MS, LAST_MS
from anarchon.times.schedule import cron
from anarchon.times.zones import zone
from tests.support.schedules import GAPS, OVERLAPS, Day, instant, shown, slots_between, slots_from

BEGINNING, END = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


@pytest.mark.parametrize("day", GAPS, ids=str)
def test_a_wall_time_in_the_gap_fires_once_moved_by_the_gap(day: Day) -> None:
    assert slots_from(cron(day.expr, timezone=day.zone).next, day.after, len(day.slots)) == list(day.slots), day.why


@pytest.mark.parametrize("day", OVERLAPS, ids=str)
def test_a_repeated_wall_time_fires_at_its_first_pass_or_in_every_real_hour(day: Day) -> None:
    assert slots_from(cron(day.expr, timezone=day.zone).next, day.after, len(day.slots)) == list(day.slots), day.why


@pytest.mark.parametrize("day", [*GAPS, *OVERLAPS], ids=str)
def test_the_slots_of_a_changed_day_are_found_backwards_too(day: Day) -> None:
    schedule = cron(day.expr, timezone=day.zone)

    backwards = [shown(schedule.prev(instant(slot) - 1)) for slot in day.slots[1:]]

    assert backwards == list(day.slots[:-1])
    assert [shown(schedule.prev(instant(slot))) for slot in day.slots] == list(day.slots)


@pytest.mark.parametrize("machine", ["UTC", "America/New_York"])
def test_hourly_berlin_has_23_slots_in_spring_and_25_in_autumn(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", machine)
    hourly = cron("0 * * * *", timezone="Europe/Berlin")
    nightly = cron("30 2 * * *", timezone="Europe/Berlin")

    spring = slots_between(hourly.next, "2026-03-28T22:59Z", "2026-03-29T22:00Z")
    autumn = slots_between(hourly.next, "2026-10-24T21:59Z", "2026-10-25T23:00Z")

    assert (len(spring), len(autumn)) == (23, 25)
    assert slots_from(nightly.next, "2026-03-28T00:00Z", 3) == [
        "2026-03-28T01:30Z", "2026-03-29T01:30Z", "2026-03-30T00:30Z",
    ]  # fmt: skip
    assert slots_from(nightly.next, "2026-10-24T00:00Z", 3) == [
        "2026-10-24T00:30Z", "2026-10-25T00:30Z", "2026-10-26T01:30Z",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("expr", "timezone"),
    [("0 2 * * *", "Europe/Berlin"), ("30 2 29 3 *", "Europe/Berlin"), ("0 0 29 2 *", "UTC")],
)
def test_an_expression_is_taken_on_whatever_day_it_is_asked(expr: str, timezone: str) -> None:
    for asked in ("2026-03-28T20:00Z", "2026-10-24T20:00Z", "2096-03-01T00:00Z"):
        following = cron(expr, timezone=timezone).next(instant(asked))
        assert following is not None
        assert following > instant(asked)


@pytest.mark.parametrize(
    ("expr", "days"),
    [
        ("30 7 * * 4", "Thu Thu Thu Thu Thu Thu Thu"),
        ("0 0 * * 0", "Sun Sun Sun Sun Sun Sun Sun"),
        ("0 0 * * 7", "Sun Sun Sun Sun Sun Sun Sun"),
        ("0 0 * * 1,7", "Sun Mon Sun Mon Sun Mon Sun"),
        ("0 0 * * 5-7", "Fri Sat Sun Fri Sat Sun Fri"),
        ("0 0 * * */2", "Thu Sat Sun Tue Thu Sat Sun"),
    ],
)
def test_weekday_numbers_mean_the_days_that_their_names_do(expr: str, days: str) -> None:
    slots = slots_from(cron(expr, timezone="UTC").next, "2026-12-02T12:00Z", 7)

    assert " ".join(datetime.fromisoformat(slot).strftime("%a") for slot in slots) == days


@pytest.mark.parametrize("month", range(1, 13))
def test_the_31st_fires_in_the_months_that_have_one_whenever_it_is_asked(month: int) -> None:
    start = f"2026-{month:02}-15T12:00Z"
    spring = slots_from(cron("0 0 31 2,3,4,5 *", timezone="UTC").next, start, 4)
    always = slots_from(cron("0 0 31 * *", timezone="UTC").next, start, 7)

    assert {slot[5:10] for slot in spring} == {"03-31", "05-31"}
    assert {slot[5:10] for slot in always} == {"01-31", "03-31", "05-31", "07-31", "08-31", "10-31", "12-31"}
    for never in ("0 0 31 2,4,6 *", "0 0 31 4 *"):
        with pytest.raises(InvalidCronError, match="can never fire"):
            next_cron_fire(never, datetime.fromisoformat(start), "UTC")


@pytest.mark.parametrize(
    ("expr", "after", "slot"),
    [
        ("0 0 29 2 *", "2026-12-01T00:00Z", "2028-02-29T00:00Z"),
        ("0 0 29 2 *", "2096-03-01T00:00Z", "2104-02-29T00:00Z"),
        ("0 0 29 2 */7", "2060-03-01T00:00Z", "2088-02-29T00:00Z"),
        ("0 0 31 12 */7", "2026-01-01T00:00Z", "2028-12-31T00:00Z"),
        ("0 0 13 * 5", "2026-02-13T00:00Z", "2026-02-20T00:00Z"),
        ("0 0 13 * */5", "2026-03-14T00:00Z", "2026-09-13T00:00Z"),
    ],
)
def test_rare_dates_are_found_however_far_away(expr: str, after: str, slot: str) -> None:
    assert shown(cron(expr, timezone="UTC").next(instant(after))) == slot
    found = cron(expr, timezone="UTC").next(instant(after))
    assert found is not None
    assert cron(expr, timezone="UTC").prev(found) == found


def test_a_leap_day_on_a_given_weekday_is_waited_for_for_40_years() -> None:
    # 29 February 1880, 1920 and 1960 are Sundays, with none between 1880 and 1920, as 1900 had no leap day.
    schedule = cron("0 0 29 2 */7", timezone="UTC")

    assert slots_from(schedule.next, "1880-02-28T00:00Z", 3) == [
        "1880-02-29T00:00Z", "1920-02-29T00:00Z", "1948-02-29T00:00Z",
    ]  # fmt: skip
    assert shown(schedule.prev(instant("1920-02-28T00:00Z"))) == "1880-02-29T00:00Z"


@pytest.mark.parametrize("name", ["UTC", "America/New_York", "Pacific/Kiritimati", "Europe/Berlin"])
def test_a_search_ends_with_the_calendar_and_not_in_an_error(name: str) -> None:
    schedule = cron("0 0 1 1 *", timezone=name)

    assert schedule.next(LAST_MS) is None
    assert schedule.next(10**30) is None
    assert schedule.next(instant("9999-02-01T00:00Z")) in (None, instant("9999-12-31T10:00Z"))
    assert schedule.prev(FIRST_MS - 1) is None
    assert schedule.prev(-(10**30)) is None
    first = schedule.next(-(10**30))
    assert first is not None
    assert schedule.next(FIRST_MS - 1) == first
    assert schedule.prev(first - 1) is None
    last = schedule.prev(10**30)
    assert last is not None
    assert schedule.next(last) is None
    assert schedule.prev(last) == last


@pytest.mark.parametrize("name", ["Etc/GMT+12", "Etc/GMT-14", "America/New_York", "Pacific/Auckland"])
def test_the_end_of_the_calendar_is_the_same_after_a_search_nearby(name: str) -> None:
    schedule = cron("* * * * *", timezone=name)
    last = schedule.prev(LAST_MS)
    assert last is not None

    assert schedule.next(last - 60_000) == last
    assert schedule.next(last) is None
    first = schedule.next(FIRST_MS - 1)
    assert first is not None
    assert schedule.next(first + 90_000) == first + 120_000
    assert schedule.next(first - 90_000) == first


def test_minutely_slots_reach_to_both_ends_of_the_calendar() -> None:
    schedule = cron("* * * * *", timezone="UTC")

    assert schedule.next(-(10**30)) == FIRST_MS
    assert schedule.prev(10**30) == LAST_MS - 59_999
    assert schedule.next(LAST_MS - 59_999) is None


@pytest.mark.parametrize("name", ["Europe/Berlin", "Europe/Amsterdam", "America/New_York", "Asia/Kolkata"])
def test_before_the_first_clock_change_local_mean_time_counts(name: str) -> None:
    found = next_cron_fire("0 12 * * *", datetime(1800, 6, 1, tzinfo=UTC), name)

    assert found is not None
    assert found.astimezone(ZoneInfo(name)).strftime("%H:%M:%S") == "12:00:00"


def test_rules_go_on_to_the_year_9999() -> None:
    schedule = cron("30 2 * * *", timezone="Europe/Berlin")

    spring = slots_between(schedule.next, "9998-03-25T12:00Z", "9998-04-01T00:00Z")

    assert [shown(slot)[5:16] for slot in spring] == [
        "03-26T01:30", "03-27T01:30", "03-28T01:30", "03-29T01:30", "03-30T00:30", "03-31T00:30",
    ]  # fmt: skip
    assert schedule.prev(spring[-1]) == spring[-1]


def test_instants_come_as_datetimes_or_milliseconds_and_leave_as_utc_datetimes() -> None:
    after = datetime(2026, 3, 28, 13, tzinfo=ZoneInfo("Europe/Berlin"))

    for given in (after, after.astimezone(UTC), instant("2026-03-28T12:00Z")):
        found = next_cron_fire("30 2 * * *", given, "europe/berlin")
        assert found == datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
        assert found is not None
        assert found.tzinfo is UTC
    assert prev_cron_fire("30 2 * * *", after, "Europe/Berlin") == datetime(2026, 3, 28, 1, 30, tzinfo=UTC)


def test_a_zone_comes_as_a_name_a_zone_or_a_zoneinfo() -> None:
    after, expected = instant("2026-07-01T00:00Z"), datetime(2026, 7, 1, 3, tzinfo=UTC)

    for tz in ("Europe/Berlin", zone("Europe/Berlin"), ZoneInfo("Europe/Berlin")):
        assert next_cron_fire(parse_cron("0 5 * * *"), after, tz) == expected
    with pytest.raises(InvalidTimezoneError):
        next_cron_fire("0 5 * * *", after, "Europe/Nowhere")


def test_without_a_zone_the_machine_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")

    assert next_cron_fire("0 5 * * *", instant("2026-07-01T00:00Z"), None) == datetime(2026, 7, 1, 20, tzinfo=UTC)
    assert prev_cron_fire("0 5 * * *", instant("2026-07-01T00:00Z"), None) == datetime(2026, 6, 30, 20, tzinfo=UTC)


def test_next_is_strictly_after_and_prev_is_at_or_before() -> None:
    slot = instant("2026-07-01T00:00Z")
    schedule = cron("0 0 * * *", timezone="UTC")

    assert schedule.next(slot - 1) == slot
    assert schedule.next(slot) == slot + 86_400_000
    assert schedule.prev(slot) == slot
    assert schedule.prev(slot + 1) == slot
    assert schedule.prev(slot - 1) == slot - 86_400_000


def test_the_functions_answer_none_past_the_ends_of_the_calendar() -> None:
    assert next_cron_fire("* * * * *", END, "UTC") is None
    assert prev_cron_fire("0 0 2 1 *", BEGINNING, "UTC") is None
    assert prev_cron_fire("0 0 1 1 *", BEGINNING, "UTC") == BEGINNING
    with pytest.raises(InvalidInstantError, match="naive"):
        next_cron_fire("* * * * *", datetime(2026, 1, 1), "UTC")  # noqa: DTZ001 - what is to be refused


@pytest.mark.parametrize(
    ("expr", "name", "slot", "mark"),
    [
        ("30 2 * * *", "Europe/Berlin", "2026-03-29T01:30Z", "gap"),
        ("0 2,3 * * *", "Europe/Berlin", "2026-03-29T01:00Z", "gap"),
        ("0 3 * * *", "Europe/Berlin", "2026-03-29T01:00Z", None),
        ("30 3 * * *", "Europe/Berlin", "2026-03-29T01:30Z", None),
        ("30 2 * * *", "Europe/Berlin", "2026-03-28T01:30Z", None),
        ("30 2 * * *", "Europe/Berlin", "2026-10-25T00:30Z", "overlap"),
        ("30 2 * * *", "Europe/Berlin", "2026-10-25T01:30Z", None),
        ("30 * * * *", "Europe/Berlin", "2026-10-25T01:30Z", "overlap"),
        ("30 * * * *", "Europe/Berlin", "2026-10-25T02:30Z", None),
        ("30 2 * * *", "Europe/Berlin", "2026-07-01T12:00Z", None),
        ("0 9 30 12 *", "Pacific/Apia", "2011-12-30T19:00Z", "gap"),
        ("0 0 * * *", "UTC", "2026-03-29T00:00Z", None),
    ],
)
def test_a_slot_tells_what_a_clock_change_did_to_it(expr: str, name: str, slot: str, mark: str | None) -> None:
    assert cron(expr, timezone=name).annotate(instant(slot)) == mark


def calls_of(function: Callable[[], object]) -> int:
    """How many Python functions a call enters."""
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


def test_a_million_missed_slots_cost_what_one_does() -> None:
    minutely = cron("* * * * *", timezone="Europe/Berlin")
    newest = instant("2026-12-01T00:00Z")
    oldest = newest - int(timedelta(minutes=1_000_000).total_seconds()) * 1000

    minutely.next(oldest)
    one = calls_of(lambda: minutely.prev(newest))
    minutely.next(oldest)

    assert calls_of(lambda: minutely.prev(newest)) == one
    assert one < 20


@pytest.mark.parametrize("expr", ["0 0 29 2 */7", "59 23 31 12 */3", "0 0 1 1 *"])
def test_a_wait_of_decades_is_not_walked_through(expr: str) -> None:
    sparse = cron(expr, timezone="Europe/Berlin")

    assert calls_of(lambda: sparse.next(instant("2062-03-01T00:00Z"))) < 200
    assert calls_of(lambda: sparse.prev(instant("2058-03-01T00:00Z"))) < 200
