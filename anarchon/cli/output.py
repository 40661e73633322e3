"""What all commands share: exit codes, refusals, JSON, and how instants and durations are written."""

from __future__ import annotations

import json
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final, NoReturn

import typer
from rich.console import Console
from rich.text import Text

from anarchon.errors import AnarchonError, BackendError
from anarchon.times.instants import FIRST_MS, LAST_MS, iso, to_datetime
from anarchon.times.zones import Zone

OK: Final = 0
NOT_AS_PROMISED: Final = 1
WRONG_USE: Final = 2
UNREACHABLE: Final = 3

_DAY_MS: Final = 86_400_000
_UNITS: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))


def refuse(message: str, code: int = WRONG_USE) -> NoReturn:
    """Say what is wrong on stderr and end with `code`."""
    complain(f"error: {message}")
    raise typer.Exit(code)


def complain(message: str) -> None:
    """One line on stderr."""
    typer.echo(f"anarchon: {message}", err=True)


@contextmanager
def refusals() -> Generator[None]:
    """Turn this package's errors into a line and an exit code, and its warnings into lines."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            yield
        except BackendError as error:
            refuse(str(error), UNREACHABLE)
        except AnarchonError as error:
            refuse(str(error), WRONG_USE)
        finally:
            for warning in caught:
                complain(f"warning: {warning.message}")


def print_json(document: dict[str, Any]) -> None:
    """The one document that a command with --json writes to stdout."""
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False))


def lines_on_stdout() -> Console:
    """Where a command writes its lines: with colours on a terminal, and never wrapped."""
    return Console(soft_wrap=True, highlight=False, markup=False, emoji=False)


def clean(text: str, longest: int = 200) -> str:
    """Text from elsewhere on one line, without anything that would steer the terminal."""
    line = "".join(sign if sign.isprintable() else " " for sign in text)
    line = " ".join(line.split())
    return line if len(line) <= longest else f"{line[: longest - 3]}..."


def iso_or_none(at_ms: int | None) -> str | None:
    """An instant for JSON, in UTC."""
    return None if at_ms is None else iso(at_ms)


def duration(duration_ms: float) -> str:
    """A duration with its two largest units: "12 ms", "2.4 s", "3 h 5 min"."""
    whole = round(duration_ms)
    if whole < 1_000:
        return f"{whole} ms"
    if whole < 60_000:
        tenths = round(whole / 100) / 10
        return f"{tenths:g} s" if tenths < 60 else "1 min"
    parts: list[str] = []
    for size, unit in _UNITS:
        count, whole = divmod(whole, size)
        if count:
            parts.append(f"{count} {unit}")
        elif parts:
            break
    return " ".join(parts[:2])


def away(from_ms: int, to_ms: int) -> str:
    """How far an instant is from another: "in 3 h", "12 s ago", "now"."""
    difference = to_ms - from_ms
    if abs(difference) < 1_000:
        return "now"
    # Seconds are enough here.
    text = duration(abs(difference) // 1_000 * 1_000)
    return f"in {text}" if difference > 0 else f"{text} ago"


def local_time(at_ms: int, in_zone: Zone) -> str:
    """Weekday, date, wall time and offset: "Sun 2027-03-28 03:30 +02:00"."""
    offset_s, day, date = _local(at_ms, in_zone)
    return f"{day} {date} {clock_time(at_ms + offset_s * 1_000)} {_offset(offset_s)}"


def local_iso(at_ms: int, in_zone: Zone) -> str:
    """The instant in ISO 8601 with the zone's offset: "2027-03-28T03:30:00+02:00"."""
    offset_s, _, date = _local(at_ms, in_zone)
    shown = iso((at_ms + offset_s * 1_000) % _DAY_MS)
    return f"{date}T{shown[11:-1]}{_offset(offset_s)}"


def utc_time(at_ms: int) -> str:
    """Date and time in UTC: "2027-03-28 01:30Z"."""
    return f"{iso(at_ms)[:10]} {clock_time(at_ms)}Z"


def clock_time(shown_ms: int) -> str:
    """The time of day of a wall clock's ms: "02:30", with seconds and milliseconds where it has any."""
    of_day = shown_ms % _DAY_MS
    text = f"{of_day // 3_600_000:02}:{of_day // 60_000 % 60:02}"
    if of_day % 60_000:
        text += f":{of_day // 1_000 % 60:02}"
    if of_day % 1_000:
        text += f".{of_day % 1_000:03}"
    return text


def _local(at_ms: int, in_zone: Zone) -> tuple[int, str, str]:
    """The zone's offset in seconds, the weekday and the date there."""
    offset_s = in_zone.offset_at(at_ms // 1_000)
    # The first and last day of the calendar have no neighbour to be moved to.
    day = to_datetime(min(max(at_ms + offset_s * 1_000, FIRST_MS), LAST_MS))
    return offset_s, f"{day:%a}", day.date().isoformat()


def _offset(seconds: int) -> str:
    sign = "-" if seconds < 0 else "+"
    hours, rest = divmod(abs(seconds), 3_600)
    minutes, odd = divmod(rest, 60)
    return f"{sign}{hours:02}:{minutes:02}" + (f":{odd:02}" if odd else "")


def styled(*parts: str | tuple[str, str]) -> Text:
    """A line of pieces, some with a style."""
    return Text.assemble(*parts, no_wrap=True)
