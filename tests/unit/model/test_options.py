"""Every rule of the options: what is filled in, what is refused, and in which words."""

from __future__ import annotations

import enum
from datetime import timedelta
from typing import Any

import pytest

from anarchon.errors import ConfigurationError, UnsafeOptionError, UnsupportedOptionError
from anarchon.model.options import (
    DEFAULT,
    LONGEST_MS,
    Given,
    SchedulerOptions,
    Store,
    TaskDefaults,
    check_every,
    check_grace,
    check_scheduler,
    check_task_name,
    doubts,
    resolve,
)
from anarchon.model.settings import TaskSettings
from anarchon.times.schedule import At, Cron, Every, at, cron, every

LEASE = Store(name="SQLite", lease=True, history_ttl=True, remembers_ms=None)
CLAIM = Store(name="RabbitMQ", lease=False, history_ttl=False, remembers_ms=300_000)
CLAIM_TTL = Store(name="Redis", lease=False, history_ttl=True, remembers_ms=None)
DEFAULTS = TaskDefaults(jitter_ms=2_000, max_late_ms=60_000, history_size=1_000, history_ttl_ms=None, timezone="UTC")
WHERE = "task 'sync' on SQLite"


def settings(
    schedule: Every | Cron | At | None = None,
    store: Store = LEASE,
    defaults: TaskDefaults = DEFAULTS,
    **given: Any,
) -> TaskSettings:
    return resolve(
        f"task 'sync' on {store.name}",
        schedule if schedule is not None else every("5m"),
        Given(**given),
        defaults,
        store,
    )


def refusal(kind: type[ConfigurationError], *args: Any, **given: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        settings(*args, **given)
    assert type(caught.value) is kind
    return str(caught.value)


def one(option: str, value: object) -> dict[str, Any]:
    return {option: value}


def defaults(**changed: Any) -> TaskDefaults:
    values: dict[str, Any] = {
        "jitter_ms": 2_000,
        "max_late_ms": 60_000,
        "history_size": 1_000,
        "history_ttl_ms": None,
        "timezone": "UTC",
        **changed,
    }
    return TaskDefaults(**values)


# ------------------------------------------------------------------ what is filled in


def test_the_defaults_on_a_lease_backend() -> None:
    assert settings() == TaskSettings(
        jitter_ms=2_000,
        max_late_ms=60_000,
        timeout_ms=None,
        overlap="skip",
        max_attempts=3,
        catch_up_ms=300_000,
        history_size=1_000,
        history_ttl_ms=None,
    )


def test_the_defaults_on_a_claim_only_backend() -> None:
    found = settings(store=CLAIM)

    assert (found.overlap, found.max_attempts, found.catch_up_ms) == ("allow", 1, 0)


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (every("1m"), 2_000),
        (every("8s"), 2_000),
        (every("7999ms"), 1_999),
        (every("4s"), 1_000),
        (every("100ms"), 25),
        (cron("* * * * *", timezone="UTC"), 2_000),
        (at(0), 2_000),
    ],
)
def test_jitter_is_the_schedulers_or_a_quarter_of_the_shortest_gap(schedule: Every | Cron | At, expected: int) -> None:
    assert settings(schedule).jitter_ms == expected


def test_a_large_jitter_of_the_scheduler_is_cut_down_for_a_cron_too() -> None:
    found = settings(cron("*/2 * * * *", timezone="UTC"), defaults=defaults(jitter_ms=600_000))

    assert found.jitter_ms == 30_000


def test_a_quarter_of_the_gap_looks_at_the_shortest_one() -> None:
    # From 23:59 to 00:00 of the same expression.
    schedule = cron("0,59 * * * *", timezone="UTC")

    assert settings(schedule, defaults=defaults(jitter_ms=600_000)).jitter_ms == 15_000


def test_a_scheduler_jitter_on_a_one_shot_is_taken_whole_and_max_late_follows() -> None:
    found = settings(at(0), defaults=defaults(jitter_ms=90_000))

    assert (found.jitter_ms, found.max_late_ms) == (90_000, 150_000)


@pytest.mark.parametrize(("jitter_ms", "expected"), [(59_999, 60_000), (60_000, 120_000), (70_000, 130_000)])
def test_max_late_grows_where_jitter_is_not_less(jitter_ms: int, expected: int) -> None:
    assert settings(every("1h"), jitter_ms=jitter_ms).max_late_ms == expected


def test_what_is_written_out_is_kept() -> None:
    found = settings(
        jitter_ms=0,
        max_late_ms=1,
        timeout_ms=1,
        history_size=1,
        history_ttl_ms=1,
        overlap="allow",
        max_attempts=1,
        catch_up_ms=0,
    )

    assert found == TaskSettings(
        jitter_ms=0,
        max_late_ms=1,
        timeout_ms=1,
        overlap="allow",
        max_attempts=1,
        catch_up_ms=0,
        history_size=1,
        history_ttl_ms=1,
    )


def test_the_schedulers_history_goes_to_tasks_that_say_nothing() -> None:
    found = settings(defaults=defaults(history_size=7, history_ttl_ms=8))

    assert (found.history_size, found.history_ttl_ms) == (7, 8)


def test_an_enum_of_ints_is_an_int() -> None:
    class Limit(enum.IntEnum):
        SHORT = 500

    found = settings(timeout_ms=Limit.SHORT)

    assert type(found.timeout_ms) is int


# ------------------------------------------------------------------ contradictions


@pytest.mark.parametrize(
    ("schedule", "jitter_ms", "gap", "most"),
    [
        (every("1m"), 30_000, 60_000, 29_999),
        (every("100ms"), 50, 100, 49),
        (every("101ms"), 51, 101, 50),
        (cron("*/2 * * * *", timezone="UTC"), 60_000, 120_000, 59_999),
    ],
)
def test_jitter_must_be_less_than_half_the_shortest_gap(
    schedule: Every | Cron, jitter_ms: int, gap: int, most: int
) -> None:
    text = refusal(UnsafeOptionError, schedule, jitter_ms=jitter_ms)

    assert text.startswith(
        f"task 'sync' on SQLite: jitter_ms={jitter_ms} must be less than half the shortest gap between two slots, "
        f"which is {gap} ms"
    )
    assert f"use at most {most}" in text
    assert settings(schedule, jitter_ms=most).jitter_ms == most


def test_max_late_must_exceed_a_written_jitter() -> None:
    text = refusal(UnsafeOptionError, jitter_ms=10_000, max_late_ms=10_000)

    assert text == (
        "task 'sync' on SQLite: max_late_ms=10000 must be greater than jitter_ms=10000, or the random wait alone could "
        "make a slot late; raise max_late_ms above 10000, or write a jitter_ms below 10000"
    )
    assert settings(jitter_ms=10_000, max_late_ms=10_001).max_late_ms == 10_001


def test_max_late_must_exceed_the_jitter_that_nobody_wrote() -> None:
    text = refusal(UnsafeOptionError, max_late_ms=2_000)

    assert "must be greater than jitter_ms=2000, the default here" in text


def test_a_claimed_slot_must_be_remembered_for_longer_than_a_task_may_be_late() -> None:
    text = refusal(UnsafeOptionError, every("1h"), CLAIM, jitter_ms=0, max_late_ms=300_000)

    assert text == (
        "task 'sync' on RabbitMQ: max_late_ms=300000 with jitter_ms=0 lets an instance ask for a slot until 300000 ms "
        "after it, but RabbitMQ remembers a claimed slot for only 300000 ms, so a late instance could win it again; "
        "lower max_late_ms (or jitter_ms) until their sum is less than 300000, or let the backend remember longer "
        "(slot_ttl_ms)"
    )
    assert settings(every("1h"), CLAIM, jitter_ms=0, max_late_ms=299_999).max_late_ms == 299_999


def test_defaults_that_exceed_the_slot_memory_are_refused_too() -> None:
    short = Store(name="RabbitMQ", lease=False, history_ttl=False, remembers_ms=60_000)

    assert "max_late_ms=60000 with jitter_ms=2000" in refusal(UnsafeOptionError, None, short)


def test_a_claim_only_backend_without_a_bound_sets_none() -> None:
    assert settings(every("1h"), CLAIM_TTL, max_late_ms=LONGEST_MS).max_late_ms == LONGEST_MS


# ------------------------------------------------------------------ what a backend cannot keep


@pytest.mark.parametrize("store", [CLAIM, CLAIM_TTL])
@pytest.mark.parametrize(
    ("option", "value"),
    [("overlap", "skip"), ("overlap", "allow"), ("max_attempts", 1), ("catch_up_ms", 0), ("catch_up_ms", None)],
)
def test_lease_options_are_refused_on_a_claim_only_backend(store: Store, option: str, value: object) -> None:
    text = refusal(UnsupportedOptionError, None, store, **one(option, value))

    assert text == (
        f"task 'sync' on {store.name}: {option}={value!r} needs a lease backend, and {store.name} only remembers that "
        "a slot was claimed; leave the option out, or use a lease backend such as SQLite"
    )


def test_an_age_of_history_is_refused_where_it_is_trimmed_by_count() -> None:
    text = refusal(UnsupportedOptionError, None, CLAIM, history_ttl_ms=1)

    assert text == (
        "task 'sync' on RabbitMQ: history_ttl_ms=1 needs a backend that can drop runs by age, and RabbitMQ trims its "
        "history by count only; leave the option out and use history_size"
    )
    assert settings(None, CLAIM_TTL, history_ttl_ms=1).history_ttl_ms == 1


# ------------------------------------------------------------------ single values

NOT_NULL = ["history_ttl_ms", "max_attempts", "catch_up_ms"]
OPTIONS = ["jitter_ms", "max_late_ms", "timeout_ms", "history_size", *NOT_NULL]
LEAST = {"jitter_ms": 0, "catch_up_ms": 0}
MOST = {"history_size": 1_000_000, "max_attempts": 1_000}


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("value", [True, False, 1.0, 1.5, float("nan"), "5", b"5", [5]])
def test_what_is_no_int_is_refused(option: str, value: object) -> None:
    text = refusal(ConfigurationError, **one(option, value))

    assert text.startswith(f"task 'sync' on SQLite: {option}={value!r} must be an int")


@pytest.mark.parametrize("option", NOT_NULL)
def test_none_is_not_the_way_to_leave_these_out(option: str) -> None:
    assert f"{option}=None must be an int" in refusal(ConfigurationError, **one(option, None))


@pytest.mark.parametrize("option", OPTIONS)
def test_what_is_too_small_is_refused(option: str) -> None:
    least = LEAST.get(option, 1)
    unit = " ms" if option.endswith("_ms") else ""

    assert refusal(ConfigurationError, at(0), **one(option, least - 1)) == (
        f"task 'sync' on SQLite: {option}={least - 1} is too small; it must be at least {least}{unit}"
    )


@pytest.mark.parametrize("option", OPTIONS)
def test_what_is_too_large_is_refused(option: str) -> None:
    most = MOST.get(option, LONGEST_MS)
    unit = " ms" if option.endswith("_ms") else ""

    assert refusal(ConfigurationError, at(0), **one(option, most + 1)) == (
        f"task 'sync' on SQLite: {option}={most + 1} is too large; it must be at most {most}{unit}"
    )
    assert settings(at(0), **one(option, most)) is not None


def test_a_text_where_milliseconds_belong_is_told_about_ms() -> None:
    assert refusal(ConfigurationError, timeout_ms="20m").endswith(
        'timeout_ms=\'20m\' must be an int of milliseconds; ms("...") converts a text such as "20m", as in '
        "timeout_ms=ms('20m')"
    )


def test_a_timedelta_where_milliseconds_belong_is_told_about_ms() -> None:
    assert refusal(ConfigurationError, timeout_ms=timedelta(minutes=1)).endswith(
        "must be an int of milliseconds; ms(timedelta(...)) converts, as in timeout_ms=ms(value)"
    )


@pytest.mark.parametrize("value", ["maybe", "SKIP", "", None, True, 1, ["skip"]])
def test_overlap_is_skip_or_allow(value: object) -> None:
    assert refusal(ConfigurationError, overlap=value) == (
        f"task 'sync' on SQLite: overlap={value!r} must be 'skip' or 'allow'"
    )


def test_an_int_of_more_digits_than_python_prints_is_refused() -> None:
    assert "timeout_ms=(an int of 16610 bits) is too large" in refusal(ConfigurationError, timeout_ms=10**5_000)


# ------------------------------------------------------------------ names

GOOD_NAMES = ["a", "a" * 128, "sync orders", "Größe", "任务", "a/b:c", "😀", "na\u00efve"]


@pytest.mark.parametrize("name", GOOD_NAMES)
def test_a_task_name_is_any_short_text(name: str) -> None:
    assert check_task_name(name) == name


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "has 0 characters; it must have 1 to 128"),
        ("a" * 129, "has 129 characters; it must have 1 to 128"),
        (" a", "begins or ends with a blank"),
        ("a ", "begins or ends with a blank"),
        ("\u00a0a", "begins or ends with a blank"),
        ("a\n", "holds a control character"),
        ("a\tb", "holds a control character"),
        ("a\x00", "holds a control character"),
        ("a\x7fb", "holds a control character"),
        ("a\x85b", "holds a control character"),
        ("a\u2028b", "holds a control character"),
        ("a\ud800", "half a surrogate pair"),
        (None, "must be a str, not None"),
        (5, "must be a str, not int"),
        (b"a", "must be a str, not bytes"),
    ],
)
def test_a_bad_task_name_is_refused(name: object, why: str) -> None:
    with pytest.raises(ConfigurationError, match="task name") as caught:
        check_task_name(name)

    assert why in str(caught.value)


# ------------------------------------------------------------------ the scheduler's options


def scheduler_options(store: Store = LEASE, **changed: Any) -> SchedulerOptions:
    values: dict[str, Any] = {
        "namespace": "default",
        "instance_id": None,
        "lease_ttl_ms": 15_000,
        "shutdown_grace_ms": 10_000,
        "max_concurrent_runs": None,
        "jitter_ms": 2_000,
        "max_late_ms": 60_000,
        "history_size": 1_000,
        "history_ttl_ms": None,
        "timezone": "UTC",
        **changed,
    }
    return check_scheduler(store=store, **values)


def test_the_settings_of_a_start_carry_its_instance_id() -> None:
    found = scheduler_options(max_concurrent_runs=4).settings("web-1")

    assert (found.namespace, found.instance_id, found.lease_ms) == ("default", "web-1", 15_000)
    assert (found.shutdown_grace_ms, found.max_concurrent_runs) == (10_000, 4)


@pytest.mark.parametrize(
    ("option", "least", "most"),
    [
        ("lease_ttl_ms", 2_000, 86_400_000),
        ("shutdown_grace_ms", 0, LONGEST_MS),
        ("max_concurrent_runs", 1, 1_000_000),
        ("jitter_ms", 0, LONGEST_MS),
        ("max_late_ms", 1, LONGEST_MS),
        ("history_size", 1, 1_000_000),
        ("history_ttl_ms", 1, LONGEST_MS),
    ],
)
def test_the_ranges_of_the_schedulers_options(option: str, least: int, most: int) -> None:
    scheduler_options(**one(option, least))
    scheduler_options(**one(option, most))

    for value, why in ((least - 1, f"at least {least}"), (most + 1, f"at most {most}"), (True, "int"), (0.5, "int")):
        with pytest.raises(ConfigurationError, match=rf"scheduler on SQLite: {option}={value}.*{why}"):
            scheduler_options(**one(option, value))


@pytest.mark.parametrize("option", ["namespace", "instance_id"])
@pytest.mark.parametrize("value", ["", " a", "a\n", 5])
def test_bad_names_of_the_scheduler_are_refused(option: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=option):
        scheduler_options(**one(option, value))


def test_a_namespace_has_at_most_64_characters() -> None:
    assert scheduler_options(namespace="a" * 64).namespace == "a" * 64
    with pytest.raises(ConfigurationError, match=r"namespace 'a{20}\.\.\.' has 65 characters; it must have 1 to 64"):
        scheduler_options(namespace="a" * 65)


def test_an_age_of_history_for_the_scheduler_needs_a_backend_that_can() -> None:
    with pytest.raises(UnsupportedOptionError, match="scheduler on RabbitMQ: history_ttl_ms=5 needs a backend"):
        scheduler_options(CLAIM, history_ttl_ms=5)


def test_the_grace_of_a_stop() -> None:
    assert check_grace(0, call="stop()") == 0
    with pytest.raises(ConfigurationError, match=r"stop\(\): grace_ms=-1 is too small; it must be at least 0 ms"):
        check_grace(-1, call="stop()")


# ------------------------------------------------------------------ every's own options


def test_an_offset_and_a_baseline_exclude_each_other() -> None:
    with pytest.raises(ConfigurationError, match=r"offset_ms=5 cannot be used with baseline='02:00'.*leave one"):
        check_every(WHERE, offset_ms=5, baseline="02:00", timezone=None)


def test_a_timezone_without_a_baseline_means_nothing() -> None:
    with pytest.raises(ConfigurationError, match=r"timezone='Europe/Berlin' needs baseline with every\(\).*leave"):
        check_every(WHERE, offset_ms=0, baseline=None, timezone="Europe/Berlin")


@pytest.mark.parametrize("value", [True, -1, 1.0, "5", None])
def test_an_offset_is_an_int_from_zero(value: object) -> None:
    with pytest.raises(ConfigurationError, match=f"{WHERE}: offset_ms="):
        check_every(WHERE, offset_ms=value, baseline=None, timezone=None)


def test_every_takes_an_offset_or_a_baseline_with_its_zone() -> None:
    assert check_every(WHERE, offset_ms=5, baseline=None, timezone=None) == 5
    assert check_every(WHERE, offset_ms=0, baseline="02:00", timezone="Europe/Berlin") == 0


# ------------------------------------------------------------------ legal, but it hurts


def test_skip_written_out_without_a_timeout_is_doubted() -> None:
    assert doubts(WHERE, every("5m"), Given(overlap="skip")) == [
        (
            "task 'sync' on SQLite: overlap='skip' without timeout_ms: one run that hangs keeps every later slot of "
            "the task from running; write a timeout_ms"
        )
    ]


@pytest.mark.parametrize(
    "given", [Given(), Given(overlap="allow"), Given(overlap="skip", timeout_ms=1), Given(overlap=DEFAULT)]
)
def test_other_ways_of_overlap_are_not_doubted(given: Given) -> None:
    assert doubts(WHERE, every("5m"), given) == []


def test_every_minute_of_one_hour_is_doubted() -> None:
    assert doubts(WHERE, cron("* 2 * * *", timezone="UTC"), Given()) == [
        (
            "task 'sync' on SQLite: '* 2 * * *' fires every minute from 02:00 to 02:59; for once at 02:00 begin it "
            "with 0 instead of *"
        )
    ]


def test_both_day_fields_are_doubted() -> None:
    assert doubts(WHERE, cron("0 0 13 * FRI", timezone="UTC"), Given()) == [
        (
            "task 'sync' on SQLite: '0 0 13 * 5' sets both day fields, and cron then fires on days that match either "
            "of them, not both; write * in one of them, or look at the other in the handler"
        )
    ]


@pytest.mark.parametrize(
    "expression", ["* * * * *", "0 2 * * *", "* 9-17 * * *", "0 0 13 * *", "0 0 * * 5", "0 0 */2 * 1", "*/2 2 * * *"]
)
def test_ordinary_expressions_are_not_doubted(expression: str) -> None:
    assert doubts(WHERE, cron(expression, timezone="UTC"), Given()) == []
