"""An event loop that turns on a daemon thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable

from anarchon.log_lines import say

_log = logging.getLogger(__name__)


class LoopThread:
    """The loop takes callbacks from the start on; it turns between `start` and `stop`."""

    def __init__(self, name: str, *, on_end: Callable[[], object] | None = None) -> None:
        self.loop = asyncio.new_event_loop()
        self._on_end = on_end
        self._stopping = False
        self._wound_up: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._turn, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread; where the system gives none, the loop is closed and the error raised."""
        try:
            self._thread.start()
        except BaseException:
            self.loop.close()
            raise

    def stop(self) -> None:
        """Ask the loop to cancel what it still runs and to end. It may take as long as its tasks like."""
        self._stopping = True
        with contextlib.suppress(RuntimeError):  # closed, so it has ended
            self.loop.call_soon_threadsafe(self.loop.stop)

    def is_current(self) -> bool:
        """Whether this is called on the thread."""
        return threading.current_thread() is self._thread

    def join(self, timeout: float) -> bool:
        """Wait for the thread's end; False when it goes on. Not to be called on it."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _turn(self) -> None:
        loop = self.loop
        try:
            self._run_until(lambda: self._stopping)
            # Again, where something that was sent late has become a task.
            while self._wound_up is None or asyncio.all_tasks(loop):
                self._wound_up = loop.create_task(self._wind_up())
                self._wound_up.add_done_callback(lambda _: loop.stop())
                self._run_until(self._wound_up.done)
        finally:
            loop.close()
            if self._on_end is not None:
                self._on_end()

    async def _wind_up(self) -> None:
        myself = asyncio.current_task()
        while rest := [task for task in asyncio.all_tasks() if task is not myself]:
            for task in rest:
                task.cancel()
            await asyncio.wait(rest)
        await self.loop.shutdown_asyncgens()

    def _run_until(self, done: Callable[[], bool]) -> None:
        while True:
            try:
                self.loop.run_forever()
            except (SystemExit, KeyboardInterrupt) as error:
                # A task raised it, and asyncio lets these two out of the loop.
                say(_log, logging.ERROR, "a task tried to end the loop of thread %s", self._thread.name, error=error)
            if done():  # else somebody's `loop.stop()`, which is not theirs to call
                return
