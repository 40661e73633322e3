"""How close two slots of a cron expression can come, worked out on the masks without looking for slots."""

from __future__ import annotations

from functools import lru_cache

from .cron import ALL_DOMS, ALL_DOWS, ALL_HOURS, ALL_MONTHS, CronExpr
from .tzif import is_leap
from .zones import Shift, Zone

_MINUTE_MS = 60_000
_DAY = 1440
_REMEMBERED = 4096
# Six years with every order of common and leap years, and two 29 Februaries.
_YEARS = range(2000, 2006)


def shortest_gap(cron: CronExpr, in_zone: Zone) -> int:
    """The least time between two slots that follow each other, in ms: no two slots since the year 2000 are closer.

    Clock changes count where they bring slots together: a gap takes its length off the time across it and may
    move a missing wall time next to an existing one; an overlap repeats minutes when every hour is allowed. What
    the zone did before 2000 does not count. The answer may be less than what ever happens, where no change falls
    on the expression's days or no two of its dates are that close; it is never more.
    """
    if cron.minutes & cron.minutes >> 1:
        return _MINUTE_MS
    apart = 1 if cron.doms == ALL_DOMS and cron.dows == ALL_DOWS else _days_apart(cron)
    shifts = in_zone.shifts
    if shifts and cron.months != ALL_MONTHS:
        shifts = tuple([shift for shift in shifts if shift.months & cron.months])
    found = _within(cron.minutes, cron.hours, apart == 1, shifts)
    if apart > 1:
        first, last = _first_and_last(cron)
        across = apart * _DAY - (last - first) - in_zone.rise
        found = across if found is None else min(found, across)
    return _MINUTE_MS * (found or _DAY)


def _first_and_last(cron: CronExpr) -> tuple[int, int]:
    first = _lowest(cron.hours) * 60 + _lowest(cron.minutes)
    return first, (cron.hours.bit_length() - 1) * 60 + cron.minutes.bit_length() - 1


def _lowest(mask: int) -> int:
    return (mask & -mask).bit_length() - 1


def _closest(mask: int, below: int) -> int:
    """The least distance of two set bits, or `below` where it is not less than that."""
    if mask & (mask - 1):
        for distance in range(1, below):
            if mask & mask >> distance:
                return distance
    return below


@lru_cache(maxsize=_REMEMBERED)
def _within(minutes: int, hours: int, daily: bool, shifts: tuple[Shift, ...]) -> int | None:
    """The least distance, in minutes, within a day and, for `daily`, to the next day; None for a single slot."""
    spread = minutes.bit_length() - 1 - _lowest(minutes)
    hours_apart = _closest(hours, 25)
    if daily:
        hours_apart = min(hours_apart, 24 - (hours.bit_length() - 1) + _lowest(hours))
    best = _closest(minutes, 61)
    if hours_apart < 25:
        best = min(best, hours_apart * 60 - spread) if best < 61 else hours_apart * 60 - spread
    elif best == 61:
        best = 0
    if not shifts:
        return best or None
    day = sum(minutes << 60 * hour for hour in range(24) if hours >> hour & 1)
    # Three days in a row, of which the middle one, or all, have slots.
    days = day << _DAY | (day | day << 2 * _DAY if daily else 0)
    for shift in shifts:
        for at in (_DAY + shift.at, 2 * _DAY + shift.at):
            if shift.minutes > 0:
                found = _at_gap(days, at, shift.minutes, best)
            elif hours == ALL_HOURS:
                found = _at_overlap(days, at, -shift.minutes)
            else:
                continue
            if found and (not best or found < best):
                best = found
    return best or None


def _at_gap(days: int, at: int, length: int, best: int) -> int:
    """The least distance near a gap, on the line of real minutes; 0 for none that counts."""
    before = days & ((1 << at) - 1)
    # What is missing keeps its place on that line, and what comes after the gap moves up to its start.
    missing = days >> at & ((1 << length) - 1)
    after = days >> at + length
    merged = missing | after
    if not merged:
        return 0
    found = at - (before.bit_length() - 1) + _lowest(merged) if before else 0
    if missing:
        near = merged & ((1 << length) - 1)
        limit = best or length
        if near != missing and (close := _closest(near, limit)) < limit:
            found = min(found, close) if found else close
        beyond = merged >> length
        if beyond:
            leap = length + _lowest(beyond) - (near.bit_length() - 1)
            found = min(found, leap) if found else leap
    return found


def _at_overlap(days: int, at: int, length: int) -> int:
    """The distance from the last slot of the first pass to the first of the second; 0 where there is none."""
    before, again = days & ((1 << at) - 1), days >> at - length
    if not before or not again:
        return 0
    return at - (before.bit_length() - 1) + _lowest(again)


def _days_apart(cron: CronExpr) -> int:
    """The least number of days between two matching days, at least 1; never more than what happens."""
    if cron.every_day:
        return 1
    if cron.either_day:
        # Every weekday occurs next to every date, so an allowed date and an allowed weekday do follow each other.
        return 1 if _that_exist(cron.doms, cron.months) else _weekdays_apart(cron.dows)
    if cron.doms == ALL_DOMS:
        return _weekdays_apart(cron.dows)
    return _dates_apart(cron.doms, cron.months, cron.dows)


@lru_cache(maxsize=128)
def _differences(dows: int) -> int:
    """Bit n is set when two allowed weekdays, or one and itself, are n days apart."""
    twice = dows | dows << 7
    return sum(1 << n for n in range(7) if dows & twice >> n)


def _weekdays_apart(dows: int) -> int:
    others = _differences(dows) >> 1
    return _lowest(others) + 1 if others else 7


def _that_exist(doms: int, months: int) -> int:
    longest = 31 if months & 0b1010110101010 else 30 if months & 0b101001010000 else 29
    return doms & (2 << longest) - 1


@lru_cache(maxsize=_REMEMBERED)
def _dates_apart(doms: int, months: int, dows: int) -> int:
    doms = _that_exist(doms, months)
    if dows == ALL_DOWS and doms & doms >> 1:
        return 1
    line, at = 0, 0
    for year in _YEARS:
        for month, length in enumerate((31, 28 + is_leap(year), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31), 1):
            if months >> month & 1:
                line |= (doms >> 1 & (1 << length) - 1) << at
            at += length
    differences = _differences(dows)
    for distance in range(1, 63):
        if differences >> distance % 7 & 1 and line & line >> distance:
            return distance
    return max(63, _closest(line, at))
