"""The clock of one machine among several in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from anarchon.testing.clock import VirtualClock
from anarchon.testing.vloop import run_virtual

START = 1_000_000


def in_virtual_time(body: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def test() -> None:
        run_virtual(body, start_at_ms=START)

    return test


class Trace:
    """What has happened, and when by the loop."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, float]] = []

    def mark(self, name: str) -> Callable[[], None]:
        return lambda: self.seen.append((name, asyncio.get_running_loop().time() * 1_000))


@in_virtual_time
async def test_both_clocks_follow_the_loop() -> None:
    clock = VirtualClock()
    assert (clock.now_ms(), clock.monotonic_ms()) == (START, 0)
    await clock.sleep_ms(1_234)
    assert (clock.now_ms(), clock.monotonic_ms()) == (START + 1_234, 1_234)


@in_virtual_time
async def test_every_millisecond_is_seen_whole() -> None:
    clock = VirtualClock()
    for ms in range(1, 3_000):
        await clock.sleep_ms(1)
        assert clock.now_ms() == START + ms


@in_virtual_time
async def test_a_wrong_wall_clock_is_wrong_by_its_offset_and_its_jumps() -> None:
    clock = VirtualClock(offset_ms=-500)
    assert clock.now_ms() == START - 500
    clock.jump(10_000)
    clock.jump(-1_000)
    assert (clock.now_ms(), clock.monotonic_ms()) == (START + 8_500, 0)


@in_virtual_time
async def test_a_fast_oscillator_is_early_and_a_slow_one_late() -> None:
    fast, slow = VirtualClock(drift_ppm=1_000), VirtualClock(drift_ppm=-1_000)
    loop = asyncio.get_running_loop()
    await fast.sleep_ms(1_001_000)
    assert loop.time() == pytest.approx(1_000)
    assert fast.now_ms() == START + 1_001_000
    assert slow.now_ms() == START + 999_000


@pytest.mark.parametrize("drift_ppm", [-300, -7, 0, 0.001, 13, 77, 10_000])
def test_a_timer_is_never_early_by_its_own_clock(drift_ppm: float) -> None:
    async def main() -> None:
        clock = VirtualClock(drift_ppm=drift_ppm)
        for step in range(1, 500):
            at_ms = clock.monotonic_ms() + step * 1.1
            fired: asyncio.Future[float] = asyncio.get_running_loop().create_future()
            clock.call_at(at_ms, lambda fired=fired: fired.set_result(clock.monotonic_ms()))  # type: ignore[misc]
            assert await fired >= at_ms

    run_virtual(main)


@in_virtual_time
async def test_a_timer_that_was_taken_back_does_not_fire() -> None:
    clock, trace = VirtualClock(), Trace()
    timer = clock.call_at(10, trace.mark("taken back"))
    clock.call_at(20, trace.mark("kept"))
    timer.cancel()
    timer.cancel()
    await clock.sleep_ms(30)
    assert trace.seen == [("kept", 20)]


@in_virtual_time
async def test_a_frozen_process_does_at_the_thaw_what_was_due_before() -> None:
    clock, other, trace = VirtualClock(), VirtualClock(), Trace()
    clock.call_at(300, trace.mark("c"))
    clock.call_at(200, trace.mark("a"))
    clock.call_at(200, trace.mark("b"))
    clock.call_at(5_000, trace.mark("later"))
    other.call_at(400, trace.mark("other"))
    await other.sleep_ms(100)
    clock.freeze()
    clock.freeze()
    assert clock.frozen
    clock.call_at(250, trace.mark("set while frozen"))
    await other.sleep_ms(900)
    assert clock.monotonic_ms() == 1_000
    assert clock.now_ms() == START + 1_000
    clock.thaw()
    clock.thaw()
    await clock.sleep_ms(4_000)
    assert trace.seen == [
        ("other", 400),
        ("a", 1_000),
        ("b", 1_000),
        ("set while frozen", 1_000),
        ("c", 1_000),
        ("later", 5_000),
    ]


async def _then(sleep: Awaitable[None], mark: Callable[[], None]) -> None:
    await sleep
    mark()


@in_virtual_time
async def test_the_sleeps_of_a_frozen_process_return_at_the_thaw() -> None:
    clock, other, trace = VirtualClock(), VirtualClock(), Trace()
    sleepers = [asyncio.create_task(_then(clock.sleep_ms(ms), trace.mark(str(ms)))) for ms in (0, 50, 2_000)]
    clock.freeze()
    await other.sleep_ms(1_000)
    clock.thaw()
    await asyncio.gather(*sleepers)
    assert sorted(trace.seen) == [("0", 1_000), ("2000", 2_000), ("50", 1_000)]


@in_virtual_time
async def test_a_sleeper_that_woke_in_the_moment_of_the_freeze_waits_for_the_thaw() -> None:
    clock, other, trace = VirtualClock(), VirtualClock(), Trace()
    sleeper = asyncio.create_task(_then(clock.sleep_ms(100), trace.mark("sleeper")))
    await asyncio.sleep(0)
    clock.call_at(100, clock.freeze)
    await other.sleep_ms(500)
    assert trace.seen == []
    clock.thaw()
    await sleeper
    assert trace.seen == [("sleeper", 500)]


@in_virtual_time
async def test_a_sleeper_that_is_cancelled_leaves_the_thaw_to_the_others() -> None:
    clock, other, trace = VirtualClock(), VirtualClock(), Trace()
    clock.freeze()
    first, second = (asyncio.create_task(_then(clock.sleep_ms(0), trace.mark(name))) for name in ("first", "second"))
    await other.sleep_ms(100)
    first.cancel()
    await other.sleep_ms(100)
    clock.thaw()
    await second
    assert first.cancelled()
    assert trace.seen == [("second", 200)]


@in_virtual_time
async def test_a_suspended_machine_misses_the_time_on_its_monotonic_clock() -> None:
    clock, other, trace = VirtualClock(), VirtualClock(), Trace()
    clock.call_at(300, trace.mark("timer"))
    await other.sleep_ms(100)
    clock.suspend()
    await other.sleep_ms(1_000)
    assert (clock.now_ms(), clock.monotonic_ms()) == (START + 1_100, 100)
    clock.thaw()
    assert (clock.now_ms(), clock.monotonic_ms()) == (START + 1_100, 100)
    await clock.sleep_ms(300)
    assert trace.seen == [("timer", 1_300)]
    assert clock.monotonic_ms() == 400


def test_a_virtual_clock_needs_a_virtual_loop() -> None:
    async def main() -> None:
        VirtualClock()

    with pytest.raises(TypeError, match="run_virtual"):
        asyncio.run(main())
