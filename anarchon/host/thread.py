"""The real host: the engine on a loop and a thread of its own, beside the application.

What a handler does to the application's loop, be it a wait that blocks or Python that computes, does not hold up
the engine. Between the two loops callbacks hop in batches, with one wake-up per batch in either direction, and
nothing here runs by a timer.

All threads are daemons, so a process ends even with a handler that hangs. A forked child has none of them: there
the host refuses to work.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import logging
import os
import threading
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from anarchon.errors import StateError
from anarchon.host.base import Call, Host, Work
from anarchon.host.errand import Errand
from anarchon.host.flight import Flight
from anarchon.host.loop_thread import LoopThread
from anarchon.host.mailbox import Mailbox
from anarchon.host.threads import DaemonThreads, Job
from anarchon.log_lines import say

_log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Parts:
    """What exists from the start on."""

    engine: LoopThread
    own_app: LoopThread | None
    app_loop: asyncio.AbstractEventLoop
    to_engine: Mailbox
    to_app: Mailbox


class ThreadHost(Host):
    """Runs `async def` handlers on `app_loop`, or on a loop of its own where that is None, and `def` on threads.

    `start`, `submit`, `call` and `close` may be called from any thread, the methods of `Host` on the engine's loop.
    """

    def __init__(self, app_loop: asyncio.AbstractEventLoop | None, *, name: str) -> None:
        self._name = name
        self._given_app_loop = app_loop
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._context = contextvars.copy_context()
        self._parts: _Parts | None = None
        self._closed = False
        self._errands: set[Errand[Any]] = set()
        self._flights: set[Flight] = set()
        self._threads = DaemonThreads(f"{name}-handler")

    def start(self) -> None:
        """Start the engine's thread, and the application's where there is none.

        Handlers run in copies of the context variables that are current now.
        """
        with self._lock:
            if self._closed or self._parts is not None:
                raise StateError(f"the host {self._name!r} has been started before; make a new one")
            self._pid = os.getpid()
            self._context = contextvars.copy_context()
            self._parts = self._start_parts()

    @property
    def started(self) -> bool:
        """Whether `start` has been called."""
        return self._parts is not None

    @property
    def closed(self) -> bool:
        """Whether `close` has been called."""
        return self._closed

    @property
    def forked(self) -> bool:
        """Whether this process is a child that was forked after the start: it has the object but not the threads."""
        return self._parts is not None and os.getpid() != self._pid

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The engine's loop."""
        return self._started_parts().engine.loop

    @property
    def app_loop(self) -> asyncio.AbstractEventLoop:
        """The application's loop: the one that was given, or the host's own."""
        return self._started_parts().app_loop

    def submit(self, coro: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Run the coroutine on the engine's loop, from any thread. The future cannot be cancelled.

        Raises StateError before the start, after the close and in a forked child. The future raises it when the
        host was closed before the coroutine was done.
        """
        try:
            loop = self._loop_for_errands()
            errand = Errand(coro, self._errands.discard)
            # Known before it is sent: whatever the closing loop leaves undone is answered then.
            self._errands.add(errand)
            try:
                loop.call_soon_threadsafe(errand.begin)
            except RuntimeError:
                self._errands.discard(errand)
                raise self._closed_error() from None
        except BaseException:
            coro.close()
            raise
        return errand.future

    async def call(self, coro: Coroutine[Any, Any, T]) -> T:
        """As `submit`, awaited on any loop. Cancelling it stops the waiting and not the engine's task."""
        future = self.submit(coro)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            if not future.done():
                future.add_done_callback(_log_failure)
            raise

    def close(self, timeout: float = 5.0) -> bool:
        """Cancel what the engine's loop still runs, and end the host's threads. False: one of them goes on.

        Waits `timeout` seconds at most for each loop, and for the `def` handlers; as daemons they do not keep the
        process. Handlers on a loop that was given stay with that loop. On a thread of the host it only asks. A
        second call waits again, and does nothing else.
        """
        if self.forked:
            # The loops' descriptors are the parent's, too: to close them here would deafen the parent.
            self._closed = True
            return True
        with self._lock:
            self._closed = True
            parts = self._parts
        self._threads.end_idle()
        ended = True
        # The application's first, so that handlers can still say how they ended.
        for loop_thread in (parts.own_app, parts.engine) if parts is not None else ():
            if loop_thread is not None:
                loop_thread.stop()
                ended = not loop_thread.is_current() and loop_thread.join(timeout) and ended
        return self._threads.close(timeout) and ended

    # The methods of Host, on the engine's loop

    def start_calls(self, works: Sequence[Work]) -> Sequence[Call]:
        """Start the handlers, with one wake-up of the application's loop for the whole batch."""
        parts = self._started_parts()
        flights = [Flight(self, work, self._context.copy(), parts.engine.loop.create_future()) for work in works]
        self._flights.update(flights)
        on_app = [flight.start_on_app for flight in flights if flight.call.work.is_async]
        if on_app and not parts.to_app.put(on_app):
            self._settle_for_a_closed_app_loop()
        on_threads = [Job(flight.run_on_thread, flight.refuse) for flight in flights if not flight.call.work.is_async]
        if on_threads:
            self._threads.run(on_threads)
        return [flight.call for flight in flights]

    def lag_ms(self) -> float:
        """The age of the oldest hop to the application's loop that it has not answered."""
        return self._started_parts().to_app.waiting_ms() if self.alive else 0.0

    def probe(self) -> None:
        """Send an empty hop, unless one is on its way."""
        if not self._started_parts().to_app.wake():
            self._settle_for_a_closed_app_loop()

    def post(self, callback: Callable[[], object]) -> bool:
        """Call `callback` on the application's loop soon; False when that loop is closed."""
        return self.to_app(callback)

    @property
    def alive(self) -> bool:
        """False once the application's loop is closed."""
        return not self._started_parts().app_loop.is_closed()

    def threads_alive(self) -> int:
        """How many `def` handlers are still on a thread."""
        return self._threads.busy()

    # For the flights, from any thread

    def to_engine(self, callback: Callable[[], object]) -> None:
        """Call it on the engine's loop; after the close nobody asks any more."""
        self._started_parts().to_engine.put((callback,))

    def to_app(self, callback: Callable[[], object]) -> bool:
        """Call it on the application's loop; False when that is closed."""
        if self._started_parts().to_app.put((callback,)):
            return True
        self.to_engine(self._settle_for_a_closed_app_loop)
        return False

    def landed(self, flight: Flight) -> None:
        """Forget the flight."""
        self._flights.discard(flight)

    def wake_ups(self) -> tuple[int, int]:
        """How often the engine's loop and the application's have been woken for hops."""
        parts = self._started_parts()
        return parts.to_engine.wake_ups, parts.to_app.wake_ups

    def _start_parts(self) -> _Parts:
        engine = LoopThread(f"{self._name}-engine", on_end=self._end_errands)
        engine.start()
        own_app: LoopThread | None = None
        app_loop = self._given_app_loop
        if app_loop is None:
            try:
                own_app = LoopThread(f"{self._name}-app")
                own_app.start()
            except BaseException:
                engine.stop()
                raise
            app_loop = own_app.loop
        return _Parts(engine, own_app, app_loop, Mailbox(engine.loop, self._context), Mailbox(app_loop, self._context))

    def _settle_for_a_closed_app_loop(self) -> None:
        for flight in list(self._flights):
            flight.lose_the_app_loop()

    def _loop_for_errands(self) -> asyncio.AbstractEventLoop:
        if self.forked:
            raise StateError(
                f"this process was forked from {self._pid} after the scheduler had started there, and threads do not "
                "survive a fork; make and start a scheduler in the child, or start it after forking"
            )
        if self._closed:
            raise self._closed_error()
        return self._started_parts().engine.loop

    def _started_parts(self) -> _Parts:
        if self._parts is None:
            raise StateError(f"the host {self._name!r} has not been started")
        return self._parts

    def _closed_error(self) -> StateError:
        return StateError(
            f"the host {self._name!r} is closed; a stopped scheduler cannot be used again, make a new one"
        )

    def _end_errands(self) -> None:
        for errand in list(self._errands):
            errand.end()


def _log_failure(future: concurrent.futures.Future[Any]) -> None:
    error = future.exception()
    if error is not None and not isinstance(error, StateError):
        say(_log, logging.ERROR, "a call that nobody waits for any more failed", error=error)
