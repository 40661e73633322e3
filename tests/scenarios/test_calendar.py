"""Clock changes, weekday numbers and short months, by schedule and by whole instances.

After https://github.com/kelektiv/node-cron/issues/563, https://github.com/healthchecks/healthchecks/issues/196,
https://github.com/agronholm/apscheduler/issues/286 and https://github.com/harrisiirak/cron-parser/issues/127.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Generator
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from anarchon import InvalidCronError, Scheduler, parse_cron
from anarchon.engine import EngineTask
from anarchon.model.events import ClaimLost, RunStarted
from anarchon.testing import MemoryBackend
from anarchon.times.schedule import cron
from tests.scenarios.dates import DAY, from_date, utc
from tests.support.cluster import Cluster, make_task, noop

BERLIN = "Europe/Berlin"

CHANGES = {
    "spring": ("2026-03-28", ["2026-03-28T01:30", "2026-03-29T01:30", "2026-03-30T00:30"], "2026-03-29", 23),
    "autumn": ("2026-10-24", ["2026-10-24T00:30", "2026-10-25T00:30", "2026-10-26T01:30"], "2026-10-25", 25),
}
"""First day, the instants of 02:30 in Berlin, and the day of the change with its hours."""


@pytest.fixture
def tz() -> Generator[None]:
    """Puts the process's zone back after a test that changed it."""
    before = os.environ.get("TZ")
    yield
    if before is None:
        os.environ.pop("TZ", None)
    else:
        os.environ["TZ"] = before
    time.tzset()


def in_zone(name: str) -> None:
    os.environ["TZ"] = name
    time.tzset()


@pytest.mark.usefixtures("tz")
@pytest.mark.parametrize("claim_only", [False, True])
@pytest.mark.parametrize("season", ["spring", "autumn"])
def test_both_clock_changes_in_berlin_with_one_instance_in_new_york(season: str, claim_only: bool) -> None:
    first_day, daily, day_of_change, hours = CHANGES[season]

    def tasks_in(zone: str) -> list[EngineTask]:
        in_zone(zone)
        return [
            make_task("a", cron("30 2 * * *", timezone=BERLIN)),
            make_task("b", cron("0 * * * *", timezone=BERLIN)),
        ]

    async def story() -> None:
        cluster = Cluster(claim_only=claim_only, lease_ms=60_000)
        for zone in (BERLIN, "America/New_York"):
            instance = cluster.make(tasks_in(zone))
            await instance.engine.start()
        await cluster.advance_to(utc(first_day) + 3 * DAY)
        assert [event.slot_ms for event in cluster.told(RunStarted, task="a")] == [utc(each) for each in daily]
        hourly = [
            datetime.fromtimestamp((event.slot_ms or 0) / 1_000, ZoneInfo(BERLIN)).date().isoformat()
            for event in cluster.told(RunStarted, task="b")
        ]
        assert hourly.count(day_of_change) == hours
        assert len(cluster.told(ClaimLost)) == len(cluster.told(RunStarted))
        assert all(event.at_ms == event.slot_ms for event in cluster.told(RunStarted))
        await cluster.stop()

    from_date(first_day, story)


def test_processes_in_different_zones_compute_the_same_slots() -> None:
    program = (
        "from anarchon.times.schedule import cron, every\n"
        "for schedule in (cron('30 2 * * *', timezone='Europe/Berlin'), cron('0 * * * *', timezone='Europe/Berlin'),\n"
        "                 cron('*/20 1-3 * * *', timezone='Europe/Berlin'), every('7h'),\n"
        "                 every('6h', baseline='02:30', timezone='Europe/Berlin')):\n"
        f"    for start in ({utc('2026-03-28')}, {utc('2026-10-24')}):\n"
        "        slot = start\n"
        "        for _ in range(80):\n"
        "            slot = schedule.next(slot)\n"
        "            print(slot)\n"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "TZ": zone},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        for zone in ("America/New_York", BERLIN, "Pacific/Auckland")
    }
    assert len(said) == 1
    assert len(said.pop().splitlines()) == 5 * 2 * 80


DAYS_OF_REGISTRATION = ["2026-03-28T20:00", "2026-10-24T20:00", "2096-03-01", "2026-12-31T23:59"]
ACCEPTED = [("0 2 * * *", BERLIN), ("30 2 29 3 *", BERLIN), ("0 0 29 2 *", "UTC"), ("30 2 25 10 *", BERLIN)]


@pytest.mark.parametrize("today", DAYS_OF_REGISTRATION)
@pytest.mark.parametrize(("expression", "zone"), ACCEPTED)
def test_whether_an_expression_is_accepted_does_not_depend_on_the_day(
    monkeypatch: pytest.MonkeyPatch, expression: str, zone: str, today: str
) -> None:
    monkeypatch.setattr(time, "time", lambda: utc(today) / 1_000)
    monkeypatch.setattr(time, "time_ns", lambda: utc(today) * 1_000_000)
    scheduler = Scheduler(MemoryBackend())
    scheduler.cron("t", expression, noop, timezone=zone)
    (status,) = scheduler.list()
    assert status.next_slot_ms is not None
    assert status.next_slot_ms > utc(today)


@pytest.mark.parametrize("today", DAYS_OF_REGISTRATION)
def test_an_instance_plans_each_accepted_expression_on_any_day(today: str) -> None:
    async def story() -> None:
        cluster = Cluster()
        tasks = [make_task(f"t{n}", cron(text, timezone=zone)) for n, (text, zone) in enumerate(ACCEPTED)]
        (one,) = await cluster.start(1, *tasks)
        await cluster.advance(1_000)
        assert all(slot is not None for slot in one.engine.snapshot().next_slots.values())
        await cluster.stop()

    from_date(today, story)


def test_the_29th_of_february_after_a_century_without_one_is_found() -> None:
    leap = cron("0 0 29 2 *", timezone="UTC")
    assert leap.next(utc("2096-03-01")) == utc("2104-02-29")


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("30 7 * * 4", "Thu"),
        ("0 0 * * 0", "Sun"),
        ("0 0 * * 7", "Sun"),
        ("0 0 * * 1,7", "Mon Sun"),
        ("0 0 * * 5-7", "Fri Sat Sun"),
        ("0 0 * * */2", "Sun Tue Thu Sat"),
        ("0 0 * * THU", "Thu"),
        ("0 0 * * sun", "Sun"),
        ("0 0 * * FRI-SAT", "Fri Sat"),
    ],
)
def test_weekday_numbers_count_from_sunday(expression: str, names: str) -> None:
    schedule = cron(expression, timezone="UTC")
    slot = utc("2026-01-01")
    found: list[str] = []
    for _ in range(7):
        following = schedule.next(slot)
        assert following is not None
        slot = following
        found.append(datetime.fromtimestamp(slot / 1_000, UTC).strftime("%a"))
    assert set(found) == set(names.split())
    assert all(day in names.split() for day in found)


@pytest.mark.parametrize("month", range(1, 13))
def test_the_31st_is_never_the_30th_or_the_1st_from_whatever_month_it_is_asked(month: int) -> None:
    start = utc(f"2026-{month:02}-15")
    some = cron("0 0 31 2,3,4,5 *", timezone="UTC")
    slot, found = start, set[str]()
    for _ in range(4):
        following = some.next(slot)
        assert following is not None
        slot = following
        found.add(datetime.fromtimestamp(slot / 1_000, UTC).strftime("%m-%d"))
    assert found == {"03-31", "05-31"}

    always = cron("0 0 31 * *", timezone="UTC")
    slot, dates = start, list[datetime]()
    while (following := always.next(slot)) is not None and following < start + 365 * DAY:
        slot = following
        dates.append(datetime.fromtimestamp(slot / 1_000, UTC))
    assert [when.day for when in dates] == [31] * 7


@pytest.mark.parametrize("month", range(1, 13))
@pytest.mark.parametrize("expression", ["0 0 31 2,4,6 *", "0 0 31 4 *", "0 0 30 2 *", "0 0 30-31 2 *"])
def test_what_no_date_satisfies_is_refused_at_once_in_the_same_words_in_every_month(
    monkeypatch: pytest.MonkeyPatch, expression: str, month: int
) -> None:
    refused = _refusal(expression)
    today = utc(f"2026-{month:02}-15")
    monkeypatch.setattr(time, "time", lambda: today / 1_000)
    monkeypatch.setattr(time, "time_ns", lambda: today * 1_000_000)
    assert _refusal(expression) == refused
    with pytest.raises(InvalidCronError):
        parse_cron(expression)


def _refusal(expression: str) -> str:
    scheduler = Scheduler(MemoryBackend())
    with pytest.raises(InvalidCronError) as refused:
        scheduler.cron("t", expression, noop)
    assert list(scheduler.list()) == []
    return str(refused.value)
