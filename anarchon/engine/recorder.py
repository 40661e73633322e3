"""Writes outcomes, hand-overs and skips in groups, and goes on until the store has answered for each."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from anarchon.engine.env import Env
from anarchon.errors import BackendError
from anarchon.model.asks import Finish, HandOver
from anarchon.model.run import Skip
from anarchon.model.words import SkipReason
from anarchon.protocol import LeaseBackend

AskT = TypeVar("AskT")
Answered = Callable[[bool], None]

MOST_AT_ONCE = 500
MOST_SKIPS = 1_000
"""How many skips wait to be stored at most; the oldest are dropped first."""


class Recorder:
    """One writer per instance. While a call is under way, what comes next gathers for the one after."""

    def __init__(self, env: Env) -> None:
        self._env = env
        self._finishes: deque[tuple[Finish, Answered]] = deque()
        self._hand_overs: deque[tuple[HandOver, Answered]] = deque()
        self._skips: dict[tuple[str, int, SkipReason], Skip] = {}
        self._wanted = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._flush_skips = False
        self._unstored: dict[str, str] = {}
        """The runs whose outcome or hand-over waits to be stored, each with its task."""
        self._failing = False

    def has(self, run_id: str) -> bool:
        """Whether this instance has an outcome of the run that the store may not have: it must not take the run up."""
        return run_id in self._unstored

    def is_behind(self, task: str) -> bool:
        """Whether outcomes of the task could not be stored yet: a claim would meet a run that is over as owed."""
        return self._failing and task in self._unstored.values()

    def finish(self, finish: Finish, answered: Answered) -> None:
        """Store an outcome; `answered(True)` once it is taken, `answered(False)` when it is refused."""
        self._finishes.append((finish, answered))
        self._unstored[finish.run_id] = finish.task
        self._want()

    def hand_over(self, ask: HandOver, answered: Answered) -> None:
        """Give a run back."""
        self._hand_overs.append((ask, answered))
        self._unstored[ask.run_id] = ask.task
        self._want()

    def skip(self, skip: Skip) -> None:
        """Store a skip with the next group, at the latest with the next survey."""
        key = (skip.task, skip.slot_ms, skip.reason)
        if key not in self._skips and len(self._skips) >= MOST_SKIPS:
            del self._skips[next(iter(self._skips))]
        self._skips[key] = skip

    def flush(self) -> None:
        """Store the gathered skips now."""
        if self._skips:
            self._flush_skips = True
            self._want()

    async def drained(self) -> None:
        """Return once nothing waits to be stored."""
        self.flush()
        await self._idle.wait()

    def _want(self) -> None:
        self._idle.clear()
        self._wanted.set()

    async def write(self) -> None:
        """Write for ever."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            while self._finishes or self._hand_overs or self._flush_skips:
                try:
                    await self._write_once()
                    self._failing = False
                except BackendError:
                    self._failing = True
                    await self._env.clock.sleep_ms(self._env.retry_delay_ms())
            self._idle.set()

    async def _write_once(self) -> None:
        store = self._env.backend
        if self._finishes:
            group = [self._finishes[index] for index in range(min(len(self._finishes), MOST_AT_ONCE))]
            taken = await self._env.ask(store.finish([finish for finish, _ in group]))
            self._stored(finish.run_id for finish, _ in group)
            _answer(self._finishes, group, taken)
            self._flush_skips = bool(self._skips)
        elif self._hand_overs:
            lease = self._env.lease
            assert lease is not None
            await self._write_hand_overs(lease)
        else:
            group_of_skips = list(self._skips.values())[:MOST_AT_ONCE]
            await self._env.ask(store.record_skips(group_of_skips))
            for skip in group_of_skips:
                self._skips.pop((skip.task, skip.slot_ms, skip.reason), None)
            self._flush_skips = bool(self._skips)

    async def _write_hand_overs(self, store: LeaseBackend) -> None:
        group = [self._hand_overs[index] for index in range(min(len(self._hand_overs), MOST_AT_ONCE))]
        taken = await self._env.ask(store.hand_over([ask for ask, _ in group]))
        self._stored(ask.run_id for ask, _ in group)
        _answer(self._hand_overs, group, taken)

    def _stored(self, run_ids: Iterable[str]) -> None:
        for run_id in run_ids:
            self._unstored.pop(run_id, None)


def _answer(
    waiting: deque[tuple[AskT, Answered]], group: Sequence[tuple[AskT, Answered]], taken: Sequence[bool]
) -> None:
    for (_, answered), accepted in zip(group, taken, strict=True):
        waiting.popleft()
        answered(accepted)
