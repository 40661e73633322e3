"""A coroutine that someone elsewhere has sent to the engine's loop."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from anarchon.errors import StateError

T = TypeVar("T")


class Errand(Generic[T]):
    """Runs the coroutine as a task and answers through `future`, which cannot be cancelled."""

    __slots__ = ("_coro", "_on_end", "_task", "future")

    def __init__(self, coro: Coroutine[Any, Any, T], on_end: Callable[[Errand[T]], object]) -> None:
        self._coro = coro
        self._on_end = on_end
        self._task: asyncio.Task[None] | None = None
        self.future: concurrent.futures.Future[T] = concurrent.futures.Future()
        # A future that runs cannot be cancelled: whoever stops waiting does not stop the engine's task.
        self.future.set_running_or_notify_cancel()

    def begin(self) -> None:
        """Start the task, on the engine's loop."""
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._task.add_done_callback(lambda _: self.end())

    def cancel(self) -> None:
        """Cancel the task, on the engine's loop."""
        if self._task is not None:
            self._task.cancel()

    def end(self) -> None:
        """Answer whoever waits, in case that has not happened yet, and forget the errand."""
        self._coro.close()
        if not self.future.done():
            self.future.set_exception(_stopped())
        self._on_end(self)

    async def _run(self) -> None:
        try:
            result = await self._coro
        except asyncio.CancelledError:
            # The task's end, not the waiting side's.
            self.future.set_exception(_stopped())
        except BaseException as error:  # SystemExit, too: it would end the loop
            self.future.set_exception(error)
        else:
            self.future.set_result(result)


def _stopped() -> StateError:
    return StateError("the scheduler's engine was stopped before this call was done")
