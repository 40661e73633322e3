"""Zone files as they are compiled (TZif, RFC 8536): bytes to the instants at which the offset changes.

The standard library answers what the offset is at an instant and hides when it changes. A search that is to
cost the same for a million missed slots as for one needs the changes themselves.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from datetime import date
from typing import Final

# 1 January 1970, counted as datetime.toordinal() counts.
EPOCH_ORDINAL: Final = 719_163

_DAY_S = 86_400
_LAST_ORDINAL = date.max.toordinal()
_NAME = r"(?:[A-Za-z]{3,}|<[A-Za-z0-9+-]+>)"
_OFFSET = r"([+-]?[0-9]{1,3}(?::[0-9]{1,2}(?::[0-9]{1,2})?)?)"
_RULE = re.compile(rf"{_NAME}{_OFFSET}(?:{_NAME}{_OFFSET}?(?:,([^,]+),([^,]+))?)?")
_DATE = re.compile(rf"(?:M([0-9]+)\.([0-9])\.([0-9])|(J?)([0-9]+))(?:/{_OFFSET})?")
_BEFORE_MONTH = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)


def is_leap(year: int) -> bool:
    """Whether `year` has a 29 February, in the Gregorian calendar drawn out in both directions."""
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def first_day(year: int) -> int:
    """The number of 1 January, in days since the epoch; any year, also one that no datetime can hold."""
    before = year - 1
    return 365 * before + before // 4 - before // 100 + before // 400 + 1 - EPOCH_ORDINAL


def year_of(day: int) -> int:
    """The year that holds `day`, in days since the epoch."""
    ordinal = day + EPOCH_ORDINAL
    if 1 <= ordinal <= _LAST_ORDINAL:
        return date.fromordinal(ordinal).year
    year = day * 400 // 146_097 + 1970
    while first_day(year) > day:
        year -= 1
    while first_day(year + 1) <= day:
        year += 1
    return year


@dataclass(frozen=True, slots=True)
class RuleDate:
    """When, in each year, an offset begins: "M3.5.0/2" and its like, in the time in force until then."""

    month: int
    week: int
    weekday: int
    day_of_year: int
    skips_leap_day: bool
    second: int

    def wall_second(self, year: int) -> int:
        """Seconds since the epoch, read as wall time."""
        start = first_day(year)
        if self.month == 0:
            leap = self.skips_leap_day and is_leap(year) and self.day_of_year >= 59
            return (start + self.day_of_year + leap) * _DAY_S + self.second
        lengths = (31, 29 if is_leap(year) else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
        first = start + _BEFORE_MONTH[self.month - 1] + (self.month > 2 and is_leap(year))
        # Day 0 was a Thursday, and Sunday counts as 0 here.
        ahead = (self.weekday - first - 4) % 7 + 7 * (self.week - 1)
        while ahead >= lengths[self.month - 1]:
            ahead -= 7
        return (first + ahead) * _DAY_S + self.second


@dataclass(frozen=True, slots=True)
class YearlyRule:
    """Two offsets, in seconds, that take turns every year."""

    standard: int
    daylight: int
    starts: RuleDate
    ends: RuleDate

    def changes(self, year: int) -> list[tuple[int, int]]:
        """(epoch second, offset from then on) for both changes of `year`, in order."""
        starts = (self.starts.wall_second(year) - self.standard, self.daylight)
        ends = (self.ends.wall_second(year) - self.daylight, self.standard)
        return [starts, ends] if starts[0] <= ends[0] else [ends, starts]


@dataclass(frozen=True, slots=True)
class ZoneData:
    """Every change of one zone: `first_offset`, then the listed changes, then for ever the rule or the last offset."""

    first_offset: int
    changes: tuple[tuple[int, int], ...]
    rule: YearlyRule | None


def parse_tzif(data: bytes) -> ZoneData:
    """The changes that a compiled zone file holds. ValueError when it is not one."""
    try:
        return _parse(data)
    except (struct.error, IndexError) as error:
        raise ValueError(f"not a whole TZif file: {error}") from None


def _parse(data: bytes) -> ZoneData:
    counts = _header(data, 0)
    position, width = 44, 4
    if data[4:5] >= b"2":
        # The first block has 32-bit times for old readers; the second has them all.
        position += _block_size(counts, 4)
        counts = _header(data, position)
        position, width = position + 44, 8
    _, _, _, time_count, type_count, _ = counts
    times: tuple[int, ...] = struct.unpack_from(f">{time_count}{'q' if width == 8 else 'l'}", data, position)
    kinds: tuple[int, ...] = struct.unpack_from(f">{time_count}B", data, position + time_count * width)
    at = position + time_count * (width + 1)
    types = [struct.unpack_from(">lBB", data, at + 6 * i) for i in range(type_count)]
    offsets: list[int] = [kind[0] for kind in types]
    # As zoneinfo has it: before the first change the first kind that is not summer time holds.
    first = next((kind[0] for kind in types if not kind[1]), offsets[0])
    changes = tuple((when, offsets[kind]) for when, kind in zip(times, kinds, strict=True))
    footer = b"" if width == 4 else data[position + _block_size(counts, 8) :].strip(b"\n")
    return _with_footer(first, changes, footer.decode("ascii"))


def _header(data: bytes, at: int) -> tuple[int, ...]:
    if data[at : at + 4] != b"TZif":
        raise ValueError("not a TZif file")
    return struct.unpack_from(">6l", data, at + 20)


def _block_size(counts: tuple[int, ...], width: int) -> int:
    is_ut, is_std, leaps, times, types, chars = counts
    return times * (width + 1) + types * 6 + chars + leaps * (width + 4) + is_std + is_ut


def _with_footer(first: int, changes: tuple[tuple[int, int], ...], footer: str) -> ZoneData:
    if not footer:
        return ZoneData(first, changes, None)
    match = _RULE.fullmatch(footer)
    if match is None:
        raise ValueError(f"unknown rule {footer!r} in a TZif file")
    # A rule counts hours west of Greenwich.
    standard = -_seconds(match[1])
    if match[3] is None:
        return ZoneData(first if changes else standard, changes, None)
    daylight = standard + 3600 if match[2] is None else -_seconds(match[2])
    return ZoneData(first, changes, YearlyRule(standard, daylight, _date(match[3]), _date(match[4])))


def _seconds(text: str) -> int:
    hours, minutes, seconds = (*(int(part) for part in text.lstrip("+-").split(":")), 0, 0)[:3]
    return (-1 if text[0] == "-" else 1) * (hours * 3600 + minutes * 60 + seconds)


def _date(text: str) -> RuleDate:
    match = _DATE.fullmatch(text)
    if match is None:
        raise ValueError(f"unknown date {text!r} in the rule of a TZif file")
    second = 7200 if match[6] is None else _seconds(match[6])
    if match[1] is not None:
        return RuleDate(int(match[1]), int(match[2]), int(match[3]), 0, False, second)
    counted_from_1 = match[4] == "J"
    return RuleDate(0, 0, 0, int(match[5]) - counted_from_1, counted_from_1, second)
