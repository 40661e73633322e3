"""The next and the previous slot of a cron expression in a zone.

A slot is the instant of a matching wall minute. A wall time that a gap leaves out is read with the offset in force
before the gap, so it fires once, moved by the gap. One that occurs twice fires at its first pass; when every hour
is allowed, each real hour counts and it fires at both.

The search adds bits and jumps: over hours, days and months at once, and over spans of one offset in which nothing
matches. Its cost does not depend on how far away the slot is in minutes, and it ends only with the year 9999.
"""

from __future__ import annotations

from datetime import date, datetime
from typing import Literal
from zoneinfo import ZoneInfo

from .cron import ALL_HOURS, ALL_MONTHS, CronExpr, parse_cron
from .instants import FIRST_MS, LAST_MS, to_datetime, to_ms
from .tzif import EPOCH_ORDINAL, first_day, is_leap
from .zones import BEGINNING, Zone, local_zone, zone

_FIRST_S = FIRST_MS // 1000
_LAST_S = LAST_MS // 1000
_FIRST_DAY = 1 - EPOCH_ORDINAL
_LAST_DAY = date.max.toordinal() - EPOCH_ORDINAL
_MONTH_STARTS = (
    (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365),
    (0, 31, 60, 91, 121, 152, 182, 213, 244, 274, 305, 335, 366),
)
# A mask of eight hours spread out to one bit per hour of 60; times a mask of minutes it is the minutes of these hours.
_SPREAD = tuple(sum(1 << 60 * hour for hour in range(8) if hours >> hour & 1) for hours in range(256))
_EVERY_MONTH = tuple(range(12))
# Times a mask of weekdays it is that mask in each of six weeks.
_EACH_WEEK = sum(1 << 7 * week for week in range(6))
# More than any two offsets differ: a slot cannot be further from where another offset would put it.
_SLACK_S = 172_800

Mark = Literal["gap", "overlap"]
Timezone = str | ZoneInfo | Zone | None


def next_cron_fire(cron: str | CronExpr, after: datetime | int, tz: Timezone) -> datetime | None:
    """The first slot strictly after an instant, as an aware UTC datetime; None when it lies beyond the year 9999.

    `after` is an aware datetime or epoch ms. `tz` is a zone or its name; None is the machine's zone.
    Raises InvalidCronError, InvalidInstantError and InvalidTimezoneError.
    """
    found = _search(cron, tz).next(to_ms(after))
    return None if found is None else to_datetime(found)


def prev_cron_fire(cron: str | CronExpr, at_or_before: datetime | int, tz: Timezone) -> datetime | None:
    """The last slot at or before an instant, as an aware UTC datetime; None when there is none since the year 1.

    `at_or_before` is an aware datetime or epoch ms. `tz` is a zone or its name; None is the machine's zone.
    Raises InvalidCronError, InvalidInstantError and InvalidTimezoneError.
    """
    found = _search(cron, tz).prev(to_ms(at_or_before))
    return None if found is None else to_datetime(found)


def zone_of(tz: Timezone) -> Zone:
    """The zone that a caller means: a zone, its name, or None for the machine's. Raises InvalidTimezoneError."""
    if isinstance(tz, Zone):
        return tz
    if tz is None:
        return local_zone()
    # A ZoneInfo made from a file has no name, and is refused as such.
    return zone(tz.key if isinstance(tz, ZoneInfo) else tz)


def _search(cron: str | CronExpr, tz: Timezone) -> CronSearch:
    return CronSearch(cron if isinstance(cron, CronExpr) else parse_cron(cron), zone_of(tz))


class CronSearch:
    """Finds the slots of one expression in one zone. Safe to share between threads: what it remembers is only speed."""

    __slots__ = (
        "_day",
        "_day_bits",
        "_days",
        "_either_day",
        "_every_hour",
        "_first_minute",
        "_last_minute",
        "_month",
        "_months",
        "_span",
        "_weeks",
        "expr",
        "zone",
    )  # fmt: skip

    expr: CronExpr
    zone: Zone

    def __init__(self, expr: CronExpr, in_zone: Zone) -> None:
        self.expr = expr
        self.zone = in_zone
        hours = expr.hours
        # The allowed minutes of a day, one bit each. No two terms of the product share a bit.
        spread = _SPREAD[hours & 255] | _SPREAD[hours >> 8 & 255] << 480 | _SPREAD[hours >> 16] << 960
        bits = spread * expr.minutes
        self._day_bits = bits
        self._first_minute = (bits & -bits).bit_length() - 1
        self._last_minute = bits.bit_length() - 1
        self._every_hour = hours == ALL_HOURS
        self._either_day = expr.either_day
        self._days = expr.doms >> 1
        self._weeks = expr.dows * _EACH_WEEK
        months = expr.months
        self._months = _EVERY_MONTH if months == ALL_MONTHS else tuple([m for m in _EVERY_MONTH if months >> m & 2])
        # The month looked at last: its first day, the day after its last, its matching days as bits.
        self._month = (0, 0, 0)
        # The span looked at last, as far as it is in the calendar: from where nothing of the span before is left, its
        # end, its offset.
        self._span = (0, 0, 0)
        # A day inside that span with several slots, in ms: its start and its last slot.
        self._day = (0, 0)

    def next(self, after_ms: int) -> int | None:
        """The first slot strictly after `after_ms`, in epoch ms; None when it lies beyond the year 9999."""
        start, last = self._day
        if start <= after_ms < last:
            passed = (after_ms - start) // 60_000 + 1
            rest = self._day_bits >> passed
            return start + (passed + (rest & -rest).bit_length() - 1) * 60_000
        second = after_ms // 1000
        clear, end, offset = self._span
        if clear <= second < end:
            minute = (second + offset) // 60 + 1
            day, of_day = divmod(minute, 1440)
            first, past, days = self._month
            if first <= day < past:
                days >>= day - first
                rest = self._day_bits >> of_day if days & 1 else 0
                if rest:
                    found = (minute + (rest & -rest).bit_length() - 1) * 60 - offset
                    if found < end:
                        start = day * 86_400 - offset
                        last = start + self._last_minute * 60
                        if clear <= start and last < end:
                            self._day = start * 1000, last * 1000
                        return found * 1000
                    return self._next(second)
                days >>= 1
                if days:
                    found = ((day + (days & -days).bit_length()) * 1440 + self._first_minute) * 60 - offset
                    if found < end:
                        return found * 1000
        return self._next(second)

    def prev(self, at_or_before_ms: int) -> int | None:
        """The last slot at or before `at_or_before_ms`, in epoch ms; None when there is none since the year 1."""
        second = at_or_before_ms // 1000
        if second < _FIRST_S:
            return None
        return self._prev(min(second, _LAST_S))

    def mark(self, slot_ms: int) -> Mark | None:
        """What a clock change did to a slot: 'gap' when it was moved by one, 'overlap' when its wall time occurs twice.

        A slot that both a missing and an existing wall time make is a 'gap'. 'overlap' is said of both passes,
        whichever of them is a slot. None for all other slots, and for what is no slot.
        """
        second = slot_ms // 1000
        span = self.zone.span(second)
        if second < span.clear and span.before < span.offset and self._matches(second + span.before):
            return "gap"
        if not self._matches(second + span.offset) or (second < span.first and not self._every_hour):
            return None
        repeated_later = second >= span.end + min(0, span.after - span.offset)
        return "overlap" if second < span.first or repeated_later else None

    def _matches(self, wall: int) -> bool:
        minute, rest = divmod(wall, 60)
        return rest == 0 and self._minute_from(minute) == minute

    def _next(self, after: int) -> int | None:
        """The same in epoch seconds, across spans."""
        low = max(after + 1, _FIRST_S)
        if low > _LAST_S:
            return None
        span = self.zone.span(low)
        best: int | None = None
        if low < span.clear and span.before < span.offset:
            # Wall times that the clock has just left out are still to come, by the offset before.
            minute = self._minute_from(-(-(low + span.before) // 60))
            if minute is not None and minute * 60 - span.before < span.start + span.offset - span.before:
                best = minute * 60 - span.before
        asked, found = 1, 0
        hops = 0
        while True:
            start = max(low, span.start if self._every_hour else span.first)
            minute = -(-(start + span.offset) // 60)
            if not asked <= minute <= found:
                # Between `asked` and `found` nothing matches, whatever the span.
                answer = self._minute_from(minute)
                if answer is None:
                    break
                asked, found = minute, answer
            candidate = found * 60 - span.offset
            if candidate < span.limit and (best is None or candidate < best):
                best = candidate
            self._span = (max(span.clear, _FIRST_S), min(span.end, _LAST_S + 1), span.offset)
            if best is not None and best < span.end:
                break
            # The neighbour may repeat wall times, or hold earlier ones than a gap moved; what comes after it may not.
            hops += 1
            far = candidate - _SLACK_S
            span = self.zone.span(far if hops > 1 and best is None and far > span.end else span.end)
        return None if best is None or best > _LAST_S else best * 1000

    def _prev(self, high: int) -> int | None:
        """The last slot at or before an epoch second, in ms, across spans."""
        span = self.zone.span(high)
        best: int | None = None
        asked, found = 0, 1
        hops = 0
        while True:
            minute = (min(high, span.limit - 1) + span.offset) // 60
            if not found <= minute <= asked:
                answer = self._minute_until(minute)
                if answer is None:
                    break
                asked, found = minute, answer
            candidate = found * 60 - span.offset
            start = span.start if self._every_hour else span.first
            if candidate >= start and (best is None or candidate > best):
                best = candidate
            if span.start == BEGINNING:
                break
            # A gap moves the last wall times of the span before past this one's start.
            if best is not None and best >= span.start + max(0, span.offset - span.before):
                break
            hops += 1
            far = candidate + _SLACK_S
            span = self.zone.span(far if hops > 1 and best is None and far < span.start else span.start - 1)
        return None if best is None or best < _FIRST_S else best * 1000

    def _minute_from(self, minute: int) -> int | None:
        """The first matching wall minute at or after `minute`, both counted from the epoch."""
        day, of_day = divmod(minute, 1440)
        found = self._day_from(day)
        if found is None:
            return None
        if found == day:
            rest = self._day_bits >> of_day
            if rest:
                return minute + (rest & -rest).bit_length() - 1
            found = self._day_from(day + 1)
            if found is None:
                return None
        return found * 1440 + self._first_minute

    def _minute_until(self, minute: int) -> int | None:
        """The last matching wall minute at or before `minute`."""
        day, of_day = divmod(minute, 1440)
        found = self._day_until(day)
        if found is None:
            return None
        if found == day:
            rest = self._day_bits & ((2 << of_day) - 1)
            if rest:
                return day * 1440 + rest.bit_length() - 1
            found = self._day_until(day - 1)
            if found is None:
                return None
        return found * 1440 + self._last_minute

    def _day_from(self, day: int) -> int | None:
        """The first matching day at or after `day`, in days since the epoch."""
        day = max(day, _FIRST_DAY)
        first, past, days = self._month
        if not first <= day < past:
            if day > _LAST_DAY:
                return None
            first, past, days = self._month = self._month_of(day)
        days >>= day - first
        if days:
            return day + (days & -days).bit_length() - 1
        if past > _LAST_DAY:
            return None
        start = date.fromordinal(past + EPOCH_ORDINAL)
        year, month = start.year, start.month - 1
        january = first_day(year)
        while year <= 9999:
            starts = _MONTH_STARTS[is_leap(year)]
            for allowed in self._months:
                if allowed >= month:
                    first, past = january + starts[allowed], january + starts[allowed + 1]
                    days = self._matching(first, past - first)
                    if days:
                        self._month = first, past, days
                        return first + (days & -days).bit_length() - 1
            january += starts[12]
            year, month = year + 1, 0
        return None

    def _day_until(self, day: int) -> int | None:
        """The last matching day at or before `day`."""
        day = min(day, _LAST_DAY)
        first, past, days = self._month
        if not first <= day < past:
            if day < _FIRST_DAY:
                return None
            first, past, days = self._month = self._month_of(day)
        days &= (2 << (day - first)) - 1
        if days:
            return first + days.bit_length() - 1
        if first <= _FIRST_DAY:
            return None
        end = date.fromordinal(first - 1 + EPOCH_ORDINAL)
        year, month = end.year, end.month - 1
        while year >= 1:
            january = first_day(year)
            starts = _MONTH_STARTS[is_leap(year)]
            for allowed in reversed(self._months):
                if allowed <= month:
                    first, past = january + starts[allowed], january + starts[allowed + 1]
                    days = self._matching(first, past - first)
                    if days:
                        self._month = first, past, days
                        return first + days.bit_length() - 1
            year, month = year - 1, 11
        return None

    def _month_of(self, day: int) -> tuple[int, int, int]:
        of = date.fromordinal(day + EPOCH_ORDINAL)
        first = day - of.day + 1
        starts = _MONTH_STARTS[is_leap(of.year)]
        length = starts[of.month] - starts[of.month - 1]
        allowed = of.month - 1 in self._months
        return first, first + length, self._matching(first, length) if allowed else 0

    def _matching(self, first: int, length: int) -> int:
        """The matching days of an allowed month, as bits from its first day on."""
        # Day 0 was a Thursday.
        weeks = self._weeks >> (first + 4) % 7
        days = self._days | weeks if self._either_day else self._days & weeks
        return days & ((1 << length) - 1)
