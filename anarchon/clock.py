"""Where time comes in: one `Clock` per scheduler, and nothing else reads a clock or sleeps."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """A callback that has been set and can be taken back."""

    def cancel(self) -> None:
        """Take the callback back; without effect once it has run."""
        ...


class Clock(ABC):
    """Wall time for slots, monotonic time for waits and deadlines. The two never meet in one expression.

    Called on the engine's loop only.
    """

    @abstractmethod
    def now_ms(self) -> int:
        """UTC epoch ms of the wall clock, which may jump in either direction."""

    @abstractmethod
    def monotonic_ms(self) -> float:
        """Milliseconds that only grow. Instants of two processes do not compare."""

    @abstractmethod
    def call_at(self, at_monotonic_ms: float, callback: Callable[[], object]) -> Timer:
        """Call `callback` on the running loop once `monotonic_ms()` has reached the instant."""

    @abstractmethod
    async def sleep_ms(self, duration_ms: float) -> None:
        """Return after `duration_ms` of monotonic time; 0 or less lets others run once."""


class SystemClock(Clock):
    """The machine's clocks, with the running loop's timers."""

    def now_ms(self) -> int:
        """UTC epoch ms by `time.time`."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> float:
        """The running loop's own time, so that timers and readings agree."""
        return asyncio.get_running_loop().time() * 1_000

    def call_at(self, at_monotonic_ms: float, callback: Callable[[], object]) -> Timer:
        """A timer of the running loop."""
        return asyncio.get_running_loop().call_at(at_monotonic_ms / 1_000, callback)

    async def sleep_ms(self, duration_ms: float) -> None:
        """A timer of the running loop."""
        await asyncio.sleep(max(duration_ms, 0) / 1_000)
