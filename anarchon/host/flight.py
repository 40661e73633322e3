"""One handler of the thread host, from its start to its end, as three sides see it: engine, application, thread."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context
from typing import Any, Final, Literal, Protocol

from anarchon.host.base import Call, Ended, Work
from anarchon.host.ending import CANCELLED, NEVER_BEGAN, await_handler, call_handler, discard
from anarchon.log_lines import say

_log = logging.getLogger(__name__)

# The loop of an application holds its tasks weakly, and a host may be forgotten while handlers of it still run.
_tasks: Final[set[asyncio.Task[Ended]]] = set()


class Hops(Protocol):
    """How a flight reaches the two loops."""

    @property
    def app_loop(self) -> asyncio.AbstractEventLoop:
        """The application's loop."""
        ...

    def to_engine(self, callback: Callable[[], object]) -> None:
        """Call it on the engine's loop."""
        ...

    def to_app(self, callback: Callable[[], object]) -> bool:
        """Call it on the application's loop; False when that is closed."""
        ...

    def landed(self, flight: Flight) -> None:
        """The flight is over; called on the engine's loop."""
        ...


class Flight:
    """Begins once or is dropped, whichever comes first, and ends once.

    The gate decides between beginning and dropping, as they happen on different threads. All else has one side:
    `call` belongs to the engine's loop, the task to the application's.
    """

    __slots__ = ("_awaitable", "_context", "_gate", "_hops", "_stage", "_stop_asked", "_task", "call")

    def __init__(self, hops: Hops, work: Work, context: Context, ended: asyncio.Future[Ended]) -> None:
        self._hops = hops
        self._context = context
        self._gate = threading.Lock()
        self._stage: Literal["waiting", "begun", "dropped"] = "waiting"
        self._stop_asked = False
        self._task: asyncio.Task[Ended] | None = None
        self._awaitable: Awaitable[object] | None = None
        self.call = Call(work=work, ended=ended, cancel=self._cancel)

    # On the engine's loop

    def drop(self, error: BaseException | None = None) -> bool:
        """End a handler that has not begun, and see to it that it does not; False when it has begun."""
        if not self._leave_waiting("dropped"):
            return False
        self._settle(NEVER_BEGAN if error is None else Ended("never-began", error))
        return True

    def lose_the_app_loop(self) -> None:
        """Come to terms with a closed loop: what has not begun never will, what waits there is over."""
        if self._awaitable is not None and self._task is None:
            discard(self._awaitable)
        if self._is_for_app() and not self.drop():
            self._settle(CANCELLED)

    def _cancel(self) -> None:
        if self.drop() or self.call.ended.done():
            return
        self._stop_asked = True
        if self._is_for_app():
            self._hops.to_app(self._cancel_task)

    def _is_for_app(self) -> bool:
        return self.call.work.is_async or self._awaitable is not None

    def _settle(self, ended: Ended) -> None:
        self._hops.landed(self)
        if not self.call.ended.done():
            self.call.ended.set_result(ended)

    def _mark_begun(self) -> None:
        self.call.began = True
        if self.call.on_began is not None:
            self.call.on_began()

    # On the application's loop

    def start_on_app(self) -> None:
        """Start an `async def` handler as a task, unless it has been dropped."""
        if self._stage == "waiting":
            self._spawn(self._run_async())

    async def _run_async(self) -> Ended:
        if not self._begin():
            return NEVER_BEGAN
        outcome = call_handler(self.call.work)
        return outcome if isinstance(outcome, Ended) else await await_handler(outcome)

    def _await_on_app(self) -> None:
        if self._awaitable is None:
            return
        if self._stop_asked:
            discard(self._awaitable)
            self._report(CANCELLED)
        else:
            self._spawn(await_handler(self._awaitable))

    def _spawn(self, coro: Coroutine[Any, Any, Ended]) -> None:
        loop = self._hops.app_loop
        name = f"anarchon: {self.call.work.name}"
        try:
            task = loop.create_task(coro, name=name, context=self._context)
        except Exception as error:
            # The application's task factory does not take a context, as before Python 3.11.
            say(_log, logging.DEBUG, "the task factory failed, so the handler gets a plain task", error=error)
            task = asyncio.Task(coro, loop=loop, name=name, context=self._context)
        self._task = task
        _tasks.add(task)
        task.add_done_callback(self._task_done)

    def _task_done(self, task: asyncio.Task[Ended]) -> None:
        _tasks.discard(task)
        if not task.cancelled():
            self._report(task.result())
        elif self._awaitable is not None:  # cancelled before its first step, as is the next
            discard(self._awaitable)
            self._report(CANCELLED)
        else:
            self._report(NEVER_BEGAN)

    def _cancel_task(self) -> None:
        if self._task is not None:
            self._task.cancel()

    # On a thread

    def run_on_thread(self) -> None:
        """Run a plain `def` handler, unless it has been dropped."""
        if not self._begin():
            return
        outcome = self._context.run(call_handler, self.call.work)
        if isinstance(outcome, Ended):
            self._report(outcome)
            return
        self._awaitable = outcome
        if not self._hops.to_app(self._await_on_app):
            discard(outcome)
            self._report(CANCELLED)

    def refuse(self, error: BaseException) -> None:
        """There is no thread for it."""
        self._hops.to_engine(lambda: self.drop(error))

    # On either

    def _begin(self) -> bool:
        if not self._leave_waiting("begun"):
            return False
        self._hops.to_engine(self._mark_begun)
        return True

    def _leave_waiting(self, stage: Literal["begun", "dropped"]) -> bool:
        with self._gate:
            if self._stage != "waiting":
                return False
            self._stage = stage
            return True

    def _report(self, ended: Ended) -> None:
        if ended.how == "never-began":
            self._hops.to_engine(self.drop)
        else:
            self._hops.to_engine(lambda: self._settle(ended))
