"""An event loop whose time jumps: where others wait for the next timer, this one is there at once."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")

DEFAULT_START_AT_MS: Final = 1_767_225_600_000
"""2026-01-01T00:00:00Z."""


class DeadlockError(RuntimeError):
    """Nothing is ready and no timer is set, so the loop would wait forever."""


class VirtualTimeLimitError(RuntimeError):
    """The loop was about to go past its `limit_ms`."""


class _JumpingSelector(selectors.DefaultSelector):
    """Does not wait for files; moves the clock instead."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ns = 0
        self.limit_ns: int | None = None
        self.describe: Callable[[], str] = str

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """What is ready now; else jump over `timeout` seconds, or say that nothing will ever be ready."""
        if timeout is not None and timeout <= 0:
            return []
        if ready := super().select(0):
            return ready
        if timeout is None:
            raise DeadlockError(f"nothing is ready and no timer is set, and these wait:{self.describe()}")
        # Whole nanoseconds, so that sums of milliseconds stay exact; at least one, so that it always goes on.
        now_ns = self.now_ns + max(1, round(timeout * 1e9))
        if self.limit_ns is not None and now_ns > self.limit_ns:
            raise VirtualTimeLimitError(
                f"not done by {self.limit_ns // 1_000_000} ms, and these wait:{self.describe()}"
            )
        self.now_ns = now_ns
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """Runs coroutines in virtual time, which starts at 0 and moves only when nothing is left to do.

    The same coroutines take the same steps in every run. There is no waiting for other threads or for sockets:
    where only they could go on, DeadlockError is raised. `limit_ms` is the time after which it gives up.
    """

    def __init__(self, *, start_at_ms: int = DEFAULT_START_AT_MS, limit_ms: int | None = None) -> None:
        self._jumping = _JumpingSelector()
        self._jumping.limit_ns = None if limit_ms is None else limit_ms * 1_000_000
        self._jumping.describe = self._describe_tasks
        self.start_at_ms = start_at_ms
        """The UTC epoch ms at time 0."""
        super().__init__(self._jumping)
        # By default a nanosecond. After half a year a float of seconds is coarser than that, and then a timer that is
        # due exactly now would never count as due: the loop would turn for ever.
        self._clock_resolution = 1e-6

    def time(self) -> float:
        """Seconds since the start, in virtual time."""
        return self._jumping.now_ns / 1e9

    def _describe_tasks(self) -> str:
        lines: list[str] = []
        for task in asyncio.all_tasks(self):
            stack = task.get_stack(limit=1)
            where = f"{stack[0].f_code.co_filename}:{stack[0].f_lineno}" if stack else "not on any line"
            lines.append(f"\n  {task.get_name()} in {getattr(task.get_coro(), '__qualname__', '?')} at {where}")
        return "".join(sorted(lines)) or " no tasks"


def run_virtual(
    coro_fn: Callable[[], Coroutine[Any, Any, T]],
    *,
    start_at_ms: int = DEFAULT_START_AT_MS,
    limit_ms: int | None = None,
) -> T:
    """Run a coroutine function on a new VirtualLoop, as `asyncio.run` does on a usual one."""
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(start_at_ms=start_at_ms, limit_ms=limit_ms)) as runner:
        return runner.run(coro_fn())
