"""The grids of fixed intervals: counted from the epoch, or from a wall time of each local day."""

from __future__ import annotations

import re
from datetime import datetime
from functools import lru_cache
from typing import Final, cast

from anarchon.errors import InvalidBaselineError

from .cron import ALL_DOMS, ALL_DOWS, ALL_MONTHS, CronExpr
from .cron_next import CronSearch, Timezone, zone_of
from .instants import FIRST_MS, LAST_MS, to_datetime, to_ms
from .shown import shown
from .zones import Zone

DAY_MS: Final = 86_400_000

_BASELINE = re.compile(r"(?:[01][0-9]|2[0-3]):[0-5][0-9]")


def next_baseline_fire(baseline: str, tz: Timezone, after: datetime | int) -> datetime | None:
    """The first instant strictly after another at which the wall clock shows `baseline`, as an aware UTC datetime.

    `baseline` is "HH:MM"; `after` an aware datetime or epoch ms; `tz` a zone or its name, None is the machine's
    zone. A baseline that does not exist on some day is moved by the gap, and of two the first counts. None when
    the instant lies beyond the year 9999.

    Raises InvalidBaselineError, InvalidInstantError and InvalidTimezoneError.
    """
    hour, minute = parse_baseline(baseline)
    found = CronSearch(_daily(hour, minute), zone_of(tz)).next(to_ms(after))
    return None if found is None else to_datetime(found)


def parse_baseline(baseline: str) -> tuple[int, int]:
    """Hour and minute of a wall time "HH:MM", from "00:00" to "23:59". Raises InvalidBaselineError."""
    given = cast(object, baseline)
    if not isinstance(given, str) or _BASELINE.fullmatch(given) is None:
        what = ascii(given[:40]) if isinstance(given, str) else f"{shown(given)}, a {type(given).__name__},"
        raise InvalidBaselineError(
            f'baseline {what} is not a wall time; write two digits each, "HH:MM", from "00:00" to "23:59"'
        )
    return int(given[:2]), int(given[3:])


def next_on_grid(after_ms: int, interval_ms: int, offset_ms: int) -> int | None:
    """The first instant `offset_ms + k * interval_ms` since the epoch strictly after `after_ms`, k any integer.

    None when it lies beyond the year 9999; never earlier than the year 1.
    """
    after_ms = max(after_ms, FIRST_MS - 1)
    found = after_ms - (after_ms - offset_ms) % interval_ms + interval_ms
    return found if found <= LAST_MS else None


def prev_on_grid(at_or_before_ms: int, interval_ms: int, offset_ms: int) -> int | None:
    """The last instant of that grid at or before `at_or_before_ms`; None when there is none since the year 1."""
    at_or_before_ms = min(at_or_before_ms, LAST_MS)
    found = at_or_before_ms - (at_or_before_ms - offset_ms) % interval_ms
    return found if found >= FIRST_MS else None


class BaselineGrid:
    """Slots at baseline + k * interval of each local day, in real time.

    A day's slots end 24 hours after its baseline, and before the baseline of the next day. On a day whose
    baseline a clock change leaves out or repeats, it is where a daily cron job would run.
    """

    __slots__ = ("_baselines", "_interval_ms", "_last_ms", "_zone")

    def __init__(self, baseline: str, interval_ms: int, in_zone: Zone) -> None:
        """`interval_ms` is from 1 to 24 hours' worth; InvalidBaselineError for a bad baseline."""
        self._baselines = CronSearch(_daily(*parse_baseline(baseline)), in_zone)
        self._interval_ms = interval_ms
        self._last_ms = (DAY_MS - 1) // interval_ms * interval_ms
        self._zone = in_zone

    def next(self, after_ms: int) -> int | None:
        """The first slot strictly after `after_ms`; None when it lies beyond the year 9999."""
        today = self._baselines.prev(after_ms)
        tomorrow = self._baselines.next(after_ms)
        if today is None:
            return tomorrow
        past = (after_ms - today) // self._interval_ms * self._interval_ms
        if past < self._last_ms:
            found = today + past + self._interval_ms
            if found < (LAST_MS + 1 if tomorrow is None else tomorrow):
                return found
        return tomorrow

    def prev(self, at_or_before_ms: int) -> int | None:
        """The last slot at or before `at_or_before_ms`; None when there is none since the year 1."""
        at_or_before_ms = min(at_or_before_ms, LAST_MS)
        today = self._baselines.prev(at_or_before_ms)
        if today is None:
            return None
        past = (at_or_before_ms - today) // self._interval_ms * self._interval_ms
        return today + min(past, self._last_ms)

    def shortest_gap(self) -> int:
        """The least time between two slots, in ms: the interval, or what a day leaves before its next baseline.

        Days that a clock change since the year 2000 shortens count as well.
        """
        return _shortest_gap(self._interval_ms, frozenset(shift.minutes for shift in self._zone.shifts))


@lru_cache(maxsize=1024)
def _shortest_gap(interval_ms: int, shifts: frozenset[int]) -> int:
    best = interval_ms
    for minutes in {0, *shifts}:
        length = DAY_MS - max(0, minutes) * 60_000
        if length > 0:
            best = min(best, length - (length - 1) // interval_ms * interval_ms)
    return best


def _daily(hour: int, minute: int) -> CronExpr:
    return CronExpr(1 << minute, 1 << hour, ALL_DOMS, ALL_MONTHS, ALL_DOWS, either_day=False)
