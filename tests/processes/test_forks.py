"""Web servers that fork: before the start, as they should, and after it."""

from __future__ import annotations

import os
import signal
from collections import Counter

import pytest

from tests.processes.services import Services

pytestmark = pytest.mark.processes

# After https://github.com/viniciuschiele/flask-apscheduler/issues/13


def test_a_child_that_was_forked_after_the_start_refuses_and_the_parent_goes_on(services: Services) -> None:
    task = {"name": "t", "every": "1s", "does": "notes"}
    (parent,) = services.start([task], mode="forks_after_the_start")
    refusals = parent.until("refusals")["refusals"]
    assert set(refusals) == {"status", "start_background", "shutdown", "run", "start", "history"}
    assert all("forked from process" in refusal for refusal in refusals.values()), refusals
    assert parent.ended() == 0
    assert {line["pid"] for line in services.notes()} == {parent.pid}
    assert services.runs("t")[-1].status == "succeeded"


def test_a_scheduler_made_before_the_fork_is_four_instances_in_four_children_and_one_run_per_slot(
    services: Services,
) -> None:
    task = {"name": "dump", "every": "250ms", "does": "notes"}
    (master,) = services.start([task], mode="pre_forks")
    master.until("SchedulerStarted", 4)
    master.until("RunSucceeded", 10)
    victim = master.told("forked")[0]["child"]
    os.kill(victim, signal.SIGKILL)
    master.until("SchedulerStarted", 5)
    master.until("RunSucceeded", 20)
    children = {line["child"] for line in master.told("forked")} - {victim}
    for child in children:
        os.kill(child, signal.SIGTERM)
    assert master.ended() == 0
    assert {line["code"] for line in master.told("child-ended") if line["child"] in children} == {0}
    ids = {line["instance_id"]: line["pid"] for line in master.told("SchedulerStarted")}
    assert len(ids) == len(set(ids.values())) == 5
    began = Counter(line["slot_ms"] for line in services.notes())
    runs = {run.slot_ms: run for run in services.runs("dump")}
    assert set(began.values()) == {1} or {slot for slot, count in began.items() if count > 1} == {
        slot for slot, run in runs.items() if run.attempt > 1
    }
    assert set(began) <= set(runs)
    slots = sorted(began)
    assert slots == list(range(slots[0], slots[-1] + 1, 250))
