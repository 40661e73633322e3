"""What a scheduler with a real loop has told, and how to wait for so much of it."""

from __future__ import annotations

import asyncio
from typing import Any

from anarchon import Event, Scheduler

LIMIT_S = 60
"""For how long a test waits for what never comes."""


class Count:
    """Counts events by kind on the application's loop, and lets a story wait for a number of one kind."""

    def __init__(self, scheduler: Scheduler[Any]) -> None:
        self.events: list[Event] = []
        self._news = asyncio.Event()
        scheduler.events.on(Event, self._hear)

    def _hear(self, event: Event) -> None:
        self.events.append(event)
        self._news.set()

    def of(self, kind: type[Event], task: str | None = None) -> list[Event]:
        return [e for e in self.events if isinstance(e, kind) and (task is None or getattr(e, "task", None) == task)]

    async def until(self, kind: type[Event], count: int, task: str | None = None) -> None:
        async with asyncio.timeout(LIMIT_S):
            while len(self.of(kind, task)) < count:
                self._news.clear()
                await self._news.wait()
