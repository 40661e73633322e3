"""Four processes on one file under load, and with a foreign program that holds the lock.

After https://github.com/my8100/scrapydweb/issues/42.
"""

from __future__ import annotations

import signal
import time
from collections import Counter

import pytest

from tests.processes.services import Line, Services, now_ms

pytestmark = pytest.mark.processes

TASKS: list[Line] = [{"name": f"t{n}", "every": "1s", "does": "notes"} for n in range(20)]

# It takes the lock when what fell due at the last second is over: a run whose outcome waits for the lock would be
# in progress for everybody, and close the slots after it.
FOREIGN = """
import json, sqlite3, time
link = sqlite3.connect({path!r}, isolation_level=None, timeout=60)
time.sleep((1.6 - time.time() % 1) % 1)
link.execute("BEGIN IMMEDIATE")
print(json.dumps({{"event": "held", "at_ms": time.time_ns() // 1_000_000}}), flush=True)
time.sleep({seconds})
link.execute("COMMIT")
print(json.dumps({{"event": "released", "at_ms": time.time_ns() // 1_000_000}}), flush=True)
"""


def test_twenty_tasks_every_second_on_four_processes_run_each_slot_once_through_a_foreign_lock(
    services: Services,
) -> None:
    four = services.start(TASKS, count=4, lease_ttl_ms=15_000)
    services.ready(four)
    first_up_ms = min(one.told("SchedulerStarted")[0]["at_ms"] for one in four)
    for one in four:
        one.until("RunSucceeded", 30)
    foreign = services.run(FOREIGN.format(path=str(services.store), seconds=3), "foreign")
    held_at_ms = foreign.until("held")["at_ms"]
    released_at_ms = foreign.until("released")["at_ms"]
    assert foreign.ended() == 0
    # The length of this story is its load, so here is a wait for time.
    time.sleep(max(0.0, (first_up_ms + 30_000 - now_ms()) / 1_000))
    asked_to_stop_ms = now_ms()
    for one in four:
        one.send(signal.SIGTERM)
    assert [one.ended() for one in four] == [0] * 4

    expected = range((first_up_ms // 1_000 + 1) * 1_000, asked_to_stop_ms - 1_000, 1_000)
    assert len(expected) >= 28
    for task in TASKS:
        name = task["name"]
        began = Counter(line["slot_ms"] for line in services.notes(task=name, what="began"))
        runs = services.runs(name)
        assert set(began.values()) == {1}
        assert set(expected) <= set(began), services.skips(name)
        assert {run.slot_ms for run in runs} == set(began)
        assert {(run.status, run.attempt) for run in runs} == {("succeeded", 1)}
        assert len({run.fence for run in runs}) == len(runs)

    during = [line for line in services.notes() if held_at_ms < line["slot_ms"] < released_at_ms]
    assert len(during) >= 2 * len(TASKS)
    # While its backend waits for the lock, neither loop of a process stands still.
    assert [line for one in four for line in one.told("LoopLagged") if line["lag_ms"] >= 2_500] == []
    ran_where = Counter(line["instance"] for line in services.notes())
    assert len(ran_where) == 4
    assert "database is locked" not in "".join(one.stderr for one in four)
