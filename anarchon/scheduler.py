"""The scheduler as applications see it: registration, start and stop, and looks at what it does. No engine logic."""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import threading
import warnings
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeAlias

from typing_extensions import TypeVar

from anarchon.clock import SystemClock
from anarchon.errors import ConfigurationError, StateError
from anarchon.handlers import DataT, Handler
from anarchon.listeners import Dispatcher, Events
from anarchon.model import options
from anarchon.model.options import DEFAULT, Given, Schedule, Store, given_options
from anarchon.model.run import Run
from anarchon.protocol import AnyOffers, Backend, ClaimBackend, LeaseBackend, Offers
from anarchon.session import Session
from anarchon.signals import stop_signals
from anarchon.status import SchedulerStatus, TaskStatus
from anarchon.tasks import Registry, Task, checked_handler
from anarchon.times import schedule as schedules
from anarchon.times.zones import AnarchonWarning, local_zone, zone

OverlapT = TypeVar("OverlapT")
LeaseT = TypeVar("LeaseT")
TtlT = TypeVar("TtlT")
BackendT_co = TypeVar("BackendT_co", bound=AnyOffers, covariant=True, default=Backend)

MOST_HISTORY = 10_000
"""The most runs that one call to history() brings."""


class Scheduler(Generic[BackendT_co]):
    """Runs tasks on a schedule, each slot on exactly one of the instances that share a backend.

        scheduler = Scheduler(SQLiteBackend("sqlite:///app.db"))

        @scheduler.every("ping", "30s")
        async def ping() -> None: ...

        scheduler.run()

    Every instance registers the same tasks before it starts. Making a scheduler does no I/O. `Scheduler` as a type
    is a scheduler on any backend and offers what each of them can do; `LeaseScheduler` is one on a lease backend.

    backend: where the instances meet; one object serves one scheduler.
    namespace: schedulers of other namespaces do not see each other; 1 to 64 characters; "default".
    instance_id: 1 to 128 characters; by default made anew at each start from host, process and a random part.
    lease_ttl_ms: how long a run is kept for an instance that has died, ms; at least 2000; 15000. Renewed every third.
    shutdown_grace_ms: how long a stop waits for handlers before it tells them to stop, ms; 10000.
    max_concurrent_runs: how many runs this instance takes at once; None: no limit.

    Defaults for the tasks: jitter_ms (2000), max_late_ms (60000), history_size (1000 runs), history_ttl_ms (None: no
    limit of age), timezone (None: UTC).
    """

    def __init__(
        self,
        backend: BackendT_co,
        *,
        namespace: str = "default",
        instance_id: str | None = None,
        lease_ttl_ms: int = 15_000,
        shutdown_grace_ms: int = 10_000,
        max_concurrent_runs: int | None = None,
        jitter_ms: int = 2_000,
        max_late_ms: int = 60_000,
        history_size: int = 1_000,
        history_ttl_ms: int | None = None,
        timezone: str | None = None,
    ) -> None:
        self._backend: Final[Backend] = _checked_backend(backend)
        can = self._backend.capabilities
        self._store: Final = Store(
            name=self._backend.name,
            lease=can.lease,
            history_ttl=can.history_ttl,
            remembers_ms=self._backend.remembers_ms,
        )
        where = f"scheduler on {self._store.name}"
        self._options: Final = options.check_scheduler(
            store=self._store,
            namespace=namespace,
            instance_id=instance_id,
            lease_ttl_ms=lease_ttl_ms,
            shutdown_grace_ms=shutdown_grace_ms,
            max_concurrent_runs=max_concurrent_runs,
            jitter_ms=jitter_ms,
            max_late_ms=max_late_ms,
            history_size=history_size,
            history_ttl_ms=history_ttl_ms,
            timezone="UTC" if timezone is None else _zone_name(where, timezone, stacklevel=3),
        )
        self._clock: Final = SystemClock()
        self._registry: Final = Registry(self._store.name)
        self._dispatcher: Final = Dispatcher(self._clock.now_ms)
        self._events: Final = Events(self._dispatcher)
        self._session: Session | None = None
        self._fatal: BaseException | None = None
        self._lock: Final = threading.Lock()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.namespace!r} on {self._store.name}>"

    # ---------------------------------------------------------------- registration

    def every(
        self: Scheduler[Offers[OverlapT, LeaseT, TtlT]],
        name: str,
        interval: str | int | timedelta,
        fn: Handler[DataT] | None = None,
        *,
        data: DataT = None,  # type: ignore[assignment]
        offset_ms: int = 0,
        baseline: str | None = None,
        timezone: str | None = None,
        jitter_ms: int | None = None,
        max_late_ms: int | None = None,
        timeout_ms: int | None = None,
        history_size: int | None = None,
        history_ttl_ms: TtlT = DEFAULT,
        overlap: OverlapT = DEFAULT,
        max_attempts: LeaseT = DEFAULT,
        catch_up_ms: LeaseT = DEFAULT,
    ) -> Task[DataT]:
        """Run `fn` once per interval: "250ms", "90s", "5m", "1h30m", "2d", "1w", int milliseconds or a timedelta.

        Slots lie at whole intervals since the Unix epoch, whenever an instance starts. Without `fn`, what is returned
        is the decorator of the handler: `async def` or `def`, with a RunContext or without.

        data: the handler reads it as `ctx.data`, with its type. Default: None.
        offset_ms: moves the grid by that much; less than the interval, and not with baseline. Default: 0.
        baseline: "HH:MM" in `timezone`: slots at baseline + k intervals of each local day. Default: none.
        timezone: an IANA name, only with baseline. Default: the scheduler's (UTC).
        jitter_ms: random wait after the slot before claiming it, ms; less than half the shortest gap between slots.
            Default: the scheduler's (2000), or a quarter of the shortest gap where that is less.
        max_late_ms: later than this after a slot, this instance skips it, ms; more than jitter_ms. Default: the
            scheduler's (60000), or jitter_ms + that where jitter_ms is not less.
        timeout_ms: after this the handler is told to stop and the run has failed, ms. Default: no limit.
        history_size: runs kept of this task, 1 to 1,000,000. Default: the scheduler's (1000).
        history_ttl_ms: drops older runs as well, ms; not every backend can. Default: the scheduler's (none).
        overlap: "skip" closes a slot while a run of the task is in progress, "allow" does not; needs a lease backend,
            without one it is "allow". Default: "skip".
        max_attempts: starts of one run, the first included, when instances die; 1: never a second time; needs a lease
            backend, without one it is 1. Default: 3.
        catch_up_ms: how old a slot that nobody ran may be to be run at a start, ms; 0: never; needs a lease backend,
            without one it is 0. Default: 300000.

        Raises ConfigurationError (UnsupportedOptionError, UnsafeOptionError, TaskExistsError, Invalid...Error) with
        the rule and a way out, and StateError once the scheduler has started. Warns with AnarchonWarning of what is
        legal but hurts.
        """
        where = self._where(name)
        offset = options.check_every(where, offset_ms=offset_ms, baseline=baseline, timezone=timezone)
        zone_name = None
        if baseline is not None:
            zone_name = self._options.tasks.timezone if timezone is None else _zone_name(where, timezone, stacklevel=3)
        try:
            schedule = schedules.every(interval, offset_ms=offset, baseline=baseline, timezone=zone_name)
        except ConfigurationError as error:
            raise _whose(where, error) from error.__cause__
        given = given_options(
            jitter_ms, max_late_ms, timeout_ms, history_size, history_ttl_ms, overlap, max_attempts, catch_up_ms
        )
        return self._register(where, name, schedule, given, data, fn)

    def cron(
        self: Scheduler[Offers[OverlapT, LeaseT, TtlT]],
        name: str,
        expression: str,
        fn: Handler[DataT] | None = None,
        *,
        data: DataT = None,  # type: ignore[assignment]
        timezone: str | None = None,
        jitter_ms: int | None = None,
        max_late_ms: int | None = None,
        timeout_ms: int | None = None,
        history_size: int | None = None,
        history_ttl_ms: TtlT = DEFAULT,
        overlap: OverlapT = DEFAULT,
        max_attempts: LeaseT = DEFAULT,
        catch_up_ms: LeaseT = DEFAULT,
    ) -> Task[DataT]:
        """Run `fn` by a cron expression: minute, hour, day of month, month and day of week, or "@daily" and its like.

        A wall time that does not exist on a day fires once, moved by the gap; one that comes twice fires once, unless
        every hour is allowed. Without `fn`, what is returned is the decorator of the handler: `async def` or `def`,
        with a RunContext or without.

        data: the handler reads it as `ctx.data`, with its type. Default: None.
        timezone: the IANA name of the zone in which the expression is meant. Default: the scheduler's (UTC).
        jitter_ms: random wait after the slot before claiming it, ms; less than half the shortest gap between slots.
            Default: the scheduler's (2000), or a quarter of the shortest gap where that is less.
        max_late_ms: later than this after a slot, this instance skips it, ms; more than jitter_ms. Default: the
            scheduler's (60000), or jitter_ms + that where jitter_ms is not less.
        timeout_ms: after this the handler is told to stop and the run has failed, ms. Default: no limit.
        history_size: runs kept of this task, 1 to 1,000,000. Default: the scheduler's (1000).
        history_ttl_ms: drops older runs as well, ms; not every backend can. Default: the scheduler's (none).
        overlap: "skip" closes a slot while a run of the task is in progress, "allow" does not; needs a lease backend,
            without one it is "allow". Default: "skip".
        max_attempts: starts of one run, the first included, when instances die; 1: never a second time; needs a lease
            backend, without one it is 1. Default: 3.
        catch_up_ms: how old a slot that nobody ran may be to be run at a start, ms; 0: never; needs a lease backend,
            without one it is 0. Default: 300000.

        Raises and warns as `every`.
        """
        where = self._where(name)
        zone_name = self._options.tasks.timezone if timezone is None else _zone_name(where, timezone, stacklevel=3)
        try:
            schedule = schedules.cron(expression, timezone=zone_name)
        except ConfigurationError as error:
            raise _whose(where, error) from error.__cause__
        given = given_options(
            jitter_ms, max_late_ms, timeout_ms, history_size, history_ttl_ms, overlap, max_attempts, catch_up_ms
        )
        return self._register(where, name, schedule, given, data, fn)

    def at(
        self: Scheduler[Offers[Any, LeaseT, TtlT]],
        name: str,
        when: datetime | str | int,
        fn: Handler[DataT] | None = None,
        *,
        data: DataT = None,  # type: ignore[assignment]
        jitter_ms: int | None = None,
        max_late_ms: int | None = None,
        timeout_ms: int | None = None,
        history_size: int | None = None,
        history_ttl_ms: TtlT = DEFAULT,
        max_attempts: LeaseT = DEFAULT,
        catch_up_ms: LeaseT = DEFAULT,
    ) -> Task[DataT]:
        """Run `fn` once, at an aware datetime, an ISO 8601 text with an offset, or UTC epoch milliseconds.

        A past time is no error: every restart registers the same line again. So write the time out: one that is
        computed from the clock is another on every instance, and each would run it. Without `fn`, what is returned is
        the decorator of the handler: `async def` or `def`, with a RunContext or without.

        data: the handler reads it as `ctx.data`, with its type. Default: None.
        jitter_ms: random wait after the slot before claiming it, ms. Default: the scheduler's (2000).
        max_late_ms: later than this after the slot, this instance skips it, ms; more than jitter_ms. Default: the
            scheduler's (60000), or jitter_ms + that where jitter_ms is not less.
        timeout_ms: after this the handler is told to stop and the run has failed, ms. Default: no limit.
        history_size: runs kept of this task, 1 to 1,000,000. Default: the scheduler's (1000).
        history_ttl_ms: drops older runs as well, ms; not every backend can. Default: the scheduler's (none).
        max_attempts: starts of the run, the first included, when instances die; 1: never a second time; needs a lease
            backend, without one it is 1. Default: 3.
        catch_up_ms: how long after its time it is still run at a start, ms, if nobody ran it; 0: never; needs a lease
            backend, without one it is 0. Default: 300000.

        Raises and warns as `every`.
        """
        where = self._where(name)
        try:
            schedule = schedules.at(when)
        except ConfigurationError as error:
            raise _whose(where, error) from error.__cause__
        given = given_options(
            jitter_ms, max_late_ms, timeout_ms, history_size, history_ttl_ms, DEFAULT, max_attempts, catch_up_ms
        )
        return self._register(where, name, schedule, given, data, fn, when)

    def task(self, name: str) -> Task[Any]:
        """The task of that name. Raises ConfigurationError, with the names there are, where there is none."""
        self._here()
        return self._registry.get(name)

    def _where(self, name: object) -> str:
        """Check that a task of this name may be registered now; how messages begin."""
        self._here()
        checked = options.check_task_name(name)
        where = f"task {checked!r} on {self._store.name}"
        self._registry.must_take(where, checked)
        return where

    def _register(
        self,
        where: str,
        name: str,
        schedule: Schedule,
        given: Given,
        data: DataT,
        fn: Handler[DataT] | None,
        when: object = None,
    ) -> Task[DataT]:
        settings = options.resolve(where, schedule, given, self._options.tasks, self._store)
        shape = None if fn is None else checked_handler(where, fn, data)
        for doubt in options.doubts(where, schedule, given, when):
            # May raise, under a filter that says so: before the task is there.
            warnings.warn(doubt, AnarchonWarning, stacklevel=3)
        task = Task(self._registry, name, schedule, settings, data, fn, shape)
        self._registry.add(task, where)
        return task

    # ---------------------------------------------------------------- start and stop, in a loop

    async def start(self) -> None:
        """Start on the running loop: `async def` handlers run on it, `def` handlers on threads.

        Registration ends here. Returns once the backend has been asked for the first time; while that is away, the
        scheduler goes on trying. Raises StateError where a task has no function, where the scheduler has started
        already, or where handlers of the last start are still running; BackendMisconfiguredError where waiting will
        not help. A stopped scheduler may be started again, under a new instance id unless one was given.
        """
        await self._bring_up(self._open(asyncio.get_running_loop()))

    async def stop(self, grace_ms: int | None = None) -> None:
        """Claim nothing more, wait for handlers, tell them to stop, hand over what did not end.

        grace_ms: how long handlers may go on before they are told to stop, ms; None: the scheduler's
        shutdown_grace_ms. A second call may shorten it. Handlers that will not end keep their leases behind this call,
        which returns all the same. Without a start it returns at once. Cancelling it stops nothing but the waiting.
        A listener may await it; a handler that awaits it waits for itself, until the grace is over.
        """
        self._here()
        grace_ms = _grace(grace_ms, "stop()")
        session = self._session
        if session is not None:
            await session.stopped_or_late(session.stop(grace_ms))

    async def serve(self) -> None:
        """Start, go on until SIGINT or SIGTERM, or until somebody calls stop(), and stop gracefully.

        A second signal ends the grace. Signals are watched in the main thread only, and the handlers that were set
        before are back afterwards. Cancelling it stops the scheduler, too. What a handler raises to end the process
        (SystemExit, KeyboardInterrupt) comes out of this call once the leases are handed back.
        """
        loop = asyncio.get_running_loop()
        session = self._open(loop)
        session.fatal_is_awaited = True
        asked = asyncio.Event()
        signals = 0

        def signalled() -> None:
            # In a signal handler: only what may be done there.
            nonlocal signals
            signals += 1
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(hurry if signals > 1 else asked.set)

        def hurry() -> None:
            session.stop(0)

        session.stopped.add_done_callback(lambda _: _set_on(loop, asked))
        with stop_signals(signalled):
            try:
                starting = loop.create_task(self._bring_up(session), name="anarchon-start")
                waiting = loop.create_task(asked.wait(), name="anarchon-asked")
                try:
                    await asyncio.wait({starting, waiting}, return_when=asyncio.FIRST_COMPLETED)
                    if starting.done():
                        starting.result()
                    await waiting
                finally:
                    waiting.cancel()
                    stopping = session.stop()
                    await session.stopped_or_late(stopping)
                    await asyncio.gather(starting, return_exceptions=True)
                # A start that failed has stopped the session, and that may have been heard of first.
                starting.result()
            except asyncio.CancelledError:
                if session.fatal is None:
                    raise
        if session.fatal is not None:
            raise session.fatal

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._is_here():
            await self.stop()

    # ---------------------------------------------------------------- start and stop, without a loop

    def run(self) -> None:
        """Start, go on until SIGINT or SIGTERM, stop gracefully, return. Blocks; makes a loop of its own.

        As `serve`, for a program that does nothing else. Raises StateError inside a running loop.
        """
        if _loop_of_this_thread() is not None:
            raise StateError(
                "run() blocks, and this thread has a running event loop that would stand still; await serve() or "
                "start() instead"
            )
        self._here()
        _run_to_the_end(self.serve())

    def start_background(self) -> None:
        """Start without a loop: `async def` handlers run on a loop that the scheduler has on a thread of its own.

        For applications that have no loop. Returns and raises as `start`.
        """
        session = self._open(None)
        try:
            session.begin().result()
        except BaseException:
            session.until_stopped(session.stop(0))
            raise
        session.up()

    def shutdown(self, grace_ms: int | None = None) -> None:
        """As `stop`, blocking, from any thread but the one whose loop the handlers need.

        After a start without a loop it raises what a handler raised to end the process (SystemExit,
        KeyboardInterrupt).
        """
        self._here()
        grace_ms = _grace(grace_ms, "shutdown()")
        session = self._session
        if session is not None:
            if session.on_app_loop():
                raise StateError("shutdown() would block the loop on which the handlers run; await stop() instead")
            session.until_stopped(session.stop(grace_ms))
        fatal, self._fatal = self._fatal, None
        if fatal is not None:
            raise fatal

    def __enter__(self) -> Self:
        self.start_background()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._is_here():
            self.shutdown()

    # ---------------------------------------------------------------- look

    @property
    def namespace(self) -> str:
        """Schedulers of one namespace on one store share their tasks."""
        return self._options.namespace

    @property
    def instance_id(self) -> str | None:
        """The id of this start; None where it has not started and none was given."""
        return self._session.instance_id if self._session is not None else self._options.instance_id

    @property
    def events(self) -> Events:
        """Listeners to what this instance does: `scheduler.events.on(RunFailed, fn)`."""
        return self._events

    async def history(self, task: str, *, limit: int = 100) -> Sequence[Run]:
        """The newest runs of a task by whatever instance, newest slot first, at most `limit` (1 to 10,000).

        Needs a started scheduler whose backend can be reached; raises StateError or BackendError where it is not so.
        """
        return await asyncio.wrap_future(self._ask_history(task, limit))

    async def last_run(self, task: str) -> Run | None:
        """The newest run of a task by whatever instance; None where there is none. As `history`."""
        found = await self.history(task, limit=1)
        return found[0] if found else None

    @property
    def sync(self) -> SyncCalls:
        """The calls that need an answer from the store, for code without a loop: `scheduler.sync.history("a")`."""
        return SyncCalls(self._ask_history)

    def list(self) -> Sequence[TaskStatus]:
        """Every registered task, with its schedule in words and its next slot."""
        return self.status().tasks

    def status(self) -> SchedulerStatus:
        """What this instance is doing. Waits for the engine's answer, a second at most."""
        self._here()
        session = self._session
        seen, answering = session.look() if session is not None else (None, False)
        now_ms = self._clock.now_ms()
        running = seen.running if seen is not None else ()
        outlived = seen.outlived if seen is not None else ()
        busy: dict[str, int] = {}
        for run in (*running, *outlived):
            busy[run.task] = busy.get(run.task, 0) + 1
        return SchedulerStatus(
            state=session.state if session is not None else "stopped",
            started=session is not None,
            started_at_ms=session.started_at_ms if session is not None else None,
            instance_id=self.instance_id,
            namespace=self.namespace,
            backend=self._store.name,
            backend_away=seen.backend_away if seen is not None else False,
            answering=answering,
            tasks=tuple(_task_status(task, now_ms, busy.get(task.name, 0)) for task in self._registry.all()),
            running=running,
            outlived=outlived,
            counters=dict(seen.counters) if seen is not None else {},
            skew_ms=seen.skew_ms if seen is not None else None,
            lag_ms=seen.lag_ms if seen is not None else 0.0,
            events_dropped=self._dispatcher.dropped + (session.log_dropped if session is not None else 0),
        )

    # ---------------------------------------------------------------- inside

    def _here(self) -> None:
        """Raise StateError in a child that was forked after the start."""
        if self._session is not None:
            self._session.must_be_here()

    def _is_here(self) -> bool:
        """Whether leaving a `with` block may stop anything: in a forked child there is nothing to stop."""
        try:
            self._here()
        except StateError:
            return False
        return True

    def _open(self, app_loop: asyncio.AbstractEventLoop | None) -> Session:
        """The session of a new start; StateError where there is one."""
        self._here()
        tasks = self._registry.for_engine()
        with self._lock:
            if self._session is not None:
                raise StateError(_ALREADY[self._session.state])
            self._fatal = None
            self._session = Session(
                backend=self._backend,
                options=self._options,
                tasks=tasks,
                dispatcher=self._dispatcher,
                clock=self._clock,
                app_loop=app_loop,
                ended=self._session_ended,
            )
            self._registry.close("registration ends when the scheduler starts, since every instance must know the same")
            return self._session

    def _session_ended(self, session: Session) -> None:
        with self._lock:
            if self._session is session:
                self._session = None
                self._registry.reopen()
                if session.app_loop is None:
                    self._fatal = session.fatal

    async def _bring_up(self, session: Session) -> None:
        try:
            await asyncio.wrap_future(session.begin())
        except BaseException:
            # Also when the waiting was cancelled: nobody would know of a scheduler that goes on.
            await session.stopped_or_late(session.stop(0))
            raise
        session.up()

    def _ask_history(self, task: object, limit: object) -> Future[builtins.list[Run]]:
        self._here()
        name = options.check_task_name(task)
        most = options.whole(f"history of task {name!r}", "limit", limit, least=1, most=MOST_HISTORY)
        session = self._session
        if session is None:
            raise StateError("history needs a started scheduler: call it between start() and stop()")
        return session.ask(session.engine.history(name, most))


class SyncCalls:
    """What a scheduler answers from the store, for code without a loop. Each call blocks until the store answers."""

    __slots__ = ("_ask_history",)

    def __init__(self, ask_history: Callable[[object, object], Future[builtins.list[Run]]]) -> None:
        self._ask_history = ask_history

    def history(self, task: str, *, limit: int = 100) -> Sequence[Run]:
        """As `Scheduler.history`."""
        return self._ask_history(task, limit).result()

    def last_run(self, task: str) -> Run | None:
        """As `Scheduler.last_run`."""
        found = self.history(task, limit=1)
        return found[0] if found else None


LeaseScheduler: TypeAlias = Scheduler[LeaseBackend]
"""For annotations: a scheduler on any lease backend. Plain `Scheduler` means a scheduler on any backend."""

_ALREADY: Final = {
    "starting": "the scheduler is starting already",
    "running": "the scheduler has started already; stop it before you start it again",
    "stopping": "the scheduler is stopping; start it again when stop() has returned",
    "lingering": "handlers of the last start are still running and keep their leases; start again when they have ended",
    "ended": "the scheduler is stopping; start it again when stop() has returned",
}


def _checked_backend(backend: object) -> Backend:
    if isinstance(backend, LeaseBackend | ClaimBackend):
        return backend
    if isinstance(backend, Backend):
        raise ConfigurationError(
            f"{type(backend).__name__} extends Backend directly; a backend extends ClaimBackend or LeaseBackend"
        )
    hint = "; open_backend(url) makes one from a URL" if isinstance(backend, str) else ""
    made = f"the class {backend.__name__}, not an instance" if isinstance(backend, type) else type(backend).__name__
    raise ConfigurationError(f"backend must be a ClaimBackend or a LeaseBackend, and is {made}{hint}")


def _grace(grace_ms: object, call: str) -> int | None:
    return None if grace_ms is None else options.check_grace(grace_ms, call=call)


def _zone_name(where: str, name: str, *, stacklevel: int) -> str:
    """The canonical name of a zone; "local" is the machine's, with a warning."""
    try:
        # Asked for by hand, so that the warning points at the user's line.
        machines = str(name).lower() == "local"
        found = local_zone().name if machines else zone(name).name
    except ConfigurationError as error:
        raise _whose(where, error) from error.__cause__
    if machines:
        warnings.warn(
            f'{where}: timezone="local" is {found} on this machine; instances on machines with another zone would '
            "compute other slots, so write the name out",
            AnarchonWarning,
            stacklevel=stacklevel,
        )
    return found


def _whose(where: str, error: ConfigurationError) -> ConfigurationError:
    """The same refusal, saying first whose it is."""
    error.args = (f"{where}: {error}", *error.args[1:])
    return error


def _task_status(task: Task[Any], now_ms: int, running: int) -> TaskStatus:
    settings = task.settings
    return TaskStatus(
        name=task.name,
        schedule=task.schedule.describe(),
        timezone=getattr(task.schedule, "timezone", None),
        next_slot_ms=task.schedule.next(now_ms),
        running=running,
        has_handler=task.fn is not None,
        jitter_ms=settings.jitter_ms,
        max_late_ms=settings.max_late_ms,
        timeout_ms=settings.timeout_ms,
        overlap=settings.overlap,
        max_attempts=settings.max_attempts,
        catch_up_ms=settings.catch_up_ms,
        history_size=settings.history_size,
        history_ttl_ms=settings.history_ttl_ms,
    )


def _loop_of_this_thread() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _set_on(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    # The loop may be closed by now.
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(event.set)


LEFT_TASKS_S = 1.0
"""How long run() waits for tasks that are left on its loop, s."""


def _run_to_the_end(main: Coroutine[Any, Any, None]) -> None:
    """Run `main` on a new loop and close it, without waiting for ever for what will not be cancelled."""
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(main)
    finally:
        try:
            left = asyncio.all_tasks(loop)
            for task in left:
                task.cancel()
            if left:
                loop.run_until_complete(asyncio.wait(left, timeout=LEFT_TASKS_S))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()
