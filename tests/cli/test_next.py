"""`anarchon next`: what is due, and what clock changes do to it."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner, Result

from anarchon.cli.app import app


def next_slots(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["next", *arguments])


def slots(*arguments: str) -> list[dict[str, object]]:
    result = next_slots(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    found: list[dict[str, object]] = json.loads(result.stdout)["slots"]
    return found


def test_a_wall_time_that_does_not_exist_is_said_to_be_moved() -> None:
    result = next_slots("30 2 * * *", "--tz", "Europe/Berlin", "-n", "3", "--after", "2027-03-26T12:00:00Z")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "every day at 02:30 Europe/Berlin"
    assert lines[1] == "after 2027-03-26 12:00Z"
    assert lines[3].startswith("Sat 2027-03-27 02:30 +01:00   2027-03-27 01:30Z   in ")
    assert lines[4].startswith("Sun 2027-03-28 03:30 +02:00   2027-03-28 01:30Z   in ")
    assert lines[5] == "    02:30 does not exist that day: moved by 1 h"
    assert lines[6].startswith("Mon 2027-03-29 02:30 +02:00   2027-03-29 00:30Z   in ")
    assert len(lines) == 7


def test_a_wall_time_that_comes_twice_is_said_to_be_the_first_pass() -> None:
    (found,) = slots("30 2 * * *", "--tz", "Europe/Berlin", "-n", "1", "--after", "2027-10-30T12:00:00Z")
    assert found == {
        "slot_ms": 1_824_942_600_000,
        "utc": "2027-10-31T00:30:00Z",
        "local": "2027-10-31T02:30:00+02:00",
        "change": "first-pass",
        "note": "02:30 happens twice: first pass",
    }


def test_an_hourly_schedule_lists_both_passes() -> None:
    found = slots("30 * * * *", "--tz", "Europe/Berlin", "-n", "4", "--after", "2027-10-30T23:00:00Z")
    assert [slot["change"] for slot in found] == [None, "first-pass", "second-pass", None]


def test_half_an_hour_of_gap_is_told_in_minutes() -> None:
    (found,) = slots("15 2 * * *", "--tz", "Australia/Lord_Howe", "-n", "1", "--after", "2026-10-03T12:00:00Z")
    assert found["note"] == "02:15 does not exist that day: moved by 30 min"


def test_a_baseline_in_a_gap_is_told_as_moved() -> None:
    found = slots(
        "1h30m", "--baseline", "02:15", "--tz", "Europe/Berlin", "-n", "3", "--after", "2027-03-27T23:00:00Z"
    )  # fmt: skip
    assert [slot["local"] for slot in found] == [
        "2027-03-28T00:45:00+01:00",
        "2027-03-28T03:15:00+02:00",
        "2027-03-28T04:45:00+02:00",
    ]
    assert [slot["change"] for slot in found] == [None, "gap", None]


def test_an_interval_is_counted_from_the_epoch_and_says_so_for_another_zone() -> None:
    result = next_slots("5m", "--tz", "Asia/Tokyo", "-n", "1", "--after", "0")
    assert result.stdout.splitlines()[:4] == [
        "every 5 minutes",
        "counted from the Unix epoch in UTC, whatever the zone; shown for Asia/Tokyo",
        "after 1970-01-01 00:00Z",
        "Asia/Tokyo                    UTC",
    ]
    assert result.stdout.splitlines()[4].startswith("Thu 1970-01-01 09:05 +09:00   1970-01-01 00:05Z   ")


def test_in_utc_each_slot_is_shown_once() -> None:
    result = next_slots("@daily", "-n", "1", "--after", "2027-01-01T00:00:00Z")
    assert result.stdout.splitlines()[2:3] == ["UTC"]
    assert result.stdout.splitlines()[3].startswith("Sat 2027-01-02 00:00 +00:00   in ")


def test_json_is_one_document_with_the_schedule_on_top() -> None:
    document = json.loads(next_slots("*/15 * * * *", "--after", "2027-01-01T00:00:00Z", "-n", "2", "--json").stdout)
    assert {key: value for key, value in document.items() if key != "slots"} == {
        "schedule": "cron */15 * * * * UTC",
        "words": "every 15 minutes, UTC",
        "timezone": "UTC",
        "after_ms": 1_798_761_600_000,
        "after": "2027-01-01T00:00:00Z",
    }
    assert [slot["utc"] for slot in document["slots"]] == ["2027-01-01T00:15:00Z", "2027-01-01T00:30:00Z"]


def test_at_the_end_of_the_calendar_there_are_fewer() -> None:
    assert len(slots("0 0 1 1 *", "-n", "5", "--after", "9998-06-01T00:00:00Z")) == 1
    result = next_slots("0 0 1 1 *", "--after", "9999-06-01T00:00:00Z")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == "no slot up to the year 9999"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["0 0 30 2 *"], "can never fire"),
        (["61 * * * *"], "out of range"),
        (["5x"], "is not a duration"),
        (["300"], "has no unit"),
        (["50ms"], "at least 100 ms"),
        (["nonsense"], "five fields are needed"),
        (["* * * * *", "--tz", "Mars"], "is not in the IANA database"),
        (["* * * * *", "--after", "2027-01-01T00:00:00"], "has no offset"),
        (["* * * * *", "--after", "99999999999999999"], "is not an instant"),
        (["* * * * *", "--baseline", "02:00"], "leave --baseline out"),
        (["25h", "--baseline", "02:00"], "at most 24 hours"),
        (["1h", "--baseline", "2:00"], "is not a wall time"),
        (["0", "2", "*", "*", "*"], "put it in quotes"),
    ],
)
def test_what_is_refused_is_refused_in_a_line_without_a_traceback(arguments: list[str], said: str) -> None:
    result = next_slots(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("anarchon: error: ")
    assert said in line


@pytest.mark.parametrize("count", ["0", "-1", "10001", "many"])
def test_a_count_that_cannot_be_is_refused(count: str) -> None:
    assert next_slots("5m", "-n", count).exit_code == 2


def test_the_machine_s_zone_is_shown_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    result = next_slots("@daily", "--tz", "local", "-n", "1")
    assert result.exit_code == 0
    assert "Asia/Tokyo" in result.stdout
    assert result.stderr.startswith('anarchon: warning: timezone="local" is Asia/Tokyo on this machine')
