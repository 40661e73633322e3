"""The three schedules: `every`, `cron` and `at`. Each is a pure function from time to slots, in epoch ms.

All answer the same questions. `next(after_ms)`: the first slot strictly after an instant, None when there is none
up to the year 9999. `prev(at_or_before_ms)`: the last slot at or before an instant, None when there is none since
the year 1. `shortest_gap()`: no two slots are closer, in ms. `describe()`: in words. `canonical`: the text that
says which grid this is. Two schedules with one text have the same slots, and it stays the same across releases,
because stores keep it to tell whether instances agree.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, cast

from anarchon.errors import InvalidBaselineError, InvalidInstantError, InvalidIntervalError, UnsafeOptionError

from .cron import CronExpr, parse_cron
from .cron_gap import shortest_gap
from .cron_next import CronSearch, Mark
from .cron_words import WEEKDAYS, describe_cron
from .duration import LONGEST_MS, format_interval, parse_interval
from .grid import DAY_MS, BaselineGrid, next_on_grid, parse_baseline, prev_on_grid
from .instants import FIRST_MS, LAST_MS, iso, parse_instant
from .zones import Zone, zone

SHORTEST_INTERVAL_MS: Final = 100

_UNITS = (
    (604_800_000, "week"),
    (86_400_000, "day"),
    (3_600_000, "hour"),
    (60_000, "minute"),
    (1_000, "second"),
    (1, "millisecond"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Every:
    """Slots at `offset_ms + k * interval_ms` since the epoch, or at `baseline` + k * interval of each local day.

    Best made by `every()`. `baseline` and `zone` come together; with them the offset is 0.
    """

    interval_ms: int
    offset_ms: int = 0
    baseline: str | None = None
    zone: Zone | None = None
    _local: BaselineGrid | None = field(init=False, repr=False, compare=False, default=None)

    def __post_init__(self) -> None:
        shown = format_interval(max(0, self.interval_ms))
        if self.interval_ms < SHORTEST_INTERVAL_MS:
            raise InvalidIntervalError(
                f"interval {self.interval_ms} ms is shorter than every() goes; give at least {SHORTEST_INTERVAL_MS} ms"
            )
        if self.interval_ms > LONGEST_MS:
            raise InvalidIntervalError(f"interval {shown} is longer than the calendar; give at most {LONGEST_MS} ms")
        if self.baseline is None:
            if self.zone is not None:
                raise UnsafeOptionError(
                    f"every {shown}: timezone={self.zone.name!r} means nothing without a baseline, since intervals "
                    "are counted from the epoch; leave it out, or give baseline"
                )
            if not 0 <= self.offset_ms < self.interval_ms:
                raise InvalidIntervalError(
                    f"every {shown}: offset_ms={self.offset_ms} must be at least 0 and less than the interval; "
                    f"{self.offset_ms % self.interval_ms} gives the same slots"
                )
            return
        parse_baseline(self.baseline)
        if self.offset_ms:
            raise UnsafeOptionError(
                f"every {shown}: offset_ms={self.offset_ms} and baseline={self.baseline!r} exclude each other; "
                "move the baseline, or leave it out"
            )
        if self.interval_ms > DAY_MS:
            raise InvalidIntervalError(
                f"every {shown}: with a baseline the interval is at most 24 hours, since each local day starts anew; "
                "give a shorter one, or use cron()"
            )
        if self.zone is None:
            raise InvalidBaselineError(f"baseline {self.baseline!r} needs a zone; make the schedule with every()")
        object.__setattr__(self, "_local", BaselineGrid(self.baseline, self.interval_ms, self.zone))

    def next(self, after_ms: int) -> int | None:
        """The first slot strictly after `after_ms`; None when it lies beyond the year 9999."""
        if self._local is not None:
            return self._local.next(after_ms)
        return next_on_grid(after_ms, self.interval_ms, self.offset_ms)

    def prev(self, at_or_before_ms: int) -> int | None:
        """The last slot at or before `at_or_before_ms`; None when there is none since the year 1."""
        if self._local is not None:
            return self._local.prev(at_or_before_ms)
        return prev_on_grid(at_or_before_ms, self.interval_ms, self.offset_ms)

    def shortest_gap(self) -> int:
        """The interval in ms, or less where a local day ends with less before its next baseline."""
        return self.interval_ms if self._local is None else self._local.shortest_gap()

    @property
    def timezone(self) -> str | None:
        """The zone of the baseline; None without one."""
        return None if self.zone is None else self.zone.name

    @property
    def canonical(self) -> str:
        """Which grid this is: "every 1h30m", "every 1h offset 5m" or "every 2h from 02:30 Europe/Berlin"."""
        text = f"every {format_interval(self.interval_ms)}"
        if self.baseline is not None:
            return f"{text} from {self.baseline} {self.timezone}"
        return f"{text} offset {format_interval(self.offset_ms)}" if self.offset_ms else text

    def describe(self) -> str:
        """In words: "every 5 minutes", "every day at 00:00 UTC", "every 2 hours from 02:30 Europe/Berlin"."""
        text = _in_words(self.interval_ms)
        if self.baseline is not None:
            word = "at" if self.interval_ms == DAY_MS else "from"
            return f"{text} {word} {self.baseline} {self.timezone}"
        if self.interval_ms % DAY_MS:
            return f"{text}, {format_interval(self.offset_ms)} after the full interval" if self.offset_ms else text
        days, of_day = divmod(self.offset_ms, DAY_MS)
        at = f"{iso(of_day)[11:-1].removesuffix(':00')} UTC"
        if self.interval_ms % (7 * DAY_MS) == 0:
            # 1 January 1970 was a Thursday.
            text = f"{text} on {WEEKDAYS[(4 + days) % 7]}"
        if self.interval_ms not in (DAY_MS, 7 * DAY_MS):
            return f"{text} at {at}, counted from {iso(self.offset_ms)[:10]}"
        return f"{text} at {at}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cron:
    """Slots at the wall times of a cron expression in a zone. Best made by `cron()`."""

    expr: CronExpr
    zone: Zone
    # Made at the first look: thousands of tasks are registered before any slot is asked for.
    _made_search: CronSearch | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def _search(self) -> CronSearch:
        if self._made_search is None:
            object.__setattr__(self, "_made_search", CronSearch(self.expr, self.zone))
        return cast(CronSearch, self._made_search)

    def next(self, after_ms: int) -> int | None:
        """The first slot strictly after `after_ms`; None when it lies beyond the year 9999."""
        search = self._made_search
        if search is None:
            search = self._search
        return search.next(after_ms)

    def prev(self, at_or_before_ms: int) -> int | None:
        """The last slot at or before `at_or_before_ms`; None when there is none since the year 1."""
        return self._search.prev(at_or_before_ms)

    def shortest_gap(self) -> int:
        """The least time between two slots in ms, clock changes since the year 2000 included; never too much."""
        return shortest_gap(self.expr, self.zone)

    def annotate(self, slot_ms: int) -> Mark | None:
        """'gap' for a slot that a clock change moved, 'overlap' for one whose wall time occurs twice, else None."""
        return self._search.mark(slot_ms)

    @property
    def timezone(self) -> str:
        """The zone's name."""
        return self.zone.name

    @property
    def canonical(self) -> str:
        """Which grid this is: "cron 0 2 * * * Europe/Berlin"."""
        return f"cron {self.expr.expr} {self.zone.name}"

    def describe(self) -> str:
        """In words: "every day at 02:00 Europe/Berlin"."""
        return describe_cron(self.expr, self.zone.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class At:
    """One slot. Best made by `at()`."""

    at_ms: int

    def __post_init__(self) -> None:
        if not FIRST_MS <= self.at_ms <= LAST_MS:
            raise InvalidInstantError(f"instant {self.at_ms} ms lies outside the years 1 to 9999; give one inside them")

    def next(self, after_ms: int) -> int | None:
        """The slot, when it is strictly after `after_ms`."""
        return self.at_ms if self.at_ms > after_ms else None

    def prev(self, at_or_before_ms: int) -> int | None:
        """The slot, when it is at or before `at_or_before_ms`."""
        return self.at_ms if self.at_ms <= at_or_before_ms else None

    def shortest_gap(self) -> int | None:
        """None: there is only one slot."""
        return None

    @property
    def timezone(self) -> str | None:
        """None: an instant has no zone."""
        return None

    @property
    def canonical(self) -> str:
        """Which slot this is: "at 2027-01-01T00:00:00Z"."""
        return f"at {iso(self.at_ms)}"

    def describe(self) -> str:
        """In words: "once, at 2027-01-01 00:00:00 UTC"."""
        return f"once, at {iso(self.at_ms)[:-1].replace('T', ' ')} UTC"


Schedule = Every | Cron | At


def every(
    interval: str | int | timedelta,
    *,
    offset_ms: int = 0,
    baseline: str | None = None,
    timezone: str | None = None,
) -> Every:
    """A schedule of fixed intervals: "5m", milliseconds or a timedelta, at least 100 ms.

    Without a baseline, slots are at `offset_ms + k * interval` since the epoch, whatever the zone: "1d" is 00:00
    UTC, "1w" a Thursday. `offset_ms` is at least 0 and less than the interval.

    With a baseline "HH:MM" in `timezone` (UTC when None), slots are at baseline + k * interval of each local day,
    in real time, for less than 24 hours and before the next day's baseline; the interval is at most 24 hours.

    Raises InvalidIntervalError, InvalidBaselineError and InvalidTimezoneError for values that cannot be, and
    UnsafeOptionError for an offset with a baseline and for a zone without one.
    """
    offset = cast(object, offset_ms)
    if not isinstance(offset, int) or isinstance(offset, bool):
        raise InvalidIntervalError(f"offset_ms must be whole milliseconds as an int, not a {type(offset).__name__}")
    interval_ms = parse_interval(interval)
    if timezone is None and baseline is None:
        return Every(interval_ms=interval_ms, offset_ms=offset_ms)
    in_zone = zone("UTC" if timezone is None else timezone)
    return Every(interval_ms=interval_ms, offset_ms=offset_ms, baseline=baseline, zone=in_zone)


def cron(expression: str | CronExpr, *, timezone: str) -> Cron:
    """A schedule of wall times: a 5-field cron expression or a shorthand, in a zone given by its IANA name.

    Raises InvalidCronError and InvalidTimezoneError.
    """
    expr = expression if isinstance(expression, CronExpr) else parse_cron(expression)
    return Cron(expr=expr, zone=zone(timezone))


def at(when: datetime | str | int) -> At:
    """A schedule of one slot: an aware datetime, ISO 8601 with an offset, or epoch milliseconds.

    What is finer than a millisecond is dropped. An instant in the past is no error. Raises InvalidInstantError for
    a naive datetime or text, a date that does not exist, and a leap second.
    """
    return At(at_ms=parse_instant(when))


def _in_words(interval_ms: int) -> str:
    parts: list[str] = []
    rest = interval_ms
    for size, unit in _UNITS:
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count} {unit}{'s' if count > 1 else ''}")
    text = " ".join(parts)
    # "every minute", not "every 1 minute".
    return f"every {text.removeprefix('1 ') if len(parts) == 1 else text}"
