"""Where the handlers of the thread host run, and how they end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

from anarchon.host.base import Ended, Work
from anarchon.host.thread import ThreadHost
from tests.unit.host.thread_hosts import (
    ERRORS,
    LIMIT_S,
    async_work,
    ends_of,
    on_the_next_turn,
    plain_work,
    variable,
    with_host,
)

# Where handlers run


@with_host
async def test_an_async_handler_runs_on_the_applications_loop(host: ThreadHost) -> None:
    ran_on: list[asyncio.AbstractEventLoop] = []

    async def handler() -> None:
        ran_on.append(asyncio.get_running_loop())

    assert await ends_of(host, async_work(handler)) == [Ended("returned")]
    assert ran_on == [asyncio.get_running_loop()]
    assert host.loop is not asyncio.get_running_loop()


@with_host
async def test_a_plain_handler_runs_on_a_daemon_thread_of_its_own(host: ThreadHost) -> None:
    ran_on: list[threading.Thread] = []

    assert await ends_of(host, plain_work(lambda: ran_on.append(threading.current_thread()))) == [Ended("returned")]
    assert ran_on[0].daemon
    assert ran_on[0] is not threading.current_thread()


@with_host
async def test_what_a_plain_handler_returns_is_awaited_on_the_applications_loop(host: ThreadHost) -> None:
    ran_on: list[asyncio.AbstractEventLoop] = []

    async def rest(number: int) -> None:
        ran_on.append(asyncio.get_running_loop())

    assert await ends_of(host, plain_work(lambda number: rest(number), 1)) == [Ended("returned")]
    assert ran_on == [asyncio.get_running_loop()]


def test_a_host_without_a_loop_of_an_application_makes_one() -> None:
    ran_on: list[asyncio.AbstractEventLoop] = []

    async def handler() -> None:
        ran_on.append(asyncio.get_running_loop())

    async def engine() -> Ended:
        return await host.start_calls([async_work(handler)])[0].ended

    host = ThreadHost(None, name="test")
    host.start()
    assert host.submit(engine()).result(LIMIT_S) == Ended("returned")
    assert ran_on == [host.app_loop]
    assert host.close()
    assert host.app_loop.is_closed()


@with_host
async def test_arguments_reach_the_handler(host: ThreadHost) -> None:
    given: list[object] = []

    async def handler(*args: object) -> None:
        given.append(args)

    await ends_of(host, async_work(handler, 1, 2), async_work(handler))
    await ends_of(host, plain_work(lambda *args: given.append(args), 3))
    assert given == [(1, 2), (), (3,)]


# How they end


def raiser(error: BaseException) -> Work:
    def handler() -> None:
        raise error

    return plain_work(handler)


def async_raiser(error: BaseException) -> Work:
    async def handler() -> None:
        raise error

    return async_work(handler)


def awaitable_raiser(error: BaseException) -> Work:
    async def rest() -> None:
        await on_the_next_turn()
        raise error

    return plain_work(lambda: rest())


@pytest.mark.parametrize("work_that_raises", [raiser, async_raiser, awaitable_raiser])
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_whatever_a_handler_raises_is_its_end_and_nobody_elses(
    work_that_raises: Callable[[BaseException], Work], error: BaseException
) -> None:
    async def body(host: ThreadHost) -> None:
        assert await ends_of(host, work_that_raises(error)) == [Ended("raised", error)]
        assert await ends_of(host, plain_work(int), async_work(on_the_next_turn)) == [Ended("returned")] * 2

    with_host(body)()


@pytest.mark.parametrize("work_that_raises", [raiser, async_raiser, awaitable_raiser])
def test_a_handler_that_cancels_itself_is_cancelled(work_that_raises: Callable[[BaseException], Work]) -> None:
    async def body(host: ThreadHost) -> None:
        error = asyncio.CancelledError()
        assert await ends_of(host, work_that_raises(error)) == [Ended("cancelled", error)]

    with_host(body)()


@with_host
async def test_a_handler_has_begun_before_it_has_ended(host: ThreadHost) -> None:
    said: list[str] = []

    async def engine() -> None:
        calls = host.start_calls([async_work(on_the_next_turn), plain_work(int)])
        for call in calls:
            assert not call.began
            call.on_began = lambda: said.append(f"began on {asyncio.get_running_loop() is host.loop}")
        for call in calls:
            await call.ended
            assert call.began

    await host.call(engine())
    assert said == ["began on True"] * 2


@with_host
async def test_that_a_handler_has_begun_is_known_while_it_blocks_the_loop(host: ThreadHost) -> None:
    release = threading.Event()

    async def handler() -> None:
        assert release.wait(LIMIT_S)

    async def engine() -> Ended:
        call = host.start_calls([async_work(handler)])[0]
        call.on_began = release.set
        return await call.ended

    assert await host.call(engine()) == Ended("returned")


@with_host
async def test_threads_are_counted_until_their_function_returns(host: ThreadHost) -> None:
    release = threading.Event()

    async def engine() -> None:
        begun = asyncio.Event()
        call = host.start_calls([plain_work(release.wait)])[0]
        call.on_began = begun.set
        await begun.wait()
        assert host.threads_alive() == 1
        release.set()
        await call.ended
        while host.threads_alive():
            await on_the_next_turn()

    await host.call(engine())


# Context variables


def test_each_handler_gets_a_copy_of_the_variables_at_the_start() -> None:
    seen: list[str] = []

    def handler() -> None:
        seen.append(variable.get())
        variable.set("by a handler")

    async def async_handler() -> None:
        handler()

    async def awaited_after() -> None:
        handler()
        assert seen[-1] == "by a handler"
        seen.pop()

    def handler_and_rest() -> Awaitable[None]:
        handler()
        return awaited_after()

    async def application() -> None:
        variable.set("at the start")
        host = ThreadHost(asyncio.get_running_loop(), name="test")
        host.start()
        variable.set("later")
        for work in (async_work(async_handler), plain_work(handler), plain_work(handler_and_rest)):
            assert await ends_of(host, work, work) == [Ended("returned")] * 2
        assert variable.get() == "later"
        assert host.close()

    asyncio.run(application())
    assert seen == ["at the start"] * 6


@with_host
async def test_the_variables_of_a_handler_do_not_reach_the_engine(host: ThreadHost) -> None:
    seen: list[str] = []

    async def handler() -> None:
        variable.set("by the handler")

    async def engine() -> None:
        call = host.start_calls([async_work(handler)])[0]
        call.on_began = lambda: seen.append(variable.get())
        await call.ended

    await host.call(engine())
    assert seen == ["unset"]
