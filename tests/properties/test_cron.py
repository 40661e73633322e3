"""Cron slots against a minute-by-minute walk over real time, against cronsim, and against their own laws."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from cronsim import CronSim
from hypothesis import assume, given
from hypothesis import strategies as st

from anarchon.times.cron import parse_cron
from anarchon.times.schedule import Cron, cron
from tests.properties.walk import MONTHS, WEEKDAYS, Written, expressions, places_and_times, to_ms, walk

NEARBY = timedelta(days=1, hours=8)
ANY_MS = st.integers(-62_135_596_800_000, 253_402_300_799_999)
SINCE_2000_MS = st.integers(946_684_800_000, 4_100_000_000_000)


@given(expressions(), places_and_times())
def test_next_and_prev_find_what_a_walk_through_every_minute_finds(
    written: Written, place: tuple[str, datetime]
) -> None:
    zone, start = place
    schedule = cron(written.text, timezone=zone)
    expected = list(walk(written, zone, start, start + NEARBY))

    assert _forward(schedule, to_ms(start) - 1, to_ms(start + NEARBY)) == expected
    assert _backward(schedule, to_ms(start + NEARBY) - 1, to_ms(start)) == expected[::-1]


@given(expressions(), places_and_times(), st.lists(st.integers(0, 1_920 * 60_000), min_size=1, max_size=8))
def test_what_was_asked_before_changes_no_answer(
    written: Written, place: tuple[str, datetime], asked: list[int]
) -> None:
    zone, start = place
    schedule = cron(written.text, timezone=zone)

    for instant in (to_ms(start) + away for away in asked):
        fresh = cron(written.text, timezone=zone)
        assert (schedule.next(instant), schedule.prev(instant)) == (fresh.next(instant), fresh.prev(instant))


@given(expressions(), places_and_times(), ANY_MS)
def test_next_grows_and_prev_undoes_it(written: Written, place: tuple[str, datetime], anywhen: int) -> None:
    schedule = cron(written.text, timezone=place[0])

    for instant in (to_ms(place[1]), anywhen):
        following, latest = schedule.next(instant), schedule.prev(instant)
        if following is not None:
            assert following > instant
            assert following % 1000 == 0
            assert schedule.prev(following) == following
            assert schedule.prev(following - 1) == latest
        if latest is not None:
            assert latest <= instant
            assert schedule.next(latest) == following
            assert schedule.next(latest - 1) == latest


@given(expressions(), places_and_times(), SINCE_2000_MS)
def test_no_two_slots_are_closer_than_the_shortest_gap(
    written: Written, place: tuple[str, datetime], anywhen: int
) -> None:
    zone, start = place
    schedule = cron(written.text, timezone=zone)
    shortest = schedule.shortest_gap()
    assert shortest > 0

    for instant in (max(to_ms(start), 946_684_800_000), anywhen):
        at = schedule.next(instant)
        for _ in range(12):
            following = None if at is None else schedule.next(at)
            if at is None or following is None:
                break
            assert following - at >= shortest
            at = following


@given(expressions(), places_and_times())
def test_the_normal_form_means_the_same_and_is_its_own_normal_form(
    written: Written, place: tuple[str, datetime]
) -> None:
    zone, start = place
    given_text, normal = parse_cron(written.text), parse_cron(parse_cron(written.text).expr)

    assert normal.expr == given_text.expr
    end = to_ms(start + timedelta(days=400))
    assert _forward(cron(normal, timezone=zone), to_ms(start), end, 50) == _forward(
        cron(given_text, timezone=zone), to_ms(start), end, 50
    )


@given(expressions(), st.integers(0, 60 * 366 * 1440))
def test_in_utc_the_slots_are_those_of_cronsim(written: Written, minutes: int) -> None:
    assume(not _has_a_step_on_a_range_of_one(written))
    start = datetime(1990, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes)
    simulated = CronSim(written.text, start)

    expected = [to_ms(next(simulated)) for _ in range(5)]

    assert _forward(cron(written.text, timezone="UTC"), to_ms(start), expected[-1] + 1) == expected


@given(expressions(), places_and_times())
def test_a_slot_is_marked_when_a_clock_change_moved_it_or_repeats_its_wall_time(
    written: Written, place: tuple[str, datetime]
) -> None:
    zone, start = place
    schedule = cron(written.text, timezone=zone)

    expected = walk(written, zone, start, start + NEARBY)

    assert {slot: schedule.annotate(slot) for slot in expected} == expected


def _has_a_step_on_a_range_of_one(written: Written) -> bool:
    """Such as 5-5/10, which is {5} here and 5-59/10 to cronsim."""
    ends = re.findall(r"(\w+)-(\w+)/", written.text)
    return any(_value(first) == _value(last) for first, last in ends)


def _value(text: str) -> int:
    name = text.upper()
    return int(text) if text.isdigit() else (MONTHS.index(name) + 1 if name in MONTHS else WEEKDAYS.index(name))


def _forward(schedule: Cron, after: int, until: int, most: int = 10_000) -> list[int]:
    found: list[int] = []
    at = schedule.next(after)
    while at is not None and at < until and len(found) < most:
        found.append(at)
        at = schedule.next(at)
    return found


def _backward(schedule: Cron, before: int, since: int) -> list[int]:
    found: list[int] = []
    at = schedule.prev(before)
    while at is not None and at >= since:
        found.append(at)
        at = schedule.prev(at - 1)
    return found
