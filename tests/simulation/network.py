"""The way from one instance to the store: how it goes wrong is drawn from the seed, and written down."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Literal, TypeAlias, TypeVar

from anarchon.errors import BackendError
from anarchon.testing.clock import VirtualClock
from anarchon.testing.faulty import Call, Fault, FaultKind, Faults
from tests.support.history import InstanceFacts, Span

AnswerT = TypeVar("AnswerT")

Weather: TypeAlias = Literal["calm", "fair", "bad"]
"""Calm: only delays. Fair: now and then one request fails. Bad: most of them do."""

GIVE_UP_MS = 2_000
LONGEST_WAY_MS = 150
SHOWER_EVERY_MS = 8_000
"""In fair weather there is this much time between two failures."""

_FAIR = 0.06
_BAD = 0.7
_KINDS: tuple[FaultKind, ...] = ("refused", "lost", "answer-lost", "late")


class Way(Faults):
    """Requests and answers of one instance. While its process stands still, no answer reaches it."""

    def __init__(
        self, world_clock: VirtualClock, own_clock: VirtualClock, facts: InstanceFacts, rng: random.Random
    ) -> None:
        super().__init__(world_clock, self._draw, give_up_ms=GIVE_UP_MS)
        self._world = world_clock
        self._own = own_clock
        self._facts = facts
        self._rng = rng
        self._clear_until = 0.0
        self._bad_since: float | None = None
        self.weather: Weather = "fair"

    def turn(self, weather: Weather) -> None:
        """From now on the weather is this."""
        now = self._world.now_ms()
        if self._bad_since is not None:
            # What was sent before may still be lost.
            self._facts.cut.append(Span(self._bad_since, now))
            self._bad_since = None
            self._clear_until = now + SHOWER_EVERY_MS
        if weather == "bad":
            self._bad_since = now
        self.weather = weather

    def away(self, how: Literal["refuses", "hangs"] | None) -> None:
        """The store refuses every request, or lets every request hang; None: it is back."""
        self.turn("fair" if how is None else "bad")
        self.outage = how == "refuses"
        if how == "hangs":
            self.freeze()
        else:
            self.thaw()

    async def call(self, name: str, send: Callable[[], Awaitable[AnswerT]]) -> AnswerT:
        """Meet a fate; a process that stands still learns of it when it goes on."""
        try:
            answer = await super().call(name, send)
        except BackendError:
            await self._own.thawed()
            raise
        if self._own.frozen:
            await self._own.thawed()
        return answer

    def _draw(self, _call: Call) -> Fault:
        rng = self._rng
        fate, kind, way, back, late = rng.random(), rng.random(), rng.random(), rng.random(), rng.random()
        there, again = 1 + way * (LONGEST_WAY_MS - 1), 1 + back * (LONGEST_WAY_MS - 1)
        now = self._world.now_ms()
        fails = False
        if self.weather == "bad":
            fails = fate < _BAD
        elif self.weather == "fair" and now >= self._clear_until:
            fails = fate < _FAIR
        if not fails:
            return Fault(delay_ms=there, answer_delay_ms=again)
        chosen = _KINDS[int(kind * len(_KINDS))]
        lasts = there if chosen == "refused" else GIVE_UP_MS
        if self.weather == "fair":
            self._clear_until = now + lasts + SHOWER_EVERY_MS
            # Until the repetition, which comes after at most 100 ms, is answered.
            self._facts.faults.append(Span(now, now + lasts + 100 + 2 * LONGEST_WAY_MS))
        return Fault(kind=chosen, delay_ms=lasts, late_ms=500 + late * late * 12_000)
