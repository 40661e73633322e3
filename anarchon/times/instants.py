"""Instants: epoch milliseconds inside, aware datetimes at the edge, ISO 8601 in text."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Final, cast

from anarchon.errors import InvalidInstantError

from .shown import shown

# What a datetime can hold in UTC; nothing outside is ever a slot.
FIRST_MS: Final = -62_135_596_800_000
LAST_MS: Final = 253_402_300_799_999

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_ISO = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]{1,18}))?)?"
    r"(?:([Zz])|([+-])([0-9]{2})(?::?([0-9]{2}))?)?"
)
_WAY_OUT = 'give an aware datetime, epoch milliseconds, or ISO 8601 with an offset such as "2027-01-01T00:00:00Z"'


def to_ms(when: datetime | int) -> int:
    """Epoch milliseconds of an aware datetime or of epoch milliseconds; what is finer is dropped.

    Raises InvalidInstantError for a naive datetime, for another type (bool and float among them), and for what
    lies outside the years 1 to 9999.
    """
    given = cast(object, when)
    if isinstance(given, datetime):
        try:
            offset = given.utcoffset()
            found = None if offset is None else (given - _EPOCH) // _MILLISECOND
        except (OverflowError, ValueError) as error:
            raise InvalidInstantError(f"instant {shown(given)} cannot be told in UTC: {error}") from None
        if found is None:
            raise InvalidInstantError(
                f"datetime {shown(given)} is naive, so instances in different zones would disagree; "
                "give it a tzinfo, such as tzinfo=UTC"
            )
    elif isinstance(given, int) and not isinstance(given, bool):
        found = int(given)
    else:
        raise InvalidInstantError(f"{shown(given)} is not an instant but a {type(given).__name__}; {_WAY_OUT}")
    if not FIRST_MS <= found <= LAST_MS:
        raise InvalidInstantError(f"instant {shown(given)} lies outside the years 1 to 9999; {_WAY_OUT}")
    return found


def to_datetime(at_ms: int) -> datetime:
    """The aware UTC datetime of an instant in the years 1 to 9999; OverflowError outside them."""
    return _EPOCH + timedelta(milliseconds=at_ms)


def iso(at_ms: int) -> str:
    """The instant in ISO 8601, in UTC: "2027-01-01T00:00:00Z", with ".123" only where it has milliseconds."""
    text = to_datetime(at_ms).replace(tzinfo=None).isoformat(timespec="milliseconds" if at_ms % 1000 else "seconds")
    return f"{text}Z"


def parse_instant(when: datetime | str | int) -> int:
    """Epoch milliseconds of an aware datetime, an ISO 8601 text with an offset, or epoch milliseconds.

    The text is date, "T" or a blank, hours and minutes, seconds and their fraction if wanted, then "Z" or an
    offset "+HH:MM", "+HHMM" or "+HH". What is finer than a millisecond is dropped. Week dates, ordinal dates
    and dates without a time are refused, on every version of Python alike.

    Raises InvalidInstantError for everything else: no offset, a date that does not exist, a leap second.
    """
    if not isinstance(when, str):
        return to_ms(when)
    match = _ISO.fullmatch(when)
    if match is None:
        raise InvalidInstantError(f"{shown(when)} is not an instant; {_WAY_OUT}")
    year, month, day, hour, minute, second, fraction, zulu, sign, off_hours, off_minutes = match.groups()
    if second == "60":
        raise InvalidInstantError(
            f"instant {shown(when)} names a leap second, which epoch time does not have; "
            "give the second before or after it"
        )
    if zulu is None and sign is None:
        raise InvalidInstantError(
            f"instant {shown(when)} has no offset, so instances in different zones would disagree; "
            'append "Z" for UTC or an offset such as "+02:00"'
        )
    try:
        if int(off_hours or 0) > 23 or int(off_minutes or 0) > 59:
            raise ValueError("the offset must be less than 24 hours, with minutes from 00 to 59")
        shift = timedelta(hours=int(off_hours or 0), minutes=int(off_minutes or 0))
        wall = datetime(int(year), int(month), int(day), int(hour), int(minute), int(second or 0))  # noqa: DTZ001
        aware = wall.replace(tzinfo=timezone(-shift if sign == "-" else shift))
    except ValueError as error:
        raise InvalidInstantError(f"instant {shown(when)} does not exist: {error}; {_WAY_OUT}") from None
    found = to_ms(aware) + int(f"{fraction or '0':0<3}"[:3])
    if found > LAST_MS:
        raise InvalidInstantError(f"instant {shown(when)} lies outside the years 1 to 9999; {_WAY_OUT}")
    return found
