"""Runners that are killed, stand still, or block their loop, as real processes on one file."""

from __future__ import annotations

import signal

import pytest

from tests.processes.services import Line, Service, Services, now_ms

pytestmark = pytest.mark.processes

LEASE_MS = 2_000
AT_MOST_MS = 3_000
"""How long after a lease's end a run may take to start again on a machine that is busy with other things."""


def soon(name: str, does: str, in_ms: int = 1_500, **more: object) -> Line:
    """A task that is due about when the services are up."""
    return {"name": name, "at_ms": now_ms() + in_ms, "does": does, "options": {"jitter_ms": 0}, **more}


def other_than(services: Services, service: Service) -> Service:
    (other,) = [one for one in services.all if one is not service]
    return other


def test_the_runs_of_a_killed_process_start_again_elsewhere_when_their_leases_end(services: Services) -> None:
    tasks = [soon(f"t{n}", "holds", ms=60_000) for n in range(5)]
    both = services.start(tasks, count=2)
    services.ready(both)
    for n in range(5):
        services.first("RunStarted", task=f"t{n}")
    dead, _ = services.first("RunStarted", task="t0")
    held = [n for n in range(5) if dead.told("RunStarted", task=f"t{n}")]
    dead.send(signal.SIGKILL)
    killed_at_ms = now_ms()
    assert dead.ended() == -signal.SIGKILL
    survivor = other_than(services, dead)
    for n in held:
        survivor.until("RunStarted", task=f"t{n}", attempt=2)
    for n in held:
        run = services.run_of(f"t{n}")
        first, second = run.attempts[:2]
        assert (first.number, first.status, second.number, second.reason) == (1, "interrupted", 2, "recovery")
        assert first.ended_at_ms is not None
        assert killed_at_ms <= first.ended_at_ms <= killed_at_ms + LEASE_MS
        assert 0 <= second.claimed_at_ms - first.ended_at_ms <= AT_MOST_MS
        (began,) = services.notes(task=f"t{n}", attempt=2, what="began")
        assert 0 <= began["at_ms"] - first.ended_at_ms <= AT_MOST_MS
        (stale,) = services.notes(task=f"t{n}", attempt=1, what="began")
        assert began["fence"] > stale["fence"]
    assert {run.attempt for n in range(5) if n not in held for run in services.runs(f"t{n}")} <= {1}


@pytest.mark.parametrize("does", ["holds", "works_on_a_thread"])
def test_a_process_that_stood_still_for_longer_than_its_lease_cannot_record_its_result(
    services: Services, does: str
) -> None:
    both = services.start([soon("t", does, ms=3_000)], count=2)
    services.ready(both)
    frozen, _ = services.first("RunStarted")
    other = other_than(services, frozen)
    frozen.send(signal.SIGSTOP)
    stopped_at_ms = now_ms()
    other.until("RunSucceeded")
    before = services.run_of("t")
    frozen.send(signal.SIGCONT)
    frozen.until("LeaseLost")
    if does == "works_on_a_thread":
        frozen.until("ResultRefused")
    run = services.run_of("t")
    assert run == before
    assert (run.status, run.attempt) == ("succeeded", 2)
    assert [each.status for each in run.attempts] == ["interrupted", "succeeded"]
    assert run.attempts[0].ended_at_ms is not None
    assert run.attempts[0].ended_at_ms <= stopped_at_ms + LEASE_MS
    assert 0 <= run.attempts[1].claimed_at_ms - run.attempts[0].ended_at_ms <= AT_MOST_MS
    assert frozen.told("RunSucceeded") == []
    # It goes on as an ordinary member.
    frozen.send(signal.SIGTERM)
    assert frozen.ended() == 0


def test_a_run_that_may_start_only_once_is_not_taken_over_from_a_process_that_stood_still(services: Services) -> None:
    task = soon("t", "works_on_a_thread", ms=3_000)
    task["options"]["max_attempts"] = 1
    both = services.start([task], count=2)
    services.ready(both)
    frozen, _ = services.first("RunStarted")
    frozen.send(signal.SIGSTOP)
    other_than(services, frozen).until("RunInterrupted")
    frozen.send(signal.SIGCONT)
    frozen.until("ResultRefused")
    run = services.run_of("t")
    assert (run.status, run.attempt) == ("interrupted", 1)
    assert len(services.notes(what="began")) == 1


def test_a_blocked_application_loop_costs_no_lease(services: Services) -> None:
    both = services.start([soon("t", "blocks", ms=3_500)], count=2)
    services.ready(both)
    blocked, _ = services.first("RunStarted")
    blocked.until("RunSucceeded")
    run = services.run_of("t")
    assert (run.status, len(run.attempts)) == ("succeeded", 1)
    assert other_than(services, blocked).told("RunStarted") == []
    assert [line["what"] for line in services.notes()] == ["began", "ended"]
