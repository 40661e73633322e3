"""Cron expressions in words."""

from __future__ import annotations

import pytest

from anarchon.times.schedule import cron

CASES = [
    ("* * * * *", "every minute, UTC"),
    ("*/5 * * * *", "every 5 minutes, UTC"),
    ("*/7 * * * *", "at minutes 0, 7, 14, 21, 28, 35, 42, 49 and 56, UTC"),
    ("0 * * * *", "every hour, UTC"),
    ("30 * * * *", "every hour at minute 30, UTC"),
    ("0,20 * * * *", "at minutes 0 and 20, UTC"),
    ("0 2 * * *", "every day at 02:00 UTC"),
    ("15,45 2 * * *", "every day at 02:15 and 02:45 UTC"),
    ("0 6,12,18 * * *", "every day at 06:00, 12:00 and 18:00 UTC"),
    ("* 2 * * *", "every minute of hour 2, UTC"),
    ("0 9-17 * * 1-5", "at minute 0 of hours 9 to 17, every Monday to Friday, UTC"),
    ("30 7 * * 4", "every Thursday at 07:30 UTC"),
    ("0 0 * * 0,6", "every Saturday and Sunday at 00:00 UTC"),
    ("0 0 1 * *", "on day 1 of every month at 00:00 UTC"),
    ("0 0 1,15 * *", "on days 1 and 15 of every month at 00:00 UTC"),
    ("0 0 1-7 * *", "on days 1 to 7 of every month at 00:00 UTC"),
    ("0 0 1 1,7 *", "on day 1 of the month in January and July at 00:00 UTC"),
    ("0 0 29 2 *", "on 29 February at 00:00 UTC"),
    ("0 12 * 6 *", "every day in June at 12:00 UTC"),
    ("0 12 * 6 1", "every Monday in June at 12:00 UTC"),
    ("0 0 1 * 1", "on day 1 of the month and every Monday at 00:00 UTC"),
    ("0 0 1-31 * 1", "every day at 00:00 UTC"),
    ("0 0 1-7 * */7", "every Sunday that falls on days 1 to 7 of the month at 00:00 UTC"),
]


@pytest.mark.parametrize(("expr", "words"), CASES)
def test_an_expression_is_told_in_plain_words(expr: str, words: str) -> None:
    assert cron(expr, timezone="UTC").describe() == words


def test_the_zone_is_part_of_the_words() -> None:
    assert cron("0 2 * * *", timezone="europe/berlin").describe() == "every day at 02:00 Europe/Berlin"
