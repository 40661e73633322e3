"""Durations as people write them ("1h30m"), and as milliseconds."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final, cast

from anarchon.errors import InvalidIntervalError

from .shown import shown

UNITS: Final = (("w", 604_800_000), ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1))

# From the first to the last instant that a datetime can hold.
LONGEST_MS: Final = 315_537_897_599_999

_TEXT = re.compile("".join(rf"(?:([0-9]+){unit})?" for unit, _ in UNITS))
_WAY_OUT = 'write a whole number and a unit, largest unit first, such as "250ms", "90s", "5m", "1h30m", "2d" or "1w"'


def parse_interval(value: str | int | timedelta) -> int:
    """The milliseconds of `value`: from 1 to 315,537,897,599,999 (some 9,999 years).

    A text is made of whole numbers with the units w, d, h, m, s and ms: each at most once, the larger first,
    lower case, ASCII digits, and no blank, sign or fraction. An int is taken as milliseconds, and a timedelta
    must be a whole number of them. Zero and less are refused.

    Raises InvalidIntervalError for everything else: also for a bool, a float and None.
    """
    # Whoever calls from unchecked code may pass anything.
    given = cast(object, value)
    if isinstance(given, str):
        found = _from_text(given)
    elif isinstance(given, timedelta):
        found, rest = divmod(given, timedelta(milliseconds=1))
        if rest:
            raise InvalidIntervalError(
                f"interval {given!r} is not a whole number of milliseconds, and nothing finer is kept; round it"
            )
    elif isinstance(given, int) and not isinstance(given, bool):
        found = int(given)
    else:
        raise InvalidIntervalError(
            f"interval {shown(given)} is a {type(given).__name__}; "
            "give a text such as '5m', whole milliseconds as an int, or a timedelta"
        )
    if found <= 0:
        raise InvalidIntervalError(f"interval {shown(given)} is not longer than zero; give at least 1 ms")
    if found > LONGEST_MS:
        raise InvalidIntervalError(
            f"interval {shown(given)} is longer than the calendar, years 1 to 9999; give at most {LONGEST_MS} ms"
        )
    return found


def ms(value: str | int | timedelta) -> int:
    """Milliseconds for the options that end in `_ms`: `ms("20m")` is 1_200_000.

    Takes and refuses what `parse_interval` does.
    """
    return parse_interval(value)


def format_interval(interval_ms: int) -> str:
    """The canonical text of a duration, such as "1h30m": each unit once, none that is zero; "0ms" for zero.

    `parse_interval` gives the same number back for every duration that it accepts. Raises ValueError for a
    negative duration.
    """
    if interval_ms < 0:
        raise ValueError(f"a duration is not negative, and this one is {interval_ms} ms")
    parts: list[str] = []
    for unit, size in UNITS:
        count, interval_ms = divmod(interval_ms, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0ms"


def _from_text(text: str) -> int:
    match = _TEXT.fullmatch(text)
    if match is None or not text:
        raise InvalidIntervalError(f"interval {shown(text)} {_reason(text)}; {_WAY_OUT}")
    total = 0
    for digits, (_, size) in zip(match.groups(), UNITS, strict=True):
        if digits:
            # int() refuses thousands of digits with an error of its own; nothing that long is in range anyway.
            total += size * (int(digits) if len(digits) <= 4_000 else LONGEST_MS + 1)
    return total


def _reason(text: str) -> str:
    if not text:
        return "is empty"
    if not text.isascii():
        return "has characters outside ASCII"
    if any(c.isspace() for c in text):
        return "has a blank in it"
    if text[0] in "+-":
        return "has a sign"
    if text.isdigit():
        return "has no unit"
    if text != text.lower():
        return "has capital letters, and units are lower case"
    parts = re.findall(r"[0-9]+(ms|[wdhms])", text)
    if parts and re.fullmatch(r"(?:[0-9]+(?:ms|[wdhms]))+", text):
        return "names a unit twice" if len(set(parts)) < len(parts) else "has its units in the wrong order"
    return "is not a duration"
