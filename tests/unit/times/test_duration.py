"""Durations as text and as milliseconds."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anarchon.errors import InvalidIntervalError
from anarchon.times.duration import LONGEST_MS, format_interval, ms, parse_interval


@pytest.mark.parametrize(
    ("given_value", "expected"),
    [
        ("1w2d3h4m5s6ms", 604_800_000 + 2 * 86_400_000 + 3 * 3_600_000 + 4 * 60_000 + 5_006),
        ("05m", 300_000),
        ("90m", 5_400_000),
        ("1h0m", 3_600_000),
        ("1m1ms", 60_001),
        (1, 1),
        (LONGEST_MS, LONGEST_MS),
        (f"{LONGEST_MS}ms", LONGEST_MS),
        (timedelta(minutes=1, milliseconds=250), 60_250),
        ("0" * 3_000 + "5m", 300_000),
    ],
)
def test_a_duration_is_milliseconds(given_value: Any, expected: int) -> None:
    assert parse_interval(given_value) == expected
    assert ms(given_value) == expected


@pytest.mark.parametrize(
    ("given_value", "reason"),
    [
        ("", "is empty"),
        (" 5m", "blank"),
        ("5m ", "blank"),
        ("5m\n", "blank"),
        ("1h 30m", "blank"),
        ("5\u00a0m", "ASCII"),
        ("５m", "ASCII"),
        ("²m", "ASCII"),
        ("5м", "ASCII"),
        ("5m\0", "not a duration"),
        ("-5m", "sign"),
        ("+5m", "sign"),
        ("5", "no unit"),
        ("m", "not a duration"),
        ("1.5h", "not a duration"),
        ("1_000ms", "not a duration"),
        ("1e3ms", "not a duration"),
        ("0x10ms", "not a duration"),
        ("5min", "not a duration"),
        ("5us", "not a duration"),
        ("1y", "not a duration"),
        ("m5", "not a duration"),
        ("nan", "not a duration"),
        ("5M", "capital"),
        ("1H", "capital"),
        ("1h1h", "twice"),
        ("1m1h", "wrong order"),
        ("5ms1s", "wrong order"),
        ("0ms", "not longer than zero"),
        (0, "not longer than zero"),
        (-1, "not longer than zero"),
        (timedelta(0), "not longer than zero"),
        (timedelta(days=-1), "not longer than zero"),
        (timedelta(microseconds=1_500), "whole number of milliseconds"),
        (timedelta(microseconds=-1), "whole number of milliseconds"),
        (timedelta.max, "milliseconds"),
        (LONGEST_MS + 1, "longer than the calendar"),
        ("9" * 5_000 + "d", "longer than the calendar"),
        (True, "is a bool"),
        (5.0, "is a float"),
        (float("nan"), "is a float"),
        (None, "is a NoneType"),
        (b"5m", "is a bytes"),
        (["5m"], "is a list"),
    ],
)
def test_anything_else_is_refused_with_its_reason(given_value: Any, reason: str) -> None:
    with pytest.raises(InvalidIntervalError, match=reason) as caught:
        parse_interval(given_value)

    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("given_ms", "text"),
    [(0, "0ms"), (1, "1ms"), (90_000, "1m30s"), (5_400_000, "1h30m"), (172_800_000, "2d"), (691_200_000, "1w1d")],
)
def test_the_canonical_text_names_each_unit_once(given_ms: int, text: str) -> None:
    assert format_interval(given_ms) == text


def test_a_negative_duration_has_no_text() -> None:
    with pytest.raises(ValueError, match="not negative"):
        format_interval(-1)


@given(st.integers(1, LONGEST_MS))
def test_the_canonical_text_reads_back(duration: int) -> None:
    assert parse_interval(format_interval(duration)) == duration


def test_an_int_of_more_digits_than_python_prints_is_refused_as_well() -> None:
    with pytest.raises(InvalidIntervalError, match="thousands of digits"):
        parse_interval(10**5_000)
