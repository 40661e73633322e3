"""The least time between two slots, told without looking for slots."""

from __future__ import annotations

import pytest

from anarchon.times.cron import parse_cron
from anarchon.times.duration import format_interval
from anarchon.times.schedule import cron

CASES = [
    ("* * * * *", "UTC", "1m"),
    ("*/5 * * * *", "UTC", "5m"),
    ("*/7 * * * *", "UTC", "4m"),
    ("*/59 * * * *", "UTC", "1m"),
    ("0,50 * * * *", "UTC", "10m"),
    ("0 * * * *", "UTC", "1h"),
    ("0 9-17 * * 1-5", "UTC", "1h"),
    ("55 9,17 * * *", "UTC", "8h"),
    ("0 1,23 * * *", "UTC", "2h"),
    ("5,50 1,23 * * *", "UTC", "45m"),
    ("0 0 * * *", "UTC", "1d"),
    ("0 0 * * 1", "UTC", "1w"),
    ("0 0 * * 1,3", "UTC", "2d"),
    ("0 0,12 * * 1,3", "UTC", "12h"),
    ("0 1,23 * * 1,3", "UTC", "22h"),
    ("0 0 1 * *", "UTC", "4w"),
    ("0 0 1,31 * *", "UTC", "1d"),
    ("0 0 1,30 2,3 *", "UTC", "4w"),
    ("0 0 31 * *", "UTC", "4w3d"),
    ("0 0 1 1 *", "UTC", "52w1d"),
    ("0 0 29 2 *", "UTC", "208w5d"),
    ("0 0 1 * 1", "UTC", "1d"),
    ("0 0 31 2 1", "UTC", "1w"),
    ("0 0 */2 * 1", "UTC", "1w"),
    ("0 0 1-21/2 * */7", "UTC", "2w"),
    ("0 0 1-7 * */7", "UTC", "4w"),
    # A gap takes an hour off the time across it, and moves what is missing next to what is not.
    ("0 0 * * *", "Europe/Berlin", "23h"),
    ("30 2 * * *", "Europe/Berlin", "23h"),
    ("0 0 * 6 *", "Europe/Berlin", "1d"),
    ("0 0 * * 1", "Europe/Berlin", "6d23h"),
    ("0 1,4 * * *", "Europe/Berlin", "2h"),
    ("0 2,3 * * *", "Europe/Berlin", "1h"),
    ("30 2 * * *", "Australia/Lord_Howe", "23h30m"),
    ("0 * * * *", "Australia/Lord_Howe", "30m"),
    ("45 * * * *", "Australia/Lord_Howe", "30m"),
    ("0,40 * * * *", "Australia/Lord_Howe", "10m"),
    ("20 2 * * *", "Australia/Lord_Howe", "23h30m"),
    ("10 2,3 * * *", "Antarctica/Troll", "1h"),
    ("0 0 * * *", "Antarctica/Troll", "22h"),
    ("0,31 2,3 * * *", "Europe/Berlin", "29m"),
    ("10 2 * * *", "Asia/Tokyo", "1d"),
]


@pytest.mark.parametrize(("expr", "zone", "gap"), CASES)
def test_the_shortest_gap_counts_what_clock_changes_take_away(expr: str, zone: str, gap: str) -> None:
    assert format_interval(cron(expr, timezone=zone).shortest_gap()) == gap


@pytest.mark.parametrize("expr", ["0 0 29 2 */7", "0 0 31 12 */3", "0 0 13 * */5"])
def test_for_rare_dates_the_shortest_gap_is_weeks_and_never_too_much(expr: str) -> None:
    gap = cron(expr, timezone="UTC").shortest_gap()

    assert 28 * 86_400_000 <= gap <= 40 * 366 * 86_400_000
    assert parse_cron(expr).expr == expr
