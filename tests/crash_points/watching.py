"""A lease backend of any kind whose accepted writes are written down, and the way to it that fails once, on purpose."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from anarchon.clock import Clock
from anarchon.model.asks import (
    Checkpoint,
    Claim,
    Closed,
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
    Won,
)
from anarchon.model.run import Run, Skip
from anarchon.protocol import LeaseBackend
from anarchon.testing.faulty import Call, Fault, FaultKind, Faults
from tests.support.history import InstanceFacts, Span
from tests.support.recording import Log

AnswerT = TypeVar("AnswerT")

GIVE_UP_MS = 400


class Watched(LeaseBackend):
    """Writes down what the store accepted, whether or not the caller hears of it.

    A write is dated when it was sent, a grant by the store: so nothing is taken for live for longer than it was.
    """

    def __init__(self, inner: LeaseBackend, log: Log, now_ms: Callable[[], int]) -> None:
        self.inner = inner
        self._log = log
        self._now_ms = now_ms

    @property
    def name(self) -> str:
        """That of the backend behind it."""
        return self.inner.name

    async def open(self, namespace: str, instance: InstanceRecord | None) -> StoreInfo:
        """Passed on."""
        return await self.inner.open(namespace, instance)

    async def close(self) -> None:
        """Passed on."""
        await self.inner.close()

    async def register(self, tasks: Sequence[TaskRecord]) -> Sequence[int | None]:
        """Written down."""
        known = await self.inner.register(tasks)
        for task, since in zip(tasks, known, strict=True):
            self._log.registered(task, since or 0)
        return known

    async def claim(self, claims: Sequence[Claim[LeaseTerms]]) -> Sequence[LeaseOutcome]:
        """Written down."""
        answers = await self.inner.claim(claims)
        for claim, answer in zip(claims, answers, strict=True):
            self._log.claimed(claim, answer, _granted_at(answer) or self._now_ms())
        return answers

    async def take_up(self, asks: Sequence[TakeUp]) -> Sequence[TakeUpOutcome]:
        """Written down."""
        answers = await self.inner.take_up(asks)
        for ask, answer in zip(asks, answers, strict=True):
            self._log.taken_up(ask, answer, _granted_at(answer) or self._now_ms())
        return answers

    async def renew(self, leases: Sequence[Lease], lease_ms: int) -> Sequence[bool]:
        """Written down."""
        sent = self._now_ms()
        kept = await self.inner.renew(leases, lease_ms)
        for lease, taken in zip(leases, kept, strict=True):
            if taken:
                self._log.renewed(lease, lease_ms, sent)
        return kept

    async def finish(self, finishes: Sequence[Finish]) -> Sequence[bool]:
        """Written down."""
        sent = self._now_ms()
        taken = await self.inner.finish(finishes)
        for finish, accepted in zip(finishes, taken, strict=True):
            if accepted:
                self._log.finished(finish, sent)
        return taken

    async def hand_over(self, asks: Sequence[HandOver]) -> Sequence[bool]:
        """Written down."""
        sent = self._now_ms()
        taken = await self.inner.hand_over(asks)
        for ask, accepted in zip(asks, taken, strict=True):
            if accepted:
                self._log.handed_over(ask, sent)
        return taken

    async def open_to_act(self, namespace: str) -> StoreInfo:
        """Passed on."""
        return await self.inner.open_to_act(namespace)

    async def save_checkpoints(self, asks: Sequence[Checkpoint]) -> Sequence[bool]:
        """Passed on."""
        return await self.inner.save_checkpoints(asks)

    async def run_now(self, ask: Manual) -> LeaseOutcome:
        """Passed on."""
        return await self.inner.run_now(ask)

    async def pause(self, task: str, by: str) -> PauseOutcome:
        """Passed on."""
        return await self.inner.pause(task, by)

    async def resume(self, task: str, by: str) -> PauseOutcome:
        """Passed on."""
        return await self.inner.resume(task, by)

    async def free(self, task: str, by: str) -> Sequence[Run]:
        """Passed on."""
        return await self.inner.free(task, by)

    async def record_skips(self, skips: Sequence[Skip]) -> None:
        """Passed on."""
        await self.inner.record_skips(skips)

    async def history(self, task: str, limit: int) -> Sequence[Run]:
        """Passed on."""
        return await self.inner.history(task, limit)

    async def skips(self, task: str, limit: int) -> Sequence[Skip]:
        """Passed on."""
        return await self.inner.skips(task, limit)

    async def task_names(self) -> Sequence[str]:
        """Passed on."""
        return await self.inner.task_names()

    async def survey(self, instance_id: str, lease_ms: int, page: str | None = None) -> SurveyAnswer:
        """Passed on."""
        return await self.inner.survey(instance_id, lease_ms, page)

    async def sweep(self) -> int:
        """Passed on."""
        return await self.inner.sweep()


def _granted_at(answer: LeaseOutcome | TakeUpOutcome) -> int | None:
    match answer:
        case Won(run=run) | Closed(took_up=Run() as run):
            return run.claimed_at_ms
        case _:
            return None


class Point:
    """The one call, counted over all instances, that goes wrong, and how."""

    def __init__(self, number: int, kind: FaultKind) -> None:
        self.number = number
        self.kind: FaultKind = kind
        self.calls = 0
        self.hit: str | None = None
        """The name of the call that it was."""


class PointedWay(Faults):
    """The way of one instance to the store. It can be cut off for good, which is what its death looks like outside."""

    def __init__(self, clock: Clock, now_ms: Callable[[], int], point: Point, facts: InstanceFacts) -> None:
        super().__init__(clock, self._fate)
        self._now_ms = now_ms
        self._point = point
        self._facts = facts
        self.dead = False

    async def call(self, name: str, send: Callable[[], Awaitable[AnswerT]]) -> AnswerT:
        """A dead instance's call never returns."""
        if self.dead:
            await asyncio.Event().wait()
        answer = await super().call(name, send)
        if self.dead:
            await asyncio.Event().wait()
        return answer

    def die(self) -> None:
        """Nothing reaches the store from here any more."""
        self.dead = True
        self._facts.cut.append(Span(self._now_ms()))

    def _fate(self, call: Call) -> Fault:
        point = self._point
        point.calls += 1
        if point.calls != point.number:
            return Fault()
        point.hit = call.name
        now = self._now_ms()
        self._facts.faults.append(Span(now, now + 2 * GIVE_UP_MS + 200))
        return Fault(kind=point.kind, delay_ms=0 if point.kind == "refused" else GIVE_UP_MS, late_ms=2_500)
