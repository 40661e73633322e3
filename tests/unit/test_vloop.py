"""The loop whose time jumps."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from typing import Any

import pytest

from anarchon.testing.vloop import DeadlockError, VirtualLoop, VirtualTimeLimitError, run_virtual


def test_time_jumps_to_the_next_timer_and_is_exact() -> None:
    async def main() -> list[float]:
        times: list[float] = []
        loop = asyncio.get_running_loop()
        for seconds in (0.1, 0.2, 0.7, 3600, 86_400 * 365):
            await asyncio.sleep(seconds)
            times.append(loop.time())
        return times

    assert run_virtual(main) == [0.1, 0.3, 1.0, 3601.0, 31_539_601.0]


def test_timers_fire_after_many_years() -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(86_400 * 365 * 20 + 0.123)
        for delay in (0, 1e-9, 0.001, 0.1, 1):
            fired = asyncio.Event()
            loop.call_later(delay, fired.set)
            await fired.wait()
        return round(loop.time(), 3)

    assert run_virtual(main) == 86_400 * 365 * 20 + 1.224


def test_time_stands_still_while_something_is_ready() -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        loop.call_later(1, int)
        for _ in range(100):
            await asyncio.sleep(0)
        return loop.time()

    assert run_virtual(main) == 0


def test_a_timer_that_was_taken_back_moves_nothing() -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        loop.call_later(10, int).cancel()
        await asyncio.sleep(20)
        return loop.time()

    assert run_virtual(main) == 20


def test_two_runs_take_the_same_steps() -> None:
    async def worker(name: int, rng: random.Random, trace: list[tuple[float, int]]) -> None:
        for _ in range(20):
            await asyncio.sleep(rng.choice([0, 0.001, 0.5, 0.5, 60]))
            trace.append((asyncio.get_running_loop().time(), name))

    async def main() -> list[tuple[float, int]]:
        rng = random.Random(7)
        trace: list[tuple[float, int]] = []
        await asyncio.gather(*(worker(name, rng, trace) for name in range(20)))
        return trace

    assert run_virtual(main) == run_virtual(main)


def test_timeouts_are_virtual_too() -> None:
    async def main() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(300):
                await asyncio.sleep(301)
        return asyncio.get_running_loop().time()

    assert run_virtual(main) == 300


def test_a_deadlock_is_an_error_that_names_who_waits() -> None:
    async def waits_for_ever() -> None:
        await asyncio.Event().wait()

    with pytest.raises(DeadlockError, match="waits_for_ever"):
        run_virtual(waits_for_ever)


def test_a_task_that_swallows_its_cancellation_does_not_hang_a_deadlocked_loop() -> None:
    leave: list[str] = []

    async def swallows() -> None:
        while not leave:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.get_running_loop().create_future()

    loop = VirtualLoop()
    task = loop.create_task(swallows())
    for _ in range(2):
        with pytest.raises(DeadlockError):
            loop.run_until_complete(task)
        task.cancel()
    leave.append("now")
    loop.run_until_complete(task)
    loop.close()


def test_a_loop_with_a_limit_does_not_go_past_it() -> None:
    async def main() -> None:
        while True:
            await asyncio.sleep(1)

    with pytest.raises(VirtualTimeLimitError, match="5000 ms"):
        run_virtual(main, limit_ms=5_000)


def test_a_wake_up_from_a_thread_is_taken() -> None:
    async def main() -> str:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[str] = loop.create_future()

        def from_a_thread() -> Any:
            return loop.call_soon_threadsafe(answer.set_result, "taken")

        await asyncio.wait_for(_joined(from_a_thread), 1)
        return await answer

    assert run_virtual(main) == "taken"


async def _joined(fn: Any) -> None:
    thread = threading.Thread(target=fn)
    thread.start()
    thread.join()


def test_the_wall_clock_begins_where_it_is_told() -> None:
    async def main() -> int:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        return loop.start_at_ms

    assert run_virtual(main, start_at_ms=5) == 5
