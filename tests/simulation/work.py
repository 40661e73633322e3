"""What the tasks of a simulated cluster do: handlers of many tempers that write down what happens to them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from anarchon.context import RunContext
from anarchon.testing.clock import VirtualClock
from tests.support.history import Note

Temper: TypeAlias = Literal["obedient", "stubborn", "raising", "thread", "instant"]
"""Obedient: ends when cancelled. Stubborn: goes on for a while. Raising: fails at its end. Thread: cannot be cancelled
and looks at the signal now and then. Instant: a `def` that takes no time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """How long a handler takes and how it behaves."""

    temper: Temper
    least_ms: int
    most_ms: int

    @property
    def is_async(self) -> bool:
        """Whether it is a coroutine function."""
        return self.temper not in ("thread", "instant")


class Diary:
    """Where handlers write."""

    def __init__(self, now_ms: Callable[[], int], write: Callable[[Note], None]) -> None:
        self._now_ms = now_ms
        self._write = write
        self.over = False
        """The simulation has ended: whoever still runs should go."""

    def note(self, what: Literal["began", "told", "ended"], ctx: RunContext[Any]) -> None:
        """Write down what happens, and when in truth."""
        self._write(
            Note(
                at_ms=self._now_ms(),
                what=what,
                instance=ctx.instance_id,
                task=ctx.task,
                run_id=ctx.run_id,
                attempt=ctx.attempt,
                fence=ctx.fence or 0,
            )
        )


def handler(work: Work, clock: VirtualClock, diary: Diary, seed: int) -> Callable[[RunContext[Any]], Any]:
    """A handler for one process, whose clock it lives by."""

    def take(ctx: RunContext[Any]) -> tuple[float, random.Random]:
        rng = random.Random(f"{seed}/{ctx.run_id}/{ctx.fence}")
        return work.least_ms + rng.random() * (work.most_ms - work.least_ms), rng

    def open_diary(ctx: RunContext[Any]) -> None:
        diary.note("began", ctx)
        ctx.signal._subscribe(lambda: diary.note("told", ctx))

    async def obedient(ctx: RunContext[Any]) -> None:
        open_diary(ctx)
        try:
            duration, _ = take(ctx)
            await clock.sleep_ms(duration)
            if work.temper == "raising":
                raise ValueError("as planned")
        finally:
            diary.note("ended", ctx)

    async def stubborn(ctx: RunContext[Any]) -> None:
        open_diary(ctx)
        duration, rng = take(ctx)
        until = clock.monotonic_ms() + duration
        more = rng.random() * 8_000
        swallowed = 0
        try:
            while clock.monotonic_ms() < until and not diary.over:
                try:
                    await clock.sleep_ms(until - clock.monotonic_ms())
                except asyncio.CancelledError:
                    if swallowed == 0:
                        until = min(until, clock.monotonic_ms() + more)
                    swallowed += 1
            if swallowed and rng.random() < 0.5:
                raise asyncio.CancelledError
        finally:
            diary.note("ended", ctx)

    async def threadlike(ctx: RunContext[Any]) -> None:
        duration, _ = take(ctx)
        until = clock.monotonic_ms() + duration
        try:
            while clock.monotonic_ms() < until and not diary.over and not ctx.signal.is_set():
                try:
                    await clock.sleep_ms(min(700.0, max(until - clock.monotonic_ms(), 1)))
                except asyncio.CancelledError:
                    continue
        finally:
            diary.note("ended", ctx)

    def thread(ctx: RunContext[Any]) -> Coroutine[Any, Any, None]:
        open_diary(ctx)
        return threadlike(ctx)

    def instant(ctx: RunContext[Any]) -> None:
        open_diary(ctx)
        diary.note("ended", ctx)

    fns: dict[Temper, Callable[[RunContext[Any]], Any]] = {
        "obedient": obedient,
        "raising": obedient,
        "stubborn": stubborn,
        "thread": thread,
        "instant": instant,
    }
    return fns[work.temper]
