"""What the tests of the thread host have in common."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any

from anarchon.host.base import Call, Ended, Work
from anarchon.host.thread import ThreadHost

LIMIT_S = 60
"""For how long a test waits for what never comes."""


ERRORS = [ValueError("no"), SystemExit(3), KeyboardInterrupt(), GeneratorExit(), StopAsyncIteration()]

variable = contextvars.ContextVar("variable", default="unset")


def with_host(body: Callable[[ThreadHost], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """A test whose body runs in an application with a started host, which is closed afterwards."""

    async def application() -> None:
        host = ThreadHost(asyncio.get_running_loop(), name="test")
        host.start()
        try:
            async with asyncio.timeout(LIMIT_S):
                await body(host)
        finally:
            assert host.close()

    def test() -> None:
        asyncio.run(application())

    test.__doc__ = body.__doc__
    return test


def async_work(fn: Callable[..., object], *args: object) -> Work:
    return Work(name="task", fn=fn, args=args, is_async=True)


def plain_work(fn: Callable[..., object], *args: object) -> Work:
    return Work(name="task", fn=fn, args=args, is_async=False)


async def ends_of(host: ThreadHost, *works: Work) -> list[Ended]:
    """Start the works on the engine's loop and wait for their ends."""

    async def engine() -> list[Ended]:
        return [await call.ended for call in host.start_calls(works)]

    return await host.call(engine())


async def start(host: ThreadHost, *works: Work) -> list[Call]:
    async def engine() -> list[Call]:
        return list(host.start_calls(works))

    return await host.call(engine())


async def on_engine(host: ThreadHost, fn: Callable[[], object]) -> Any:
    async def engine() -> object:
        return fn()

    return await host.call(engine())


async def end_of(host: ThreadHost, call: Call) -> Ended:
    async def engine() -> Ended:
        return await call.ended

    return await host.call(engine())


async def a_turn_of(host: ThreadHost) -> None:
    """Return when the engine's loop and the application's have both seen all that was sent to them before."""
    turned = asyncio.Event()
    await on_engine(host, lambda: host.post(turned.set))
    await turned.wait()
    await on_engine(host, lambda: None)


class BlockedLoop:
    """Blocks the loop it is made on with a wait that does not return before `release`, called on another thread."""

    def __init__(self) -> None:
        self.blocked: Future[None] = Future()
        self._release = threading.Event()
        self.loop = asyncio.get_running_loop()

    def block(self) -> None:
        self.blocked.set_result(None)
        assert self._release.wait(LIMIT_S)

    def release(self) -> None:
        self._release.set()


def own_loop() -> tuple[asyncio.AbstractEventLoop, Callable[[], None]]:
    """A loop on a thread, and what closes it without a word to its tasks."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def close() -> None:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(LIMIT_S)
        loop.close()

    return loop, close


async def on_the_next_turn() -> None:
    await asyncio.sleep(0)


async def ends_on_engine(host: ThreadHost, *works: Work) -> list[Ended]:
    return [await call.ended for call in host.start_calls(works)]
