"""The events that a scheduler has told so far, and a way to wait for the next of a kind."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, TypeVar

from anarchon import Event, Scheduler

SOON_S = 10
"""Longer than anything that is waited for takes; a wait that reaches it has failed."""

EventT = TypeVar("EventT", bound=Event)


class Heard:
    """Listens to everything."""

    def __init__(self, scheduler: Scheduler[Any]) -> None:
        self.events: list[Event] = []
        self._news = threading.Condition()
        scheduler.events.on(Event, self._hear)

    def _hear(self, event: Event) -> None:
        with self._news:
            self.events.append(event)
            self._news.notify_all()

    def told(self, kind: type[EventT]) -> list[EventT]:
        return [event for event in self.events if isinstance(event, kind)]

    def wait(self, kind: type[EventT]) -> EventT:
        with self._news:
            assert self._news.wait_for(lambda: self.told(kind), SOON_S), f"no {kind.__name__} came"
        return self.told(kind)[0]

    async def until(self, kind: type[EventT]) -> EventT:
        return await asyncio.to_thread(self.wait, kind)
