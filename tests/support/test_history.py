"""The checker itself: good histories pass, and each way of being bad is found under its line."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from anarchon.model.settings import TaskSettings
from anarchon.model.words import FinalStatus
from anarchon.times.schedule import at, every
from tests.support.history import (
    ClockPiece,
    ClosedSlot,
    Finished,
    Granted,
    HandedOver,
    History,
    InstanceFacts,
    Interrupted,
    Note,
    Registered,
    Renewed,
    Said,
    Span,
    TaskFacts,
    without,
)
from tests.support.verdict import judge

LEASE = 15_000
START = 600_000
SLOT = 660_000
END = 700_000
RUN = f"ns/t/{SLOT}"

SETTINGS = TaskSettings(
    jitter_ms=0,
    max_late_ms=20_000,
    timeout_ms=None,
    overlap="skip",
    max_attempts=2,
    catch_up_ms=0,
    history_size=100,
    history_ttl_ms=None,
)


def instance(name: str, *, start: int = START, offset: int = 0, **changes: Any) -> InstanceFacts:
    """One that had the minutely task "t" and was well all the time."""
    values: dict[str, Any] = {
        "id": name,
        "tasks": {"t": TaskFacts("t", every("1m"), SETTINGS)},
        "started_ms": start,
        "start_wall_ms": start + offset,
        "up": Span(start, END),
        "clock": [ClockPiece(start, start + offset)],
        **changes,
    }
    return InstanceFacts(**values)


def granted(at_ms: int, who: str, fence: int, attempt: int = 1, run_id: str = RUN, **changes: Any) -> Granted:
    values: dict[str, Any] = {
        "at_ms": at_ms,
        "task": "t",
        "slot_ms": int(run_id.rpartition("/")[2]),
        "run_id": run_id,
        "fence": fence,
        "instance": who,
        "attempt": attempt,
        "lease_ends_at_ms": at_ms + LEASE,
        "overlap": "skip",
        "max_attempts": 2,
        "reason": "schedule" if attempt == 1 else "recovery",
        "first": attempt == 1,
        **changes,
    }
    return Granted(**values)


def renewed(at_ms: int, fence: int, run_id: str = RUN) -> Renewed:
    return Renewed(at_ms=at_ms, task="t", run_id=run_id, fence=fence, lease_ends_at_ms=at_ms + LEASE)


def finished(at_ms: int, fence: int, status: FinalStatus = "succeeded", run_id: str = RUN) -> Finished:
    return Finished(at_ms=at_ms, task="t", run_id=run_id, fence=fence, status=status, stamp=at_ms)


def handed_over(at_ms: int, fence: int) -> HandedOver:
    return HandedOver(at_ms=at_ms, task="t", run_id=RUN, fence=fence, stamp=at_ms)


def note(at_ms: int, what: Any, who: str, fence: int, attempt: int = 1, run_id: str = RUN) -> Note:
    return Note(at_ms=at_ms, what=what, instance=who, task="t", run_id=run_id, attempt=attempt, fence=fence)


def history(*happened: object, instances: list[InstanceFacts] | None = None, **changes: Any) -> History:
    """What happened, in order, to two instances that were well."""
    made = History(lease_ms=LEASE, ended_ms=END, **changes)
    made.instances = instances if instances is not None else [instance("a"), instance("b")]
    for event in happened:
        if isinstance(event, Note):
            made.notes.append(event)
        elif isinstance(event, Said):
            made.said.append(event)
        else:
            made.writes.append(event)  # type: ignore[arg-type]
    return made


def one_good_run() -> list[Any]:
    return [
        granted(SLOT + 10, "a", 1),
        note(SLOT + 20, "began", "a", 1),
        note(SLOT + 500, "ended", "a", 1),
        finished(SLOT + 510, 1),
    ]


def dead(since: int, name: str = "a") -> InstanceFacts:
    """One that was killed."""
    return instance(name, up=Span(START, since), frozen=[Span(since)], alive_until_ms=since)


def late_recovery(by_ms: int) -> list[Any]:
    """Its first runner died; the next one began so long after the lease's end and was soon done."""
    since = SLOT + 10 + LEASE + by_ms
    return [
        *one_good_run()[:2],
        granted(since, "b", 2, attempt=2),
        note(since + 10, "began", "b", 2, attempt=2),
        note(since + 20, "ended", "b", 2, attempt=2),
        finished(since + 30, 2),
    ]


def lines_of(made: History) -> set[int]:
    return {finding.line for finding in judge(made).findings}


# ------------------------------------------------------------------ good ones


def test_one_run_is_sound() -> None:
    assert judge(history(*one_good_run())).sound


def test_a_recovery_within_a_second_is_sound() -> None:
    made = history(*late_recovery(900), instances=[dead(SLOT + 100), instance("b")])
    assert str(judge(made)) == "sound"


def test_a_hand_over_costs_no_attempt() -> None:
    made = history(
        granted(SLOT + 10, "a", 1, max_attempts=1),
        handed_over(SLOT + 20, 1),
        granted(SLOT + 500, "b", 2, max_attempts=1, reason="hand-over", first=False),
        note(SLOT + 510, "began", "b", 2),
        note(SLOT + 520, "ended", "b", 2),
        finished(SLOT + 530, 2),
    )
    assert str(judge(made)) == "sound"


def test_a_lost_answer_may_go_either_way() -> None:
    # Granted, never heard of, asked again with the same token two seconds later.
    made = history(
        granted(SLOT + 10, "a", 1),
        renewed(SLOT + 2_300, 1),
        note(SLOT + 2_400, "began", "a", 1),
        note(SLOT + 2_500, "ended", "a", 1),
        finished(SLOT + 2_600, 1),
        instances=[instance("a", faults=[Span(SLOT + 5, SLOT + 2_400)]), instance("b")],
    )
    assert str(judge(made)) == "sound"
    # Not asked again: its instance has died. Nobody else was there for it.
    lonely = history(
        granted(SLOT + 10, "a", 1),
        note(SLOT - 59_000, "began", "b", 7, run_id="ns/t/600000"),
        granted(600_000, "b", 7, run_id="ns/t/600000", task="other"),
        finished(SLOT, 7, run_id="ns/t/600000"),
        instances=[dead(SLOT + 100)],
    )
    assert judge(lonely, (2, 3, 4, 5)).sound


def test_a_result_that_comes_after_the_lease_is_taken_while_nobody_has_the_run() -> None:
    ends = SLOT + 10 + LEASE
    made = history(
        granted(SLOT + 10, "a", 1),
        note(SLOT + 20, "began", "a", 1),
        note(SLOT + 30, "ended", "a", 1),
        finished(ends + 400, 1),
        instances=[instance("a", cut=[Span(SLOT + 15, ends + 300)]), instance("b")],
    )
    assert str(judge(made)) == "sound"


# ------------------------------------------------------------------ no evidence


@pytest.mark.parametrize("missing", ["everything", "grants", "notes", "instances"])
def test_a_history_that_says_nothing_fails(missing: str) -> None:
    made = history(*one_good_run())
    if missing in ("everything", "grants"):
        made.writes = []
    if missing in ("everything", "notes"):
        made.notes = []
    if missing in ("everything", "instances"):
        made.instances = []
    verdict = judge(made)
    assert not verdict.sound
    assert verdict.of(0)


# ------------------------------------------------------------------ line 1


def test_line_1_a_slot_that_is_won_twice() -> None:
    made = history(*one_good_run(), granted(SLOT + 600, "b", 2))
    (found, *_) = judge(made).of(1)
    assert found.where == RUN
    assert "won a second time" in found.what


def test_line_1_one_fence_for_two_instances() -> None:
    assert 1 in lines_of(history(granted(SLOT, "a", 1), granted(SLOT + 1, "b", 1, attempt=2), *one_good_run()[1:]))


def test_line_1_a_handler_that_begins_without_a_grant() -> None:
    assert 1 in lines_of(history(*one_good_run(), note(SLOT + 30, "began", "b", 9)))


def test_line_1_a_handler_that_begins_twice_under_one_fence() -> None:
    assert 1 in lines_of(history(*one_good_run(), note(SLOT + 30, "began", "a", 1)))


# ------------------------------------------------------------------ line 2

LATER = f"ns/t/{SLOT + 5_000}"


def test_line_2_two_live_leases_of_one_task() -> None:
    made = history(*one_good_run()[:2], granted(SLOT + 5_000, "b", 2, run_id=LATER))
    (found,) = judge(made).of(2)
    assert found.where == LATER


def test_line_2_a_lease_that_was_kept_alive_by_asking_again_counts() -> None:
    ends = SLOT + 10 + LEASE
    made = history(
        *one_good_run()[:2],
        granted(ends + 10, "b", 2, run_id=LATER),
        renewed(ends + 20, 1),
    )
    assert {finding.where for finding in judge(made).of(2)} == {RUN, LATER}


def test_line_2_an_owed_run_that_was_passed_over() -> None:
    ends = SLOT + 10 + LEASE
    made = history(*one_good_run()[:2], granted(ends + 100, "b", 2, run_id=LATER))
    (found,) = judge(made).of(2)
    assert "was owed" in found.what


def test_line_2_says_nothing_under_allow() -> None:
    allowed: dict[str, Any] = {"overlap": "allow"}
    made = history(granted(SLOT + 10, "a", 1, **allowed), granted(SLOT + 5_000, "b", 2, run_id=LATER, **allowed))
    made.notes = one_good_run()[1:3]
    assert judge(made).of(2) == []


# ------------------------------------------------------------------ line 3


def recovered(attempts: int, **changes: Any) -> list[Any]:
    happened: list[Any] = []
    for number in range(1, attempts + 1):
        since = SLOT + 10 + (number - 1) * (LEASE + 500)
        happened += [
            granted(since, "a", number, attempt=number, **changes),
            note(since + 1, "began", "a", number, attempt=number),
        ]
    return happened


def test_line_3_more_starts_than_attempts() -> None:
    (found, *_) = judge(history(*recovered(3))).of(3)
    assert found.where == RUN


def test_line_3_a_run_of_one_attempt_that_begins_again_after_a_hand_over() -> None:
    made = history(
        granted(SLOT + 10, "a", 1, max_attempts=1),
        note(SLOT + 20, "began", "a", 1),
        handed_over(SLOT + 30, 1),
        granted(SLOT + 500, "b", 2, max_attempts=1, reason="hand-over", first=False),
        note(SLOT + 510, "began", "b", 2),
    )
    assert 3 in lines_of(made)


def test_line_3_who_asked_for_fewer_attempts_gets_no_more() -> None:
    happened = recovered(2)
    happened[2] = replace(happened[2], max_attempts=1)
    assert 3 in lines_of(history(*happened))


@pytest.mark.parametrize(("attempts", "sound"), [(1, False), (2, True)])
def test_line_3_a_run_is_interrupted_exactly_when_its_attempts_are_used_up(attempts: int, sound: bool) -> None:
    over = SLOT + 10 + attempts * (LEASE + 500)
    interrupted = Interrupted(at_ms=over, task="t", run_id=RUN, max_attempts=2)
    assert (judge(history(*recovered(attempts), interrupted)).of(3) == []) is sound


def test_line_3_a_runner_interrupts_only_what_may_not_start_again() -> None:
    made = history(*one_good_run()[:3], finished(SLOT + 510, 1, "interrupted"))
    assert 3 in lines_of(made)


# ------------------------------------------------------------------ line 4


def test_line_4_a_run_that_is_recovered_too_late() -> None:
    made = history(*late_recovery(1_100), instances=[dead(SLOT + 100), instance("b")])
    (found,) = judge(made).of(4)
    assert (found.where, "left for 1100 ms" in found.what) == (RUN, True)


def test_line_4_a_run_that_is_never_recovered() -> None:
    made = history(*one_good_run()[:2], instances=[dead(SLOT + 100), instance("b")])
    assert 4 in lines_of(made)


@pytest.mark.parametrize(
    "excuse",
    [
        {"frozen": [Span(SLOT + LEASE, SLOT + LEASE + 2_000)]},
        {"cut": [Span(SLOT + LEASE, SLOT + LEASE + 2_000)]},
        {"faults": [Span(SLOT + LEASE, SLOT + LEASE + 500)]},
        {"lagging": [Span(SLOT + LEASE, SLOT + LEASE + 500)]},
        {"limited": True},
        {"tasks": {}},
        {"up": Span(START, SLOT + LEASE)},
        {"up": Span(SLOT + LEASE, END)},
    ],
)
def test_line_4_excuses_an_instance_that_was_not_well(excuse: dict[str, Any]) -> None:
    made = history(*late_recovery(1_100), instances=[dead(SLOT + 100), instance("b", **excuse)])
    assert judge(made, (4,)).sound


def test_line_4_a_run_that_was_handed_over_and_left() -> None:
    made = history(*one_good_run()[:3], handed_over(SLOT + 510, 1))
    (found,) = judge(made).of(4)
    assert "handed-over" in found.what


def test_line_4_a_run_that_the_store_has_forgotten() -> None:
    made = history(granted(END - 100, "a", 1), note(END - 50, "began", "a", 1), stored={})
    assert 4 in lines_of(made)


def test_line_4_a_grant_that_lies_idle() -> None:
    settings = replace(SETTINGS, max_late_ms=60_000)
    well = instance("a", tasks={"t": TaskFacts("t", every("1m"), settings)})
    made = history(granted(SLOT + 10, "a", 1), note(SLOT, "told", "a", 9), instances=[well])
    (found, *_) = judge(made).of(4)
    assert "neither began it" in found.what


def test_line_4_a_lease_that_runs_out_under_a_well_runner() -> None:
    ends = SLOT + 10 + LEASE
    made = history(
        *one_good_run()[:2],
        note(ends - 1_000, "told", "a", 1),
        granted(ends + 10, "b", 2, attempt=2),
    )
    assert any("its lease ran out on a" in finding.what for finding in judge(made).of(4))


# ------------------------------------------------------------------ line 5


@pytest.mark.parametrize(
    "write", [renewed(SLOT + 20_000, 1), finished(SLOT + 20_000, 1), handed_over(SLOT + 20_000, 1)]
)
def test_line_5_a_write_under_an_old_fence(write: Renewed | Finished | HandedOver) -> None:
    made = history(*recovered(2), write)
    (found, *_) = judge(made).of(5)
    assert (found.where, found.at_ms) == (RUN, SLOT + 20_000)


def test_line_5_two_outcomes() -> None:
    assert 5 in lines_of(history(*one_good_run(), finished(SLOT + 900, 1, "failed")))


def test_line_5_the_same_outcome_asked_for_again_is_one() -> None:
    assert judge(history(*one_good_run(), replace(finished(SLOT + 510, 1), at_ms=SLOT + 2_000))).sound


def test_line_5_a_run_that_is_granted_after_its_outcome() -> None:
    assert 5 in lines_of(history(*one_good_run(), granted(SLOT + 900, "b", 2, attempt=2)))


def test_line_5_a_run_that_is_interrupted_while_its_lease_holds() -> None:
    early = Interrupted(at_ms=SLOT + 900, task="t", run_id=RUN, max_attempts=1)
    assert 5 in lines_of(history(*one_good_run()[:2], early))


def test_line_5_another_outcome_in_the_store() -> None:
    assert 5 in lines_of(history(*one_good_run(), stored={RUN: "failed"}))


# ------------------------------------------------------------------ line 6


@pytest.mark.parametrize(("told", "sound"), [(-500, True), (0, True), (200, False)])
def test_line_6_a_handler_is_told_by_the_end_of_its_lease(told: int, sound: bool) -> None:
    ends = SLOT + 10 + LEASE
    made = history(*one_good_run()[:2], note(ends + told, "told", "a", 1))
    assert (judge(made).of(6) == []) is sound


def test_line_6_a_handler_that_is_never_told() -> None:
    (found,) = judge(history(*one_good_run()[:2])).of(6)
    assert "never" in found.what


def test_line_6_a_process_that_stands_still_is_told_when_it_goes_on() -> None:
    ends = SLOT + 10 + LEASE
    frozen = instance("a", frozen=[Span(ends - 5_000, ends + 5_000)])
    happened = one_good_run()[:2]
    made = history(*happened, note(ends + 5_000, "told", "a", 1), instances=[frozen])
    assert judge(made, (6,)).sound
    made = history(*happened, note(ends + 5_200, "told", "a", 1), instances=[frozen])
    assert judge(made).of(6)


def test_line_6_a_machine_that_slept_believes_for_as_much_longer() -> None:
    ends = SLOT + 10 + LEASE
    nap = Span(SLOT + 1_000, SLOT + 4_000)
    slept = instance("a", frozen=[nap], suspended=[nap])
    happened = one_good_run()[:2]
    made = history(*happened, note(ends + 2_900, "told", "a", 1), instances=[slept])
    assert judge(made, (6,)).sound
    made = history(*happened, note(ends + 3_200, "told", "a", 1), instances=[slept])
    assert judge(made).of(6)


# ------------------------------------------------------------------ line 7


def test_line_7_a_slot_that_nobody_claimed() -> None:
    made = history(granted(600_000, "a", 1, run_id="ns/t/600000"), note(600_001, "began", "a", 1, run_id="ns/t/600000"))
    verdict = judge(made, (7,))
    assert {finding.where for finding in verdict.of(7)} >= {str(SLOT)}
    assert any("never claimed" in finding.what for finding in verdict.of(7))


def test_line_7_a_slot_that_was_claimed_too_late() -> None:
    (found, *_) = judge(history(granted(SLOT + 9_000, "a", 1), note(SLOT + 9_001, "began", "a", 1)), (7,)).of(7)
    assert "too late" in found.what


def test_line_7_a_closed_slot_counts_as_claimed() -> None:
    closing = ClosedSlot(at_ms=SLOT + 100, task="t", slot_ms=SLOT, instance="a")
    happened = [granted(600_000, "a", 1, run_id="ns/t/600000"), note(600_001, "began", "a", 1, run_id="ns/t/600000")]
    assert all(finding.where != str(SLOT) for finding in judge(history(*happened, closing), (7,)).findings)


def test_line_7_a_closed_slot_that_runs_later() -> None:
    closing = ClosedSlot(at_ms=SLOT + 5, task="t", slot_ms=SLOT, instance="b")
    assert 7 in lines_of(history(closing, *one_good_run()))


def test_line_7_a_slot_that_is_closed_twice() -> None:
    closing = ClosedSlot(at_ms=SLOT + 5, task="t", slot_ms=SLOT + 60_000, instance="b")
    assert 7 in lines_of(history(*one_good_run(), closing, closing))


def test_line_7_a_handler_that_begins_before_its_slot() -> None:
    made = history(granted(SLOT - 400, "a", 1), note(SLOT - 390, "began", "a", 1))
    assert any("before its slot" in finding.what for finding in judge(made).of(7))
    ahead = [instance("a", offset=500)]
    made = history(granted(SLOT - 400, "a", 1), note(SLOT - 390, "began", "a", 1), instances=ahead)
    assert judge(made, (7,)).sound


def late_start(**changes: Any) -> InstanceFacts:
    settings = replace(SETTINGS, catch_up_ms=300_000)
    values: dict[str, Any] = {
        "start": SLOT + 20_000,
        "tasks": {"t": TaskFacts("t", every("1m"), settings)},
        **changes,
    }
    return instance("a", **values)


def test_line_7_catch_up_of_more_than_the_latest() -> None:
    known = Registered(at_ms=0, task="t", schedule="every 1m")
    older = granted(SLOT + 20_500, "a", 1, run_id=f"ns/t/{SLOT - 60_000}", reason="catch-up")
    latest = granted(SLOT + 20_500, "a", 2, reason="catch-up")
    began = note(SLOT + 20_600, "began", "a", 2)
    made = history(known, older, latest, began, instances=[late_start()])
    assert [finding.where for finding in judge(made, (7,)).of(7)] == [str(SLOT - 60_000)]
    made = history(known, latest, began, instances=[late_start()])
    assert judge(made, (7,)).sound


def test_line_7_catch_up_that_was_left_out() -> None:
    known = Registered(at_ms=0, task="t", schedule="every 1m")
    happened = [granted(END - 1, "a", 1, run_id=f"ns/t/{END}"), note(END - 1, "told", "a", 1, run_id=f"ns/t/{END}")]
    made = history(known, *happened, instances=[late_start()])
    (found,) = judge(made, (7,)).of(7)
    assert "not caught up" in found.what
    assert judge(history(*happened, instances=[late_start()]), (7,)).sound  # learned of only then: it owes nothing


def test_line_7_a_one_shot_is_owed_however_late_it_was_learned_of() -> None:
    settings = replace(SETTINGS, catch_up_ms=300_000)
    one_shot = late_start(tasks={"t": TaskFacts("t", at(SLOT), settings)})
    happened = [granted(END - 1, "a", 1, run_id=f"ns/t/{END}"), note(END - 1, "told", "a", 1, run_id=f"ns/t/{END}")]
    assert 7 in {finding.line for finding in judge(history(*happened, instances=[one_shot]), (7,)).findings}


def test_line_7_a_slot_before_the_start_that_is_scheduled() -> None:
    made = history(granted(SLOT + 20_100, "a", 1), note(SLOT + 20_200, "began", "a", 1), instances=[late_start()])
    assert any("started after it" in finding.what for finding in judge(made, (7,)).of(7))


def test_line_7_a_miss_without_a_word() -> None:
    # Cut off for so long that nothing could be claimed; but it could have said so.
    cut = instance("a", start=SLOT - 1_000, cut=[Span(SLOT - 500, SLOT + 21_000)])
    happened = [granted(END - 1, "a", 1, run_id=f"ns/t/{END}"), note(END - 1, "told", "a", 1, run_id=f"ns/t/{END}")]
    made = history(*happened, instances=[cut])
    (found,) = judge(made, (7,)).of(7)
    assert "without a word" in found.what
    word = Said(at_ms=SLOT + 20_001, instance="a", task="t", slot_ms=SLOT, reason="claim-unknown")
    assert judge(history(*happened, word, instances=[cut]), (7,)).sound


# ------------------------------------------------------------------ the tools


def test_spans_are_cut_apart() -> None:
    assert without([Span(0, 10)], [Span(2, 4), Span(8, 20)]) == [Span(0, 2), Span(4, 8)]
    assert without([Span(0)], [Span(5)]) == [Span(0, 5)]


def test_a_clock_that_jumps_is_read_right() -> None:
    facts = instance("a", clock=[ClockPiece(0, 0), ClockPiece(100, 50), ClockPiece(200, 500)], start_wall_ms=0)
    assert [facts.wall_at(at_ms) for at_ms in (0, 99, 100, 150, 200)] == [0, 99, 50, 100, 500]
    assert (facts.reached_at(99), facts.reached_at(120), facts.reached_at(400)) == (99, 170, 200)
    assert (facts.highest_wall(120), facts.lowest_wall(120)) == (100, 0)
    assert facts.jumps() == [(100, -50), (200, 350)]
