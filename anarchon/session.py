"""One start of a scheduler in one process: the engine on its host, the way out, and what the process's end does.

A session lives from a start until every handler has ended and everything is closed. It has a daemon thread that logs
events, and at its end another that closes the host: a logging handler that hangs holds up neither the engine nor the
application nor the end.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import secrets
import socket
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from concurrent.futures import TimeoutError as FutureTimeoutError
from functools import partial
from typing import Any, Final, Literal, TypeAlias, TypeVar

from anarchon.clock import Clock
from anarchon.engine import Engine, EngineSnapshot, EngineTask
from anarchon.errors import StateError
from anarchon.event_log import log_event
from anarchon.host.thread import ThreadHost
from anarchon.listeners import Dispatcher
from anarchon.log_lines import all_written, attempt, say
from anarchon.model.events import Event, SchedulerStopped
from anarchon.model.options import SchedulerOptions
from anarchon.protocol import Backend

T = TypeVar("T")

State: TypeAlias = Literal["starting", "running", "stopping", "lingering", "ended"]

UNSAID = 10_000
"""How many events wait to be logged; beyond that the oldest are dropped and counted."""

LISTENERS_MS = 1_000
"""How long the end waits for listeners to get their last events, ms."""

CLOSING_S = 3.0
"""How long a stop waits, after the engine's own, for the last log lines and listeners."""

LOOK_S = 1.0
"""How long a look at the engine may take."""

LOG_S = 1.0
"""How long the end waits for the log to have every event."""

EXIT_S = 3.0
"""How long the process's exit waits for the hand-over and its log lines."""

_NOT_ALL_TOLD = "stopped, but the last events could not be logged or delivered in time"

logger = logging.getLogger("anarchon")


def new_instance_id() -> str:
    """An id that no other start has, on any machine: host, process and 32 random bits."""
    return f"{socket.gethostname()[:64]}-{os.getpid()}-{secrets.token_hex(4)}"


class Session:
    """One start. Its methods may be called from any thread, unless they say otherwise."""

    def __init__(
        self,
        *,
        backend: Backend,
        options: SchedulerOptions,
        tasks: list[EngineTask],
        dispatcher: Dispatcher,
        clock: Clock,
        app_loop: asyncio.AbstractEventLoop | None,
        ended: Callable[[Session], None],
    ) -> None:
        self.pid: Final = os.getpid()
        self.app_loop: Final = app_loop
        self.instance_id: Final = options.instance_id if options.instance_id is not None else new_instance_id()
        self.started_at_ms: Final = clock.now_ms()
        self.state: State = "starting"
        self.fatal: BaseException | None = None
        """What a handler raised to end the process: SystemExit or KeyboardInterrupt."""
        self.fatal_is_awaited = False
        """Whether somebody who waits for the end will raise it."""
        self.stopped: Final[Future[int]] = Future()
        """Done when stop() is through, with the number of handlers that would not end."""
        self.ended: Final[Future[None]] = Future()
        """Done when every handler has ended and everything is closed."""
        self.host: Final = ThreadHost(app_loop, name="anarchon")
        self._clock = clock
        self._grace_ms = options.shutdown_grace_ms
        self._dispatcher = dispatcher
        self._on_ended = ended
        self._stop_asked = False
        self._left = 0
        self._unsaid: deque[Event] = deque()
        self._steps: deque[Callable[[], None]] = deque()
        self._stepping = False
        self._logging = False
        self._something = threading.Condition()
        self.log_dropped = 0
        self._engine = Engine(
            backend=backend,
            host=self.host,
            clock=clock,
            settings=options.settings(self.instance_id),
            tasks=tasks,
            emit=self._emit,
            on_fatal=self._on_fatal,
        )
        self._last_look: EngineSnapshot | None = None

    # ---------------------------------------------------------------- in

    def begin(self) -> Future[None]:
        """Start host and engine. The future fails as the engine's start does."""
        try:
            self.host.start()
            self._dispatcher.attach(self.host.post)
            threading.Thread(target=self._log_events, name="anarchon-log", daemon=True).start()
        except BaseException:
            # No thread could be had: there is nobody to bring this to its end, and nothing to be ended.
            self._close()
            raise
        _sessions.add(self)
        return self.host.submit(self._engine.start())

    def up(self) -> None:
        """The start is through."""
        if self.state == "starting":
            self.state = "running"

    # ---------------------------------------------------------------- out

    def stop(self, grace_ms: int | None = None) -> Future[int]:
        """Ask the engine to stop. A further call can only shorten the grace. Answers as `Engine.stop`."""
        try:
            asked = self.host.submit(self._engine.stop(self._grace_ms if grace_ms is None else grace_ms))
        except StateError:
            # Closed in the meantime.
            return self.stopped
        if not self._stop_asked:
            self._stop_asked = True
            if self.state in ("starting", "running"):
                self.state = "stopping"
            asked.add_done_callback(self._engine_stopped)
        return asked

    def on_app_loop(self) -> bool:
        """Whether this is called on the loop on which the `async def` handlers run."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return False
        return self.host.started and loop is self.host.app_loop

    def until_stopped(self, asked: Future[int]) -> None:
        """Block until the stop is through."""
        asked.result()
        try:
            self.stopped.result(CLOSING_S)
        except FutureTimeoutError:
            say(logger, logging.WARNING, _NOT_ALL_TOLD)

    async def stopped_or_late(self, asked: Future[int]) -> None:
        """As `until_stopped`, on any loop. Cancelling it stops nothing but the waiting."""
        self._dispatcher.excuse(asyncio.current_task())
        await asyncio.wrap_future(asked)
        done, _ = await asyncio.wait({asyncio.wrap_future(self.stopped)}, timeout=CLOSING_S)
        if not done:
            say(logger, logging.WARNING, _NOT_ALL_TOLD)

    def _engine_stopped(self, asked: Future[int]) -> None:
        error = asked.exception()
        if error is not None:
            say(logger, logging.ERROR, "the engine could not stop in order", error=error)
        self._left = 0 if error is not None else asked.result()
        self._then(self._after_stop)

    def _after_stop(self) -> None:
        if self._left:
            self.state = "lingering"
            words = "%d handlers would not end; their leases are kept until they do, or until this process exits"
            say(logger, logging.WARNING, words, self._left)
            self._last_events()
            self._raise_fatal()
            self.stopped.set_result(self._left)
            try:
                self.host.submit(self._engine.wait_ended()).add_done_callback(lambda _: self._then(self._after_end))
            except StateError:
                self._then(self._after_end)
        else:
            self._after_end()

    def _after_end(self) -> None:
        self._last_events()
        if not self.stopped.done():
            self._raise_fatal()
        self._close()

    def _close(self) -> None:
        self._dispatcher.attach(None)
        if not self.host.close():
            words = "a thread of the scheduler did not end; as a daemon it does not keep the process"
            say(logger, logging.WARNING, words)
        self.state = "ended"
        _sessions.discard(self)
        self._on_ended(self)
        # The scheduler may go as soon as its stop is through, though a thread of this is on its last line.
        self._on_ended = _nobody
        self.ended.set_result(None)
        with self._something:
            self._something.notify_all()
        if not self.stopped.done():
            self.stopped.set_result(self._left)

    def _last_events(self) -> None:
        """Give the listeners a moment for what they have not had."""
        through = threading.Event()

        def begin() -> None:
            task = asyncio.get_running_loop().create_task(
                self._dispatcher.last_events(self._clock, LISTENERS_MS), name="anarchon-last-events"
            )
            task.add_done_callback(lambda _: through.set())

        if self.host.post(begin):
            through.wait(LISTENERS_MS / 1_000 + 0.5)

    # ---------------------------------------------------------------- a handler ends the process

    def _on_fatal(self, error: BaseException) -> None:
        if self.fatal is None:
            self.fatal = error
            say(logger, logging.WARNING, "a handler raised %s: stopping the scheduler", type(error).__name__)
            self.stop()

    def _raise_fatal(self) -> None:
        """Let what the handler raised come out of the application's loop, as if its own code had raised it."""
        fatal = self.fatal
        if fatal is None or self.fatal_is_awaited or self.app_loop is None:
            return

        def out() -> None:
            raise fatal

        if not self.host.post(out):
            words = "a handler raised %s, and the application's loop is closed"
            say(logger, logging.ERROR, words, type(fatal).__name__)

    # ---------------------------------------------------------------- events

    def _emit(self, event: Event) -> None:
        self._dispatcher.publish(event)
        with self._something:
            if len(self._unsaid) >= UNSAID:
                self._unsaid.popleft()
                self.log_dropped += 1
            self._unsaid.append(event)
            self._something.notify_all()
        if isinstance(event, SchedulerStopped) and not self._stop_asked:
            # The engine stopped by itself, since the application's loop was closed.
            self.stop(0)

    def _log_events(self) -> None:
        while True:
            with self._something:
                self._logging = False
                self._something.notify_all()
                while not self._unsaid and not self.ended.done():
                    self._something.wait()
                if not self._unsaid:
                    return
                event = self._unsaid.popleft()
                self._logging = True
            attempt(partial(log_event, event))

    def _then(self, step: Callable[[], None]) -> None:
        """Take a step towards the end, on a thread of its own, once the events before it are logged."""
        with self._something:
            self._steps.append(step)
            if self._stepping:
                return
            self._stepping = True
        try:
            threading.Thread(target=self._take_steps, name="anarchon-end", daemon=True).start()
        except (RuntimeError, MemoryError):
            # Out of threads, or the interpreter is shutting down.
            self._take_steps()

    def _take_steps(self) -> None:
        while True:
            with self._something:
                if not self._steps:
                    self._stepping = False
                    return
                step = self._steps.popleft()
                logged = self._something.wait_for(lambda: not self._unsaid and not self._logging, LOG_S)
            if not logged:
                say(logger, logging.WARNING, _NOT_ALL_TOLD)
            try:
                step()
            except Exception as error:
                say(logger, logging.ERROR, "the end of a scheduler went wrong", error=error)

    # ---------------------------------------------------------------- look

    def ask(self, call: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine of the engine's."""
        return self.host.submit(call)

    @property
    def engine(self) -> Engine:
        """The engine, whose methods are called on its own loop."""
        return self._engine

    def look(self) -> tuple[EngineSnapshot | None, bool]:
        """What the engine is doing, and whether it answered; if not, what it was doing at the last look."""

        async def snapshot() -> EngineSnapshot:
            return self._engine.snapshot()

        try:
            self._last_look = self.host.submit(snapshot()).result(LOOK_S)
        except (StateError, FutureTimeoutError):
            return self._last_look, False
        return self._last_look, True

    def must_be_here(self) -> None:
        """Raise StateError in a child that was forked after the start."""
        if os.getpid() != self.pid:
            raise StateError(
                f"this process was forked from process {self.pid} after the scheduler had started there; threads and "
                "connections do not survive a fork, and the scheduler goes on in the parent alone. Start it after "
                "forking, or make a new Scheduler with a new backend in the child"
            )

    def leave(self) -> Future[None] | None:
        """At the process's exit: hand over everything at once. Done when that is logged, too."""
        if os.getpid() != self.pid or self.state == "ended":
            return None
        said: Future[None] = Future()

        def left(handed_over: Future[None]) -> None:
            # StateError: the last handler had ended, and all was given back and closed before this came to it.
            if not isinstance(handed_over.exception(), StateError | None):
                say(logger, logging.ERROR, "a scheduler could not hand over at exit", error=handed_over.exception())
            self._then(lambda: said.set_result(None))

        try:
            self.host.submit(self._engine.leave()).add_done_callback(left)
        except StateError:
            return None
        return said


def _nobody(_: Session) -> None:
    """Whom an end is told that has been told."""


_sessions: weakref.WeakSet[Session] = weakref.WeakSet()
"""Every session that has begun and not ended. The engine's thread holds it as long as it runs."""


def leave_all() -> None:
    """Hand over what every session of this process holds, and log it, within 3 s altogether."""
    leaving = [left for left in (session.leave() for session in list(_sessions)) if left is not None]
    until = time.monotonic() + EXIT_S
    wait(leaving, timeout=EXIT_S)
    all_written(max(0.0, until - time.monotonic()))


atexit.register(leave_all)
