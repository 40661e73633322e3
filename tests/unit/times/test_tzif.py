"""Zone files against what zoneinfo makes of the same bytes."""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta
from importlib import resources
from zoneinfo import ZoneInfo

import pytest

from anarchon.times.tzif import RuleDate, first_day, is_leap, parse_tzif, year_of
from anarchon.times.zones import Zone

NAMES = resources.files("tzdata").joinpath("zones").read_text("utf-8").split()


def package_file(name: str) -> bytes:
    return resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes()


def made_zone(rule: str, first_offset: int = 0) -> Zone:
    """A zone of one kind and no listed changes, with a footer."""
    head = b"TZif2" + bytes(15)
    body = struct.pack(">lBB", first_offset, 0, 0) + b"XXX\0"
    block = head + struct.pack(">6l", 0, 0, 0, 0, 1, 4) + body
    return Zone("made", parse_tzif(block + block + f"\n{rule}\n".encode()))


@pytest.mark.parametrize("name", NAMES)
def test_a_zone_has_the_offsets_that_zoneinfo_gives_it(name: str) -> None:
    with resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        reference = ZoneInfo.from_file(file)
    zone = Zone(name, parse_tzif(package_file(name)))

    asked = list(range(-4_000_000_000, 4_000_000_000, 86_400 * 1_009))
    span = zone.span(-4_000_000_000)
    while span.end < 4_500_000_000:
        asked += [span.end - 1, span.end]
        span = zone.span(span.end)
    asked += [-62_135_000_000, 32_503_680_000, 253_402_000_000]

    for second in asked:
        local = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=second)).astimezone(reference)
        assert local.utcoffset() == timedelta(seconds=zone.offset_at(second)), second


@pytest.mark.parametrize("name", NAMES)
def test_spans_join_up_and_are_longer_than_the_clock_is_moved(name: str) -> None:
    zone = Zone(name, parse_tzif(package_file(name)))

    span = zone.span(-10_000_000_000)
    while span.end < 5_000_000_000:
        following = zone.span(span.end)
        assert following.start == span.end
        assert (following.before, span.after) == (span.offset, following.offset)
        assert span.end - span.start >= abs(span.offset - span.after)
        span = following


@pytest.mark.parametrize(
    ("rule", "summer", "winter"),
    [
        ("CET-1CEST,M3.5.0,M10.5.0/3", "2026-03-29T01:00Z", "2026-10-25T01:00Z"),
        ("EST5EDT,M3.2.0,M11.1.0", "2026-03-08T07:00Z", "2026-11-01T06:00Z"),
        ("<-02>2<-01>,M3.5.0/-1,M10.5.0/0", "2026-03-29T01:00Z", "2026-10-25T01:00Z"),
        ("IST-2IDT,M3.4.4/26,M10.5.0", "2026-03-27T00:00Z", "2026-10-24T23:00Z"),
        ("AAA0BBB,J60/0,J300/0", "2026-03-01T00:00Z", "2026-10-26T23:00Z"),
        ("AAA0BBB,59/0,299/0", "2026-03-01T00:00Z", "2026-10-26T23:00Z"),
        ("NZST-12NZDT,M9.5.0,M4.1.0/3", "2026-09-26T14:00Z", "2026-04-04T14:00Z"),
    ],
)
def test_a_rule_in_a_footer_changes_the_offset_every_year(rule: str, summer: str, winter: str) -> None:
    zone = made_zone(rule)

    for text, rises in ((summer, True), (winter, False)):
        second = int(datetime.fromisoformat(text).timestamp())
        assert zone.span(second).start == second
        assert (zone.offset_at(second) > zone.offset_at(second - 1)) is rises


def test_a_day_with_j_never_counts_the_leap_day_and_one_without_does() -> None:
    with_j, without = RuleDate(0, 0, 0, 59, True, 0), RuleDate(0, 0, 0, 59, False, 0)

    assert with_j.wall_second(2027) == without.wall_second(2027)
    assert with_j.wall_second(2028) == without.wall_second(2028) + 86_400


def test_negative_summer_time_is_read_as_dublin_has_it() -> None:
    zone = made_zone("IST-1GMT0,M10.5.0,M3.5.0/1")

    assert zone.offset_at(int(datetime(2026, 7, 1, tzinfo=UTC).timestamp())) == 3600
    assert zone.offset_at(int(datetime(2026, 12, 1, tzinfo=UTC).timestamp())) == 0


def test_a_file_of_the_first_version_ends_with_its_last_offset() -> None:
    block = b"TZif" + bytes(16) + struct.pack(">6l", 0, 0, 0, 1, 2, 8)
    body = struct.pack(">lB", 1_000_000, 1) + struct.pack(">lBB", 0, 0, 0) + struct.pack(">lBB", 3600, 1, 4)
    zone = Zone("made", parse_tzif(block + body + b"AAA\0BBB\0"))

    assert [zone.offset_at(second) for second in (-1, 999_999, 1_000_000, 4_000_000_000)] == [0, 0, 3600, 3600]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"nonsense",
        b"TZif2",
        package_file("Europe/Berlin")[:200],
        package_file("Europe/Berlin").replace(b"CET-1CEST,M3.5.0", b"CET-1CEST,Q3.5.0"),
        package_file("UTC").replace(b"UTC0", b"1234"),
    ],
)
def test_what_is_no_zone_file_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"TZif"):
        parse_tzif(data)


@pytest.mark.parametrize("year", [-400, 0, 1, 1900, 1970, 2000, 2026, 9999, 10_000, 12_000])
def test_years_are_told_from_days_beyond_the_calendar_as_well(year: int) -> None:
    first, length = first_day(year), 365 + is_leap(year)

    assert (year_of(first - 1), year_of(first), year_of(first + length - 1)) == (year - 1, year, year)
    assert first_day(year + 1) - first == length
