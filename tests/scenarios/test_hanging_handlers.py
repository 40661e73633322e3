"""Handlers that hang, will not stop, or raise what is meant for others.

After https://github.com/evoila/meho/issues/1502 and https://github.com/vendurehq/vendure/pull/5389.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from anarchon.context import RunContext
from anarchon.model.events import (
    HandlerEnded,
    HandlerOutlived,
    ResultRefused,
    RunFailed,
    RunStarted,
    RunSucceeded,
    SlotSkipped,
)
from anarchon.times.schedule import at, every
from tests.scenarios.dates import MINUTE, SECOND
from tests.support.cluster import START_MS, Cluster, in_virtual_time, make_task


@pytest.mark.parametrize("claim_only", [False, True])
def test_one_handler_that_hangs_holds_up_only_its_own_later_slots(claim_only: bool) -> None:
    async def story() -> None:
        cluster = Cluster(claim_only=claim_only)
        never: asyncio.Future[None] = cluster.loop.create_future()

        async def hangs() -> None:
            await asyncio.shield(never)

        overlap = "allow" if claim_only else "skip"
        tasks = [make_task(f"t{n}", every("30s"), overlap=overlap) for n in range(9)]
        tasks.append(make_task("hangs", every("1m"), hangs, overlap=overlap))
        await cluster.start(2, *tasks)
        await cluster.advance(11 * MINUTE + SECOND)
        for n in range(9):
            slots = [event.slot_ms for event in cluster.told(RunStarted, task=f"t{n}")]
            assert slots == [START_MS + k * 30 * SECOND for k in range(1, 23)]
        assert len(cluster.told(RunSucceeded)) == 9 * 22
        assert cluster.told(SlotSkipped, reason="late") == []
        started = [event.slot_ms for event in cluster.told(RunStarted, task="hangs")]
        skipped = [event.slot_ms for event in cluster.told(SlotSkipped, reason="overlap", task="hangs")]
        every_minute = [START_MS + k * MINUTE for k in range(1, 12)]
        assert started == (every_minute if claim_only else every_minute[:1])
        assert skipped == ([] if claim_only else every_minute[1:])
        never.cancel()
        await cluster.stop()

    in_virtual_time(story)


def test_a_timed_out_handler_that_will_not_stop_is_told_and_changes_nothing_by_its_late_end() -> None:
    async def story() -> None:
        cluster = Cluster()
        cancelled: list[int] = []

        async def swallows(ctx: RunContext[Any]) -> None:
            until = cluster.clock.monotonic_ms() + 7_000
            while cluster.clock.monotonic_ms() < until:
                try:
                    await cluster.clock.sleep_ms(until - cluster.clock.monotonic_ms())
                except asyncio.CancelledError:
                    cancelled.append(cluster.now_ms())

        (one,) = await cluster.start(1, make_task("t", every("2s"), swallows, timeout_ms=1_000, catch_up_ms=0))
        await cluster.advance_to(START_MS + 8 * SECOND - 1)
        slots = [START_MS + k * 2 * SECOND for k in (1, 2, 3)]
        assert [event.slot_ms for event in cluster.told(RunStarted)] == slots
        assert [event.at_ms for event in cluster.told(RunFailed)] == [slot + SECOND for slot in slots]
        assert cancelled == [slot + SECOND for slot in slots]
        # The next run starts beside the old handler, and not unnoticed.
        outlived = cluster.told(HandlerOutlived)
        assert [(event.slot_ms, event.at_ms, event.why) for event in outlived] == [
            (slot, slot + 2 * SECOND, "timeout") for slot in slots[:2]
        ]
        assert one.engine.snapshot().counters["handlers_outlived"] == 2
        assert len(one.engine.snapshot().outlived) == 3
        await cluster.advance(3_000)
        assert cluster.told(HandlerEnded)[0].slot_ms == slots[0]
        runs = await cluster.runs("t")
        assert [(run.status, run.error) for run in runs[:3]] == [
            ("failed", "TimeoutError: Timed out after 1000 ms")
        ] * 3
        assert cluster.told(RunSucceeded) == []
        assert cluster.told(ResultRefused) == []
        await cluster.stop()

    in_virtual_time(story)


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("claim_only", [False, True])
@pytest.mark.parametrize("kind", [asyncio.CancelledError, GeneratorExit, KeyboardInterrupt, SystemExit, StopIteration])
def test_whatever_a_handler_raises_is_a_failed_run_and_not_the_end_of_the_engine(
    kind: type[BaseException], claim_only: bool, plain: bool
) -> None:
    async def story() -> None:
        cluster = Cluster(claim_only=claim_only)

        async def raises() -> None:
            raise kind

        def raises_too() -> None:
            raise kind

        fn = raises_too if plain else raises
        (one,) = await cluster.start(1, make_task("t", every("1s"), fn), make_task("other", every("1s")))
        await cluster.advance(20_500)
        assert [event.slot_ms for event in one.told(RunStarted, task="t")] == [
            START_MS + n * SECOND for n in range(1, 21)
        ]
        assert len(one.told(RunFailed)) == 20
        assert len(one.told(RunSucceeded, task="other")) == 20
        named = "RuntimeError" if kind is StopIteration and not plain else kind.__name__
        assert all(event.error.startswith(named) for event in one.told(RunFailed))
        ends_the_process = kind in (KeyboardInterrupt, SystemExit)
        assert [type(error) for error in one.fatal] == ([kind] * 20 if ends_the_process else [])
        await cluster.stop()

    in_virtual_time(story)


def test_a_handler_that_cancels_its_own_task_fails_alone() -> None:
    async def story() -> None:
        cluster = Cluster()

        async def cancels_itself() -> None:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(0)

        await cluster.start(1, make_task("t", at(START_MS + SECOND), cancels_itself), make_task("u", every("1s")))
        (failed,) = await cluster.until(RunFailed)
        assert failed.error == "CancelledError"
        await cluster.until(RunSucceeded, count=3, task="u")
        await cluster.stop()

    in_virtual_time(story)


def test_an_error_whose_text_cannot_be_had_is_recorded_all_the_same() -> None:
    class HostileError(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    async def story() -> None:
        cluster = Cluster()

        async def raises() -> None:
            raise HostileError

        await cluster.start(1, make_task("t", at(START_MS + SECOND), raises))
        (failed,) = await cluster.until(RunFailed)
        assert failed.error.startswith("HostileError")
        (run,) = await cluster.runs("t")
        assert run.status == "failed"
        await cluster.stop()

    in_virtual_time(story)
