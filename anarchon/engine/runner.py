"""Starts the handler of each granted run and settles it when the handler's own task or thread says it has ended."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Literal

from anarchon.clock import Timer
from anarchon.context import RunContext, StopSignal, set_signal, was_seen
from anarchon.engine.active import ActiveRun, Grant
from anarchon.engine.env import Env
from anarchon.engine.keeper import LeaseKeeper
from anarchon.engine.recorder import Recorder
from anarchon.host.base import Ended, Work
from anarchon.log_lines import in_words
from anarchon.model.asks import Finish, HandOver
from anarchon.model.events import (
    HandlerEnded,
    HandlerOutlived,
    LeaseLost,
    ResultRefused,
    RunFailed,
    RunHandedOver,
    RunInterrupted,
    RunRecovered,
    RunStarted,
    RunSucceeded,
)
from anarchon.model.run import Run
from anarchon.model.settling import settle, stays_silent
from anarchon.model.words import FinalStatus, SignalReason

OUTLIVED_AFTER_MS = 1_000
"""How long a handler whose run is over may take to end before that is said, ms."""

LOOK_MS = 1_000
"""How often runs that have not begun are looked at, ms."""

TEARDOWN_MS = 250
"""How long the outcome of a handler that others have cancelled waits, to see whether its whole loop is ending, ms."""

run_logger = logging.getLogger("anarchon.run")


class Runner:
    """Every run of this instance that is not settled."""

    def __init__(self, env: Env, recorder: Recorder, ended: Callable[[], None]) -> None:
        self._env = env
        self._recorder = recorder
        self._room_changed = ended
        self.keeper: LeaseKeeper | None = None
        self.running: dict[str, ActiveRun] = {}
        """Runs held here whose handler has not ended: they count against max_concurrent_runs."""
        self.outlived: set[ActiveRun] = set()
        """Handlers whose run is over but which have not ended."""
        self._not_begun: dict[ActiveRun, None] = {}
        self._look_timer: Timer | None = None
        self._quiet = asyncio.Event()
        self._quiet.set()

    # ---------------------------------------------------------------- start

    def begin(self, grants: Sequence[Grant]) -> None:
        """Hold the leases, then start the handlers, with one wake-up for all."""
        actives = [self._hold(grant) for grant in grants]
        startable: list[ActiveRun] = []
        now, now_wall = self._env.clock.monotonic_ms(), self._env.clock.now_ms()
        for active in actives:
            if active.reason in ("recovery", "hand-over"):
                self._env.counters.recovered += 1
                self._env.emit(RunRecovered(**active.facts(), **self._env.said()))
            too_late = active.trusted_until <= now or active.begin_by_wall_ms < now_wall
            if self._env.stopping or too_late:
                # Granted too late to be believed or to begin, or while stopping: given back before anything began.
                self._settle(active, Ended("never-began"))
            else:
                startable.append(active)
        if not startable:
            return
        calls = self._env.host.start_calls([self._work(active) for active in startable])
        for active, call in zip(startable, calls, strict=True):
            active.call = call
            self._not_begun[active] = None
            call.on_began = partial(self._began, active)
            call.ended.add_done_callback(partial(self._handler_ended, active))
            if call.began:
                self._began(active)
        self._watch_beginnings()

    def _hold(self, grant: Grant) -> ActiveRun:
        now_wall = self._env.clock.now_ms()
        begin_from = grant.run.scheduled_at_ms if grant.reason == "schedule" else now_wall
        active = ActiveRun(
            run=grant.run,
            task=grant.task,
            reason=grant.reason,
            signal=StopSignal(),
            trusted_until=grant.trusted_until,
            begin_by_wall_ms=begin_from + grant.task.settings.max_late_ms,
        )
        older = self.running.get(grant.run.run_id)
        if older is not None:
            # This process has slept through the end of its own lease and got the run again, under another fence.
            if self.keeper is not None:
                self.keeper.drop(older)
            self.lost(older, "refused")
        self.running[grant.run.run_id] = active
        self._quiet.clear()
        if self.keeper is not None:
            self.keeper.hold(active)
        return active

    def _work(self, active: ActiveRun) -> Work:
        task = active.task
        if not task.takes_context:
            return Work(name=task.name, fn=task.fn, is_async=task.is_async)
        run = active.run
        context = RunContext(
            task=task.name,
            run_id=run.run_id,
            scheduled_at=datetime.fromtimestamp(run.scheduled_at_ms / 1_000, UTC),
            attempt=run.attempt,
            reason=active.reason,
            data=task.data,
            signal=active.signal,
            fence=run.fence,
            instance_id=self._env.settings.instance_id,
            logger=logging.LoggerAdapter(run_logger, {"task": task.name, "run_id": run.run_id, "attempt": run.attempt}),
        )
        return Work(name=task.name, fn=task.fn, args=(context,), is_async=task.is_async)

    def _began(self, active: ActiveRun) -> None:
        if active not in self._not_begun:
            return
        del self._not_begun[active]
        active.began_at_ms = self._env.clock.now_ms()
        self._env.counters.fires += 1
        self._env.emit(RunStarted(**active.facts(), **self._env.said()))
        timeout_ms = active.task.settings.timeout_ms
        if timeout_ms is not None and not active.ended:
            at = self._env.clock.monotonic_ms() + timeout_ms
            active.timeout_timer = self._env.clock.call_at(at, lambda: self._timed_out(active, timeout_ms))

    def _watch_beginnings(self) -> None:
        if self._not_begun and self._look_timer is None:
            at = self._env.clock.monotonic_ms() + LOOK_MS
            self._look_timer = self._env.clock.call_at(at, self._look_at_beginnings)

    def _look_at_beginnings(self) -> None:
        self._look_timer = None
        now = self._env.clock.now_ms()
        for active in [one for one in self._not_begun if one.begin_by_wall_ms < now]:
            assert active.call is not None
            active.call.cancel()
        self._watch_beginnings()

    # ---------------------------------------------------------------- told to stop

    def _tell(self, active: ActiveRun, reason: SignalReason) -> None:
        if active.told is None:
            active.told = reason
            set_signal(active.signal, reason)
        if active.call is not None:
            active.call.cancel()

    def _timed_out(self, active: ActiveRun, timeout_ms: int) -> None:
        if active.ended or active.told in ("lease-lost", "timeout"):
            return
        # Recorded at the timeout, not when the handler gives in: the lease ends with the record.
        active.told = "timeout"
        set_signal(active.signal, "timeout")
        self._env.counters.timed_out += 1
        self._record(active, "failed", error=f"TimeoutError: Timed out after {timeout_ms} ms")
        self._over(active)
        self._tell(active, "timeout")

    def lost(self, active: ActiveRun, found: Literal["trust deadline", "refused"]) -> None:
        """The keeper no longer believes the lease: the handler is told before the lease ends."""
        if active.ended or active.told == "timeout":
            return
        self._env.counters.leases_lost += 1
        self._env.emit(LeaseLost(found=found, **active.facts(), **self._env.said()))
        active.told = "lease-lost"
        set_signal(active.signal, "lease-lost")
        self._over(active)
        self._tell(active, "lease-lost")

    def _over(self, active: ActiveRun) -> None:
        """The run is over here although its handler has not ended."""
        self.running.pop(active.run.run_id, None)
        self._not_begun.pop(active, None)
        if active.call is not None:
            self.outlived.add(active)
            at = self._env.clock.monotonic_ms() + OUTLIVED_AFTER_MS
            active.outlived_timer = self._env.clock.call_at(at, lambda: self._say_outlived(active))
        self._changed()

    def _say_outlived(self, active: ActiveRun) -> None:
        active.outlived_said = True
        self._env.counters.handlers_outlived += 1
        self._env.emit(HandlerOutlived(why=active.told or "lease-lost", **active.facts(), **self._env.said()))

    def tell_all(self, reason: SignalReason) -> None:
        """Tell every handler to stop."""
        for active in list(self.running.values()):
            self._tell(active, reason)

    # ---------------------------------------------------------------- ended

    def _handler_ended(self, active: ActiveRun, future: asyncio.Future[Ended]) -> None:
        ended = future.result()
        if ended.how == "cancelled" and ended.error is None and active.told is None:
            # Not by the engine. Where asyncio.run() is ending without stop(), its loop will be closed in a moment.
            at = self._env.clock.monotonic_ms() + TEARDOWN_MS
            self._env.clock.call_at(at, lambda: self._cancelled_by_others(active, ended))
        else:
            self._settle(active, ended)

    def _cancelled_by_others(self, active: ActiveRun, ended: Ended) -> None:
        if not self._env.host.alive and not active.ended:
            self._tell(active, "stopping")
        self._settle(active, ended)

    def _settle(self, active: ActiveRun, ended: Ended) -> None:
        if active.ended:
            return
        active.ended = True
        for timer in (active.timeout_timer, active.outlived_timer):
            if timer is not None:
                timer.cancel()
        self._not_begun.pop(active, None)
        self.outlived.discard(active)
        if active.outlived_said:
            self._env.emit(HandlerEnded(**active.facts(), **self._env.said()))
        if not stays_silent(active.told):
            self._conclude(active, ended)
        if self.running.get(active.run.run_id) is active:
            del self.running[active.run.run_id]
        self._changed()
        if isinstance(ended.error, SystemExit | KeyboardInterrupt):
            self._env.on_fatal(ended.error)

    def _conclude(self, active: ActiveRun, ended: Ended) -> None:
        outcome = settle(
            ended.how,
            signal=active.told,
            seen=was_seen(active.signal),
            lease=self._env.lease is not None,
            max_attempts=min(active.run.max_attempts, active.task.settings.max_attempts),
        )
        if outcome == "leave":
            if self.keeper is not None:
                self.keeper.drop(active)
        elif outcome == "hand-over":
            self._give_back(active)
        elif outcome == "failed":
            error = ended.error if ended.error is not None else asyncio.CancelledError()
            self._record(active, "failed", error=in_words(error), trace=trace_of(error))
        elif outcome == "interrupted":
            why = "it had not begun in time" if ended.how == "never-began" else "stopped before it was done"
            self._record(active, "interrupted", error=why)
        else:
            self._record(active, "succeeded")

    def _record(
        self, active: ActiveRun, status: FinalStatus, error: str | None = None, trace: str | None = None
    ) -> None:
        run = active.run
        finish = Finish(
            task=run.task,
            run_id=run.run_id,
            slot_ms=run.slot_ms,
            scheduled_at_ms=run.scheduled_at_ms,
            reason=run.reason,
            instance_id=self._env.settings.instance_id,
            attempt=run.attempt,
            fence=run.fence,
            status=status,
            claimed_at_ms=run.claimed_at_ms,
            started_at_ms=active.began_at_ms,
            finished_at_ms=self._env.clock.now_ms(),
            error=error,
            traceback=trace,
        )
        self._recorder.finish(finish, lambda taken: self._recorded(active, finish, taken))

    def _recorded(self, active: ActiveRun, finish: Finish, taken: bool) -> None:
        if self.keeper is not None:
            self.keeper.drop(active)
        facts = {**active.facts(), **self._env.said()}
        began = finish.started_at_ms if finish.started_at_ms is not None else finish.finished_at_ms
        duration_ms = finish.finished_at_ms - began
        if not taken:
            self._env.counters.results_refused += 1
            self._env.emit(ResultRefused(status=finish.status, **facts))
        elif finish.status == "succeeded":
            self._env.counters.succeeded += 1
            self._env.emit(RunSucceeded(duration_ms=duration_ms, **facts))
        elif finish.status == "failed":
            self._env.counters.failed += 1
            self._env.emit(
                RunFailed(duration_ms=duration_ms, error=finish.error or "", traceback=finish.traceback, **facts)
            )
        else:
            self._env.counters.interrupted += 1
            self._env.emit(RunInterrupted(error=finish.error, **facts))

    def _give_back(self, active: ActiveRun) -> None:
        run = active.run
        ask = HandOver(
            task=run.task,
            run_id=run.run_id,
            fence=active.fence,
            at_ms=self._env.clock.now_ms(),
            started_at_ms=active.began_at_ms,
        )
        self._recorder.hand_over(ask, lambda taken: self._given_back(active, taken))

    def _given_back(self, active: ActiveRun, taken: bool) -> None:
        if self.keeper is not None:
            self.keeper.drop(active)
        if taken:
            self._env.counters.handed_over += 1
            began = active.began_at_ms is not None
            self._env.emit(RunHandedOver(began=began, **active.facts(), **self._env.said()))

    def give_up_all(self) -> None:
        """At the process's exit: give every run back now, without waiting for handlers that will not end."""
        for active in list(self.running.values()):
            how: Literal["cancelled", "never-began"] = "never-began" if active.began_at_ms is None else "cancelled"
            self._tell(active, "stopping")
            self._settle(active, Ended(how))

    def interrupted_elsewhere(self, runs: Sequence[Run]) -> None:
        """Tell of runs that a claim or take-up of ours found without an attempt left."""
        for run in runs:
            self._env.counters.interrupted += 1
            self._env.emit(
                RunInterrupted(
                    task=run.task,
                    run_id=run.run_id,
                    slot_ms=run.slot_ms,
                    scheduled_at_ms=run.scheduled_at_ms,
                    attempt=run.attempt,
                    reason=run.reason,
                    fence=run.fence,
                    error=run.error,
                    **self._env.said(),
                )
            )

    # ---------------------------------------------------------------- room

    def _changed(self) -> None:
        if not self.running:
            self._quiet.set()
        self._room_changed()

    def stop(self) -> None:
        """Forget the timer: nothing will begin any more."""
        if self._look_timer is not None:
            self._look_timer.cancel()
            self._look_timer = None

    def holds(self, task: str) -> bool:
        """Whether a run of this task is held here: its outcome is not stored."""
        return self.keeper is not None and self.keeper.holds(task)

    async def quiet(self) -> None:
        """Return once no handler of a held run is running."""
        await self._quiet.wait()


def trace_of(error: BaseException) -> str | None:
    """The traceback as text, its last 8,000 characters."""
    try:
        lines = traceback.format_exception(error)
    except BaseException:  # an exception's own code may raise anything
        return None
    return "".join(lines)[-8_000:] if error.__traceback__ is not None else None
