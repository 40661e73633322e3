"""Callbacks for a loop, put in from any thread, with one wake-up of the loop per emptying."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextvars import Context

from anarchon.log_lines import say

_log = logging.getLogger(__name__)


class Mailbox:
    """A queue that wakes its loop once for all that has been put in since the loop last emptied it.

    It takes no lock, so a signal handler or a finalizer may put something in at any moment.
    """

    __slots__ = ("_asked_at", "_context", "_items", "_loop", "wake_ups")

    def __init__(self, loop: asyncio.AbstractEventLoop, context: Context) -> None:
        self._loop = loop
        self._context = context
        self._items: deque[Callable[[], object]] = deque()
        self._asked_at: float | None = None
        self.wake_ups = 0
        """How often the loop has been woken."""

    def put(self, callbacks: Iterable[Callable[[], object]]) -> bool:
        """Have the callbacks called on the loop, in order; False, and none will be called: the loop is closed.

        True is no promise: a loop that is closed before it turns calls none of them.
        """
        if self._loop.is_closed():
            self._items.clear()
            return False
        self._items.extend(callbacks)
        # The flag is read after the items are in and lowered before they are taken out, so none is left behind.
        # Two threads may both find it lowered; the second wake-up finds nothing to do.
        return self._asked_at is not None or self._wake()

    def wake(self) -> bool:
        """Ask the loop for a sign of life; at most one such request is on its way."""
        return self.put(())

    def waiting_ms(self) -> float:
        """For how long the loop has owed its turn; 0 when it owes none."""
        asked_at = self._asked_at
        return 0.0 if asked_at is None else max(0.0, (time.monotonic() - asked_at) * 1_000)

    def _wake(self) -> bool:
        self._asked_at = time.monotonic()
        self.wake_ups += 1
        try:
            # In a context of its own: the one of a handler that reports must not reach the other side.
            self._loop.call_soon_threadsafe(self._empty, context=self._context.copy())
        except RuntimeError:  # closed in between
            self._asked_at = None
            self._items.clear()
            return False
        return True

    def _empty(self) -> None:
        self._asked_at = None
        try:
            for _ in range(len(self._items)):
                try:
                    callback = self._items.popleft()
                except IndexError:  # a loop run inside this one was faster
                    return
                try:
                    callback()
                except Exception as error:
                    say(_log, logging.ERROR, "a callback of the scheduler's host failed", error=error)
        finally:
            # Only where a KeyboardInterrupt cut the loop above short.
            if self._items and self._asked_at is None:
                self._wake()
