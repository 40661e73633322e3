"""Garbage collection, listeners that raise or hang, and handlers that raise what ends loops: with the real facade.

After https://github.com/fastapi-practices/fastapi-best-architecture/pull/1257 and
https://github.com/elastic/elasticsearch/pull/32998.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from collections import Counter
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TypeAlias

import pytest

from anarchon import (
    Event,
    LeaseBackend,
    ListenerFailed,
    RunContext,
    RunFailed,
    RunStarted,
    RunSucceeded,
    Scheduler,
    SchedulerStopped,
    SlotSkipped,
)
from anarchon.log_lines import all_written
from anarchon.testing import MemoryBackend
from anarchon_sqlite import SQLiteBackend
from tests.scenarios.counting import LIMIT_S, Count

MakeBackend: TypeAlias = Callable[[], LeaseBackend]


@pytest.fixture(params=["memory", "SQLite"])
def make_backend(request: pytest.FixtureRequest, tmp_path: Path) -> MakeBackend:
    """Backends of one store."""
    url = f"memory://{request.node.name}"
    path = tmp_path / "store.db"
    return (lambda: MemoryBackend(url)) if request.param == "memory" else lambda: SQLiteBackend(path)


@pytest.fixture
def gc_all_the_time() -> Generator[None]:
    """Collects garbage in a loop on a thread of its own; what was there before is left alone, which makes it fast."""
    over = threading.Event()

    def collect() -> None:
        while not over.wait(0.005):
            gc.collect()

    gc.collect()
    gc.freeze()
    thread = threading.Thread(target=collect)
    thread.start()
    yield
    over.set()
    thread.join()
    gc.unfreeze()


@pytest.mark.usefixtures("gc_all_the_time")
def test_no_timer_renewal_or_run_is_collected_as_garbage_over_a_thousand_slots(
    make_backend: MakeBackend, caplog: pytest.LogCaptureFixture
) -> None:
    async def application() -> None:
        scheduler = Scheduler(make_backend(), lease_ttl_ms=2_000, jitter_ms=0)
        heard = Count(scheduler)
        ran: Counter[tuple[str, int]] = Counter()

        async def works(ctx: RunContext) -> None:
            await asyncio.sleep(0.001)
            ran[ctx.task, round(ctx.scheduled_at.timestamp() * 1_000)] += 1

        def works_on_a_thread(ctx: RunContext) -> None:
            ran[ctx.task, round(ctx.scheduled_at.timestamp() * 1_000)] += 1

        async def long() -> None:
            await asyncio.Event().wait()

        for n in range(40):
            scheduler.every(f"t{n}", "100ms", works if n % 4 else works_on_a_thread, overlap="allow")
        scheduler.every("long", "1s", long)
        await scheduler.start()
        await heard.until(RunSucceeded, 1_000)
        await scheduler.stop(0)
        assert set(ran.values()) == {1}
        for n in range(40):
            slots = sorted(slot for task, slot in ran if task == f"t{n}")
            skipped = {getattr(event, "slot_ms", None) for event in heard.of(SlotSkipped, f"t{n}")}
            whole = set(range(slots[0], slots[-1] + 1, 100))
            assert whole == set(slots) | (skipped & whole)
        # The run that was held all the time kept its lease: its task started once.
        assert len(heard.of(RunStarted, "long")) == 1

    asyncio.run(application())
    gc.collect()
    assert "Task was destroyed" not in caplog.text
    assert [record for record in caplog.records if record.name == "asyncio"] == []


def test_listeners_that_raise_and_hang_delay_nothing_and_hide_nothing(
    make_backend: MakeBackend, caplog: pytest.LogCaptureFixture
) -> None:
    async def application() -> None:
        scheduler = Scheduler(make_backend(), lease_ttl_ms=2_000, jitter_ms=0)

        def first_raises(event: Event) -> None:
            raise ValueError("listener is broken")

        async def second_hangs(event: Event) -> None:
            await asyncio.Event().wait()

        scheduler.events.on(Event, first_raises)
        scheduler.events.on(Event, second_hangs)
        third = Count(scheduler)

        async def works() -> None: ...

        async def holds() -> None:
            await asyncio.sleep(2.5)

        scheduler.every("t", "200ms", works)
        scheduler.every("holds", "1s", holds)
        await scheduler.start()
        await third.until(RunSucceeded, 20, "t")
        await third.until(RunSucceeded, 1, "holds")
        await scheduler.stop(0)
        started = [getattr(event, "slot_ms") for event in third.of(RunStarted, "t")]  # noqa: B009
        assert started == list(range(started[0], started[0] + 200 * len(started), 200))
        assert third.of(SlotSkipped, "t") == []
        assert len(third.of(ListenerFailed)) >= 40
        assert len(third.of(SchedulerStopped)) == 1
        # It was held for longer than a lease: nobody was too busy to renew it.
        (held,) = third.of(RunSucceeded, "holds")[:1]
        assert getattr(held, "attempt") == 1  # noqa: B009

    with caplog.at_level(logging.ERROR, logger="anarchon"):
        asyncio.run(application())
        assert all_written(10)
    said = [record for record in caplog.records if "first_raises" in record.getMessage()]
    assert len(said) == 1
    assert said[0].exc_info is not None


@pytest.mark.parametrize("kind", [asyncio.CancelledError, GeneratorExit])
@pytest.mark.parametrize("plain", [False, True])
def test_a_handler_that_raises_what_ends_tasks_fails_its_run_twenty_times_and_ends_nothing(
    kind: type[BaseException], plain: bool
) -> None:
    async def application() -> None:
        scheduler = Scheduler(MemoryBackend(), jitter_ms=0)
        heard = Count(scheduler)

        async def raises() -> None:
            raise kind

        def raises_too() -> None:
            raise kind

        async def works() -> None: ...

        scheduler.every("bad", "100ms", raises_too if plain else raises)
        scheduler.every("good", "100ms", works)
        async with scheduler:
            await heard.until(RunFailed, 20, "bad")
            await heard.until(RunSucceeded, 20, "good")
        failed = heard.of(RunFailed, "bad")
        assert {getattr(event, "error") for event in failed} == {kind.__name__}  # noqa: B009
        slots = [getattr(event, "slot_ms") for event in failed]  # noqa: B009
        assert slots == list(range(slots[0], slots[0] + 100 * len(slots), 100))

    asyncio.run(application())


def test_a_listener_that_stops_the_scheduler_and_waits_for_it_does_not_hold_it_up(make_backend: MakeBackend) -> None:
    async def application() -> None:
        scheduler = Scheduler(make_backend(), jitter_ms=0)
        heard = Count(scheduler)

        async def works() -> None: ...

        async def stops(event: RunSucceeded) -> None:
            await scheduler.stop()

        scheduler.every("t", "100ms", works)
        scheduler.events.on(RunSucceeded, stops)
        await scheduler.start()
        await heard.until(SchedulerStopped, 1)
        async with asyncio.timeout(10):
            await scheduler.stop()
        assert scheduler.status().state == "stopped"

    asyncio.run(application())


def test_a_stopped_scheduler_leaves_no_task_and_no_thread(make_backend: MakeBackend) -> None:
    async def application() -> None:
        before = set(threading.enumerate())
        for _ in range(3):
            scheduler = Scheduler(make_backend(), jitter_ms=0)
            heard = Count(scheduler)

            async def works() -> None: ...

            def works_on_a_thread() -> None: ...

            scheduler.every("a", "100ms", works)
            scheduler.every("b", "100ms", works_on_a_thread)
            await scheduler.start()
            await heard.until(RunSucceeded, 4)
            await scheduler.stop()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        left = [thread for thread in set(threading.enumerate()) - before if thread.is_alive()]
        for thread in left:
            await asyncio.to_thread(thread.join, LIMIT_S)
        names = {thread.name for thread in left if thread.is_alive()}
        assert {name for name in names if not name.startswith("asyncio_")} == set()

    asyncio.run(application())
