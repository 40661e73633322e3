"""Cancelling the handlers of the thread host."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable
from typing import Any

from anarchon.host.base import Ended
from anarchon.host.thread import ThreadHost
from anarchon.host.threads import Job
from tests.unit.host.thread_hosts import (
    LIMIT_S,
    BlockedLoop,
    a_turn_of,
    async_work,
    end_of,
    ends_on_engine,
    on_engine,
    on_the_next_turn,
    plain_work,
    start,
    with_host,
)


@with_host
async def test_an_async_handler_is_cancelled(host: ThreadHost) -> None:
    begun = asyncio.Event()

    async def handler() -> None:
        begun.set()
        await asyncio.Event().wait()

    call = (await start(host, async_work(handler)))[0]
    await begun.wait()
    await on_engine(host, call.cancel)
    assert await end_of(host, call) == Ended("cancelled")


@with_host
async def test_a_handler_that_swallows_its_cancellation_has_ended_when_it_returns(host: ThreadHost) -> None:
    begun, swallowed, release = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def handler() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            swallowed.set()
        await release.wait()

    call = (await start(host, async_work(handler)))[0]
    await begun.wait()
    await on_engine(host, call.cancel)
    await swallowed.wait()
    await a_turn_of(host)
    assert not await on_engine(host, call.ended.done)
    release.set()
    assert await end_of(host, call) == Ended("returned")


@with_host
async def test_an_async_handler_that_has_not_begun_is_dropped_while_the_loop_is_blocked(host: ThreadHost) -> None:
    ran: list[str] = []

    async def handler() -> None:
        ran.append("handler")

    app = BlockedLoop()

    async def engine() -> Ended:
        await asyncio.wrap_future(app.blocked)
        call = host.start_calls([async_work(handler)])[0]
        call.cancel()
        call.cancel()
        try:
            return await call.ended
        finally:
            app.release()

    ended = host.submit(engine())
    app.block()
    assert await asyncio.wrap_future(ended) == Ended("never-began")
    await a_turn_of(host)
    assert ran == []


@with_host
async def test_a_task_that_the_application_cancels_before_it_begins_never_began(host: ThreadHost) -> None:
    ran: list[str] = []

    async def handler() -> None:
        ran.append("handler")

    def cancel_at_once(loop: asyncio.AbstractEventLoop, coro: Any, **kwargs: Any) -> asyncio.Task[Any]:
        task = asyncio.Task(coro, loop=loop, **kwargs)
        task.cancel()
        return task

    loop = asyncio.get_running_loop()
    loop.set_task_factory(cancel_at_once)
    try:
        ended = host.submit(ends_on_engine(host, async_work(handler)))
        assert await asyncio.wrap_future(ended) == [Ended("never-began")]
    finally:
        loop.set_task_factory(None)
    assert ran == []


@with_host
async def test_a_plain_handler_that_runs_goes_on_when_cancelled(host: ThreadHost) -> None:
    release = threading.Event()

    async def engine() -> Ended:
        begun = asyncio.Event()
        call = host.start_calls([plain_work(release.wait)])[0]
        call.on_began = begun.set
        await begun.wait()
        call.cancel()
        await host.call(on_the_next_turn())
        assert not call.ended.done()
        release.set()
        return await call.ended

    assert await host.call(engine()) == Ended("returned")


@with_host
async def test_a_plain_handler_that_has_not_begun_is_dropped(host: ThreadHost) -> None:
    ran: list[str] = []
    held: list[Job] = []
    host._threads.run = held.extend  # type: ignore[method-assign, assignment]

    async def engine() -> Ended:
        call = host.start_calls([plain_work(ran.append, "handler")])[0]
        call.cancel()
        return await call.ended

    assert await host.call(engine()) == Ended("never-began")
    held[0].run()
    assert ran == []


@with_host
async def test_what_a_plain_handler_returned_is_cancelled(host: ThreadHost) -> None:
    begun = asyncio.Event()

    async def rest() -> None:
        begun.set()
        await asyncio.Event().wait()

    call = (await start(host, plain_work(lambda: rest())))[0]
    await begun.wait()
    await on_engine(host, call.cancel)
    assert await end_of(host, call) == Ended("cancelled")


@with_host
async def test_what_a_plain_handler_returns_after_its_cancellation_is_not_awaited(host: ThreadHost) -> None:
    release = threading.Event()
    ran: list[str] = []

    async def rest() -> None:
        ran.append("rest")

    def handler() -> Awaitable[None]:
        assert release.wait(LIMIT_S)
        return rest()

    async def engine() -> Ended:
        begun = asyncio.Event()
        call = host.start_calls([plain_work(handler)])[0]
        call.on_began = begun.set
        await begun.wait()
        call.cancel()
        release.set()
        return await call.ended

    assert await host.call(engine()) == Ended("cancelled")
    assert ran == []
