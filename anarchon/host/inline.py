"""The host of tests: engine and handlers share the running loop, so that a loop with virtual time runs them all."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Literal, TypeVar

from anarchon.errors import StateError
from anarchon.host.base import Call, Ended, Host, Work
from anarchon.host.ending import CANCELLED, NEVER_BEGAN, await_handler, call_handler, discard
from anarchon.host.errand import Errand

_log = logging.getLogger(__name__)

T = TypeVar("T")


class InlineHost(Host):
    """Has the methods of the thread host without its threads: a plain `def` handler holds up the loop while it runs.

    Nothing begins before the loop has turned once. To be made and used on the running loop.
    """

    def __init__(self) -> None:
        self.lag: float = 0.0
        """What `lag_ms` answers."""
        self.app_alive = True
        """What `alive` answers; `close_app` makes it False."""
        self._context = contextvars.copy_context()
        self._flights: dict[_InlineFlight, None] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._errands: set[Errand[Any]] = set()
        self._started = False
        self._closed = False

    def start(self) -> None:
        """Handlers run in copies of the context variables that are current now."""
        if self._started or self._closed:
            raise StateError("the host has been started before; make a new one")
        self._started = True
        self._context = contextvars.copy_context()

    @property
    def started(self) -> bool:
        """Whether `start` has been called."""
        return self._started

    @property
    def closed(self) -> bool:
        """Whether `close` has been called."""
        return self._closed

    @property
    def forked(self) -> bool:
        """Never."""
        return False

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The running loop."""
        return asyncio.get_running_loop()

    @property
    def app_loop(self) -> asyncio.AbstractEventLoop:
        """The running loop."""
        return asyncio.get_running_loop()

    def submit(self, coro: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Run the coroutine as a task of the loop. To block on the future is to block the task."""
        if self._closed or not self._started:
            coro.close()
            raise StateError("the host is not started, or is closed")
        errand = Errand(coro, self._errands.discard)
        self._errands.add(errand)
        errand.begin()
        return errand.future

    async def call(self, coro: Coroutine[Any, Any, T]) -> T:
        """As `submit`, awaited. Cancelling it stops the waiting and not the task."""
        return await asyncio.wrap_future(self.submit(coro))

    def close(self, timeout: float = 5.0) -> bool:
        """Cancel what has been submitted and is not done. Handlers go on."""
        self._closed = True
        for errand in list(self._errands):
            errand.cancel()
        return not self._errands

    def close_app(self) -> None:
        """As if the application's loop had been closed: what has not begun never will, what waits is over."""
        self.app_alive = False
        for flight in list(self._flights):
            flight.lose_the_app_loop()

    def start_calls(self, works: Sequence[Work]) -> Sequence[Call]:
        """Start the handlers in the loop's next turn, `def` ones in order and one after the other."""
        loop = asyncio.get_running_loop()
        flights = [_InlineFlight(self, work, self._context.copy(), loop.create_future()) for work in works]
        self._flights.update(dict.fromkeys(flights))
        if flights:
            loop.call_soon(_start_all, flights, context=self._context.copy())
        if not self.app_alive:
            self.close_app()
        return [flight.call for flight in flights]

    def lag_ms(self) -> float:
        """What a test has set as `lag`."""
        return self.lag

    def probe(self) -> None:
        """Nothing: the loop that is asked is the one that asks."""

    def post(self, callback: Callable[[], object]) -> bool:
        """Call `callback` in the loop's next turn; False after `close_app`."""
        if not self.app_alive:
            return False
        asyncio.get_running_loop().call_soon(_logged, callback, context=self._context.copy())
        return True

    @property
    def alive(self) -> bool:
        """False after `close_app`."""
        return self.app_alive

    def threads_alive(self) -> int:
        """None."""
        return 0

    def landed(self, flight: _InlineFlight) -> None:
        """Forget the flight."""
        self._flights.pop(flight, None)

    def keep(self, task: asyncio.Task[Ended]) -> None:
        """Hold the task until it is done, as the loop does not."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _InlineFlight:
    """Begins once or is dropped, and ends once, all on one loop."""

    __slots__ = ("_awaitable", "_context", "_host", "_stage", "_task", "call")

    def __init__(
        self, host: InlineHost, work: Work, context: contextvars.Context, ended: asyncio.Future[Ended]
    ) -> None:
        self._host = host
        self._context = context
        self._stage: Literal["waiting", "begun", "dropped"] = "waiting"
        self._task: asyncio.Task[Ended] | None = None
        self._awaitable: Awaitable[object] | None = None
        self.call = Call(work=work, ended=ended, cancel=self._cancel)

    def start(self) -> None:
        if self._stage == "dropped":
            return
        if self.call.work.is_async:
            self._spawn(self._run_async())
            return
        self._begin()
        outcome = self._context.run(call_handler, self.call.work)
        if isinstance(outcome, Ended):
            self._settle(outcome)
        else:
            self._awaitable = outcome
            self._spawn(await_handler(outcome))

    def lose_the_app_loop(self) -> None:
        if self._stage == "begun":
            if self._task is not None:
                self._task.cancel()
            self._settle(CANCELLED)
        elif self.call.work.is_async:
            self._drop()

    async def _run_async(self) -> Ended:
        if self._stage == "dropped":
            return NEVER_BEGAN
        self._begin()
        outcome = call_handler(self.call.work)
        return outcome if isinstance(outcome, Ended) else await await_handler(outcome)

    def _begin(self) -> None:
        self._stage = "begun"
        self.call.began = True
        if self.call.on_began is not None:
            _logged(self.call.on_began)

    def _cancel(self) -> None:
        if self._stage == "waiting":
            self._drop()
        elif self._task is not None:
            self._task.cancel()

    def _drop(self) -> None:
        self._stage = "dropped"
        self._settle(NEVER_BEGAN)

    def _spawn(self, coro: Coroutine[Any, Any, Ended]) -> None:
        name = f"anarchon: {self.call.work.name}"
        self._task = asyncio.get_running_loop().create_task(coro, name=name, context=self._context)
        self._host.keep(self._task)
        self._task.add_done_callback(self._task_done)

    def _task_done(self, task: asyncio.Task[Ended]) -> None:
        if not task.cancelled():
            self._settle(task.result())
        elif self._awaitable is not None:  # cancelled before its first step, as is the next
            discard(self._awaitable)
            self._settle(CANCELLED)
        else:
            self._drop()

    def _settle(self, ended: Ended) -> None:
        self._host.landed(self)
        if not self.call.ended.done():
            self.call.ended.set_result(ended)


def _start_all(flights: Sequence[_InlineFlight]) -> None:
    for flight in flights:
        flight.start()


def _logged(callback: Callable[[], object]) -> None:
    try:
        callback()
    except Exception:
        _log.exception("a callback of the scheduler's host failed")
