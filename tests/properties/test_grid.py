"""The grids of fixed intervals against their definition, written down once more."""

from __future__ import annotations

import itertools
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from anarchon.times.grid import next_baseline_fire
from anarchon.times.schedule import every
from tests.properties.walk import places_and_times, to_ms

DAY_MS = 86_400_000
# The first and last week of the calendar are left to the unit tests.
ANY_MS = st.integers(-62_100_000_000_000, 253_390_000_000_000)
INTERVALS = st.integers(100, 40 * DAY_MS) | st.sampled_from((60_000, 300_000, 3_600_000, DAY_MS, 7 * DAY_MS))


@given(INTERVALS, st.data(), ANY_MS)
def test_slots_are_whole_intervals_from_the_epoch_and_the_offset(
    interval: int, data: st.DataObject, instant: int
) -> None:
    offset = data.draw(st.integers(0, interval - 1))
    schedule = every(interval, offset_ms=offset)

    following, latest = schedule.next(instant), schedule.prev(instant)

    assert following is not None
    assert latest is not None
    assert latest <= instant < following
    assert following - latest == interval == schedule.shortest_gap()
    assert (latest - offset) % interval == 0


@given(INTERVALS, ANY_MS, ANY_MS)
def test_two_instances_agree_on_the_grid_whenever_they_ask(interval: int, one: int, other: int) -> None:
    first, second = every(interval).next(one), every(interval).next(other)

    assert first is not None
    assert second is not None
    assert (first - second) % interval == 0
    assert every(interval).prev(first) == first


@given(places_and_times(), st.integers(0, 1439), st.integers(600_000, DAY_MS), st.integers(-DAY_MS, DAY_MS))
def test_a_baseline_grid_is_what_its_definition_lists(
    place: tuple[str, datetime], baseline: int, interval: int, away: int
) -> None:
    zone, near = place
    hour, minute = divmod(baseline, 60)
    instant = to_ms(near) + away
    schedule = every(interval, baseline=f"{hour:02}:{minute:02}", timezone=zone)

    baselines = _baselines(zone, near, hour, minute)
    slots = sorted(
        at
        for today, tomorrow in itertools.pairwise(baselines)
        for at in range(today, min(today + DAY_MS, tomorrow), interval)
    )

    assert schedule.next(instant) == min(slot for slot in slots if slot > instant)
    assert schedule.prev(instant) == max(slot for slot in slots if slot <= instant)
    following = next_baseline_fire(f"{hour:02}:{minute:02}", zone, instant)
    assert following is not None
    assert to_ms(following) == min(slot for slot in baselines if slot > instant)
    if near.year >= 2000:
        assert min(b - a for a, b in itertools.pairwise(slots)) >= schedule.shortest_gap()


def _baselines(zone: str, near: datetime, hour: int, minute: int) -> list[int]:
    """The baseline of each local date around an instant, read with the offset before a gap and before an overlap."""
    tz, today = ZoneInfo(zone), near.astimezone(ZoneInfo(zone)).date()
    dates = [date.fromordinal(today.toordinal() + i) for i in range(-5, 6)]
    return sorted({to_ms(datetime.combine(day, time(hour, minute), tzinfo=tz).astimezone(UTC)) for day in dates})


@given(places_and_times())
def test_a_baseline_every_24_hours_is_a_daily_cron_job(place: tuple[str, datetime]) -> None:
    zone, near = place
    schedule = every(timedelta(hours=24), baseline="02:30", timezone=zone)

    at = schedule.next(to_ms(near))
    fire = next_baseline_fire("02:30", zone, near)

    assert fire is not None
    assert at == to_ms(fire)
