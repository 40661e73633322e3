"""What every part of the engine shares: the clock, the store and how it answers, the events, the counters."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from anarchon.clock import Clock
from anarchon.engine.task import EngineTask
from anarchon.errors import BackendError, OutcomeUnknownError
from anarchon.host.base import Host
from anarchon.log_lines import say
from anarchon.model.events import BackendAway, BackendBack, ClockSkewed, Event, SlotSkipped
from anarchon.model.settings import SchedulerSettings
from anarchon.model.slots import retry_delay_ms
from anarchon.model.words import SKEW_LIMIT_MS, SkipReason
from anarchon.protocol import Backend, ClaimBackend, LeaseBackend

logger = logging.getLogger("anarchon")

AnswerT = TypeVar("AnswerT")


@dataclass(slots=True)
class Counters:
    """What has happened on this instance since its start."""

    fires: int = 0
    succeeded: int = 0
    failed: int = 0
    timed_out: int = 0
    interrupted: int = 0
    handed_over: int = 0
    recovered: int = 0
    claims_lost: int = 0
    late: int = 0
    overlap: int = 0
    busy: int = 0
    superseded: int = 0
    claim_unknown: int = 0
    leases_lost: int = 0
    results_refused: int = 0
    handlers_outlived: int = 0
    surveys: int = 0
    backend_errors: int = 0


class Env:
    """The shared surroundings of one engine. Used on the engine's loop only."""

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
        rng: random.Random,
    ) -> None:
        self.backend = backend
        # Narrowed once, here: nothing else asks what kind of backend this is.
        self.lease: LeaseBackend | None = backend if isinstance(backend, LeaseBackend) else None
        self.claim_only: ClaimBackend | None = backend if isinstance(backend, ClaimBackend) else None
        self.host = host
        self.clock = clock
        self.settings = settings
        self.tasks = {task.name: task for task in tasks}
        self.send_event = emit
        self.on_fatal = on_fatal
        self.rng = rng
        self.counters = Counters()
        self.stopping = False
        self.skew_ms: float | None = None
        self._skew_said = False
        self._failures = 0
        self._away_since: float | None = None
        self._answered_at = float("-inf")
        self._background: set[asyncio.Task[Any]] = set()

    # ---------------------------------------------------------------- events

    def emit(self, event: Event) -> None:
        """Hand an event on. Whoever listens cannot delay or break the engine."""
        try:
            self.send_event(event)
        except Exception as error:
            say(logger, logging.ERROR, "an event could not be handed on", error=error)

    def said(self) -> dict[str, Any]:
        """The fields that every event has."""
        return {"at_ms": self.clock.now_ms(), "instance_id": self.settings.instance_id}

    def skipped(self, task: str, slot_ms: int, reason: SkipReason, until_ms: int | None = None) -> None:
        """Count and tell that a due slot did not run here."""
        counter = {"claim-unknown": "claim_unknown"}.get(reason, reason)
        if hasattr(self.counters, counter):
            setattr(self.counters, counter, getattr(self.counters, counter) + 1)
        self.emit(SlotSkipped(task=task, slot_ms=slot_ms, reason=reason, until_ms=until_ms, **self.said()))

    def token(self) -> str:
        """A new claim token: 128 random bits in hex."""
        return f"{self.rng.getrandbits(128):032x}"

    # ---------------------------------------------------------------- the store

    async def ask(self, call: Awaitable[AnswerT]) -> AnswerT:
        """Await a call to the store and keep account of whether it answers.

        Anything that a backend raises against its contract counts as an unknown outcome, which asking settles.
        """
        asked_at = self.clock.monotonic_ms()
        try:
            answer = await call
        except BackendError as error:
            self._failed(error, asked_at)
            raise
        except Exception as error:
            words = "backend %s raised what its contract does not allow"
            say(logger, logging.ERROR, words, self.backend.name, error=error)
            unknown = OutcomeUnknownError(f"{self.backend.name} raised {type(error).__name__}: {error}")
            self._failed(unknown, asked_at)
            raise unknown from error
        self._answered()
        return answer

    def retry_delay_ms(self) -> float:
        """How long to wait before the next try, by how often calls have failed in a row."""
        return retry_delay_ms(max(self._failures, 1), self.rng.random())

    @property
    def away(self) -> bool:
        """Whether the last call to the store failed."""
        return self._away_since is not None

    @property
    def away_ms(self) -> float:
        """For how long calls to the store have failed, ms; 0 while it answers."""
        return 0.0 if self._away_since is None else self.clock.monotonic_ms() - self._away_since

    def _failed(self, error: BackendError, asked_at: float) -> None:
        self.counters.backend_errors += 1
        if asked_at < self._answered_at:
            # Sent before the last answer came: a remainder of the outage that is over, no news of another.
            return
        self._failures += 1
        if self._away_since is None:
            self._away_since = self.clock.monotonic_ms()
            self.emit(BackendAway(error=f"{type(error).__name__}: {error}", **self.said()))

    def _answered(self) -> None:
        self._failures = 0
        self._answered_at = self.clock.monotonic_ms()
        if self._away_since is not None:
            away_ms = int(self.clock.monotonic_ms() - self._away_since)
            self._away_since = None
            self.emit(BackendBack(away_ms=away_ms, **self.said()))

    def note_skew(self, store_now_ms: int | None, sent_wall_ms: int) -> None:
        """Compare the store's clock in an answer with our own around the call."""
        if store_now_ms is None:
            return
        got = self.clock.now_ms()
        uncertainty = abs(got - sent_wall_ms) / 2
        self.skew_ms = store_now_ms - (sent_wall_ms + got) / 2
        beyond = abs(self.skew_ms) - uncertainty > SKEW_LIMIT_MS
        if beyond and not self._skew_said:
            self.emit(ClockSkewed(skew_ms=round(self.skew_ms), **self.said()))
        self._skew_said = beyond

    # ---------------------------------------------------------------- background

    def spawn(self, coroutine: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Start a task that is referenced until it is done and whose failure is logged, never swallowed."""
        task = asyncio.get_running_loop().create_task(coroutine, name=f"anarchon-{name}")
        self._background.add(task)
        task.add_done_callback(self._background_ended)
        return task

    def _background_ended(self, task: asyncio.Task[None]) -> None:
        self._background.discard(task)
        if not task.cancelled() and task.exception() is not None:
            say(logger, logging.ERROR, "the engine's task %s failed", task.get_name(), error=task.exception())

    async def end_background(self) -> None:
        """Cancel what is still running and wait for it."""
        current = asyncio.current_task()
        tasks = [task for task in self._background if task is not current]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
