"""How a process with a scheduler ends, in order and otherwise, and what becomes of its runs."""

from __future__ import annotations

import signal

import pytest

from tests.processes.services import Services, now_ms
from tests.processes.test_lost_runners import other_than, soon

pytestmark = pytest.mark.processes


def test_sigterm_hands_over_without_spending_an_attempt_and_ends_with_0(services: Services) -> None:
    both = services.start([soon("t", "holds", ms=60_000)], count=2, shutdown_grace_ms=300)
    services.ready(both)
    leaving, _ = services.first("RunStarted")
    leaving.send(signal.SIGTERM)
    assert leaving.ended() == 0
    assert len(leaving.told("RunHandedOver")) == 1
    assert len(leaving.told("SchedulerStopped")) == 1
    other = other_than(services, leaving)
    other.until("RunSucceeded")
    run = services.run_of("t")
    assert [(each.number, each.status) for each in run.attempts] == [(1, "handed-over"), (1, "succeeded")]
    assert run.attempts[1].reason == "hand-over"
    assert [(line["attempt"], line["what"]) for line in services.notes()] == [
        (1, "began"),
        (1, "cancelled: stopping"),
        (1, "began"),
        (1, "ended"),
    ]
    other.send(signal.SIGINT)
    assert other.ended() == 0


def test_sigterm_within_the_grace_lets_the_run_finish(services: Services) -> None:
    (one,) = services.start([soon("t", "holds", ms=1_500)], shutdown_grace_ms=20_000)
    one.until("RunStarted")
    one.send(signal.SIGTERM)
    assert one.ended() == 0
    assert services.run_of("t").status == "succeeded"


def test_a_second_sigterm_ends_the_grace(services: Services) -> None:
    (one,) = services.start([soon("t", "holds", ms=60_000)], shutdown_grace_ms=50_000)
    one.until("RunStarted")
    one.send(signal.SIGTERM)
    one.send(signal.SIGINT)
    assert one.ended() == 0
    assert services.run_of("t").status == "handed-over"


@pytest.mark.parametrize("mode", ["forgets_to_stop", "forgets_to_shut_down"])
def test_a_process_that_forgets_to_stop_ends_by_itself_and_hands_over(services: Services, mode: str) -> None:
    (forgetful,) = services.start([soon("t", "holds", ms=60_000)], mode=mode)
    forgetful.until("left")
    left_at_ms = now_ms()
    assert forgetful.ended() == 0
    run = services.run_of("t")
    assert run.status == "handed-over"
    assert run.attempts[0].ended_at_ms is not None
    assert run.attempts[0].ended_at_ms <= left_at_ms + 3_000
    (heir,) = services.start([soon("other", "notes"), {**soon("t", "notes"), "at_ms": run.scheduled_at_ms}])
    started = heir.until("RunStarted", task="t")
    assert (started["attempt"], started["reason"]) == (1, "hand-over")


def test_a_def_handler_that_hangs_for_ever_does_not_keep_its_process(services: Services) -> None:
    (hung,) = services.start([soon("t", "hangs")], shutdown_grace_ms=300)
    hung.until("RunStarted")
    hung.send(signal.SIGTERM)
    assert hung.ended() == 0
    assert hung.until("SchedulerStopped")["left_running"] == 1
    run = services.run_of("t")
    assert (run.status, run.attempts[0].number) == ("handed-over", 1)


@pytest.mark.parametrize(("does", "codes"), [("exits", {7}), ("interrupts", {130, -signal.SIGINT})])
def test_what_a_handler_raises_to_end_the_process_ends_it_with_its_code_and_hands_leases_back(
    services: Services, does: str, codes: set[int]
) -> None:
    tasks = [soon("held", "holds", ms=60_000), soon("bad", does, in_ms=2_000)]
    (one,) = services.start(tasks, shutdown_grace_ms=300)
    assert one.ended() in codes
    assert services.run_of("bad").status == "failed"
    held = services.run_of("held")
    assert (held.status, held.attempt) == ("handed-over", 1)
