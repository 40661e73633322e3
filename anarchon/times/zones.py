"""Time zones by name: one answer for one name on every instance, and the spans during which an offset holds.

Which names exist is decided by one list, that of the `tzdata` package which anarchon depends on, and never by
the files that a machine happens to have. The data behind a name comes from where `zoneinfo` takes it: the
system's files first, then the package. `tz_database_version()` says which release that is, since instances
with different releases may compute different slots.
"""

from __future__ import annotations

import difflib
import inspect
import os
import re
import warnings
import zoneinfo
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache
from importlib import import_module, resources
from pathlib import Path
from typing import Final

from anarchon.errors import InvalidTimezoneError

from .shown import shown
from .tzif import EPOCH_ORDINAL, ZoneData, first_day, parse_tzif, year_of

# Seconds before and after anything that is ever asked.
BEGINNING: Final = -(2**60)
END: Final = 2**60

_DAY_S = 86_400
_REMEMBERED_YEARS = 200
_NOT_PLACES = frozenset({"Factory", "localtime", "posixrules"})
_UNKNOWN = "is not in the IANA database"
_WAY_OUT = 'give a name of the IANA database, such as "Europe/Berlin" or "UTC"'


class AnarchonWarning(UserWarning):
    """Something legal that will probably hurt."""


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time with one offset to UTC: epoch seconds from `start` up to `end`, offsets in seconds.

    A wall time belongs to one span (the earlier one where it occurs twice or, by the clock, not at all), and that
    span's offset tells its instant. So a span owns the instants from `first` up to `limit`: it loses the repeated
    wall times at its start to the span before, and gets the missing ones at its end. From `clear` on, nothing of
    the span before is left.
    """

    start: int
    end: int
    before: int
    offset: int
    after: int
    first: int = field(init=False)
    clear: int = field(init=False)
    limit: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "first", self.start + max(0, self.before - self.offset))
        object.__setattr__(self, "clear", self.start + abs(self.before - self.offset))
        object.__setattr__(self, "limit", self.end + max(0, self.after - self.offset))


@dataclass(frozen=True, slots=True)
class Shift:
    """A kind of clock change that a zone knows: at minute `at` of the day the clock moves by `minutes`.

    Positive: the wall minutes from `at` to `at + minutes` are missing. Negative: those before `at` come again.
    `months` has a bit for each month (1 to 12) in which it happens or which begins or ends within a day of it.
    """

    at: int
    minutes: int
    months: int


class Zone:
    """One time zone. Made by `zone()`; equal and the same object for equal names."""

    __slots__ = ("_name", "_rise", "_rule", "_rule_from", "_shifts", "_spans", "_starts", "_years")

    def __init__(self, name: str, data: ZoneData) -> None:
        self._name = name
        self._rule = data.rule
        changes = list(data.changes)
        self._rule_from = END
        if data.rule is not None:
            last = changes[-1][0] if changes else None
            # Two years of the rule, so that the last span of the table has an end that the rule knows as well.
            for year in _years_after(last):
                changes += [change for change in data.rule.changes(year) if last is None or change[0] > last]
        spans = _spans(data.first_offset, changes)
        if data.rule is not None:
            self._rule_from = spans.pop().start
        self._spans = spans
        self._starts = [span.start for span in spans]
        self._years: dict[int, tuple[list[int], list[Span]]] = {}
        self._shifts: tuple[Shift, ...] | None = None
        self._rise: int | None = None

    @property
    def name(self) -> str:
        """The canonical spelling of the name."""
        return self._name

    def __repr__(self) -> str:
        return f"Zone({self._name!r})"

    def __str__(self) -> str:
        return self._name

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return zone, (self._name,)

    def span(self, second: int) -> Span:
        """The span that holds an epoch second; any int will do, also outside the years 1 to 9999."""
        rule = self._rule
        if rule is None or second < self._rule_from:
            return self._spans[bisect_right(self._starts, second) - 1]
        year = year_of(second // _DAY_S)
        known = self._years.get(year)
        if known is None:
            # Enough years around this one that the spans at both ends, which are not whole, are never asked for.
            changes = [change for near in range(year - 2, year + 3) for change in rule.changes(near)]
            spans = _spans(changes[0][1], changes[1:])
            known = [span.start for span in spans], spans
            if len(self._years) >= _REMEMBERED_YEARS:
                self._years = {}
            self._years[year] = known
        starts, spans = known
        return spans[bisect_right(starts, second) - 1]

    def offset_at(self, second: int) -> int:
        """Seconds that the wall clock is ahead of UTC at an epoch second."""
        return self.span(second).offset

    @property
    def shifts(self) -> tuple[Shift, ...]:
        """The kinds of clock change since the year 2000, those that the zone's rule will bring included."""
        if self._shifts is None:
            self._shifts = tuple(_kinds_of_change(self))
        return self._shifts

    @property
    def rise(self) -> int:
        """By how many minutes at most the clock has been moved forward between two instants since the year 2000."""
        if self._rise is None:
            lowest, rise = END, 0
            for span in _recent(self):
                lowest = min(lowest, span.offset)
                rise = max(rise, span.offset - lowest)
            self._rise = -(-rise // 60)
        return self._rise


def zone(name: str) -> Zone:
    """The zone of an IANA name, in any case: `zone("europe/berlin").name` is "Europe/Berlin".

    Old names ("US/Eastern") are kept as they are. "local" asks for the machine's zone by its IANA name and warns
    with AnarchonWarning, because instances on other machines may have another.

    Raises InvalidTimezoneError for everything that is not a name on the list, whatever files the machine has.
    """
    try:
        return _known[name]
    except (KeyError, TypeError):
        canonical = _canonical(name)
    if canonical == "local":
        found = local_zone()
        warnings.warn(
            f'timezone="local" is {found.name} on this machine; instances on machines with another zone would '
            "compute other slots, so write the name out",
            AnarchonWarning,
            stacklevel=_levels_of_this_package(),
        )
        return found
    known = _known.get(canonical)
    if known is None:
        known = Zone(canonical, _load(canonical))
        # Two threads may get here at once; both then go on with the same object.
        known = _known.setdefault(canonical, known)
    return known


def local_zone() -> Zone:
    """The machine's zone: the variable TZ, else /etc/localtime, else /etc/timezone, else UTC.

    Raises InvalidTimezoneError where these name no IANA zone.
    """
    found = _local_name()
    if found is None:
        raise InvalidTimezoneError(
            "the machine's zone has no IANA name: /etc/localtime is no link into a zone database; "
            'set TZ to a name such as "Europe/Berlin", or give the zone by name'
        )
    name, source = found
    try:
        canonical = _canonical(name)
    except InvalidTimezoneError as error:
        raise InvalidTimezoneError(f"the machine's zone, from {source}: {error}") from None
    return zone(canonical) if canonical != "local" else zone("UTC")


@lru_cache(maxsize=1)
def tz_database_version() -> str:
    """The release of the zone database in use, such as "2026f"; "unknown" where its files do not say.

    Read once per process.
    """
    for folder in zoneinfo.TZPATH:
        if os.path.exists(os.path.join(folder, "Europe", "Berlin")):
            return _release_in(folder) or "unknown"
    try:
        version: object = import_module("tzdata").IANA_VERSION
    except (ImportError, AttributeError):
        return "unknown"
    return str(version)


_known: dict[str, Zone] = {}


def _canonical(name: object) -> str:
    """`name` as the database spells it, or "local"."""
    if not isinstance(name, str):
        raise InvalidTimezoneError(f"timezone {shown(name)} is a {type(name).__name__}, not a name; {_WAY_OUT}")
    # str.lower() maps letters from outside ASCII onto ASCII ones, such as the Kelvin sign onto k.
    folded = name.lower() if name.isascii() else ""
    if folded == "local":
        return folded
    canonical = _names().get(folded)
    if canonical is None:
        raise InvalidTimezoneError(f"timezone {_shown(name)} {_reason(name)}; {_offers(name)}")
    return canonical


@lru_cache(maxsize=1)
def _names() -> dict[str, str]:
    try:
        names: Iterable[str] = resources.files("tzdata").joinpath("zones").read_text("utf-8").split()
    except (ModuleNotFoundError, OSError):
        # Somebody removed a package that anarchon requires; the same rule over the machine's files comes closest.
        names = (name for name in zoneinfo.available_timezones() if not name.startswith(("posix/", "right/")))
    return {name.lower(): name for name in names if name not in _NOT_PLACES}


def _reason(name: str) -> str:
    if not name:
        return "is empty"
    if name != name.strip():
        return "has a blank at its start or end"
    if any(known.startswith(f"{name.lower().rstrip('/')}/") for known in _names()):
        return "is a region, not a zone"
    return _UNKNOWN


def _offers(name: str) -> str:
    names = _names()
    folded = name.strip().lower()[:64].removeprefix("posix/").removeprefix("right/")
    if folded in names:
        return f"did you mean {names[folded]!r}?"
    if match := re.fullmatch(r"(?:utc|gmt)?([+-])0?([0-9]{1,2})(?::?00)?", folded):
        sign, hours = match[1], int(match[2])
        fixed = names.get(f"etc/gmt{'-' if sign == '+' else '+'}{hours}")
        if hours == 0:
            return "did you mean 'UTC'?"
        if fixed is not None:
            # The names of the database count hours west of Greenwich.
            return f"did you mean {fixed!r}? That is UTC{sign}{hours}: the sign in these names is the other way round"
        return _WAY_OUT
    if folded in ("z", "zulu"):
        return "did you mean 'UTC'?"
    near = [known for key, known in names.items() if key.rpartition("/")[2] == folded.replace(" ", "_")]
    if not near and folded.isalpha() and len(folded) <= 4 and _reason(name) == _UNKNOWN:
        # The likest name of a few letters would be a zone at the other end of the world.
        return f"abbreviations mean different zones in different places, so {_WAY_OUT}"
    if not near and folded:
        near = [names[key] for key in difflib.get_close_matches(folded, names, n=3, cutoff=0.6)]
    return f"did you mean {' or '.join(map(repr, near[:3]))}?" if near else _WAY_OUT


def _load(name: str) -> ZoneData:
    parts = name.split("/")
    for folder in zoneinfo.TZPATH:
        try:
            return parse_tzif(Path(folder, *parts).read_bytes())
        except (OSError, ValueError):
            continue
    try:
        return parse_tzif(resources.files("tzdata").joinpath("zoneinfo", *parts).read_bytes())
    except (ModuleNotFoundError, OSError, ValueError) as error:
        raise InvalidTimezoneError(
            f"timezone {name!r} is in the IANA database, but this machine has no readable file for it ({error}); "
            "install the package tzdata"
        ) from None


def _local_name() -> tuple[str, str] | None:
    variable = os.environ.get("TZ")
    if variable is not None:
        name = variable.removeprefix(":")
        return (_inside_a_database(name) or name or "UTC"), f"TZ={variable}"
    try:
        linked = _inside_a_database(os.path.realpath("/etc/localtime"))
        if linked is not None:
            return linked, "/etc/localtime"
        named = Path("/etc/timezone").read_text("utf-8").strip()
        if named:
            return named, "/etc/timezone"
    except (OSError, ValueError):
        pass
    return None if os.path.exists("/etc/localtime") else ("UTC", "no setting at all")


def _inside_a_database(path: str) -> str | None:
    _, found, name = path.partition("zoneinfo/")
    return name.removeprefix("posix/").removeprefix("right/") if found else None


def _release_in(folder: str) -> str | None:
    for file in ("tzdata.zi", "+VERSION", "version"):
        try:
            with open(os.path.join(folder, file), encoding="utf-8", errors="replace") as source:
                match = re.search(r"\b[12][0-9]{3}[a-z]{1,2}\b", source.readline(200))
        except OSError:
            continue
        if match:
            return match[0]
    return None


def _shown(name: str) -> str:
    return ascii(name) if len(name) <= 60 else f"{name[:60]!a}..."


def _levels_of_this_package() -> int:
    """How far up the stack, from the caller, the first function is that is not ours."""
    level, frame = 0, inspect.currentframe()
    package = __name__.partition(".")[0]
    while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == package:
        level, frame = level + 1, frame.f_back
    return level


def _years_after(last: int | None) -> range:
    year = 1970 if last is None else year_of(last // _DAY_S)
    return range(year, year + 3)


def _spans(first_offset: int, changes: Iterable[tuple[int, int]]) -> list[Span]:
    """Spans from the beginning to the end of time; changes that leave the offset alone make none."""
    starts, offsets = [BEGINNING], [first_offset]
    for when, offset in changes:
        if offset != offsets[-1]:
            starts.append(when)
            offsets.append(offset)
    befores, afters = [first_offset, *offsets], [*offsets[1:], offsets[-1]]
    return [Span(*row) for row in zip(starts, [*starts[1:], END], befores, offsets, afters, strict=False)]


def _recent(in_zone: Zone) -> Iterable[Span]:
    """The spans of this century, the years that only the rule knows included."""
    span = in_zone.span(first_day(2000) * _DAY_S)
    yield span
    while span.end < first_day(2100) * _DAY_S:
        span = in_zone.span(span.end)
        yield span


def _kinds_of_change(in_zone: Zone) -> Iterable[Shift]:
    """One Shift per (minute of the day, size), with the months of all its occurrences."""
    months: dict[tuple[int, int], int] = {}
    for span in list(_recent(in_zone))[1:]:
        day, second = divmod(span.start + span.before, _DAY_S)
        kind = second // 60, -(-(span.offset - span.before) // 60)
        months[kind] = months.get(kind, 0) | _months_near(day)
    return [Shift(at, minutes, found) for (at, minutes), found in sorted(months.items())]


def _months_near(day: int) -> int:
    months = {date.fromordinal(day + away + EPOCH_ORDINAL).month for away in range(-1, 3)}
    return sum(1 << month for month in months)
