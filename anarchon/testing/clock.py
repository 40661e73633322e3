"""The clock of one process in virtual time: it can be set wrong, jump, run too fast, and stand still."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

from anarchon.clock import Clock, Timer
from anarchon.testing.vloop import VirtualLoop


class VirtualClock(Clock):
    """Reads the time of a VirtualLoop as one of several machines on it would.

    `offset_ms` sets the wall clock wrong from the beginning, `jump` later on. `drift_ppm` makes the machine's
    oscillator too fast (or, negative, too slow), which both of its clocks show.
    """

    def __init__(self, *, offset_ms: int = 0, drift_ppm: float = 0.0, loop: VirtualLoop | None = None) -> None:
        """A clock on `loop`, by default the running one, which must be a VirtualLoop."""
        self._loop = loop if loop is not None else _running_virtual_loop()
        self._offset_ms = offset_ms
        self._rate = 1 + drift_ppm / 1_000_000
        self._slept_ms = 0.0  # what the monotonic clock has missed in suspensions
        self._suspended_at_ms: float | None = None
        self._thawed: asyncio.Future[None] | None = None
        self._timers: dict[_VirtualTimer, None] = {}

    def now_ms(self) -> int:
        """UTC epoch ms as this machine sees it."""
        return self._loop.start_at_ms + self._offset_ms + _floor_ms(self._elapsed_ms())

    def monotonic_ms(self) -> float:
        """Milliseconds since the loop began, less the time in suspension."""
        elapsed_ms = self._elapsed_ms() if self._suspended_at_ms is None else self._suspended_at_ms
        return elapsed_ms - self._slept_ms

    def call_at(self, at_monotonic_ms: float, callback: Callable[[], object]) -> Timer:
        """A timer that waits for the thaw where the process is frozen at the instant."""
        timer = _VirtualTimer(self, at_monotonic_ms, callback)
        self._timers[timer] = None
        if not self.frozen:
            timer.arm()
        return timer

    async def sleep_ms(self, duration_ms: float) -> None:
        """Return after `duration_ms` of this machine's monotonic time, and not while frozen."""
        if duration_ms > 0:
            done: asyncio.Future[None] = self._loop.create_future()

            def wake() -> None:
                if not done.done():
                    done.set_result(None)

            timer = self.call_at(self.monotonic_ms() + duration_ms, wake)
            try:
                await done
            finally:
                timer.cancel()
        else:
            await asyncio.sleep(0)
        await self.thawed()

    @property
    def frozen(self) -> bool:
        """Whether the process stands still."""
        return self._thawed is not None

    def jump(self, ms: int) -> None:
        """Set the wall clock forward, or back where negative. The monotonic clock does not notice."""
        self._offset_ms += ms

    def freeze(self) -> None:
        """Stop the process as SIGSTOP does: both clocks go on, and its timers fire when it is thawed."""
        if self._thawed is None:
            self._thawed = self._loop.create_future()
            for timer in self._timers:
                timer.disarm()

    def suspend(self) -> None:
        """Stop the machine as a closed lid does: the wall clock goes on and the monotonic one stands still."""
        self.freeze()
        if self._suspended_at_ms is None:
            self._suspended_at_ms = self._elapsed_ms()

    def thaw(self) -> None:
        """Let the process go on: what fell due meanwhile fires now, in the order of its instants."""
        if self._thawed is None:
            return
        if self._suspended_at_ms is not None:
            self._slept_ms += self._elapsed_ms() - self._suspended_at_ms
            self._suspended_at_ms = None
        thawed, self._thawed = self._thawed, None
        # Python's sort is stable: timers of one instant keep the order in which they were set.
        for timer in sorted(self._timers, key=lambda timer: timer.at_ms):
            timer.arm()
        thawed.set_result(None)

    async def thawed(self) -> None:
        """Return at once, or at the thaw. What stands for the process's other inputs should await it."""
        while self._thawed is not None:
            await asyncio.shield(self._thawed)

    def loop_time_at(self, at_monotonic_ms: float) -> float:
        """The loop's time at which `monotonic_ms` reaches the instant, unless the machine is suspended before."""
        return (at_monotonic_ms + self._slept_ms) / self._rate / 1_000

    def schedule(self, when: float, callback: Callable[[], object]) -> asyncio.Handle:
        """A timer of the loop itself."""
        # What is due goes in the order of the calls; the loop's timers keep no order among equals.
        return self._loop.call_soon(callback) if when <= self._loop.time() else self._loop.call_at(when, callback)

    def forget(self, timer: _VirtualTimer) -> None:
        """The timer has fired or been taken back."""
        self._timers.pop(timer, None)

    def _elapsed_ms(self) -> float:
        return self._loop.time() * 1_000 * self._rate


class _VirtualTimer:
    """Armed while the process runs, disarmed while it is frozen."""

    __slots__ = ("_callback", "_clock", "_handle", "at_ms")

    def __init__(self, clock: VirtualClock, at_ms: float, callback: Callable[[], object]) -> None:
        self._clock = clock
        self._callback = callback
        self._handle: asyncio.Handle | None = None
        self.at_ms = at_ms

    def cancel(self) -> None:
        self.disarm()
        self._clock.forget(self)

    def arm(self) -> None:
        self._handle = self._clock.schedule(self._clock.loop_time_at(self.at_ms), self._fire)

    def disarm(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _fire(self) -> None:
        short_ms = self.at_ms - self._clock.monotonic_ms()
        if short_ms > 0:
            # Rounding. A caller who looked at the clock would find it too early and set the same timer again.
            later = self._clock.loop_time_at(self._clock.monotonic_ms()) + 1e-6
            self._handle = self._clock.schedule(later, self._fire)
            return
        self._clock.forget(self)
        self._callback()


def _floor_ms(ms: float) -> int:
    # Sums of binary fractions may end a hair below a whole millisecond.
    return math.floor(ms + 0.001)


def _running_virtual_loop() -> VirtualLoop:
    loop = asyncio.get_running_loop()
    if not isinstance(loop, VirtualLoop):
        raise TypeError(f"a VirtualClock needs a VirtualLoop, and {loop!r} is running; see run_virtual")
    return loop
