"""An SQLite file that another program holds for longer than a call waits.

After https://github.com/my8100/scrapydweb/issues/42 and https://github.com/celery/celery/issues/3436.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from pathlib import Path

from anarchon import BackendAway, BackendBack, Event, RunStarted, RunSucceeded, Scheduler, SlotSkipped
from anarchon_sqlite import SQLiteBackend
from tests.scenarios.counting import LIMIT_S, Count


class ForeignProgram:
    """Another connection that takes and gives the write lock."""

    def __init__(self, path: Path) -> None:
        self._link = sqlite3.connect(path, isolation_level=None, timeout=LIMIT_S)

    def take(self) -> None:
        self._link.execute("BEGIN IMMEDIATE")

    def give(self) -> None:
        self._link.execute("COMMIT")

    def close(self) -> None:
        self._link.close()


def slots_of(events: list[Event]) -> list[int]:
    return sorted(getattr(event, "slot_ms") for event in events)  # noqa: B009


def test_a_file_that_is_locked_for_longer_than_a_call_waits_is_an_outage_told_once_that_leaves_nothing(
    tmp_path: Path,
) -> None:
    async def application() -> None:
        path = tmp_path / "store.db"
        scheduler = Scheduler(SQLiteBackend(path, busy_timeout_ms=500))
        heard = Count(scheduler)

        async def works() -> None: ...

        for n in range(50):
            scheduler.every(f"t{n}", "1s", works, overlap="allow")
        await scheduler.start()
        await heard.until(RunSucceeded, 50)
        threads, tasks = threading.active_count(), len(asyncio.all_tasks())
        foreign = ForeignProgram(path)
        for round_number in (1, 2):
            foreign.take()
            await heard.until(BackendAway, round_number)
            # The loop of the application turns all the time; the outage is several slots long.
            await asyncio.sleep(3)
            assert threading.active_count() <= threads + 2
            assert scheduler.status().backend_away
            begun = len(heard.of(RunStarted))
            foreign.give()
            await heard.until(BackendBack, round_number)
            await heard.until(RunStarted, begun + 150)
        foreign.close()
        assert len(heard.of(BackendAway)) == len(heard.of(BackendBack)) == 2
        for n in range(50):
            slots = slots_of(heard.of(RunStarted, f"t{n}"))
            assert len(slots) == len(set(slots))
            assert slots == list(range(slots[0], slots[-1] + 1_000, 1_000))
        assert heard.of(SlotSkipped) == []
        assert len(asyncio.all_tasks()) <= tasks + 1
        await scheduler.stop()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(application())
