"""Backends that fail on purpose, on a clock of the test's choosing and by a plan that can be repeated.

Between a caller and its store a request can meet five fates, and each is a fault here:

    refused       not sent                                  BackendUnavailableError
    lost          sent, never arrives                       OutcomeUnknownError, nothing applied
    answer-lost   takes effect, the answer never arrives    OutcomeUnknownError, applied
    late          the caller gives up, then it takes effect OutcomeUnknownError, applied `late_ms` afterwards
    delayed       takes effect and is answered, slowly      no error

An outage refuses every call; a freeze lets every call wait until it ends, or until the caller gives up after
`give_up_ms`, in which case the request still takes effect when the freeze ends.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, TypeVar

from anarchon.clock import Clock
from anarchon.errors import AnarchonError, BackendUnavailableError, OutcomeUnknownError
from anarchon.model.asks import (
    Checkpoint,
    Claim,
    ClaimOutcome,
    Finish,
    HandOver,
    InstanceRecord,
    Lease,
    LeaseOutcome,
    LeaseTerms,
    Manual,
    PauseOutcome,
    StoreInfo,
    SurveyAnswer,
    TakeUp,
    TakeUpOutcome,
    TaskRecord,
)
from anarchon.model.run import Run, Skip
from anarchon.protocol import ClaimBackend, LeaseBackend

AnswerT = TypeVar("AnswerT")

FaultKind: TypeAlias = Literal["none", "refused", "lost", "answer-lost", "late"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What happens to one call."""

    kind: FaultKind = "none"
    delay_ms: float = 0
    """How long the request is under way, or how long the caller waits before it gives up."""
    answer_delay_ms: float = 0
    """How long the answer is under way."""
    late_ms: float = 0
    """For 'late': how long after the caller gave up the request takes effect."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call that a plan decides about: its name and its number among all calls through these `Faults`, from 1."""

    name: str
    number: int


Plan: TypeAlias = Callable[[Call], Fault]

NO_FAULT: Final = Fault()


def no_faults(_call: Call) -> Fault:
    """The plan by which every call is answered at once."""
    return NO_FAULT


def random_plan(
    rng: random.Random,
    *,
    refused: float = 0.0,
    lost: float = 0.0,
    answer_lost: float = 0.0,
    late: float = 0.0,
    delay_ms: tuple[float, float] = (0, 0),
    give_up_ms: float = 2_000,
    late_ms: tuple[float, float] = (1_000, 8_000),
) -> Plan:
    """A plan that draws each call's fate with these probabilities; the same seed draws the same fates.

    Delays are drawn evenly between their two bounds, half for the request and half for the answer.
    """

    def plan(_call: Call) -> Fault:
        # Always as many draws, so that changing one probability leaves the other fates of a seed as they were.
        fate, way, back, late_by = rng.random(), rng.uniform(*delay_ms), rng.uniform(*delay_ms), rng.uniform(*late_ms)
        kinds: tuple[tuple[FaultKind, float], ...] = (
            ("refused", refused),
            ("lost", lost),
            ("answer-lost", answer_lost),
            ("late", late),
        )
        for kind, probability in kinds:
            if fate < probability:
                wait = way / 2 if kind == "refused" else give_up_ms
                return Fault(kind=kind, delay_ms=wait, late_ms=late_by)
            fate -= probability
        return Fault(delay_ms=way / 2, answer_delay_ms=back / 2)

    return plan


class Faults:
    """The way between backends and their store. Share one among backends, or give each its own.

    `clock` measures the delays. What is under way goes on while a process is frozen, so it is not that process's.
    """

    def __init__(self, clock: Clock, plan: Plan = no_faults, *, give_up_ms: float = 2_000) -> None:
        self._clock = clock
        self._plan = plan
        self._give_up_ms = give_up_ms
        self._calls = 0
        self._thawed: asyncio.Event | None = None
        self._under_way: set[asyncio.Task[None]] = set()
        self.outage = False
        """While True, every call is refused."""

    @property
    def calls(self) -> int:
        """How many calls there have been."""
        return self._calls

    def use(self, plan: Plan) -> None:
        """Go on by another plan."""
        self._plan = plan

    def freeze(self) -> None:
        """From now on nothing reaches the store."""
        if self._thawed is None:
            self._thawed = asyncio.Event()

    def thaw(self) -> None:
        """End a freeze: what waits reaches the store in the order in which it was sent."""
        if self._thawed is not None:
            self._thawed.set()
            self._thawed = None

    async def call(self, name: str, send: Callable[[], Awaitable[AnswerT]]) -> AnswerT:
        """Send a call on its way and let it meet its fate."""
        self._calls += 1
        fault = self._plan(Call(name, self._calls))
        if self.outage or fault.kind == "refused":
            await self._clock.sleep_ms(fault.delay_ms)
            raise BackendUnavailableError(f"{name}: the store was made unreachable")
        if self._thawed is not None:
            return await self._frozen(name, send, self._thawed)
        if fault.kind == "late":
            await self._clock.sleep_ms(fault.delay_ms)
            self._later(lambda: self._after(fault.late_ms, send))
        elif fault.kind == "lost":
            await self._clock.sleep_ms(fault.delay_ms)
        elif fault.kind == "answer-lost":
            await send()
            await self._clock.sleep_ms(fault.delay_ms)
        else:
            if fault.delay_ms:
                await self._clock.sleep_ms(fault.delay_ms)
            answer = await send()
            if fault.answer_delay_ms:
                await self._clock.sleep_ms(fault.answer_delay_ms)
            return answer
        raise OutcomeUnknownError(f"{name}: no answer came ({fault.kind})")

    async def _frozen(self, name: str, send: Callable[[], Awaitable[AnswerT]], thawed: asyncio.Event) -> AnswerT:
        answer: asyncio.Future[AnswerT] = asyncio.get_running_loop().create_future()

        async def deliver() -> None:
            await thawed.wait()
            try:
                result = await send()
            except Exception as error:
                if not answer.done():
                    answer.set_exception(error)
            else:
                if not answer.done():
                    answer.set_result(result)

        def give_up() -> None:
            if not answer.done():
                answer.set_exception(OutcomeUnknownError(f"{name}: no answer came (frozen)"))

        self._later(deliver)
        timer = self._clock.call_at(self._clock.monotonic_ms() + self._give_up_ms, give_up)
        try:
            return await answer
        finally:
            timer.cancel()

    async def _after(self, delay_ms: float, send: Callable[[], Awaitable[object]]) -> None:
        await self._clock.sleep_ms(delay_ms)
        await send()

    def _later(self, delivery: Callable[[], Awaitable[None]]) -> None:
        async def deliver() -> None:
            # Nobody waits for this answer, whatever it is; a backend that was closed meanwhile refuses it.
            with suppress(AnarchonError):
                await delivery()

        task = asyncio.get_running_loop().create_task(deliver())
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def settle(self) -> None:
        """Let everything that is under way arrive; for the end of a test."""
        while self._under_way:
            await asyncio.gather(*self._under_way, return_exceptions=True)

    async def drop(self) -> None:
        """Lose everything that is under way."""
        tasks = list(self._under_way)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class FaultyClaimBackend(ClaimBackend):
    """A claim-only backend behind `Faults`.

    Closing it neither fails nor waits, and does not stop what is under way: see `Faults.settle` and `Faults.drop`.
    """

    def __init__(self, inner: ClaimBackend, faults: Faults) -> None:
        self.inner = inner
        self.faults = faults

    @property
    def name(self) -> str:
        """That of the backend behind it."""
        return self.inner.name

    @property
    def remembers_ms(self) -> int | None:
        """That of the backend behind it."""
        return self.inner.remembers_ms

    async def open(self, namespace: str, instance: InstanceRecord | None) -> StoreInfo:
        """May fail; is then not open, even where the answer was lost."""
        return await _open(self.inner, self.faults, namespace, instance)

    async def close(self) -> None:
        """Never fails."""
        await self.inner.close()

    async def register(self, tasks: Sequence[TaskRecord]) -> Sequence[int | None]:
        """May fail."""
        return await self.faults.call("register", lambda: self.inner.register(tasks))

    async def claim(self, claims: Sequence[Claim[None]]) -> Sequence[ClaimOutcome]:
        """May fail."""
        return await self.faults.call("claim", lambda: self.inner.claim(claims))

    async def finish(self, finishes: Sequence[Finish]) -> Sequence[bool]:
        """May fail."""
        return await self.faults.call("finish", lambda: self.inner.finish(finishes))

    async def record_skips(self, skips: Sequence[Skip]) -> None:
        """May fail."""
        await self.faults.call("record_skips", lambda: self.inner.record_skips(skips))

    async def history(self, task: str, limit: int) -> Sequence[Run]:
        """May fail."""
        return await self.faults.call("history", lambda: self.inner.history(task, limit))

    async def skips(self, task: str, limit: int) -> Sequence[Skip]:
        """May fail."""
        return await self.faults.call("skips", lambda: self.inner.skips(task, limit))

    async def task_names(self) -> Sequence[str]:
        """May fail."""
        return await self.faults.call("task_names", self.inner.task_names)


class FaultyLeaseBackend(LeaseBackend):
    """A lease backend behind `Faults`.

    Closing it neither fails nor waits, and does not stop what is under way: see `Faults.settle` and `Faults.drop`.
    """

    def __init__(self, inner: LeaseBackend, faults: Faults) -> None:
        self.inner = inner
        self.faults = faults

    @property
    def name(self) -> str:
        """That of the backend behind it."""
        return self.inner.name

    async def open(self, namespace: str, instance: InstanceRecord | None) -> StoreInfo:
        """May fail; is then not open, even where the answer was lost."""
        return await _open(self.inner, self.faults, namespace, instance)

    async def close(self) -> None:
        """Never fails."""
        await self.inner.close()

    async def register(self, tasks: Sequence[TaskRecord]) -> Sequence[int | None]:
        """May fail."""
        return await self.faults.call("register", lambda: self.inner.register(tasks))

    async def claim(self, claims: Sequence[Claim[LeaseTerms]]) -> Sequence[LeaseOutcome]:
        """May fail."""
        return await self.faults.call("claim", lambda: self.inner.claim(claims))

    async def take_up(self, asks: Sequence[TakeUp]) -> Sequence[TakeUpOutcome]:
        """May fail."""
        return await self.faults.call("take_up", lambda: self.inner.take_up(asks))

    async def renew(self, leases: Sequence[Lease], lease_ms: int) -> Sequence[bool]:
        """May fail."""
        return await self.faults.call("renew", lambda: self.inner.renew(leases, lease_ms))

    async def hand_over(self, asks: Sequence[HandOver]) -> Sequence[bool]:
        """May fail."""
        return await self.faults.call("hand_over", lambda: self.inner.hand_over(asks))

    async def finish(self, finishes: Sequence[Finish]) -> Sequence[bool]:
        """May fail."""
        return await self.faults.call("finish", lambda: self.inner.finish(finishes))

    async def record_skips(self, skips: Sequence[Skip]) -> None:
        """May fail."""
        await self.faults.call("record_skips", lambda: self.inner.record_skips(skips))

    async def history(self, task: str, limit: int) -> Sequence[Run]:
        """May fail."""
        return await self.faults.call("history", lambda: self.inner.history(task, limit))

    async def skips(self, task: str, limit: int) -> Sequence[Skip]:
        """May fail."""
        return await self.faults.call("skips", lambda: self.inner.skips(task, limit))

    async def task_names(self) -> Sequence[str]:
        """May fail."""
        return await self.faults.call("task_names", self.inner.task_names)

    async def open_to_act(self, namespace: str) -> StoreInfo:
        """Never fails: faults are for what a scheduler asks."""
        return await self.inner.open_to_act(namespace)

    async def save_checkpoints(self, asks: Sequence[Checkpoint]) -> Sequence[bool]:
        """May fail."""
        return await self.faults.call("save_checkpoints", lambda: self.inner.save_checkpoints(asks))

    async def run_now(self, ask: Manual) -> LeaseOutcome:
        """May fail."""
        return await self.faults.call("run_now", lambda: self.inner.run_now(ask))

    async def pause(self, task: str, by: str) -> PauseOutcome:
        """May fail."""
        return await self.faults.call("pause", lambda: self.inner.pause(task, by))

    async def resume(self, task: str, by: str) -> PauseOutcome:
        """May fail."""
        return await self.faults.call("resume", lambda: self.inner.resume(task, by))

    async def free(self, task: str, by: str) -> Sequence[Run]:
        """May fail."""
        return await self.faults.call("free", lambda: self.inner.free(task, by))

    async def survey(self, instance_id: str, lease_ms: int, page: str | None = None) -> SurveyAnswer:
        """May fail."""
        return await self.faults.call("survey", lambda: self.inner.survey(instance_id, lease_ms, page))

    async def sweep(self) -> int:
        """May fail."""
        return await self.faults.call("sweep", self.inner.sweep)


async def _open(
    inner: ClaimBackend | LeaseBackend, faults: Faults, namespace: str, instance: InstanceRecord | None
) -> StoreInfo:
    # A late open would open a backend that its scheduler has given up: such a request counts as lost.
    arrived = False
    gave_up = False

    async def send() -> StoreInfo:
        nonlocal arrived
        if gave_up:
            raise OutcomeUnknownError("open: given up")
        info = await inner.open(namespace, instance)
        arrived = True
        return info

    try:
        return await faults.call("open", send)
    except BaseException:
        gave_up = True
        if arrived:
            await inner.close()
        raise
