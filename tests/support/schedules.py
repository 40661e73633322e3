"""Days on which clocks change, with the slots that they ought to have, and short ways to write instants.

The tables are worked out by hand from the rules, not from the code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime


def instant(text: str) -> int:
    """Epoch ms of "2026-03-29T01:00Z" and its like."""
    return int(datetime.fromisoformat(text).timestamp()) * 1000


def shown(at_ms: int | None) -> str:
    """The instant as these tables write it."""
    return "never" if at_ms is None else datetime.fromtimestamp(at_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%MZ")


def slots_from(next_slot: Callable[[int], int | None], after: str, count: int) -> list[str]:
    """The first `count` slots strictly after an instant, as text."""
    found: list[str] = []
    at: int | None = instant(after)
    for _ in range(count):
        if at is None:
            break
        at = next_slot(at)
        found.append(shown(at))
    return found


def slots_between(next_slot: Callable[[int], int | None], after: str, until: str) -> list[int]:
    """Every slot strictly after one instant and before another."""
    found: list[int] = []
    at = next_slot(instant(after))
    while at is not None and at < instant(until):
        found.append(at)
        at = next_slot(at)
    return found


@dataclass(frozen=True)
class Day:
    """A cron expression around one clock change: the slots strictly after `after`."""

    expr: str
    zone: str
    after: str
    slots: tuple[str, ...]
    why: str

    def __str__(self) -> str:
        return f"{self.expr} {self.zone} {self.after}"


GAPS = [
    Day("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00Z", ("2026-03-29T01:30Z", "2026-03-30T00:30Z"), "to 03:30"),
    Day("30 2 * * *", "Europe/Berlin", "2026-03-29T01:10Z", ("2026-03-29T01:30Z",), "asked at 03:10, still to come"),
    Day("0 2,3 * * *", "Europe/Berlin", "2026-03-28T12:00Z", ("2026-03-29T01:00Z", "2026-03-30T00:00Z"), "one instant"),
    Day("15,45 2 * * *", "Europe/Berlin", "2026-03-29T00:00Z", ("2026-03-29T01:15Z", "2026-03-29T01:45Z"), "both"),
    Day("0 */2 * * *", "Europe/Berlin", "2026-03-28T22:30Z",
        ("2026-03-28T23:00Z", "2026-03-29T01:00Z", "2026-03-29T02:00Z"), "00, 02 as 03, 04"),
    Day("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00Z", ("2026-10-03T15:45Z",), "half an hour: 02:45"),
    Day("0,30 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00Z",
        ("2026-10-03T15:30Z", "2026-10-04T15:00Z"), "02:00 lands on 02:30"),
    Day("0 * * * *", "Australia/Lord_Howe", "2026-10-03T14:45Z",
        ("2026-10-03T15:30Z", "2026-10-03T16:00Z"), "02:00 as 02:30, then 03:00"),
    Day("30 1 * * *", "Antarctica/Troll", "2026-03-28T12:00Z", ("2026-03-29T01:30Z",), "two hours: 03:30"),
    Day("30 2 * * *", "Antarctica/Troll", "2026-03-28T12:00Z", ("2026-03-29T02:30Z",), "two hours: 04:30"),
    Day("0 0 * * 0", "America/Sao_Paulo", "2018-11-03T12:00Z", ("2018-11-04T03:00Z",), "midnight is missing: 01:00"),
    Day("0 0 * * *", "America/Havana", "2026-03-07T12:00Z", ("2026-03-08T05:00Z",), "midnight is missing: 01:00"),
    Day("0 0 * * *", "Africa/Cairo", "2026-04-23T12:00Z", ("2026-04-23T22:00Z",), "midnight is missing: 01:00"),
    Day("0 0 * * *", "Asia/Beirut", "2026-03-28T12:00Z", ("2026-03-28T22:00Z",), "midnight is missing: 01:00"),
    Day("0 0 * * *", "America/Santiago", "2026-09-05T12:00Z", ("2026-09-06T04:00Z",), "midnight is missing: 01:00"),
    Day("30 23 * * 6", "America/Nuuk", "2026-03-28T12:00Z", ("2026-03-29T01:30Z",), "Saturday's job, on Sunday"),
    Day("45 23 4 5 *", "Asia/Pyongyang", "2018-05-01T00:00Z", ("2018-05-04T15:15Z",), "the 4th's job, on the 5th"),
    Day("0 0 * * *", "America/St_Johns", "2011-03-12T12:00Z", ("2011-03-13T03:30Z",), "00:00 exists"),
    Day("30 0 * * *", "America/St_Johns", "2011-03-12T12:00Z", ("2011-03-13T04:00Z",), "00:30 does not: 01:30"),
    Day("0 9 30 12 *", "Pacific/Apia", "2011-12-01T00:00Z", ("2011-12-30T19:00Z",), "the day is missing: on the 31st"),
    Day("0 9 * * 5", "Pacific/Apia", "2011-12-27T00:00Z",
        ("2011-12-30T19:00Z", "2012-01-05T19:00Z"), "Friday's job, on Saturday"),
    Day("0 9 * * *", "Pacific/Apia", "2011-12-29T00:00Z",
        ("2011-12-29T19:00Z", "2011-12-30T19:00Z", "2011-12-31T19:00Z"), "two dates, one slot"),
    Day("30 2 * * *", "Africa/Casablanca", "2026-03-21T12:00Z", ("2026-03-22T02:30Z",), "Ramadan ends: 03:30"),
]  # fmt: skip

OVERLAPS = [
    Day("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00Z", ("2026-10-25T00:30Z", "2026-10-26T01:30Z"), "first pass"),
    Day("30 2 * * *", "Europe/Berlin", "2026-10-25T00:45Z", ("2026-10-26T01:30Z",), "asked between the two"),
    Day("0 */2 * * *", "Europe/Berlin", "2026-10-24T23:30Z", ("2026-10-25T00:00Z", "2026-10-25T03:00Z"), "first pass"),
    Day("* 2,3 * * *", "Europe/Berlin", "2026-10-25T00:58Z", ("2026-10-25T00:59Z", "2026-10-25T02:00Z"), "a hole"),
    Day("*/30 * * * *", "Europe/Berlin", "2026-10-25T00:15Z",
        ("2026-10-25T00:30Z", "2026-10-25T01:00Z", "2026-10-25T01:30Z", "2026-10-25T02:00Z"), "every hour: both"),
    Day("30 0-23 * * *", "Europe/Berlin", "2026-10-25T00:15Z",
        ("2026-10-25T00:30Z", "2026-10-25T01:30Z"), "all hours in another spelling: both"),
    Day("30 0-22 * * *", "Europe/Berlin", "2026-10-25T00:15Z", ("2026-10-25T00:30Z", "2026-10-25T02:30Z"), "23 hours"),
    Day("45 * * * *", "Australia/Lord_Howe", "2026-04-04T14:30Z",
        ("2026-04-04T14:45Z", "2026-04-04T15:15Z", "2026-04-04T16:15Z"), "twice, half an hour apart"),
    Day("0 * * * *", "Australia/Lord_Howe", "2026-04-04T13:30Z",
        ("2026-04-04T14:00Z", "2026-04-04T15:30Z"), "a wait of 90 minutes"),
    Day("0 1-2 * * *", "Antarctica/Troll", "2026-10-24T22:30Z",
        ("2026-10-24T23:00Z", "2026-10-25T00:00Z", "2026-10-26T01:00Z"), "first pass only"),
    Day("30 1 * * 0", "America/New_York", "2026-10-30T00:00Z", ("2026-11-01T05:30Z", "2026-11-08T06:30Z"), "weekly"),
    Day("30 23 29 2 *", "Asia/Almaty", "2024-02-01T00:00Z", ("2024-02-29T17:30Z", "2028-02-29T18:30Z"), "leap day"),
    Day("0 0 * * *", "America/St_Johns", "2010-11-06T12:00Z", ("2010-11-07T02:30Z", "2010-11-08T03:30Z"), "midnight"),
]  # fmt: skip
