"""What the demo's check notices, on evidence made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from anarchon.cli.demo.check import Problem, check, count, recovery
from anarchon.cli.demo.evidence import Evidence, HandlerRecord, Kill, What, read_records
from anarchon.cli.demo.play import due_slots
from anarchon.model.run import Attempt, Run, Skip
from anarchon.model.words import RunStatus

NOON = 1_800_014_400_000
"""12:00:00 UTC on 15 January 2027."""
LEASE_END = NOON + 5_000


def run_of(task: str, slot_ms: int, on: str = "A-1", status: RunStatus = "succeeded") -> Run:
    attempt = Attempt(
        number=1,
        instance_id=on,
        reason="schedule",
        claimed_at_ms=slot_ms + 50,
        started_at_ms=slot_ms + 60,
        ended_at_ms=slot_ms + 90,
        status=status,
    )
    return Run(
        run_id=f"demo/{task}/{slot_ms}",
        task=task,
        slot_ms=slot_ms,
        scheduled_at_ms=slot_ms,
        reason="schedule",
        status=status,
        instance_id=on,
        token="t",
        attempt=1,
        max_attempts=3,
        fence=1,
        lease_ends_at_ms=None,
        claimed_at_ms=slot_ms + 50,
        started_at_ms=slot_ms + 60,
        finished_at_ms=slot_ms + 90,
        attempts=(attempt,),
    )


def recovered_run(slot_ms: int) -> Run:
    first = replace(run_of("long", slot_ms, "C-3"), attempt=2, instance_id="B-2", finished_at_ms=LEASE_END + 6_100)
    (lost,) = first.attempts
    again = Attempt(
        number=2,
        instance_id="B-2",
        reason="recovery",
        claimed_at_ms=LEASE_END + 5,
        started_at_ms=LEASE_END + 10,
        ended_at_ms=LEASE_END + 6_010,
        status="succeeded",
    )
    return replace(
        first,
        attempts=(replace(lost, status="interrupted", started_at_ms=None, ended_at_ms=LEASE_END), again),
    )


def record(task: str, slot_ms: int, what: What, at_ms: int, on: str = "A-1", attempt: int = 1) -> HandlerRecord:
    return HandlerRecord(task=task, slot_ms=slot_ms, attempt=attempt, instance_id=on, what=what, at_ms=at_ms)


def handled(task: str, slot_ms: int, on: str = "A-1") -> list[HandlerRecord]:
    return [record(task, slot_ms, "began", slot_ms + 60, on), record(task, slot_ms, "ended", slot_ms + 61, on)]


def overlap(slot_ms: int) -> Skip:
    return Skip(task="long", slot_ms=slot_ms, reason="overlap", instance_id="B-2", at_ms=slot_ms + 100)


FAST = (NOON + 1_000, NOON + 2_000)

GOOD = Evidence(
    runs={
        "fast": [run_of("fast", FAST[1], "B-2"), run_of("fast", FAST[0])],
        "minute": [run_of("minute", NOON)],
        "long": [recovered_run(NOON)],
    },
    skips={"fast": [], "minute": [], "long": [overlap(NOON + 10_000)]},
    records=[
        *handled("fast", FAST[0]),
        *handled("fast", FAST[1], "B-2"),
        *handled("minute", NOON),
        record("long", NOON, "began", NOON + 60, "C-3"),
        record("long", NOON, "alive", NOON + 560, "C-3"),
        record("long", NOON, "began", LEASE_END + 10, "B-2", attempt=2),
        record("long", NOON, "ended", LEASE_END + 6_010, "B-2", attempt=2),
    ],
    unreadable=[],
    due={"fast": list(FAST), "minute": [NOON], "long": [NOON, NOON + 10_000]},
    kill=Kill(instance_id="C-3", task="long", slot_ms=NOON, at_ms=NOON + 2_600),
)


def texts(evidence: Evidence) -> list[str]:
    return [str(problem) for problem in check(evidence)]


def with_records(*more: HandlerRecord, less: Sequence[HandlerRecord] = ()) -> Evidence:
    kept = [each for each in GOOD.records if each not in less]
    return replace(GOOD, records=sorted([*kept, *more], key=lambda each: each.at_ms))


def with_runs(task: str, *runs: Run) -> Evidence:
    return replace(GOOD, runs={**GOOD.runs, task: list(runs)})


def test_what_is_as_promised_has_no_problem() -> None:
    assert check(GOOD) == []


def test_the_numbers_are_told_by_task() -> None:
    assert [
        (each.task, each.due, each.in_history, each.by_handlers, each.overlaps, each.duplicates, each.missed)
        for each in count(GOOD)
    ] == [("fast", 2, 2, 2, 0, 0, 0), ("minute", 1, 1, 1, 0, 0, 0), ("long", 2, 1, 1, 1, 0, 0)]


def test_the_recovery_is_counted_from_the_kill_and_from_the_lease_s_end() -> None:
    found = recovery(GOOD)
    assert found is not None
    assert (found.instance_id, found.after_kill_ms, found.after_lease_end_ms) == ("B-2", 2_410, 10)


def test_a_handler_that_ended_twice_is_named_with_both_places() -> None:
    evidence = with_records(*handled("fast", FAST[0], "B-2"))
    assert texts(evidence) == [
        "fast, slot 12:00:01 UTC: ran twice: the handler came to its end 2 times, on A-1 and B-2",
        "fast, slot 12:00:01 UTC: ran twice: attempt 1 began 2 times, on A-1 and B-2",
        "fast, slot 12:00:01 UTC: the handler ended on B-2, and the history says A-1",
        "fast, slot 12:00:01 UTC: attempt 1 began on B-2, and the history does not know of it",
    ]
    assert count(evidence)[0].duplicates == 1


@pytest.mark.parametrize("what", ["began", "ended"])
def test_a_line_that_comes_twice_is_a_slot_that_ran_twice(what: What) -> None:
    (problem,) = check(with_records(record("fast", FAST[1], what, FAST[1] + 70, "B-2")))
    assert (problem.task, problem.slot_ms) == ("fast", FAST[1])
    assert problem.text.startswith("ran twice: ")


def test_a_missing_end_is_named() -> None:
    assert texts(with_records(less=[GOOD.records[1]])) == [
        "fast, slot 12:00:01 UTC: the history says that it succeeded on A-1, and the handler wrote no end of it"
    ]


def test_a_missing_begin_is_named() -> None:
    assert texts(with_records(less=[GOOD.records[0]])) == [
        "fast, slot 12:00:01 UTC: the history has attempt 1 on A-1, and the handler has not written that it began"
    ]


def test_a_run_that_the_history_does_not_have_is_named() -> None:
    assert texts(with_runs("minute")) == [
        "minute, slot 12:00 UTC: the handler ran on A-1, and the history has no run of this slot"
    ]


def test_a_slot_that_nobody_ran_is_missed_with_its_reasons() -> None:
    late = Skip(task="minute", slot_ms=NOON, reason="late", instance_id="A-1", at_ms=NOON + 70_000)
    evidence = replace(
        with_runs("minute"),
        records=[each for each in GOOD.records if each.task != "minute"],
        skips={**GOOD.skips, "minute": [late]},
    )
    assert texts(evidence) == [
        "minute, slot 12:00 UTC: missed: it was due and nobody ran it (skipped: late)",
    ]
    assert count(evidence)[1].missed == 1


def test_a_slot_outside_the_window_may_stay_without_a_run() -> None:
    assert check(replace(GOOD, due={**GOOD.due, "fast": list(FAST), "minute": [NOON]})) == []


def test_two_runs_of_one_slot_are_named() -> None:
    again = replace(run_of("minute", NOON), run_id="other")
    assert "minute, slot 12:00 UTC: the history has 2 runs of this slot" in texts(
        with_runs("minute", run_of("minute", NOON), again)
    )


def test_a_failed_run_is_named_with_its_error() -> None:
    failed = replace(run_of("minute", NOON, status="failed"), error="ValueError: no")
    assert texts(with_runs("minute", failed)) == [
        "minute, slot 12:00 UTC: the run is 'failed' in the history: ValueError: no"
    ]


def test_more_attempts_than_allowed_are_named() -> None:
    assert texts(with_runs("long", replace(recovered_run(NOON), max_attempts=1))) == [
        "long, slot 12:00 UTC: the history has attempt 2, and 1 are allowed"
    ]


def test_a_lease_that_was_lost_without_a_kill_is_named() -> None:
    evidence = replace(GOOD, kill=None)
    assert texts(evidence) == [
        "long, slot 12:00 UTC: attempt 1 lost its lease on C-3, which was not killed; is this machine too busy?"
    ]


def test_a_killed_process_may_have_claimed_what_it_had_not_begun() -> None:
    first, *others = [each for each in GOOD.records if each.instance_id == "C-3"]
    assert check(with_records(less=[first, *others])) == []


def test_what_the_killed_process_had_not_recorded_may_end_once_more() -> None:
    assert check(with_records(record("long", NOON, "ended", NOON + 2_599, "C-3"))) == []


def test_a_slot_that_was_closed_without_a_run_in_progress_is_named() -> None:
    closed = overlap(NOON + 20_000)
    evidence = replace(GOOD, skips={**GOOD.skips, "long": [closed]}, due={**GOOD.due, "long": [NOON, closed.slot_ms]})
    assert texts(evidence) == ["long, slot 12:00:20 UTC: closed because of an overlap, and no run was in progress then"]


def test_a_slot_that_ran_and_was_closed_is_named() -> None:
    evidence = replace(GOOD, skips={**GOOD.skips, "minute": [overlap(NOON)]})
    assert texts(evidence) == [
        "minute, slot 12:00 UTC: the history says both that it ran and that it was closed because of an overlap"
    ]


def test_two_handlers_at_work_at_once_are_named() -> None:
    alive = record("long", NOON, "alive", LEASE_END + 500, "C-3")
    assert texts(with_records(alive)) == [
        "long, slot 12:00 UTC: attempt 2 began on B-2 while attempt 1 of slot 12:00 UTC was at work on C-3"
    ]


def test_a_run_that_nobody_began_again_is_named() -> None:
    lost = replace(run_of("long", NOON, "C-3", "running"), finished_at_ms=None)
    evidence = replace(
        with_runs("long", lost),
        records=[each for each in GOOD.records if each.instance_id != "B-2" or each.task == "fast"],
    )
    assert texts(evidence) == [
        "long, slot 12:00 UTC: the run is 'running' in the history",
        "long, slot 12:00 UTC: C-3 was killed while it ran this, and nobody began again",
    ]


@pytest.mark.parametrize(
    ("began_ms", "said"),
    [
        (LEASE_END - 20, "began again 20 ms before its lease had ended"),
        (LEASE_END + 3_100, "began again 3.1 s after its lease's end; 3 s are promised at the latest"),
    ],
)
def test_a_recovery_at_the_wrong_time_is_named(began_ms: int, said: str) -> None:
    began = GOOD.records[-2]
    evidence = with_records(replace(began, at_ms=began_ms), less=[began])
    assert check(evidence) == [Problem("long", NOON, said)]


def test_a_manual_run_has_no_place_in_the_demo() -> None:
    manual = replace(run_of("minute", NOON), run_id="m", slot_ms=None)
    assert texts(with_runs("minute", run_of("minute", NOON), manual)) == ["minute: run m belongs to no slot"]


def test_a_line_that_is_no_record_is_named(tmp_path: Path) -> None:
    good = '{"task": "fast", "slot_ms": 1, "attempt": 1, "instance_id": "A-1", "what": "began", "at_ms": 2}'
    (tmp_path / "handlers-A.jsonl").write_text(f'{good}\n[]\n{{"task": 1}}\n{good[:20]}\n')
    records, unreadable = read_records(tmp_path)
    assert [each.slot_ms for each in records] == [1]
    assert unreadable == ["handlers-A.jsonl, line 2,", "handlers-A.jsonl, line 3,", "handlers-A.jsonl, line 4,"]
    assert texts(replace(GOOD, unreadable=unreadable))[0] == (
        "handlers' files: handlers-A.jsonl, line 2, cannot be read"
    )


def test_slots_are_due_after_the_start_and_up_to_the_end() -> None:
    assert due_slots(lambda after: after + 10, 100, 130) == [110, 120, 130]
    assert due_slots(lambda _: None, 100, 130) == []
