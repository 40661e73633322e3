"""Cron expressions as text: what they allow, how they are refused, and their normal form."""

from __future__ import annotations

from typing import Any

import pytest

from anarchon.errors import InvalidCronError
from anarchon.times.cron import ALL_DOMS, parse_cron

EVERY_MINUTE, EVERY_HOUR = frozenset(range(60)), frozenset(range(24))
EVERY_DOM, EVERY_MONTH, EVERY_DOW = frozenset(range(1, 32)), frozenset(range(1, 13)), frozenset(range(7))


def test_stars_allow_everything() -> None:
    cron = parse_cron("* * * * *")

    assert (cron.minute, cron.hour, cron.dom) == (EVERY_MINUTE, EVERY_HOUR, EVERY_DOM)
    assert (cron.month, cron.dow) == (EVERY_MONTH, EVERY_DOW)
    assert cron.every_hour
    assert cron.every_day


@pytest.mark.parametrize(
    ("field", "minutes"),
    [
        ("0", {0}),
        ("05", {5}),
        ("1,2,*/30", {0, 1, 2, 30}),
        ("10-20/5", {10, 15, 20}),
        ("10-20/60", {10}),
        ("5-5/3", {5}),
        ("*/60", {0}),
        ("*/59", {0, 59}),
        ("*/1", EVERY_MINUTE),
        ("0-59", EVERY_MINUTE),
        ("*,5", EVERY_MINUTE),
        ("5,*", EVERY_MINUTE),
        ("59,0,59", {0, 59}),
        ("000-002", {0, 1, 2}),
    ],
)
def test_a_field_allows_the_values_of_all_its_items(field: str, minutes: set[int]) -> None:
    assert parse_cron(f"{field} * * * *").minute == minutes


@pytest.mark.parametrize(
    ("field", "days"),
    [
        ("0", {0}),
        ("7", {0}),
        ("7-7", {0}),
        ("0-7", EVERY_DOW),
        ("1-7", EVERY_DOW),
        ("SUN-SAT", EVERY_DOW),
        ("sun", {0}),
        ("Mon-fri", {1, 2, 3, 4, 5}),
        ("MON-5", {1, 2, 3, 4, 5}),
        ("5-7", {5, 6, 0}),
        ("FRI-7", {5, 6, 0}),
        ("6,7", {6, 0}),
        ("*/7", {0}),
        ("*/2", {0, 2, 4, 6}),
        ("1-7/3", {1, 4, 0}),
        ("0-7/7", {0}),
        ("SUN,wed,5", {0, 3, 5}),
    ],
)
def test_weekdays_count_from_sunday_which_has_two_numbers(field: str, days: set[int]) -> None:
    assert parse_cron(f"0 0 * * {field}").dow == days


@pytest.mark.parametrize(
    ("field", "months"),
    [("JAN", {1}), ("dec", {12}), ("Jan-mar", {1, 2, 3}), ("JAN-DEC/3", {1, 4, 7, 10}), ("1,FEB,3", {1, 2, 3})],
)
def test_months_have_names(field: str, months: set[int]) -> None:
    assert parse_cron(f"0 0 1 {field} *").month == months


@pytest.mark.parametrize(
    ("shorthand", "expr"),
    [
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * 0"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@hourly", "0 * * * *"),
        (" @Daily\t", "0 0 * * *"),
    ],
)
def test_seven_shorthands_stand_for_expressions(shorthand: str, expr: str) -> None:
    assert parse_cron(shorthand) == parse_cron(expr)
    assert parse_cron(shorthand).expr == expr


@pytest.mark.parametrize(
    ("expr", "either"),
    [
        ("0 0 1 * 1", True),
        ("0 0 1-31 * 1", True),
        ("0 0 1 * 0-6", True),
        ("0 0 5,* * 1", True),
        ("0 0 * * 1", False),
        ("0 0 */2 * 1", False),
        ("0 0 1 * */2", False),
        ("0 0 *,5 * 1", False),
        ("0 0 * * *", False),
    ],
)
def test_a_day_field_is_restricted_unless_it_starts_with_a_star(expr: str, either: bool) -> None:
    assert parse_cron(expr).either_day is either


BAD_FIELDS = [
    # minute field, reason or way out that the message has
    ("60", "out of range; give a value from 0 to 59"),
    ("999999999999", "out of range"),
    ("9" * 5_000, "out of range"),
    ("-1", "does not parse"),
    ("5-", "does not parse"),
    ("-", "does not parse"),
    ("1-2-3", "does not parse"),
    ("1--2", "does not parse"),
    ("*-5", "does not parse"),
    ("5-*", "does not parse"),
    ("**", "does not parse"),
    ("*5", "does not parse"),
    ("5*", "does not parse"),
    ("/5", "does not parse"),
    ("*/", "does not parse"),
    ("*//5", "does not parse"),
    ("*/5/2", "does not parse"),
    ("*/*", "does not parse"),
    ("*/-5", "does not parse"),
    ("*/+5", "does not parse"),
    ("+5", "does not parse"),
    ("1.5", "does not parse"),
    ("1_0", "does not parse"),
    ("0x5", "does not parse"),
    ("1;2", "does not parse"),
    ("*/0", "step 0"),
    ("*/00", "step 0"),
    ("0-30/0", "step 0"),
    ("*/61", "step larger than the 60 values"),
    ("*/" + "9" * 5_000, "step larger than the 60 values"),
    ("0-5/61", "step larger"),
    ("5/15", 'write "5-59/15"'),
    ("30-10", 'write "30-59,0-10"'),
    ("59-0", 'write "59,0"'),
    ("1,,2", "empty list item"),
    (",", "empty list item"),
    ("1,", "empty list item"),
    (",1", "empty list item"),
    ("1,2,60", "out of range"),
    ("?", 'write "*"'),
    ("L", "uses L, W, H"),
    ("H", "uses L, W, H"),
    ("H/15", "uses L, W, H"),
    ("1~5", "uses L, W, H"),
    ("1#2", "uses L, W, H"),
    ("JAN", "name of the month field"),
    ("MON", "name of the day of week field"),
    ("MON-FRI", "name of the day of week field"),
    ("a", "does not parse"),
    ("５", "outside ASCII"),
    ("٥", "outside ASCII"),
    ("²", "outside ASCII"),
    ("*\u2215" + "5", "outside ASCII"),
    ("\u00a05", "outside ASCII"),
    ("5\0", "control character"),
    ("5\x0b", "control character"),
    ("5\x1c", "control character"),
]


@pytest.mark.parametrize(("field", "reason"), BAD_FIELDS, ids=lambda value: ascii(value[:20]))
def test_a_bad_field_is_refused_with_its_name_and_reason(field: str, reason: str) -> None:
    with pytest.raises(InvalidCronError) as caught:
        parse_cron(f"{field} * * * *")

    message = str(caught.value)
    assert reason in message
    assert ": minute " in message
    assert len(message) < 400


@pytest.mark.parametrize(
    ("expr", "reason"),
    [
        ("0 24 * * *", "hour '24' is out of range; give a value from 0 to 23"),
        ("0 0 0 * *", "day of month '0' is out of range; give a value from 1 to 31"),
        ("0 0 32 * *", "day of month '32' is out of range"),
        ("0 0 * 0 *", "month '0' is out of range; give a value from 1 to 12"),
        ("0 0 * 13 *", "month '13' is out of range"),
        ("0 0 * * 8", "give a value from 0 to 7 (0 and 7 are Sunday)"),
        ("0 */25 * * *", "step larger than the 24 values"),
        ("0 0 */32 * *", "step larger than the 31 values"),
        ("0 0 * */13 *", "step larger than the 12 values"),
        ("0 0 * * */8", "step larger than the 7 values"),
        ("0 0 * * 1-5/8", "step larger than the 7 values"),
        ("0 0 * * 5/2", 'write "5-6/2"'),
        ("0 0 * JANUARY *", 'write "JAN"'),
        ("0 0 * * MONDAY", 'write "MON"'),
        ("0 0 * MON *", "name of the day of week field"),
        ("0 0 * * JAN", "name of the month field"),
        ("0 0 MON * *", "name of the day of week field"),
        ("0 0 * * MO", "does not parse"),
        ("0 0 * * FRI-SUN", 'write "5-7"'),
        ("0 0 * * SAT-MON", 'write "6-7,1"'),
        ("0 0 * * 5-2", 'write "5-7,1-2"'),
        ("0 0 * * 7-3", 'write "0-3"'),
        ("0 0 * DEC-FEB *", 'write "12,1-2"'),
        ("0 0 LW * *", "uses L, W, H"),
        ("0 0 * * 5#3", "uses L, W, H"),
        ("0 0 * * 5L", "uses L, W, H"),
        ("0 0 ? * 1", 'write "*"'),
        ("", "five fields are needed and there are 0"),
        ("   ", "five fields are needed and there are 0"),
        ("* * * *", "five fields are needed and there are 4"),
        ("* * * * * *", "leave out seconds and years"),
        ("0 0 1 1 * 2027 x", "leave out seconds and years"),
        ("0 2 * * * Europe/Berlin", "timezone='Europe/Berlin'"),
        ("0 2 * * * UTC", "timezone='UTC'"),
        ("CRON_TZ=UTC 0 2 * * *", "timezone=..."),
        ("TZ=UTC 0 2 * * *", "timezone=..."),
        ("0 0 * * *\n0 12 * * *", "give one line"),
        ("0 0 * * *\n", "line break"),
        ("0\n0\n*\n*\n*", "give one line"),
        ("0  0\n* * *", "five fields are needed"),
        ("0\u00a00 * * *", "what looks like a blank may be another character"),
        ("0, 30 * * * *", "leave out the blanks beside a comma"),
        ("0 ,30 * * * *", "leave out the blanks beside a comma"),
        ("0 0 * * * # nightly", "leave the comment out"),
        ("1h30m", "for a fixed interval use every(), which takes '1h30m'"),
        ("0\u20030  * * * *", "outside ASCII"),
        ("@", "the shorthands are"),
        ("@fortnightly", "the shorthands are"),
        ("@daily @daily", "write @daily alone"),
        ("@daily * * * *", "write @daily alone"),
        ("@every 5m", "use every()"),
        ("@reboot", "before the scheduler starts"),
        ("@daily\n", "is not a shorthand"),
        ("daily", "five fields are needed and there is 1;"),
        ("x" * 100_000, "five fields are needed"),
    ],
    ids=lambda value: ascii(value[:25]),
)
def test_a_bad_expression_is_refused_with_a_way_out(expr: str, reason: str) -> None:
    with pytest.raises(InvalidCronError) as caught:
        parse_cron(expr)

    assert reason in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("value", [None, 5, True, b"* * * * *", ["*"] * 5])
def test_what_is_no_text_is_refused(value: Any) -> None:
    with pytest.raises(InvalidCronError, match="give a text such as") as caught:
        parse_cron(value)

    assert str(caught.value).startswith(f"cron {value!r} is a ")


@pytest.mark.parametrize(
    "expr",
    [
        "0 0 30 2 *",
        "0 0 31 2 *",
        "0 0 31 4 *",
        "0 0 31 2,4,6,9,11 *",
        "0 0 31 FEB-FEB *",
        "0 0 30,31 2 *",
        "0 0 30-31 2 *",
        "0 0 31 2 */2",
        "0 0 31 2,4,6 *,1",
        "0 0 31 4 *,MON",
    ],
)
def test_what_no_date_can_satisfy_is_refused(expr: str) -> None:
    with pytest.raises(InvalidCronError, match=r"can never fire, because day of month 3[01] does not exist"):
        parse_cron(expr)


@pytest.mark.parametrize(
    "expr", ["0 0 29 2 *", "0 0 29 2 */7", "0 0 31 2 1", "0 0 31 4 0-6", "0 0 31 1-2 *", "0 0 31 */2 *", "0 0 */31 2 *"]
)
def test_what_some_date_can_satisfy_is_taken(expr: str) -> None:
    parse_cron(expr)


@pytest.mark.parametrize(
    ("expr", "normal"),
    [
        ("0 2 * * *", "0 2 * * *"),
        ("  0\t2 *   * *  ", "0 2 * * *"),
        ("00 02 * * *", "0 2 * * *"),
        ("*/5 * * * *", "*/5 * * * *"),
        ("0-59/5 */1 1-31/1 JAN-DEC *", "*/5 * * * *"),
        ("0,30 * * * *", "*/30 * * * *"),
        ("*/7 * * * *", "*/7 * * * *"),
        ("*/59 * * * *", "0,59 * * * *"),
        ("0 */12 * * *", "0 */12 * * *"),
        ("0 0 1 * */4", "0 0 */31 * 0,4"),
        ("0 0 1,15 * */4", "0 0 1,15 * */4"),
        ("0 0 1,15 * */4,1", "0 0 1,15 * */4,1"),
        ("0 0 2 * */4,1", "0 0 2 * */4,1"),
        ("*/60 * * * *", "0 * * * *"),
        ("10-50/10 9-17 * * mon-fri", "10-50/10 9-17 * * 1-5"),
        ("5,3,4,4 2,3 * * *", "3-5 2,3 * * *"),
        ("15,45 2 * * *", "15,45 2 * * *"),
        ("0 0 * * 7", "0 0 * * 0"),
        ("0 0 * * SUN,SAT", "0 0 * * 0,6"),
        ("0 0 * * 0-7", "0 0 * * *"),
        ("0 0 1 * 1", "0 0 1 * 1"),
        ("0 0 1-31 * 1", "0 0 * * *"),
        ("0 0 1 * 0-6", "0 0 * * *"),
        ("0 0 1-31/2 * *", "0 0 */2 * *"),
        ("0 0 1-31/2 * 1", "0 0 1-31/2 * 1"),
        ("0 0 */2 * 1", "0 0 */2 * 1"),
        ("0 0 1,15 * */2", "0 0 1,15 * */2"),
        ("0 0 1,2 * */7", "0 0 1,2 * */7"),
        ("0 0 */10,5 * 1", "0 0 */10,5 * 1"),
        ("0 0 5 * */5,1", "0 0 5 * */5,1"),
        ("0 0 1 */12 *", "0 0 1 1 *"),
    ],
)
def test_the_normal_form_is_one_text_for_all_spellings(expr: str, normal: str) -> None:
    assert parse_cron(expr).expr == normal
    assert parse_cron(normal).expr == normal
    assert str(parse_cron(expr)) == normal


def test_expressions_are_equal_and_hashed_by_what_they_allow() -> None:
    assert parse_cron("0 0 * * MON") == parse_cron("0 0 * * 1")
    assert len({parse_cron("@daily"), parse_cron("0 0 * * *"), parse_cron("0 1 * * *")}) == 2
    assert parse_cron("0 0 1 * 1") != parse_cron("0 0 1 * *")
    assert parse_cron("* * * * *").doms == ALL_DOMS
