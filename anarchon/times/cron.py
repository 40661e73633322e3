"""Cron expressions: five fields of text, read into sets of allowed values.

Minute, hour, day of the month, month and day of the week, with blanks or tabs between. A field is `*`, a number,
a range `a-b` or a list of these; `*` and ranges take a step. Months and weekdays have three-letter names. 0 and 7
are Sunday. Seven shorthands such as `@daily` stand for a whole expression.

A day field is restricted when its text does not start with `*`. Where both are, a day needs to match one of them;
otherwise it needs to match both.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NoReturn, cast

from anarchon.errors import InvalidCronError

from .shown import shown

ALL_MINUTES: Final = (1 << 60) - 1
ALL_HOURS: Final = (1 << 24) - 1
ALL_DOMS: Final = (1 << 32) - 2
ALL_MONTHS: Final = (1 << 13) - 2
ALL_DOWS: Final = (1 << 7) - 1

MONTH_NAMES: Final = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
DOW_NAMES: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
SHORTHANDS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

_LONGEST_MONTH = (0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class CronExpr:
    """A cron expression that can fire. Made by `parse_cron`; equal when the allowed values and the day rule are.

    Bit n of a mask is set when the value n is allowed; Sunday is 0. `either_day`: both day fields are restricted,
    so a day needs to match only one. The masks are for the search; read the sets.
    """

    minutes: int
    hours: int
    doms: int
    months: int
    dows: int
    either_day: bool

    @property
    def minute(self) -> frozenset[int]:
        """Allowed minutes, 0 to 59."""
        return _members(self.minutes)

    @property
    def hour(self) -> frozenset[int]:
        """Allowed hours, 0 to 23."""
        return _members(self.hours)

    @property
    def dom(self) -> frozenset[int]:
        """Allowed days of the month, 1 to 31."""
        return _members(self.doms)

    @property
    def month(self) -> frozenset[int]:
        """Allowed months, 1 to 12."""
        return _members(self.months)

    @property
    def dow(self) -> frozenset[int]:
        """Allowed days of the week, 0 (Sunday) to 6."""
        return _members(self.dows)

    @property
    def every_hour(self) -> bool:
        """Whether all 24 hours are allowed, so that a repeated hour fires twice."""
        return self.hours == ALL_HOURS

    @property
    def every_day(self) -> bool:
        """Whether no day of an allowed month is left out."""
        if self.either_day:
            return self.doms == ALL_DOMS or self.dows == ALL_DOWS
        return self.doms == ALL_DOMS and self.dows == ALL_DOWS

    @property
    def expr(self) -> str:
        """The expression in normal form: the same text for every spelling of the same slots, and it parses to them.

        Numbers instead of names and shorthands, single blanks, sorted lists, `*` where nothing is left out,
        `*/5` or `10-50/10` where the values are evenly spaced, ranges from three values on.
        """
        doms, dows = _day_fields(self)
        minutes = _field_text(self.minutes, 0, 59, starred=True)
        hours = _field_text(self.hours, 0, 23, starred=True)
        return f"{minutes} {hours} {doms} {_field_text(self.months, 1, 12, starred=True)} {dows}"

    def __str__(self) -> str:
        return self.expr


def parse_cron(expr: str) -> CronExpr:
    """The allowed values of a 5-field cron expression or a shorthand.

    Raises InvalidCronError, which names the field, the reason and a way out, for what does not parse, what is out
    of range and what can never fire. Whether an expression is accepted never depends on the day it is asked.
    """
    given = cast(object, expr)
    if not isinstance(given, str):
        raise InvalidCronError(f'cron {shown(given)} is a {type(given).__name__}; give a text such as "0 2 * * *"')
    text = given.strip(" \t")
    if text[:1] == "@":
        text = _expand(text, given)
    fields = text.replace("\t", " ").split(" ")
    if len(fields) != 5 or "" in fields:
        # Not split() alone, which takes line breaks and the blanks of Unicode for blanks as well.
        fields = [field for field in fields if field]
        if len(fields) != 5:
            _refuse_count(fields, given)
    minute, hour, dom, month, dow = fields
    either_day = dom[:1] != "*" and dow[:1] != "*"
    try:
        doms = _parse_field(dom, _DOM)
        months = _parse_field(month, _MONTH)
        found = CronExpr(
            _parse_field(minute, _MINUTE),
            _parse_field(hour, _HOUR),
            doms,
            months,
            _parse_field(dow, _DOW),
            either_day,
        )
    except _FieldError as error:
        raise InvalidCronError(f"cron {_shown(given)}: {error}") from None
    # Every weekday occurs on every date within 400 years, so only a day beyond the 28th can fail to exist.
    if not either_day and not doms & 0x1FFFFFFE:
        _refuse_impossible(doms, months, given)
    return found


class _FieldError(Exception):
    """Field, reason and way out, for the message of an InvalidCronError."""


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    low: int
    high: int
    count: int
    everything: int
    names: dict[str, int]
    example: str


_MINUTE = _Field("minute", 0, 59, 60, ALL_MINUTES, {}, '"0", "*/15" or "10-50/10"')
_HOUR = _Field("hour", 0, 23, 24, ALL_HOURS, {}, '"2", "*/6" or "9-17"')
_DOM = _Field("day of month", 1, 31, 31, ALL_DOMS, {}, '"1", "1,15" or "1-7"')
_MONTH = _Field("month", 1, 12, 12, ALL_MONTHS, {n: i for i, n in enumerate(MONTH_NAMES, 1)}, '"1", "JAN" or "6-8"')
_DOW = _Field("day of week", 0, 7, 7, ALL_DOWS, {n: i for i, n in enumerate(DOW_NAMES)}, '"1", "MON" or "1-5"')


def _parse_field(text: str, field: _Field) -> int:
    """The mask of one field."""
    if text == "*":
        return field.everything
    mask = 0
    for item in text.split(","):
        # Plain numbers are most of what there is.
        if len(item) <= 2 and item.isascii() and item.isdigit():
            value = int(item)
            if not field.low <= value <= field.high:
                raise _out_of_range(field, item)
            mask |= 1 << value
        else:
            mask |= _parse_item(item, field, text)
    if field is _DOW and mask & 0x80:
        mask = (mask | 1) & ALL_DOWS
    return mask


def _parse_item(item: str, field: _Field, text: str) -> int:
    body, slash, step_text = item.partition("/")
    if body == "*":
        low, high = field.low, field.high - (field is _DOW)
    else:
        start, dash, stop = body.partition("-")
        if not start or (dash and not stop) or "-" in stop or (slash and not dash):
            raise _malformed(item, field, text)
        low = _value(start, item, field, text)
        high = _value(stop, item, field, text) if dash else low
        if high < low:
            raise _reversed(body, low, high, field)
    if not slash:
        return (2 << high) - (1 << low)
    if not (step_text.isascii() and step_text.isdigit()):
        raise _malformed(item, field, text)
    step = _number(step_text)
    if step == 0:
        raise _FieldError(
            f'{field.name} {_shown(item)} has step 0; leave "/0" out, or give a step from 1 to {field.count}'
        )
    if step > field.count:
        raise _FieldError(
            f"{field.name} {_shown(item)} has a step larger than the {field.count} values of the field; "
            f"give a step from 1 to {field.count}"
        )
    mask = 0
    for value in range(low, high + 1, step):
        mask |= 1 << value
    return mask


def _value(text: str, item: str, field: _Field, whole: str) -> int:
    if text.isascii() and text.isdigit():
        value = _number(text)
        if not field.low <= value <= field.high:
            raise _out_of_range(field, text)
        return value
    named = field.names.get(text.upper()) if text.isascii() else None
    if named is None:
        raise _malformed(item, field, whole)
    return named


def _number(digits: str) -> int:
    # int() refuses thousands of digits with an error of its own.
    digits = digits.lstrip("0")
    return int(digits or "0") if len(digits) <= 4 else 10_000


def _out_of_range(field: _Field, text: str) -> _FieldError:
    also = " (0 and 7 are Sunday)" if field is _DOW else ""
    return _FieldError(
        f"{field.name} {_shown(text)} is out of range; give a value from {field.low} to {field.high}{also}"
    )


def _reversed(body: str, low: int, high: int, field: _Field) -> _FieldError:
    tail = f"{low}-{field.high}" if low < field.high else f"{low}"
    head = f"{field.low}-{high}" if high > field.low else f"{high}"
    if field is not _DOW:
        way_out = f'ranges do not wrap: write "{tail},{head}"'
    elif low == 7:
        way_out = f'Sunday at the start of a range is 0: write "0-{high}"'
    else:
        head = ",1" if high == 1 else f",1-{high}" if high else ""
        way_out = f'SUN is 0, and only 7 is the Sunday after the other days: write "{tail}{head}"'
    return _FieldError(f"{field.name} {_shown(body)} is a reversed range; {way_out}")


def _malformed(item: str, field: _Field, text: str) -> _FieldError:
    reason, way_out = _why(item, field, text)
    where = _shown(text) if item == text else f"{_shown(text)}, item {_shown(item)}"
    return _FieldError(f"{field.name} {where} {reason}; {way_out}")


def _why(item: str, field: _Field, text: str) -> tuple[str, str]:
    if not item:
        return "has an empty list item", "remove the extra comma"
    if not text.isascii():
        return "has characters outside ASCII", "write digits 0-9 and English names"
    if not text.isprintable():
        return "has a line break or a control character", "give one line with five fields"
    if re.fullmatch(r"[0-9]+/[0-9]+", item):
        start, _, step = item.partition("/")
        return "has a step on a single value", f'write "{start}-{field.high - (field is _DOW)}/{step}"'
    upper = item.upper()
    for names, other in ((_MONTH.names, "month"), (_DOW.names, "day of week")):
        if names is not field.names and any(part in names for part in re.split("[-/]", upper)):
            return f"is a name of the {other} field", f"write a number such as {field.example}"
    for part in re.split("[-/]", upper):
        if part[:3] in field.names and part.isalpha():
            return "is not one of the three-letter names", f'write "{part[:3]}"'
    if "?" in item:
        return 'uses "?", which 5-field cron does not have', 'write "*"'
    if re.search(r"[LWH#~]", upper) and re.fullmatch(r"[0-9LWH#~/*()-]+", upper):
        return "uses L, W, H, # or ~, which 5-field cron does not have", f"write {field.example}"
    return "does not parse", f"write a value, a range, a list or a step, such as {field.example}"


def _expand(text: str, given: str) -> str:
    known = SHORTHANDS.get(text.lower())
    if known is not None:
        return known
    word = text.split()[0].lower()
    if word == "@every":
        way_out = "for a fixed interval use every(), which takes texts such as '5m'"
    elif word == "@reboot":
        way_out = "to run something at start, call it before the scheduler starts"
    elif word in SHORTHANDS:
        way_out = f"write {word} alone, without fields"
    else:
        way_out = f"the shorthands are {', '.join(SHORTHANDS)}"
    raise InvalidCronError(f"cron {_shown(given)}: {_shown(text)} is not a shorthand; {way_out}")


def _refuse_count(fields: list[str], given: str) -> NoReturn:
    if "\n" in given or "\r" in given:
        hint = "give one line"
    elif fields and fields[0].upper().startswith(("CRON_TZ=", "TZ=")):
        hint = "give the zone as timezone=..., not in the expression"
    elif len(fields) == 6 and re.fullmatch(r"(?:[A-Za-z_+-]+/)+[A-Za-z0-9_+/-]+|UTC|GMT", fields[5]):
        hint = f"give the zone as timezone={fields[5]!r}, not in the expression"
    elif not given.isascii():
        hint = "write ASCII, with plain blanks between them: what looks like a blank may be another character"
    elif any(field.startswith("#") for field in fields):
        hint = "leave the comment out"
    elif any("," in (field[0], field[-1]) for field in fields):
        hint = "leave out the blanks beside a comma"
    elif len(fields) == 1 and re.fullmatch(r"(?:[0-9]+(?:ms|[wdhms]))+", fields[0]):
        hint = f"for a fixed interval use every(), which takes {fields[0]!r}"
    elif len(fields) in (6, 7):
        hint = "leave out seconds and years: write minute, hour, day of month, month, day of week"
    else:
        hint = "write minute, hour, day of month, month, day of week"
    count = "is 1" if len(fields) == 1 else f"are {len(fields)}"
    raise InvalidCronError(f"cron {_shown(given)}: five fields are needed and there {count}; {hint}")


def _refuse_impossible(doms: int, months: int, given: str) -> None:
    """Raise when no allowed month is long enough for an allowed day."""
    longest = max(length for month, length in enumerate(_LONGEST_MONTH) if months >> month & 1)
    first = (doms & -doms).bit_length() - 1
    if first > longest:
        raise InvalidCronError(
            f"cron {_shown(given)}: can never fire, because day of month {first} does not exist in the allowed months "
            f"(the longest has {longest} days); choose another day or month"
        )


def _shown(text: str) -> str:
    return ascii(text) if len(text) <= _SHOWN else f"{text[:_SHOWN]!a}..."


def _members(mask: int) -> frozenset[int]:
    return frozenset(value for value in range(mask.bit_length()) if mask >> value & 1)


def _day_fields(cron: CronExpr) -> tuple[str, str]:
    """The texts of both day fields, whose first characters carry the day rule."""
    if cron.every_day:
        return "*", "*"
    if cron.either_day:
        return _field_text(cron.doms, 1, 31, starred=False), _field_text(cron.dows, 0, 6, starred=False)
    doms, dows = _field_text(cron.doms, 1, 31, starred=True), _field_text(cron.dows, 0, 6, starred=True)
    if doms[0] == "*" or dows[0] == "*":
        return doms, dows
    # A filter in both fields, of which one has to start with `*`: a step alone if there is one, else a step and a list.
    star_dom = _starred(cron.doms, 1, 31) if cron.doms & 2 else None
    star_dow = _starred(cron.dows, 0, 6) if cron.dows & 1 else None
    if star_dow is not None and (star_dom is None or "," in star_dom):
        return doms, star_dow
    return star_dom or doms, dows


@lru_cache(maxsize=1024)
def _field_text(mask: int, low: int, high: int, *, starred: bool) -> str:
    """The shortest of `*`, a value, a step, or a list of values and ranges."""
    if not mask & (mask - 1):
        return str(mask.bit_length() - 1)
    if starred and mask == (2 << high) - (1 << low):
        return "*"
    values = [value for value in range(low, high + 1) if mask >> value & 1]
    step = values[1] - values[0]
    if step > 1 and values == list(range(values[0], values[-1] + 1, step)):
        # Two values count as a step when they halve the field: */30, but 0,6 for the weekend.
        if (
            starred
            and values[0] == low
            and values[-1] + step > high
            and (len(values) > 2 or 2 * step == high - low + 1)
        ):
            return f"*/{step}"
        if len(values) > 2:
            return f"{values[0]}-{values[-1]}/{step}"
    return _list_text(values)


def _list_text(values: list[int]) -> str:
    parts: list[str] = []
    start = 0
    for i, value in enumerate(values):
        if i + 1 == len(values) or values[i + 1] != value + 1:
            run = values[start : i + 1]
            parts += [f"{run[0]}-{run[-1]}"] if len(run) > 2 else [str(each) for each in run]
            start = i + 1
    return ",".join(parts)


def _starred(mask: int, low: int, high: int) -> str:
    """A text that starts with `*` and allows just the values of `mask`, of which `low` is one."""
    candidates = [(step, sum(1 << value for value in range(low, high + 1, step))) for step in range(2, high - low + 2)]
    inside = [(step, hit) for step, hit in candidates if not hit & ~mask]
    step, hit = next((each for each in inside if each[1] == mask), inside[0])
    rest = [value for value in range(low, high + 1) if mask & ~hit & 1 << value]
    return f"*/{step},{_list_text(rest)}" if rest else f"*/{step}"
