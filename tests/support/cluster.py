"""Several whole engines on one virtual-time loop over one memory store, for tests that read like timelines."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from anarchon.context import RunContext
from anarchon.engine import Engine, EngineTask
from anarchon.host.inline import InlineHost
from anarchon.model.events import Event
from anarchon.model.run import Run
from anarchon.model.settings import SchedulerSettings, TaskSettings
from anarchon.protocol import Backend
from anarchon.testing import MemoryBackend, MemoryClaimBackend, MemoryStore
from anarchon.testing.clock import VirtualClock
from anarchon.testing.vloop import VirtualLoop, run_virtual
from anarchon.times.schedule import At, Cron, Every

START_MS = 1_767_225_600_000
"""2026-01-01T00:00:00Z, where virtual time begins."""

EventT = TypeVar("EventT", bound=Event)
Wrap = Callable[[Any, VirtualClock], Backend]


async def noop() -> None:
    """A handler that has nothing to do."""


def make_task(
    name: str,
    schedule: Every | Cron | At,
    fn: Callable[..., object] = noop,
    *,
    is_async: bool | None = None,
    takes_context: bool | None = None,
    data: object = None,
    **settings: Any,
) -> EngineTask:
    """A task with no jitter and the ordinary defaults, except where told otherwise."""
    values: dict[str, Any] = {
        "jitter_ms": 0,
        "max_late_ms": 60_000,
        "timeout_ms": None,
        "overlap": "skip",
        "max_attempts": 3,
        "catch_up_ms": 300_000,
        "history_size": 1_000,
        "history_ttl_ms": None,
        **settings,
    }
    wants = takes_context if takes_context is not None else bool(fn.__code__.co_argcount)
    return EngineTask(
        name=name,
        schedule=schedule,
        settings=TaskSettings(**values),
        fn=fn,
        is_async=asyncio.iscoroutinefunction(fn) if is_async is None else is_async,
        takes_context=wants,
        data=data,
    )


@dataclass(eq=False)
class Instance:
    """One engine with a clock, a host and a connection of its own."""

    id: str
    clock: VirtualClock
    host: InlineHost
    engine: Engine
    backend: Backend
    events: list[Event] = field(default_factory=list[Event])
    fatal: list[BaseException] = field(default_factory=list[BaseException])

    def told(self, kind: type[EventT], **fields: object) -> list[EventT]:
        """The events of a kind whose fields have these values."""
        return [
            event
            for event in self.events
            if isinstance(event, kind) and all(getattr(event, name) == value for name, value in fields.items())
        ]

    async def stop(self, grace_ms: int = 10_000) -> int:
        """Stop gracefully."""
        return await self.engine.stop(grace_ms)

    def kill(self) -> None:
        """As kill -9 does: nothing of this process runs any more. Handlers of it end without a word."""
        self.clock.freeze()
        self.host.app_alive = False


class Cluster:
    """A memory store and the engines on it."""

    def __init__(self, *, lease_ms: int = 15_000, claim_only: bool = False, slot_ttl_ms: int = 300_000) -> None:
        self.loop = _loop()
        self.clock = VirtualClock()
        self.store = MemoryStore(clock=self.clock)
        self.lease_ms = lease_ms
        self.claim_only = claim_only
        self.slot_ttl_ms = slot_ttl_ms
        self.instances: list[Instance] = []
        self._news = asyncio.Event()

    def make(
        self,
        tasks: list[EngineTask],
        *,
        name: str | None = None,
        offset_ms: int = 0,
        wrap: Wrap | None = None,
        max_concurrent_runs: int | None = None,
        namespace: str = "default",
        seed: int | None = None,
    ) -> Instance:
        """An engine that is not started yet."""
        number = len(self.instances)
        instance_id = name if name is not None else "abcdefghijklmnopqrstuvwxyz"[number]
        clock = VirtualClock(offset_ms=offset_ms)
        host = InlineHost()
        host.start()
        backend: Backend = (
            MemoryClaimBackend(self.store, slot_ttl_ms=self.slot_ttl_ms)
            if self.claim_only
            else MemoryBackend(self.store)
        )
        if wrap is not None:
            backend = wrap(backend, clock)
        events: list[Event] = []
        fatal: list[BaseException] = []

        def hear(event: Event) -> None:
            events.append(event)
            self._news.set()

        engine = Engine(
            backend=backend,
            host=host,
            clock=clock,
            settings=SchedulerSettings(
                namespace=namespace,
                instance_id=instance_id,
                lease_ms=self.lease_ms,
                shutdown_grace_ms=10_000,
                max_concurrent_runs=max_concurrent_runs,
            ),
            tasks=tasks,
            emit=hear,
            on_fatal=fatal.append,
            rng=random.Random(number if seed is None else seed),
        )
        instance = Instance(instance_id, clock, host, engine, backend, events, fatal)
        self.instances.append(instance)
        return instance

    async def start(self, count: int, *tasks: EngineTask, **options: Any) -> list[Instance]:
        """Start instances that register the same tasks."""
        made = [self.make(list(tasks), **options) for _ in range(count)]
        for instance in made:
            await instance.engine.start()
        return made

    def now_ms(self) -> int:
        """True time."""
        return self.clock.now_ms()

    async def advance(self, ms: float) -> None:
        """Let virtual time pass."""
        await self.clock.sleep_ms(ms)

    async def advance_to(self, at_ms: int) -> None:
        """Let virtual time pass until the instant, and everything due by then happen."""
        await self.advance(at_ms - self.now_ms())

    async def until(self, kind: type[EventT], count: int = 1, **fields: object) -> list[EventT]:
        """Wait until the instances together have told so many events of a kind."""
        while True:
            found = self.told(kind, **fields)
            if len(found) >= count:
                return found
            self._news.clear()
            await self._news.wait()

    def told(self, kind: type[EventT], **fields: object) -> list[EventT]:
        """The events of a kind that any instance has told, in the order of their instants."""
        found = [event for instance in self.instances for event in instance.told(kind, **fields)]
        return sorted(found, key=lambda event: event.at_ms)

    async def runs(self, task: str, limit: int = 1_000) -> list[Run]:
        """The runs of a task from the store, oldest first."""
        backend: Backend = MemoryClaimBackend(self.store) if self.claim_only else MemoryBackend(self.store)
        await backend.open("default", None)
        try:
            return sorted(await backend.history(task, limit), key=lambda run: run.scheduled_at_ms)
        finally:
            await backend.close()

    async def stop(self) -> None:
        """Stop everything that was not killed."""
        for instance in self.instances:
            if instance.host.app_alive and not instance.clock.frozen:
                await instance.engine.stop(0)
                await instance.engine.wait_ended()


def _loop() -> VirtualLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop


def in_virtual_time(story: Callable[[], Coroutine[Any, Any, None]], *, limit_ms: int = 40 * 24 * 3_600_000) -> None:
    """Run a test's story in virtual time."""
    run_virtual(story, start_at_ms=START_MS, limit_ms=limit_ms)


def holding(ctx_list: list[RunContext[Any]], hold_ms: float, clock: VirtualClock) -> Callable[..., Any]:
    """A handler that notes its context and works for so long of virtual time."""

    async def hold(ctx: RunContext[Any]) -> None:
        ctx_list.append(ctx)
        await clock.sleep_ms(hold_ms)

    return hold
