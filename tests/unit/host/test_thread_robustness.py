"""What the thread host keeps alive, and what it survives."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import sys
import weakref
from typing import Any

import pytest

from anarchon.host.base import Ended
from anarchon.host.mailbox import Mailbox
from anarchon.host.thread import ThreadHost
from anarchon.log_lines import all_written
from tests.unit.host.thread_hosts import (
    LIMIT_S,
    a_turn_of,
    async_work,
    ends_of,
    ends_on_engine,
    on_the_next_turn,
    plain_work,
    start,
    with_host,
)


def test_a_running_handler_outlives_a_forgotten_host() -> None:
    task: list[weakref.ref[asyncio.Task[Any]]] = []
    finished: list[str] = []

    async def handler() -> None:
        current = asyncio.current_task()
        assert current is not None
        task.append(weakref.ref(current))
        try:
            await asyncio.get_running_loop().create_future()  # which nobody else holds
        finally:
            finished.append("handler")

    async def application() -> None:
        host = ThreadHost(asyncio.get_running_loop(), name="test")
        host.start()
        await start(host, async_work(handler))
        await a_turn_of(host)
        assert host.close()

    async def main() -> None:
        await application()
        gc.collect()
        survivor = task[0]()
        assert survivor is not None
        assert finished == []
        survivor.cancel()
        await asyncio.wait([survivor])

    asyncio.run(main())
    assert finished == ["handler"]


@with_host
async def test_nothing_is_lost_while_garbage_is_collected(host: ThreadHost) -> None:
    async def handler() -> None:
        gc.collect()
        await asyncio.wrap_future(host.submit(on_the_next_turn()))

    ends = await ends_of(host, *[async_work(handler), plain_work(gc.collect)] * 5)
    assert ends == [Ended("returned")] * 10


@with_host
async def test_a_handlers_arguments_are_let_go_when_it_has_ended(host: ThreadHost) -> None:
    class Argument:
        pass

    argument = Argument()
    held = weakref.ref(argument)
    await ends_of(host, plain_work(lambda _: None, argument), async_work(_take, argument))
    del argument
    await a_turn_of(host)
    while host.threads_alive():
        await on_the_next_turn()
    gc.collect()
    assert held() is None


async def _take(_: object) -> None:
    pass


def test_a_callback_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise ValueError("of the callback")

    async def body(host: ThreadHost) -> None:
        async def engine() -> Ended:
            call = host.start_calls([async_work(on_the_next_turn)])[0]
            call.on_began = fail
            assert host.post(fail)
            return await call.ended

        assert await host.call(engine()) == Ended("returned")
        await a_turn_of(host)

    with_host(body)()
    assert all_written(LIMIT_S)
    assert [record.exc_text is not None for record in caplog.records] == [True, True]


def test_an_interrupt_in_a_callback_leaves_the_rest_for_the_next_turn() -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    called: list[str] = []
    loop = asyncio.new_event_loop()
    mailbox = Mailbox(loop, contextvars.copy_context())
    assert mailbox.put([interrupt, lambda: called.append("the next"), loop.stop])
    with pytest.raises(KeyboardInterrupt):
        loop.run_forever()
    assert called == []
    loop.run_forever()
    loop.close()
    assert called == ["the next"]


@with_host
async def test_a_task_factory_that_takes_no_context_does_not_matter(host: ThreadHost) -> None:
    def factory(loop: asyncio.AbstractEventLoop, coro: Any) -> asyncio.Task[Any]:
        return asyncio.Task(coro, loop=loop)

    loop = asyncio.get_running_loop()
    ended = host.submit(ends_on_engine(host, async_work(on_the_next_turn)))
    loop.set_task_factory(factory)
    try:
        assert await asyncio.wrap_future(ended) == [Ended("returned")]
    finally:
        loop.set_task_factory(None)


if sys.version_info >= (3, 12):

    @with_host
    async def test_an_eager_task_factory_does_not_matter(host: ThreadHost) -> None:
        async def handler() -> None:
            raise SystemExit

        loop = asyncio.get_running_loop()
        loop.set_task_factory(asyncio.eager_task_factory)
        ends = await asyncio.wrap_future(
            host.submit(ends_on_engine(host, async_work(on_the_next_turn), async_work(handler)))
        )
        assert [ended.how for ended in ends] == ["returned", "raised"]
