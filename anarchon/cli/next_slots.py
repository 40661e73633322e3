"""`anarchon next`: when a schedule is due, with what clock changes do to it said in words."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, TypeAlias

import typer

from anarchon.cli.output import (
    away,
    clock_time,
    duration,
    lines_on_stdout,
    local_iso,
    local_time,
    print_json,
    refusals,
    refuse,
    styled,
    utc_time,
)
from anarchon.clock import SystemClock
from anarchon.errors import ConfigurationError
from anarchon.times.grid import parse_baseline
from anarchon.times.instants import iso, parse_instant
from anarchon.times.schedule import Cron, Every, cron, every
from anarchon.times.zones import Zone, zone

MOST: Final = 10_000
"""The most slots that one call lists."""

Change: TypeAlias = Literal["gap", "first-pass", "second-pass"]

_INTERVAL = re.compile(r"[+-]?[0-9][0-9A-Za-z.]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedSlot:
    """One slot and what a clock change has to do with it."""

    slot_ms: int
    change: Change | None
    note: str | None


def next_slots(
    expr: Annotated[
        list[str],
        typer.Argument(
            metavar="EXPR",
            show_default=False,
            help='A cron expression such as "0 2 * * *" or "@daily", in quotes; or an interval such as 5m.',
        ),
    ],
    tz: Annotated[str, typer.Option("--tz", metavar="ZONE", help="The IANA name of the zone.")] = "UTC",
    count: Annotated[int, typer.Option("-n", metavar="N", min=1, max=MOST, help="How many slots.")] = 10,
    after: Annotated[
        str | None,
        typer.Option(
            metavar="INSTANT",
            show_default=False,
            help="List what follows this instant instead of now: ISO 8601 with an offset, or epoch milliseconds.",
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            metavar="HH:MM", show_default=False, help="With an interval: count it from this wall time of each day."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """List the next slots of a schedule.

    Each slot is shown in the zone's time and in UTC, and where the clock is changed, the list says what becomes of it.

    Example: anarchon next "30 2 * * *" --tz Europe/Berlin -n 3
    """
    if len(expr) != 1:
        refuse(
            f'the schedule came in {len(expr)} parts; put it in quotes, as in: anarchon next "0 2 * * *". Without '
            "them the shell puts file names where a * stands"
        )
    with refusals():
        in_zone = zone(tz)
        schedule = read_schedule(expr[0], in_zone, baseline)
        now_ms = SystemClock().now_ms()
        start_ms = now_ms if after is None else _instant(after)
    slots = list_slots(schedule, in_zone, start_ms, count)
    if as_json:
        print_json(_document(schedule, in_zone, start_ms, slots))
    else:
        _print(schedule, in_zone, now_ms, start_ms, slots)


def read_schedule(text: str, in_zone: Zone, baseline: str | None) -> Cron | Every:
    """The schedule that a text means: an interval where it begins like a number and has no blank, else cron."""
    if _INTERVAL.fullmatch(text) is None:
        found = cron(text, timezone=in_zone.name)
        if baseline is not None:
            raise ConfigurationError(
                f"baseline {baseline!r} goes with an interval, and {text!r} is a cron expression, which says already "
                "at what time of day it is due; leave --baseline out"
            )
        return found
    if baseline is None:
        return every(text)
    return every(text, baseline=baseline, timezone=in_zone.name)


def list_slots(schedule: Cron | Every, in_zone: Zone, after_ms: int, count: int) -> list[ListedSlot]:
    """The next `count` slots strictly after an instant; fewer where the calendar ends."""
    found: list[ListedSlot] = []
    moved = _moved_by_gaps(schedule)
    slot_ms = schedule.next(after_ms)
    while slot_ms is not None and len(found) < count:
        found.append(_listed(slot_ms, in_zone, moved))
        slot_ms = schedule.next(slot_ms)
    return found


def _moved_by_gaps(schedule: Cron | Every) -> Cron | None:
    """The part of a schedule that is meant in wall time: only that can be moved by a gap."""
    if isinstance(schedule, Cron):
        return schedule
    if schedule.baseline is None or schedule.timezone is None:
        return None
    hour, minute = parse_baseline(schedule.baseline)
    return cron(f"{minute} {hour} * * *", timezone=schedule.timezone)


def _listed(slot_ms: int, in_zone: Zone, moved: Cron | None) -> ListedSlot:
    second = slot_ms // 1_000
    span = in_zone.span(second)
    if moved is not None and moved.annotate(slot_ms) == "gap":
        missing = clock_time(slot_ms + span.before * 1_000)
        by = duration((span.offset - span.before) * 1_000)
        return ListedSlot(slot_ms=slot_ms, change="gap", note=f"{missing} does not exist that day: moved by {by}")
    shown = clock_time(slot_ms + span.offset * 1_000)
    if second < span.first:
        return ListedSlot(slot_ms=slot_ms, change="second-pass", note=f"{shown} happens twice: second pass")
    if span.after < span.offset and second >= span.end + span.after - span.offset:
        return ListedSlot(slot_ms=slot_ms, change="first-pass", note=f"{shown} happens twice: first pass")
    return ListedSlot(slot_ms=slot_ms, change=None, note=None)


def _instant(text: str) -> int:
    return parse_instant(int(text) if re.fullmatch(r"-?[0-9]{1,15}", text) else text)


def _document(schedule: Cron | Every, in_zone: Zone, after_ms: int, slots: list[ListedSlot]) -> dict[str, Any]:
    return {
        "schedule": schedule.canonical,
        "words": schedule.describe(),
        "timezone": in_zone.name,
        "after_ms": after_ms,
        "after": iso(after_ms),
        "slots": [
            {
                "slot_ms": slot.slot_ms,
                "utc": iso(slot.slot_ms),
                "local": local_iso(slot.slot_ms, in_zone),
                "change": slot.change,
                "note": slot.note,
            }
            for slot in slots
        ],
    }


def _print(schedule: Cron | Every, in_zone: Zone, now_ms: int, start_ms: int, slots: list[ListedSlot]) -> None:
    out = lines_on_stdout()
    out.print(styled((schedule.describe(), "bold")))
    if schedule.timezone is None and in_zone.name != "UTC":
        out.print(styled((f"counted from the Unix epoch in UTC, whatever the zone; shown for {in_zone.name}", "dim")))
    if start_ms != now_ms:
        out.print(styled((f"after {utc_time(start_ms)}", "dim")))
    if not slots:
        out.print(styled("no slot up to the year 9999"))
        return
    columns = [[in_zone.name, *(local_time(slot.slot_ms, in_zone) for slot in slots)]]
    if in_zone.name != "UTC":
        columns.append(["UTC", *(utc_time(slot.slot_ms) for slot in slots)])
    widths = [max(map(len, column)) for column in columns]
    head, *rows = (
        "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in zip(*columns, strict=True)
    )
    out.print(styled((head.rstrip(), "dim")))
    for slot, row in zip(slots, rows, strict=True):
        out.print(styled(f"{row}   ", (away(now_ms, slot.slot_ms), "dim")))
        if slot.note is not None:
            out.print(styled((f"    {slot.note}", "yellow")))
