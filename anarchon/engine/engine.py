"""Puts the parts together and carries them through start, stop and exit."""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import random
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

from anarchon._version import __version__
from anarchon.clock import Clock
from anarchon.engine.active import ActiveRun
from anarchon.engine.catch_up import slots_to_catch_up
from anarchon.engine.claimer import Claimer
from anarchon.engine.env import Env
from anarchon.engine.keeper import LeaseKeeper
from anarchon.engine.planner import Planner
from anarchon.engine.recorder import Recorder
from anarchon.engine.runner import Runner
from anarchon.engine.survey import Survey
from anarchon.engine.task import EngineTask
from anarchon.errors import BackendError, BackendMisconfiguredError, StateError, UnsafeOptionError
from anarchon.host.base import Host
from anarchon.log_lines import say
from anarchon.model.asks import InstanceRecord, StoreInfo, TaskRecord
from anarchon.model.events import Event, SchedulerStarted, SchedulerStopped
from anarchon.model.run import Run, Skip
from anarchon.model.settings import SchedulerSettings
from anarchon.model.slots import late_claim_ms
from anarchon.protocol import Backend
from anarchon.times.zones import tz_database_version

logger = logging.getLogger("anarchon")

AFTER_GRACE_MS = 1_000
"""How long stop() waits for handlers after it has told them to stop, ms."""

LAST_WORDS_MS = 2_000
"""How long stop() waits for the store to take the last records, ms."""

LANDING_MS = 1_000
"""How long the process's exit waits for what has been asked of the store, ms."""

SKIP_FLUSH_MS = 10_000
"""How often a claim-only instance, which has no survey, stores its gathered skips, ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningRun:
    """A run that this instance is at work on."""

    task: str
    run_id: str
    slot_ms: int | None
    attempt: int
    reason: str
    began_at_ms: int | None
    told: str | None
    """Why its handler was told to stop; None while it was not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSnapshot:
    """What one instance is doing."""

    opened: bool
    stopping: bool
    backend_away: bool
    running: tuple[RunningRun, ...]
    outlived: tuple[RunningRun, ...]
    """Handlers that go on although their run is over."""
    threads: int
    waiting_claims: int
    held_leases: int
    skew_ms: float | None
    lag_ms: float
    counters: Mapping[str, int]
    next_slots: Mapping[str, int | None]


class Engine:
    """The scheduler proper, on one event loop. Every method is called on that loop."""

    def __init__(
        self,
        *,
        backend: Backend,
        host: Host,
        clock: Clock,
        settings: SchedulerSettings,
        tasks: Sequence[EngineTask],
        emit: Callable[[Event], None],
        on_fatal: Callable[[BaseException], None],
        rng: random.Random | None = None,
    ) -> None:
        self._env = Env(
            backend=backend,
            host=host,
            clock=clock,
            settings=settings,
            tasks=tasks,
            emit=emit,
            on_fatal=on_fatal,
            rng=rng if rng is not None else random.Random(),
        )
        self._recorder = Recorder(self._env)
        self._runner = Runner(self._env, self._recorder, self._run_ended)
        self._claimer = Claimer(self._env, self._runner, self._recorder)
        self._planner = Planner(self._env, self._claimer, self._runner, self._host_gone)
        self._survey: Survey | None = None
        if self._env.lease is not None:
            self._survey = Survey(self._env, self._env.lease, self._runner, self._claimer, self._recorder)
            self._runner.keeper = LeaseKeeper(self._env, self._env.lease, self._runner.lost)
        self._opened = False
        self._backend_is_others = False
        self._start_ms = 0
        self._known_since: dict[str, int | None] = {}
        self._bringing_up: asyncio.Task[None] | None = None
        self._duties: list[asyncio.Task[None]] = []
        self._first_try: asyncio.Future[None] | None = None
        self._stopping: asyncio.Task[int] | None = None
        self._grace_until = float("inf")
        self._grace_changed = asyncio.Event()
        self._lingering: asyncio.Task[None] | None = None
        self._gone = False

    # ---------------------------------------------------------------- start

    async def start(self) -> None:
        """Open the store and begin. With the store away, return after the first try and go on trying.

        Raises BackendMisconfiguredError where waiting would not help, UnsafeOptionError where the store turns out to
        remember claims for less time than a task may be late, StateError where the backend serves somebody else.
        """
        if self._bringing_up is not None:
            raise StateError("this engine was started before; make a new one")
        self._start_ms = self._env.clock.now_ms()
        self._first_try = asyncio.get_running_loop().create_future()
        self._bringing_up = self._env.spawn(self._bring_up(), "start")
        await asyncio.shield(self._first_try)

    async def _bring_up(self) -> None:
        assert self._first_try is not None
        while not self._env.stopping:
            try:
                await self._open()
            except (BackendMisconfiguredError, UnsafeOptionError, StateError) as error:
                await self._close_backend()
                if not self._first_try.done():
                    self._first_try.set_exception(error)
                    return
                say(logger, logging.ERROR, "the backend answers, but refuses this scheduler: %s", error)
                await self._env.clock.sleep_ms(self._env.retry_delay_ms())
            except BackendError:
                self._tried()
                await self._env.clock.sleep_ms(self._env.retry_delay_ms())
            except BaseException as error:
                if not self._first_try.done():
                    self._first_try.set_exception(error)
                raise
            else:
                break
        self._tried()

    def _tried(self) -> None:
        if self._first_try is not None and not self._first_try.done():
            self._first_try.set_result(None)

    async def _open(self) -> None:
        env = self._env
        if not self._opened:
            sent_wall = env.clock.now_ms()
            info = await env.ask(self._open_backend())
            if isinstance(info, StateError):
                raise info
            self._check_memory(info)
            env.note_skew(info.store_now_ms, sent_wall)
            self._opened = True
        records = [_task_record(task) for task in env.tasks.values()]
        known = await env.ask(env.backend.register(records))
        self._known_since = {record.name: since for record, since in zip(records, known, strict=True)}
        self._duties.append(env.spawn(self._recorder.write(), "recorder"))
        first_survey_in = 0.0
        if self._survey is not None:
            assert self._runner.keeper is not None
            self._duties.append(env.spawn(self._runner.keeper.keep(), "keeper"))
            try:
                first_survey_in = await self._survey.survey_once()
            except BackendError:
                first_survey_in = env.retry_delay_ms()
        if self._stopping is not None:
            return
        self._catch_up()
        self._planner.begin(self._start_ms)
        self._duties.append(env.spawn(self._planner.plan(), "planner"))
        if self._survey is not None:
            self._duties.append(env.spawn(self._survey.survey_for_ever(first_survey_in), "survey"))
        else:
            self._duties.append(env.spawn(self._flush_skips(), "skips"))
        env.emit(SchedulerStarted(tasks=len(env.tasks), **env.said()))

    async def _open_backend(self) -> StoreInfo | StateError:
        try:
            info = await self._env.backend.open(self._env.settings.namespace, self._instance_record())
        except StateError as error:
            # It serves another scheduler, or a reader, who is not to find it closed.
            self._backend_is_others = True
            return error
        self._backend_is_others = False
        return info

    async def _close_backend(self) -> None:
        self._opened = False
        if not self._backend_is_others:
            await self._env.backend.close()

    def _check_memory(self, info: StoreInfo) -> None:
        if self._env.claim_only is None or info.remembers_ms is None:
            return
        for task in self._env.tasks.values():
            late = task.settings.jitter_ms + task.settings.max_late_ms
            if late >= info.remembers_ms:
                raise UnsafeOptionError(
                    f"task {task.name!r}: jitter_ms + max_late_ms is {late}, but {self._env.backend.name} remembers a "
                    f"claimed slot for only {info.remembers_ms} ms, so a late instance could win it again; lower "
                    "max_late_ms or raise slot_ttl_ms of the backend"
                )

    def _catch_up(self) -> None:
        wanted, too_old = slots_to_catch_up(list(self._env.tasks.values()), self._known_since, self._start_ms)
        for task, slot in too_old:
            self._claimer.skip(task, slot, "late")
        self._claimer.submit(wanted, "catch-up")

    def _instance_record(self) -> InstanceRecord:
        settings = self._env.settings
        return InstanceRecord(
            instance_id=settings.instance_id,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=__version__,
            python=platform.python_version(),
            tz_database=tz_database_version(),
            lease_ms=settings.lease_ms,
        )

    async def _flush_skips(self) -> None:
        while True:
            await self._env.clock.sleep_ms(SKIP_FLUSH_MS)
            self._recorder.flush()

    def _run_ended(self) -> None:
        if self._opened and not self._env.stopping:
            self._claimer.room_changed()
            if self._survey is not None:
                self._survey.room_changed()

    def _host_gone(self) -> None:
        """The application's loop was closed without stop(): nothing can run here any more."""
        if not self._env.stopping:
            words = "the application's event loop was closed while the scheduler was running: stopping it"
            say(logger, logging.WARNING, words)
            self._env.spawn(self._stop_by_itself(), "stop-by-itself")

    async def _stop_by_itself(self) -> None:
        await self.stop(0)

    # ---------------------------------------------------------------- stop

    async def stop(self, grace_ms: int) -> int:
        """Claim nothing more, wait the grace, tell the handlers, then hand over what has ended unfinished.

        Answers how many handlers would not end: they keep their leases, and `wait_ended` tells when they are through.
        A second call may shorten the grace.
        """
        until = self._env.clock.monotonic_ms() + grace_ms
        if until < self._grace_until:
            self._grace_until = until
            self._grace_changed.set()
        if self._stopping is None:
            self._env.stopping = True
            self._stopping = asyncio.get_running_loop().create_task(self._stop(), name="anarchon-stop")
        return await asyncio.shield(self._stopping)

    async def _stop(self) -> int:
        env = self._env
        self._tried()
        for task, slot in self._planner.unripe():
            self._claimer.skip(task, slot, "stopping")
        for duty in self._duties:
            if duty.get_name() == "anarchon-planner":
                duty.cancel()
        await self._within(LAST_WORDS_MS, self._nothing_asked_for())
        await self._grace()
        if self._runner.running:
            self._runner.tell_all("stopping")
            await self._within(AFTER_GRACE_MS, self._runner.quiet())
        if self._opened:
            await self._within(LAST_WORDS_MS, self._recorder.drained())
        left = len(self._runner.running)
        env.emit(SchedulerStopped(left_running=left, **env.said()))
        if left:
            self._lingering = asyncio.get_running_loop().create_task(self._linger(), name="anarchon-linger")
        else:
            await self._close()
        return left

    async def _nothing_asked_for(self) -> None:
        """Return once the store has answered each claim and take-up: what it grants now is given back unbegun."""
        await self._claimer.stop()
        if self._survey is not None:
            await self._survey.landed()

    async def _grace(self) -> None:
        """Wait until no handler is running or the grace is over; a second stop() may bring its end forward."""
        quiet = asyncio.ensure_future(self._runner.quiet())
        try:
            while not quiet.done() and self._env.clock.monotonic_ms() < self._grace_until:
                self._grace_changed.clear()
                changed = asyncio.ensure_future(self._grace_changed.wait())
                over = asyncio.Event()
                timer = self._env.clock.call_at(self._grace_until, over.set)
                ended = asyncio.ensure_future(over.wait())
                await asyncio.wait({quiet, changed, ended}, return_when=asyncio.FIRST_COMPLETED)
                timer.cancel()
                changed.cancel()
                ended.cancel()
        finally:
            quiet.cancel()

    async def _within(self, limit_ms: float, work: Awaitable[None]) -> bool:
        """Await `work` for at most `limit_ms` of the engine's own clock."""
        task = asyncio.ensure_future(work)
        over = asyncio.Event()
        timer = self._env.clock.call_at(self._env.clock.monotonic_ms() + limit_ms, over.set)
        ended = asyncio.ensure_future(over.wait())
        await asyncio.wait({task, ended}, return_when=asyncio.FIRST_COMPLETED)
        timer.cancel()
        ended.cancel()
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            return False
        await task
        return True

    async def _linger(self) -> None:
        """Keep the leases of handlers that will not end, until they do."""
        await self._runner.quiet()
        await self._within(LAST_WORDS_MS, self._recorder.drained())
        await self._close()

    async def _close(self) -> None:
        """Renewal is the last thing to stop."""
        if self._gone:
            return
        self._gone = True
        await self._env.end_background()
        self._runner.stop()
        if self._runner.keeper is not None:
            self._runner.keeper.stop()
        await self._close_backend()

    async def wait_ended(self) -> None:
        """After stop(): return once every handler has ended and everything is closed."""
        if self._lingering is not None:
            await asyncio.shield(self._lingering)

    async def leave(self) -> None:
        """At the process's exit: no grace; give back what is held, within a bounded time."""
        self._env.stopping = True
        self._grace_until = 0
        self._grace_changed.set()
        for duty in self._duties:
            if duty.get_name() == "anarchon-planner":
                duty.cancel()
        self._runner.give_up_all()
        await self._within(LANDING_MS, self._nothing_asked_for())
        if self._opened:
            await self._within(LAST_WORDS_MS, self._recorder.drained())
        await self._close()

    # ---------------------------------------------------------------- look

    async def history(self, task: str, limit: int) -> list[Run]:
        """The newest runs of a task from the store."""
        self._must_be_open()
        return list(await self._env.backend.history(task, limit))

    async def skips(self, task: str, limit: int) -> list[Skip]:
        """The newest skips of a task from the store."""
        self._must_be_open()
        return list(await self._env.backend.skips(task, limit))

    def _must_be_open(self) -> None:
        if not self._opened or self._gone:
            raise StateError("the backend is not open: call this between start() and stop(), with the store reachable")

    def snapshot(self) -> EngineSnapshot:
        """What this instance is doing now."""
        keeper = self._runner.keeper
        return EngineSnapshot(
            opened=self._opened,
            stopping=self._env.stopping,
            backend_away=self._env.away,
            running=tuple(_shown(active) for active in self._runner.running.values()),
            outlived=tuple(_shown(active) for active in self._runner.outlived),
            threads=self._env.host.threads_alive(),
            waiting_claims=self._claimer.waiting,
            held_leases=keeper.held if keeper is not None else 0,
            skew_ms=self._env.skew_ms,
            lag_ms=self._env.host.lag_ms(),
            counters=asdict(self._env.counters),
            next_slots=self._planner.next_slots(),
        )


def _shown(active: ActiveRun) -> RunningRun:
    return RunningRun(
        task=active.task.name,
        run_id=active.run.run_id,
        slot_ms=active.run.slot_ms,
        attempt=active.run.attempt,
        reason=active.reason,
        began_at_ms=active.began_at_ms,
        told=active.told,
    )


def _task_record(task: EngineTask) -> TaskRecord:
    settings = task.settings
    return TaskRecord(
        name=task.name,
        schedule=task.schedule.canonical,
        history_size=settings.history_size,
        history_ttl_ms=settings.history_ttl_ms,
        late_claim_ms=late_claim_ms(settings.jitter_ms, settings.max_late_ms),
        catch_up_ms=settings.catch_up_ms,
    )
