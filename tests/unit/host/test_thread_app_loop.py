"""The thread host and a loop of the application that is blocked, lags or is closed."""

from __future__ import annotations

import asyncio

from anarchon.host.base import Call, Ended
from anarchon.host.thread import ThreadHost
from tests.unit.host.thread_hosts import (
    LIMIT_S,
    BlockedLoop,
    async_work,
    on_engine,
    on_the_next_turn,
    own_loop,
    plain_work,
    with_host,
)


@with_host
async def test_the_engine_goes_on_while_the_applications_loop_is_blocked(host: ThreadHost) -> None:
    app = BlockedLoop()

    async def engine() -> str:
        await asyncio.wrap_future(app.blocked)
        ended = await host.start_calls([plain_work(int)])[0].ended
        app.release()
        return ended.how

    how = host.submit(engine())
    app.block()
    assert await asyncio.wrap_future(how) == "returned"


@with_host
async def test_a_blocked_loop_lags_until_it_answers(host: ThreadHost) -> None:
    app = BlockedLoop()

    async def engine() -> None:
        await asyncio.wrap_future(app.blocked)
        assert host.lag_ms() == 0
        woken_before = host.wake_ups()[1]
        for _ in range(100):
            host.probe()
        assert host.wake_ups()[1] == woken_before + 1
        while host.lag_ms() == 0:  # as long as the clock shows no difference
            await on_the_next_turn()
        app.release()
        while host.lag_ms() > 0:
            await on_the_next_turn()

    done = host.submit(engine())
    app.block()
    await asyncio.wrap_future(done)


@with_host
async def test_a_start_that_is_not_answered_counts_as_lag(host: ThreadHost) -> None:
    app = BlockedLoop()

    async def engine() -> None:
        await asyncio.wrap_future(app.blocked)
        call = host.start_calls([async_work(on_the_next_turn)])[0]
        while host.lag_ms() == 0:
            await on_the_next_turn()
        app.release()
        await call.ended

    done = host.submit(engine())
    app.block()
    await asyncio.wrap_future(done)


@with_host
async def test_a_callback_is_called_on_the_applications_loop(host: ThreadHost) -> None:
    called: asyncio.Future[asyncio.AbstractEventLoop] = asyncio.get_running_loop().create_future()

    assert await on_engine(host, lambda: host.post(lambda: called.set_result(asyncio.get_running_loop())))
    assert await called is asyncio.get_running_loop()


def test_what_runs_on_a_loop_that_is_closed_is_cancelled_and_what_waits_never_began() -> None:
    app_loop, close_app_loop = own_loop()
    ran: list[str] = []

    async def handler() -> None:
        await asyncio.Event().wait()

    async def late_handler() -> None:
        ran.append("late")

    async def begin() -> Call:
        begun = asyncio.Event()
        call = host.start_calls([async_work(handler)])[0]
        call.on_began = begun.set
        await begun.wait()
        assert host.alive
        return call

    async def go_on(call: Call) -> list[Ended]:
        assert not host.alive
        calls = [call, *host.start_calls([async_work(late_handler), plain_work(late_handler), plain_work(int)])]
        assert not host.post(int)
        assert host.lag_ms() == 0
        host.probe()
        return [await call.ended for call in calls]

    host = ThreadHost(app_loop, name="test")
    host.start()
    call = host.submit(begin()).result(LIMIT_S)
    close_app_loop()
    assert host.submit(go_on(call)).result(LIMIT_S) == [
        Ended("cancelled"),
        Ended("never-began"),
        Ended("cancelled"),
        Ended("returned"),
    ]
    assert ran == []
    assert host.close()


def test_a_start_on_its_way_to_a_loop_that_is_closed_never_began() -> None:
    loop = asyncio.new_event_loop()  # never turns
    host = ThreadHost(loop, name="test")
    host.start()

    async def engine() -> list[Ended]:
        calls = host.start_calls([async_work(on_the_next_turn), plain_work(lambda: on_the_next_turn())])
        begun = asyncio.Event()
        calls[1].on_began = begun.set
        await begun.wait()
        while host.threads_alive():
            await on_the_next_turn()
        loop.close()
        assert not any(call.ended.done() for call in calls)
        host.probe()
        return [await call.ended for call in calls]

    assert host.submit(engine()).result(LIMIT_S) == [Ended("never-began"), Ended("cancelled")]
    assert host.close()


def test_cancelling_a_handler_whose_loop_is_closed_ends_it() -> None:
    app_loop, close_app_loop = own_loop()
    host = ThreadHost(app_loop, name="test")
    host.start()

    async def handler() -> None:
        await asyncio.Event().wait()

    async def engine() -> Ended:
        begun = asyncio.Event()
        call = host.start_calls([async_work(handler)])[0]
        call.on_began = begun.set
        await begun.wait()
        close_app_loop()
        call.cancel()
        return await call.ended

    assert host.submit(engine()).result(LIMIT_S) == Ended("cancelled")
    assert host.close()
