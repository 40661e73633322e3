"""What a handler is given: the run it works for and the signal that tells it to stop."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from datetime import datetime
from typing import Final, Generic

from typing_extensions import TypeVar

from anarchon.model.words import RunReason, SignalReason

DataT_co = TypeVar("DataT_co", covariant=True, default=None)


class StopSignal:
    """Tells a handler to stop, and why. Every method may be called from any thread.

    An `async def` handler is cancelled as well when the signal is set; a plain `def` handler goes on until it looks.
    A handler that has seen the signal set and then returns is taken to have stopped early: its run is not counted
    as done. So look at the signal where you are ready to stop, and nowhere else.
    """

    __slots__ = ("_callbacks", "_event", "_lock", "_reason", "_seen")

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._reason: SignalReason | None = None
        self._seen = False
        self._callbacks: list[Callable[[], object]] = []

    def is_set(self) -> bool:
        """Whether the handler should stop."""
        if self._event.is_set():
            self._seen = True
            return True
        return False

    @property
    def reason(self) -> SignalReason | None:
        """Why it is set: 'timeout', 'stopping', 'lease-lost', 'watchdog' or 'cancelled'; None while it is not."""
        return self._reason if self.is_set() else None

    async def wait(self) -> None:
        """Return once the signal is set."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            if not waiter.done():
                waiter.set_result(None)

        def from_any_thread() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(wake)

        if not self._subscribe(from_any_thread):
            wake()
        try:
            await waiter
        finally:
            self._unsubscribe(from_any_thread)
        self._seen = True

    def wait_sync(self, timeout: float | None = None) -> bool:
        """Block this thread until the signal is set, at most `timeout` seconds. True: it is set."""
        if self._event.wait(timeout):
            self._seen = True
            return True
        return False

    def _set(self, reason: SignalReason) -> bool:
        with self._lock:
            if self._event.is_set():
                return False
            self._reason = reason
            self._event.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()
        return True

    def _subscribe(self, callback: Callable[[], object]) -> bool:
        with self._lock:
            if self._event.is_set():
                return False
            self._callbacks.append(callback)
            return True

    def _unsubscribe(self, callback: Callable[[], object]) -> None:
        with self._lock:
            if callback in self._callbacks:
                self._callbacks.remove(callback)


def set_signal(signal: StopSignal, reason: SignalReason) -> bool:
    """Set the signal, for the engine. False: it was set before, and its reason stays."""
    return signal._set(reason)  # pyright: ignore[reportPrivateUsage]


def was_seen(signal: StopSignal) -> bool:
    """Whether the handler has been shown that the signal is set, for the engine."""
    return signal._seen  # pyright: ignore[reportPrivateUsage]


class RunContext(Generic[DataT_co]):
    """The run that a handler works for. Read-only."""

    __slots__ = (
        "_data",
        "attempt",
        "fence",
        "instance_id",
        "logger",
        "reason",
        "run_id",
        "scheduled_at",
        "signal",
        "task",
    )

    def __init__(
        self,
        *,
        task: str,
        run_id: str,
        scheduled_at: datetime,
        attempt: int,
        reason: RunReason,
        data: DataT_co,
        signal: StopSignal,
        fence: int | None,
        instance_id: str,
        logger: logging.Logger | logging.LoggerAdapter[logging.Logger],
    ) -> None:
        self.task: Final = task
        """The name of the task."""
        self.run_id: Final = run_id
        """The id of this run, the same in every attempt; fit for an idempotency key."""
        self.scheduled_at: Final = scheduled_at
        """The slot as an aware UTC datetime; for a manual run, when it was asked for."""
        self.attempt: Final = attempt
        """1 for the first start; raised when a runner died, not by a hand-over."""
        self.reason: Final = reason
        """Why this attempt started: 'schedule', 'catch-up', 'recovery', 'hand-over' or 'manual'."""
        self._data = data
        self.signal: Final = signal
        """Tells the handler to stop."""
        self.fence: Final = fence
        """Grows with every claim of the task; None on a claim-only backend. An outside store that refuses smaller
        fences than the last it has seen keeps a stale runner out (under overlap='skip')."""
        self.instance_id: Final = instance_id
        """The scheduler instance that runs this attempt."""
        self.logger: Final = logger
        """A logger whose records carry the task, run id and attempt."""

    @property
    def data(self) -> DataT_co:
        """What was given to the registration as `data=`."""
        return self._data
