"""The decisions that an instance takes by itself."""

from __future__ import annotations

import itertools

import pytest

from anarchon.model.slots import (
    JITTER_BUCKETS,
    Handled,
    is_late,
    jitter_groups,
    late_claim_ms,
    margin_ms,
    owes_catch_up,
    retry_delay_ms,
    survey_interval_ms,
    trust_deadline,
)
from anarchon.model.words import SKEW_LIMIT_MS


def minutely(after: int) -> int:
    return (after // 60_000 + 1) * 60_000


def test_a_slot_is_late_only_past_its_last_millisecond() -> None:
    assert not is_late(1_000, 61_000, 60_000)
    assert is_late(1_000, 61_001, 60_000)


def test_a_slot_in_the_future_is_not_late() -> None:
    assert not is_late(1_000, 0, 1)


@pytest.mark.parametrize(("lease", "margin"), [(2_000, 500), (5_000, 500), (5_010, 501), (15_000, 1_500)])
def test_the_margin_is_half_a_second_or_a_tenth_of_the_lease(lease: int, margin: float) -> None:
    assert margin_ms(lease) == margin


def test_trust_counts_from_the_sending() -> None:
    assert trust_deadline(1_000.0, 15_000) == 1_000 + 15_000 - 1_500


@pytest.mark.parametrize(
    ("own", "other", "wait"),
    [
        (15_000, None, 10_000),
        (6_000, None, 4_000),
        (60_000, None, 10_000),
        (15_000, 15_000, 7_500),
        (15_000, 2_000, 1_000),
        (2_000, 60_000, 1_000),
        (60_000, 60_000, 10_000),
    ],
)
def test_a_survey_comes_before_any_lease_of_a_live_instance_can_end(own: int, other: int | None, wait: float) -> None:
    assert survey_interval_ms(own, other) == wait


def test_a_slot_may_be_asked_for_as_long_as_jitter_lateness_and_skew_allow() -> None:
    assert late_claim_ms(2_000, 60_000) == 62_000 + SKEW_LIMIT_MS


def test_a_young_slot_of_a_known_schedule_is_owed() -> None:
    assert owes_catch_up(1_000, start_ms=2_000, catch_up_ms=1_001, known_since_ms=999, one_shot=False)


@pytest.mark.parametrize("known", [1_000, 1_001, None])
def test_a_schedule_first_known_at_or_after_the_slot_owes_nothing(known: int | None) -> None:
    assert not owes_catch_up(1_000, start_ms=2_000, catch_up_ms=5_000, known_since_ms=known, one_shot=False)


def test_a_one_shot_is_owed_though_it_was_not_known_before() -> None:
    assert owes_catch_up(1_000, start_ms=2_000, catch_up_ms=5_000, known_since_ms=2_000, one_shot=True)


@pytest.mark.parametrize("one_shot", [True, False])
@pytest.mark.parametrize("catch_up", [0, 1_000])
def test_a_slot_as_old_as_the_catch_up_is_not_owed(catch_up: int, one_shot: bool) -> None:
    assert not owes_catch_up(1_000, start_ms=2_000, catch_up_ms=catch_up, known_since_ms=0, one_shot=one_shot)


def test_retries_back_off_to_two_seconds_and_are_spread() -> None:
    assert [retry_delay_ms(n, 0.0) for n in (1, 2, 3, 5, 6, 500)] == [100, 200, 400, 1_600, 2_000, 2_000]
    assert retry_delay_ms(1, 0.5) == 75


def test_tasks_without_jitter_go_out_together_and_at_once() -> None:
    assert jitter_groups([1, 2, 3], lambda _: 0, lambda: 0.9) == [(0.0, [1, 2, 3])]


def test_one_task_waits_its_own_draw() -> None:
    assert jitter_groups(["a"], lambda _: 1_000, lambda: 0.25) == [(250.0, ["a"])]


def test_what_is_due_together_goes_out_in_at_most_four_groups() -> None:
    draws = itertools.count()
    tasks = [(n, n % 7 * 100) for n in range(100)]
    groups = jitter_groups(tasks, lambda task: task[1], lambda: next(draws) / 10)
    assert len(groups) == JITTER_BUCKETS
    assert sorted(task for _, group in groups for task in group) == sorted(tasks)


def test_no_task_waits_longer_than_its_own_jitter() -> None:
    tasks = [50, 0, 2_000, 2_000, 10, 30_000, 7]
    for wait, group in jitter_groups(tasks, lambda jitter: jitter, lambda: 0.999):
        assert all(wait <= jitter for jitter in group)


def test_groups_of_one_instant_draw_apart() -> None:
    draws = iter([0.1, 0.2, 0.3, 0.4])
    waits = [wait for wait, _ in jitter_groups(list(range(8)), lambda _: 1_000, lambda: next(draws))]
    assert waits == [100, 200, 300, 400]


def test_nothing_due_makes_no_group() -> None:
    assert jitter_groups([], lambda _: 5, lambda: 0.5) == []


def test_the_slot_handled_last_is_not_planned_again_when_the_clock_goes_back() -> None:
    handled = Handled.before(30_000).through(60_000, jumped=False).through(120_000, jumped=False)
    assert handled.after(59_990, minutely) == 180_000


def test_a_clock_that_was_wrong_by_years_does_not_silence_a_task() -> None:
    years_ahead = 2_000_000_040_000
    handled = Handled.before(30_000).through(60_000, jumped=False).through(years_ahead, jumped=True)
    assert handled.after(65_000, minutely) == 120_000


def test_what_was_handled_while_the_clock_was_ahead_is_not_planned_again() -> None:
    handled = Handled.before(0).through(60_000, jumped=False).through(600_000, jumped=True)
    handled = handled.through(660_000, jumped=False)
    assert handled.after(540_000, minutely) == 720_000


def test_handled_ranges_stay_few() -> None:
    handled = Handled.before(0)
    for step in range(1, 50):
        handled = handled.through(step * 600_000, jumped=True)
    assert len(handled.ranges) == Handled.MOST


def test_a_schedule_without_further_slots_plans_nothing() -> None:
    assert Handled.before(0).after(0, lambda _: None) is None


def test_what_was_handled_stays_handled_far_back_while_no_clock_jumps() -> None:
    handled = Handled.before(0)
    for number in range(1, 11):
        handled = handled.through(number * 60_000, jumped=False)
    assert handled.ranges == ((0, 600_000),)
    assert handled.after(90_000, minutely) == 660_000


def test_a_clock_that_jumps_inside_what_was_handled_forgets_nothing_of_it() -> None:
    handled = Handled.before(0).through(600_000, jumped=False)
    for number in (1, 2, 3, 4, 5, 10):
        handled = handled.through(number * 60_000, jumped=True)
    assert handled.ranges == ((0, 600_000),)
