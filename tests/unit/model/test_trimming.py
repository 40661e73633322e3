"""Which records may go, and which must stay."""

from __future__ import annotations

import pytest

from anarchon.model.asks import TaskRecord
from anarchon.model.run import Skip
from anarchon.model.trimming import (
    NO_FLOOR,
    SWEEP_EVERY_MS,
    TRIM_BATCH,
    Record,
    aged_out_at,
    closes,
    closing_record,
    counted_out_at,
    may_trim,
    raised_floor,
    run_record,
    sweep_is_due,
    trim,
    unregistered,
)
from anarchon.model.words import SkipReason

NOW = 1_000_000


def rules(*, size: int = 3, ttl_ms: int | None = None, late_ms: int = 1_000, catch_up_ms: int = 5_000) -> TaskRecord:
    return TaskRecord(
        name="t",
        schedule="s",
        history_size=size,
        history_ttl_ms=ttl_ms,
        late_claim_ms=late_ms,
        catch_up_ms=catch_up_ms,
    )


def records(*ages_ms: int) -> list[Record[int]]:
    """Oldest first; the key is the age."""
    return [Record(age_ms, NOW - age_ms, NOW - age_ms) for age_ms in ages_ms]


def gone(*ages_ms: int, by: TaskRecord, stored: int | None = None) -> list[int]:
    oldest = records(*ages_ms)
    trimmed = trim(oldest, stored=len(oldest) if stored is None else stored, keep=by.history_size, rules=by, now_ms=NOW)
    return [record.key for record in trimmed]


# ------------------------------------------------------------------ by count


def test_as_many_as_the_size_are_kept() -> None:
    assert gone(9_000, 8_000, 7_000, by=rules(size=3)) == []


def test_the_oldest_beyond_the_size_go() -> None:
    assert gone(9_000, 8_000, 7_000, 6_000, 5_000, by=rules(size=3)) == [9_000, 8_000]


def test_how_many_there_are_is_told_and_not_counted() -> None:
    assert gone(9_000, 8_000, 7_000, by=rules(size=3), stored=4) == [9_000]


def test_what_a_late_claim_could_ask_for_is_not_counted_out() -> None:
    assert gone(1_001, 1_000, 999, 0, by=rules(size=1)) == [1_001, 1_000]


def test_a_young_record_among_the_oldest_does_not_save_the_others() -> None:
    oldest = [Record(1, 1, NOW), Record(2, 2, 2), Record(3, 3, 3)]

    assert [each.key for each in trim(oldest, stored=3, keep=1, rules=rules(), now_ms=NOW)] == [2]


def test_no_more_than_a_batch_goes_at_once() -> None:
    many = records(*range(9_999, 9_999 - 3 * TRIM_BATCH, -1))

    assert trim(many, stored=len(many), keep=1, rules=rules(size=1), now_ms=NOW) == many[:TRIM_BATCH]


# ------------------------------------------------------------------ by age


def test_without_a_ttl_age_does_not_matter() -> None:
    assert gone(999_999, by=rules(ttl_ms=None)) == []


def test_what_is_older_than_the_ttl_goes_whatever_the_number() -> None:
    assert gone(9_000, 8_000, 7_999, by=rules(ttl_ms=8_000)) == [9_000, 8_000]


def test_what_a_start_could_ask_for_is_not_aged_out() -> None:
    assert gone(5_000, 4_999, by=rules(ttl_ms=1, catch_up_ms=5_000)) == [5_000]


def test_what_a_late_claim_could_ask_for_is_not_aged_out() -> None:
    assert gone(1_000, 999, by=rules(ttl_ms=1, catch_up_ms=0)) == [1_000]


# ------------------------------------------------------------------ the pieces


def test_the_instants_at_which_records_may_go() -> None:
    assert counted_out_at(rules(late_ms=7), NOW) == NOW - 7
    assert aged_out_at(rules(ttl_ms=None), NOW) is None
    assert aged_out_at(rules(ttl_ms=9_000), NOW) == NOW - 9_000


def test_a_run_is_as_young_as_its_end() -> None:
    assert run_record("r", slot_ms=5, scheduled_at_ms=5, finished_at_ms=9) == Record("r", 5, 9)


def test_a_run_that_ended_before_its_slot_by_a_wrong_clock_is_as_young_as_its_slot() -> None:
    assert run_record("r", slot_ms=5, scheduled_at_ms=5, finished_at_ms=1) == Record("r", 5, 5)


def test_a_closing_is_as_young_as_the_later_of_slot_and_closing() -> None:
    assert closing_record("s", slot_ms=5, at_ms=9) == Record("s", 5, 9)
    assert closing_record("s", slot_ms=9, at_ms=5) == Record("s", 9, 9)


@pytest.mark.parametrize(
    ("stored", "ttl_ms", "worth_it"), [(0, 1, False), (3, None, False), (4, None, True), (1, 1, True)]
)
def test_looking_for_records_to_trim_is_worth_it(stored: int, ttl_ms: int | None, worth_it: bool) -> None:
    assert may_trim(stored=stored, keep=3, rules=rules(ttl_ms=ttl_ms)) is worth_it


def test_the_floor_rises_to_the_newest_slot_that_went() -> None:
    assert raised_floor(NO_FLOOR, [Record(1, 5, 0), Record(2, 9, 0), Record(3, 7, 0)]) == 9


def test_the_floor_never_falls() -> None:
    assert raised_floor(10, [Record(1, 5, 0)]) == 10


def test_a_run_without_a_slot_does_not_raise_the_floor() -> None:
    assert raised_floor(NO_FLOOR, [Record(1, None, 9)]) == NO_FLOOR


@pytest.mark.parametrize(("reason", "closing"), [("overlap", True), ("paused", True), ("late", False), ("busy", False)])
def test_only_overlap_and_pause_close_a_slot(reason: SkipReason, closing: bool) -> None:
    assert closes(Skip(task="t", slot_ms=1, reason=reason, instance_id="a", at_ms=1)) is closing


def test_a_task_that_is_not_registered_is_trimmed_late() -> None:
    kept = unregistered("t")

    assert (kept.name, kept.history_size, kept.history_ttl_ms) == ("t", 1_000, None)
    assert counted_out_at(kept, NOW) == NOW - 86_400_000


@pytest.mark.parametrize(
    ("swept_at_ms", "due"),
    [
        (None, True),
        (NOW, False),
        (NOW - SWEEP_EVERY_MS + 1, False),
        (NOW - SWEEP_EVERY_MS, True),
        (NOW + 1, False),
        (NOW + SWEEP_EVERY_MS, True),
    ],
)
def test_the_turn_to_sweep_comes_once_in_its_time_also_after_the_clock_was_set_back(
    swept_at_ms: int | None, due: bool
) -> None:
    assert sweep_is_due(swept_at_ms, NOW) is due
