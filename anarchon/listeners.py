"""`scheduler.events`: whoever wants to know what the scheduler does, and can neither delay nor break it."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
import weakref
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from anarchon.clock import Clock
from anarchon.errors import ConfigurationError
from anarchon.log_lines import in_words, say
from anarchon.model.events import Event, ListenerFailed

EventT = TypeVar("EventT", bound=Event)

Poster = Callable[[Callable[[], object]], bool]
"""Calls a function on the application's loop soon; False when that is closed."""

logger = logging.getLogger("anarchon")

INBOX = 1_000
"""How many events wait for one listener; beyond that its oldest are dropped and counted."""

BATCH = 100
"""How many events a listener gets before the application's loop may do something else."""

LOG_AGAIN_MS = 60_000
"""How often at most the failures of one listener are logged, ms."""


class _Listener:
    """One subscription. Its events come in order, one at a time; it waits for nobody and nobody waits for it."""

    def __init__(self, kind: type[Event], fn: Callable[[Any], object]) -> None:
        self.kind = kind
        self.fn = fn
        self.inbox: deque[Event] = deque()
        self.dropped = 0
        self.at_work: asyncio.Task[None] | None = None
        self.gone = False
        self.logged_at_ms: int | None = None
        self.failures_unsaid = 0

    @property
    def name(self) -> str:
        name = getattr(self.fn, "__qualname__", None)
        if isinstance(name, str):
            return name
        try:
            return repr(self.fn)[:200]
        except Exception:
            return type(self.fn).__qualname__


class Dispatcher:
    """Keeps the listeners and brings them their events."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._listeners: tuple[_Listener, ...] = ()
        self._dropped_by_gone = 0
        self._post: Poster | None = None
        self._excused: weakref.WeakSet[asyncio.Task[Any]] = weakref.WeakSet()
        self._posted = False

    def add(self, kind: type[Event], listener: Callable[[Any], object]) -> Callable[[], None]:
        """Subscribe. Returns the function that ends it."""
        subscription = _Listener(kind, listener)
        with self._lock:
            self._listeners = (*self._listeners, subscription)
        return lambda: self._remove(lambda each: each is subscription)

    def remove(self, kind: type[Event], listener: Callable[[Any], object]) -> None:
        """End every subscription of `listener` to exactly `kind`."""
        self._remove(lambda each: each.kind is kind and each.fn == listener)

    @property
    def dropped(self) -> int:
        """How many events were dropped because a listener was too slow for them."""
        return self._dropped_by_gone + sum(listener.dropped for listener in self._listeners)

    def _remove(self, unwanted: Callable[[_Listener], bool]) -> None:
        with self._lock:
            for listener in self._listeners:
                if unwanted(listener):
                    listener.gone = True
                    listener.inbox.clear()
                    self._dropped_by_gone += listener.dropped
            self._listeners = tuple(listener for listener in self._listeners if not listener.gone)

    def attach(self, post: Poster | None) -> None:
        """From now on, events go to the loop that `post` calls on; None: nowhere."""
        with self._lock:
            self._post = post
            self._posted = False

    def publish(self, event: Event, *, but: _Listener | None = None) -> None:
        """Put the event in every inbox it belongs in and wake the application's loop once. From any thread."""
        with self._lock:
            wanted = [each for each in self._listeners if isinstance(event, each.kind) and each is not but]
            if not wanted or self._post is None:
                return
            for listener in wanted:
                listener.inbox.append(event)
                if len(listener.inbox) > INBOX:
                    listener.inbox.popleft()
                    listener.dropped += 1
            self._wake()

    def _wake(self) -> None:
        if self._post is None or self._posted:
            return
        # Before the posting: the other loop may be through with it before this thread goes on.
        self._posted = True
        if not self._post(self._deliver):
            self._posted = False

    def _deliver(self) -> None:
        """On the application's loop: let every listener that is not at work have some of its events."""
        self._posted = False
        more = True
        try:
            more = bool([listener for listener in self._listeners if self._have_some(listener)])
        finally:
            # Also when one ended the loop: where that goes on, the others get theirs.
            if more:
                with self._lock:
                    self._wake()

    def _have_some(self, listener: _Listener) -> bool:
        """Hand a batch to one listener; True: it may have more."""
        for _ in range(BATCH):
            if listener.at_work is not None or not listener.inbox:
                return False
            try:
                event = listener.inbox.popleft()
            except IndexError:
                return False
            self._hand(listener, event)
        return True

    def _hand(self, listener: _Listener, event: Event) -> None:
        try:
            result = listener.fn(event)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:  # CancelledError, too: nothing here is cancelled by it
            self._failed(listener, event, error)
            return
        if inspect.isawaitable(result):
            listener.at_work = asyncio.get_running_loop().create_task(
                self._finish(listener, event, result), name="anarchon-listener"
            )

    async def _finish(self, listener: _Listener, event: Event, result: Awaitable[object]) -> None:
        try:
            await result
        except Exception as error:
            self._failed(listener, event, error)
        finally:
            listener.at_work = None
            if listener.inbox:
                with self._lock:
                    self._wake()

    def _failed(self, listener: _Listener, event: Event, error: BaseException) -> None:
        now_ms = self._now_ms()
        if listener.logged_at_ms is None or abs(now_ms - listener.logged_at_ms) >= LOG_AGAIN_MS:
            unsaid = f" (and {listener.failures_unsaid} times before, unsaid)" if listener.failures_unsaid else ""
            said = listener.name, type(event).__name__, unsaid
            say(logger, logging.ERROR, "listener %s raised on %s%s", *said, error=error)
            listener.logged_at_ms = now_ms
            listener.failures_unsaid = 0
        else:
            listener.failures_unsaid += 1
        if not isinstance(event, ListenerFailed):
            # Not told about its own telling: two listeners that fail would keep each other busy for ever.
            self.publish(
                ListenerFailed(
                    at_ms=now_ms,
                    instance_id=event.instance_id,
                    listener=listener.name,
                    error=in_words(error),
                ),
                but=listener,
            )

    def excuse(self, waiting: asyncio.Task[Any] | None) -> None:
        """This task waits for the end: where it is a listener, the end must not wait for it."""
        if waiting is not None:
            self._excused.add(waiting)

    async def last_events(self, clock: Clock, within_ms: float) -> None:
        """Return once every listener has had every event; give up on those that take longer than `within_ms`.

        On the application's loop.
        """
        deadline = clock.monotonic_ms() + within_ms
        while not self._idle() and (left := deadline - clock.monotonic_ms()) > 0:
            at_work = {task for task in map(self._awaited, self._listeners) if task is not None}
            if at_work:
                await asyncio.wait(at_work, timeout=left / 1_000, return_when=asyncio.FIRST_COMPLETED)
            await clock.sleep_ms(0)
        self._abandon()

    def _awaited(self, listener: _Listener) -> asyncio.Task[None] | None:
        task = listener.at_work
        return None if task is None or task in self._excused else task

    def _idle(self) -> bool:
        # One that waits for the end gets no further event before it.
        return all(
            self._awaited(listener) is None and not (listener.inbox and listener.at_work is None)
            for listener in self._listeners
        )

    def _abandon(self) -> None:
        for listener in self._listeners:
            task = self._awaited(listener)
            if task is not None:
                task.cancel()
            listener.dropped += len(listener.inbox)
            listener.inbox.clear()


class Events:
    """Listeners by class of event.

        scheduler.events.on(RunFailed, page_somebody)

    A listener gets the events of its class and of every subclass, in order, on the application's loop. It may be
    `def` or `async def`. Each has a queue of its own that holds 1,000 events: one that is slower than that, or hangs,
    loses its oldest (see `dropped`) and holds up neither the scheduler nor another listener. One that raises is
    logged, at most once a minute, and told to the others as ListenerFailed.
    """

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    def on(self, kind: type[EventT], listener: Callable[[EventT], object]) -> Callable[[], None]:
        """Call `listener` with each event of class `kind`. Returns a function that ends this.

        May be called at any time and from any thread. Each call is a subscription of its own.
        """
        if not _is_event_class(kind):
            raise ConfigurationError(f"events.on({kind!r}, ...) needs a class of event, such as RunFailed")
        if not callable(listener):
            raise ConfigurationError(f"events.on({kind.__name__}, {listener!r}) needs a function")
        return self._dispatcher.add(kind, listener)

    def off(self, kind: type[EventT], listener: Callable[[EventT], object]) -> None:
        """End every subscription of `listener` to exactly `kind`; nothing happens where there is none."""
        self._dispatcher.remove(kind, listener)

    @property
    def dropped(self) -> int:
        """How many events listeners lost because they were too slow for them."""
        return self._dispatcher.dropped


def _is_event_class(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Event)
