"""Renews the leases of all held runs in one statement and keeps each one's trust deadline.

The deadline is a timer of its own. It never waits for a renewal: one that hangs, fails or is answered too late
leaves the deadline where the last good answer put it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Literal

from anarchon.clock import Timer
from anarchon.engine.active import ActiveRun
from anarchon.engine.env import Env
from anarchon.errors import BackendError
from anarchon.model.asks import Lease
from anarchon.model.slots import trust_deadline
from anarchon.protocol import LeaseBackend


class LeaseKeeper:
    """Holds leases until they are dropped or lost."""

    def __init__(
        self, env: Env, store: LeaseBackend, lost: Callable[[ActiveRun, Literal["trust deadline", "refused"]], None]
    ) -> None:
        self._env = env
        self._store = store
        self._lost = lost
        self._held: dict[str, ActiveRun] = {}
        self._deadline_timer: Timer | None = None
        self._deadline_at = float("inf")
        self._holding = asyncio.Event()
        self._retry_ms: float | None = None

    def hold(self, active: ActiveRun) -> None:
        """Keep this lease from now on. Called before the handler starts."""
        self._held[active.run.run_id] = active
        self._holding.set()
        self._arm(active.trusted_until)

    def drop(self, active: ActiveRun) -> None:
        """Stop keeping it: its outcome is stored, or it was given back."""
        if self._held.get(active.run.run_id) is active:
            del self._held[active.run.run_id]
            if not self._held:
                self._holding.clear()

    def holds(self, task: str) -> bool:
        """Whether a lease of this task is kept."""
        return any(active.task.name == task for active in self._held.values())

    @property
    def held(self) -> int:
        """How many leases are kept."""
        return len(self._held)

    async def keep(self) -> None:
        """Renew for ever, every third of the lease; after a failure sooner."""
        period = self._env.settings.lease_ms / 3
        while True:
            await self._holding.wait()
            await self._env.clock.sleep_ms(period if self._retry_ms is None else min(period, self._retry_ms))
            self._retry_ms = None
            if not self._held:
                continue
            # Not awaited beyond its share of the lease: a call that hangs must not keep the next one back.
            renewal = self._env.spawn(self._renew(list(self._held.values())), "renewal")
            limit = self._env.clock.monotonic_ms() + period
            done = asyncio.Event()
            renewal.add_done_callback(partial(_wake, done))
            timer = self._env.clock.call_at(limit, done.set)
            try:
                await done.wait()
            finally:
                timer.cancel()
            if not renewal.done():
                # It has had its third of the lease: the next one goes out now, not a third later.
                self._retry_ms = 0

    async def _renew(self, actives: list[ActiveRun]) -> None:
        lease_ms = self._env.settings.lease_ms
        leases = [Lease(task=one.task.name, run_id=one.run.run_id, fence=one.fence) for one in actives]
        sent = self._env.clock.monotonic_ms()
        try:
            answers = await self._env.ask(self._store.renew(leases, lease_ms))
        except BackendError:
            self._retry_ms = self._env.retry_delay_ms()
            return
        until = trust_deadline(sent, lease_ms)
        for active, kept in zip(actives, answers, strict=True):
            if self._held.get(active.run.run_id) is not active:
                continue
            if kept:
                active.trusted_until = max(active.trusted_until, until)
            else:
                self._lose(active, "refused")

    def _lose(self, active: ActiveRun, found: Literal["trust deadline", "refused"]) -> None:
        self.drop(active)
        self._lost(active, found)

    def _arm(self, at: float) -> None:
        if at >= self._deadline_at:
            return
        if self._deadline_timer is not None:
            self._deadline_timer.cancel()
        self._deadline_at = at
        self._deadline_timer = self._env.clock.call_at(at, self._look)

    def _look(self) -> None:
        self._deadline_timer = None
        self._deadline_at = float("inf")
        now = self._env.clock.monotonic_ms()
        for active in [one for one in self._held.values() if one.trusted_until <= now]:
            self._lose(active, "trust deadline")
        if self._held:
            self._arm(min(one.trusted_until for one in self._held.values()))

    def stop(self) -> None:
        """Forget the timer. Renewal is the last thing to stop."""
        if self._deadline_timer is not None:
            self._deadline_timer.cancel()
            self._deadline_timer = None


def _wake(done: asyncio.Event, _: object) -> None:
    done.set()
