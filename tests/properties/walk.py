"""The rules for cron slots once more, as slowly and plainly as can be: minute by minute over real UTC time.

Nothing here knows the code that it checks: zones come from `zoneinfo`, and an expression comes as the sets of
values that its text was made from.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

MINUTE = timedelta(minutes=1)
# Longer than any clock has been moved at once since 1975.
LONGEST_GAP = timedelta(hours=25)

ZONES = [
    "UTC", "Africa/Cairo", "Africa/Casablanca", "Africa/El_Aaiun", "Africa/Johannesburg", "America/Argentina/San_Luis",
    "America/Asuncion", "America/Bogota", "America/Caracas", "America/Havana", "America/Los_Angeles", "America/Lima",
    "America/Mexico_City", "America/New_York", "America/Nuuk", "America/Port-au-Prince", "America/Santiago",
    "America/Sao_Paulo", "America/Scoresbysund", "America/St_Johns", "Antarctica/Casey", "Antarctica/Macquarie",
    "Antarctica/Troll", "Antarctica/Vostok", "Asia/Almaty", "Asia/Amman", "Asia/Beirut", "Asia/Gaza", "Asia/Jerusalem",
    "Asia/Kathmandu", "Asia/Kolkata", "Asia/Pyongyang", "Asia/Tehran", "Asia/Tokyo", "Atlantic/Azores",
    "Australia/Adelaide", "Australia/Lord_Howe", "Australia/Sydney", "Etc/GMT+5", "Europe/Berlin", "Europe/Chisinau",
    "Europe/Dublin", "Europe/Istanbul", "Europe/Lisbon", "Europe/London", "Europe/Moscow", "Europe/Volgograd",
    "Pacific/Apia", "Pacific/Auckland", "Pacific/Chatham", "Pacific/Easter", "Pacific/Fiji", "Pacific/Kiritimati",
    "Pacific/Norfolk", "Pacific/Tongatapu",
]  # fmt: skip


@dataclass(frozen=True)
class Written:
    """An expression and the values that each of its fields allows."""

    text: str
    minutes: frozenset[int]
    hours: frozenset[int]
    doms: frozenset[int]
    months: frozenset[int]
    dows: frozenset[int]
    either_day: bool

    def matches(self, wall: datetime) -> bool:
        if wall.minute not in self.minutes or wall.hour not in self.hours or wall.month not in self.months:
            return False
        dom, dow = wall.day in self.doms, wall.isoweekday() % 7 in self.dows
        return dom or dow if self.either_day else dom and dow

    @property
    def every_hour(self) -> bool:
        return len(self.hours) == 24


def walk(written: Written, zone: str, start: datetime, end: datetime) -> dict[int, str | None]:
    """Every slot from `start` up to `end`, whole minutes in UTC, as epoch ms, and what a clock change did to it."""
    tz = ZoneInfo(zone)
    found: dict[datetime, str | None] = {}
    now = start - LONGEST_GAP
    before = offset_at(now - MINUTE, tz)
    while now < end:
        wall = now.astimezone(tz)
        offset = wall.utcoffset()
        assert offset is not None
        for i in range(max(0, (offset - before) // MINUTE)):
            # The clock has jumped over these, and they count by the offset before.
            if written.matches((now + before + i * MINUTE).replace(tzinfo=None)):
                found[now + i * MINUTE] = "gap"
        if written.matches(wall) and (wall.fold == 0 or written.every_hour):
            twice = wall.replace(fold=0).utcoffset() != wall.replace(fold=1).utcoffset()
            found.setdefault(now, "overlap" if twice else None)
        before = offset
        now += MINUTE
    return {to_ms(slot): found[slot] for slot in sorted(found) if start <= slot < end}


def offset_at(when: datetime, tz: ZoneInfo) -> timedelta:
    offset = when.astimezone(tz).utcoffset()
    assert offset is not None
    return offset


def to_ms(when: datetime) -> int:
    return round(when.timestamp()) * 1000


@lru_cache(maxsize=len(ZONES))
def changes_of(zone: str) -> tuple[datetime, ...]:
    """The minutes at which the offset of a zone changed from 1975 to 2040, found by asking twice a day."""
    tz = ZoneInfo(zone)
    begun = datetime(1975, 1, 1, tzinfo=UTC)
    asked = [begun + timedelta(hours=12 * i) for i in range(2 * 365 * 65)]
    return tuple(
        _change_between(early, late, tz)
        for early, late in pairwise(asked)
        if offset_at(early, tz) != offset_at(late, tz)
    )


def _change_between(early: datetime, late: datetime, tz: ZoneInfo) -> datetime:
    minutes = range((late - early) // MINUTE)
    old = offset_at(early, tz)
    return early + MINUTE * bisect_right(minutes, 0, key=lambda i: int(offset_at(early + i * MINUTE, tz) != old))


@st.composite
def fields(draw: st.DrawFn, low: int, high: int, names: tuple[str, ...] = ()) -> tuple[str, frozenset[int]]:
    """The text of one field and the values that it allows, not yet folded for Sunday."""
    texts: list[str] = []
    values: set[int] = set()
    count = high - low + (0 if names[:1] == ("SUN",) else 1)
    for _ in range(draw(st.sampled_from((1, 1, 1, 2, 3)))):
        first = draw(st.integers(low, high))
        last = draw(st.integers(first, high))
        step = draw(st.integers(1, count))
        kind = draw(st.sampled_from(("*", "*", "*/", "value", "value", "range", "range/")))
        if kind[0] == "*":
            # The weekday 7 is only another name for 0.
            first, last = low, low + count - 1
            texts.append("*" if kind == "*" else f"*/{step}")
        elif kind == "value":
            last = first
            texts.append(_spelled(draw, first, low, names))
        else:
            texts.append(f"{_spelled(draw, first, low, names)}-{_spelled(draw, last, low, names)}")
            if kind == "range/":
                texts[-1] += f"/{step}"
        values |= set(range(first, last + 1, step if kind[-1] == "/" else 1))
    return ",".join(texts), frozenset(values)


def _spelled(draw: st.DrawFn, value: int, low: int, names: tuple[str, ...]) -> str:
    if value - low < len(names) and draw(st.booleans()):
        name = names[value - low]
        return draw(st.sampled_from((name, name.lower(), name.title())))
    return draw(st.sampled_from((str(value), f"{value:02}")))


MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")


@st.composite
def expressions(draw: st.DrawFn) -> Written:
    """An expression in any spelling; most allow every month and every day, so that there is something to find."""
    minute, minutes = draw(fields(0, 59))
    hour, hours = draw(fields(0, 23))
    anything = st.just(("*", frozenset(range(60))))
    dom, doms = draw(anything | fields(1, 31))
    month, months = draw(anything | anything | fields(1, 12, MONTHS))
    dow, dows = draw(anything | fields(0, 7, WEEKDAYS))
    longest = max((0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)[each] for each in months if 1 <= each <= 12)
    either_day = dom[0] != "*" and dow[0] != "*"
    if not either_day and min(doms) > longest:
        dom, doms, either_day = "*", frozenset(range(1, 32)), False
    blank = draw(st.sampled_from((" ", "\t", "   ")))
    text = blank.join((minute, hour, dom, month, dow))
    return Written(text, minutes, hours, doms, months, frozenset(day % 7 for day in dows), either_day)


@st.composite
def places_and_times(draw: st.DrawFn) -> tuple[str, datetime]:
    """A zone and a whole minute in UTC: near a change of its clock, or anywhere from 1975 to 2040."""
    zone = draw(st.sampled_from(ZONES))
    changes = changes_of(zone)
    anywhere = datetime(1975, 1, 2, tzinfo=UTC) + draw(st.integers(0, 64 * 365 * 1440)) * MINUTE
    if not changes or draw(st.integers(0, 3)) == 0:
        return zone, anywhere
    return zone, draw(st.sampled_from(changes)) + draw(st.integers(-1600, 1600)) * MINUTE
