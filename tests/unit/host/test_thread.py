"""The thread host, with a real loop of an application beside the engine's."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import os
import subprocess
import sys
import textwrap
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from anarchon.errors import StateError
from anarchon.host.base import Call, Ended, Work
from anarchon.host.mailbox import Mailbox
from anarchon.host.thread import ThreadHost
from anarchon.host.threads import DaemonThreads, Job

LIMIT_S = 60
"""For how long a test waits for what never comes."""

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

ERRORS = [ValueError("no"), SystemExit(3), KeyboardInterrupt(), GeneratorExit(), StopAsyncIteration()]


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


async def on_the_next_turn() -> None:
    await asyncio.sleep(0)


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
        assert await ends_of(host, work_that_raises(asyncio.CancelledError())) == [Ended("cancelled")]

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


# Cancelling


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
        ended = host.submit(_ends(host, async_work(handler)))
        assert await asyncio.wrap_future(ended) == [Ended("never-began")]
    finally:
        loop.set_task_factory(None)
    assert ran == []


async def _ends(host: ThreadHost, *works: Work) -> list[Ended]:
    return [await call.ended for call in host.start_calls(works)]


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


# The application's loop: blocked, lagging, closed


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


# Batches


@with_host
async def test_a_thousand_handlers_start_with_one_wake_up(host: ThreadHost) -> None:
    app = BlockedLoop()

    async def engine() -> list[Ended]:
        await asyncio.wrap_future(app.blocked)
        woken_before = host.wake_ups()[1]
        calls = host.start_calls([async_work(on_the_next_turn)] * 1_000)
        host.start_calls([async_work(on_the_next_turn)])
        assert host.wake_ups()[1] == woken_before + 1
        app.release()
        return [await call.ended for call in calls]

    ends = host.submit(engine())
    app.block()
    assert await asyncio.wrap_future(ends) == [Ended("returned")] * 1_000


@with_host
async def test_a_thousand_ends_reach_a_busy_engine_with_one_wake_up(host: ThreadHost) -> None:
    async def handler() -> None:
        pass

    async def engine() -> int:
        calls = host.start_calls([async_work(handler)] * 1_000)
        woken_before = host.wake_ups()[0]
        all_done = threading.Event()
        # The handlers' tasks exist once this is called, and two turns later each of them has ended.
        host.post(lambda: host.app_loop.call_soon(host.app_loop.call_soon, all_done.set))
        assert all_done.wait(LIMIT_S)
        woken = host.wake_ups()[0] - woken_before
        for call in calls:
            assert await call.ended == Ended("returned")
        return woken

    assert await host.call(engine()) == 1


@with_host
async def test_a_thousand_plain_handlers_run_at_once_where_they_wait_for_each_other(host: ThreadHost) -> None:
    barrier = threading.Barrier(100)

    assert await ends_of(host, *[plain_work(barrier.wait, LIMIT_S)] * 100) == [Ended("returned")] * 100


@with_host
async def test_a_thread_is_used_again(host: ThreadHost) -> None:
    ran_on: list[int] = []

    async def engine() -> None:
        for _ in range(10):
            await host.start_calls([plain_work(lambda: ran_on.append(threading.get_ident()))])[0].ended
            while host.threads_alive():
                await on_the_next_turn()

    await host.call(engine())
    assert len(ran_on) == 10
    assert len(set(ran_on)) == 1


def test_an_idle_thread_ends() -> None:
    ran_on: Future[threading.Thread] = Future()
    threads = DaemonThreads("test", idle_s=0.001)
    threads.run([Job(lambda: ran_on.set_result(threading.current_thread()), lambda error: None)])
    thread = ran_on.result(LIMIT_S)
    thread.join(LIMIT_S)
    assert not thread.is_alive()
    assert threads.close(LIMIT_S)


def test_handlers_for_which_there_is_no_thread_never_began(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(host: ThreadHost) -> None:
        error = RuntimeError("can't start new thread")

        def refuse(thread: threading.Thread) -> None:
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            assert await ends_of(host, *[plain_work(int)] * 3) == [Ended("never-began", error)] * 3
        assert await ends_of(host, plain_work(int)) == [Ended("returned")]

    with_host(body)()


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


# References and errors


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
    ended = host.submit(_ends(host, async_work(on_the_next_turn)))
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
        ends = await asyncio.wrap_future(host.submit(_ends(host, async_work(on_the_next_turn), async_work(handler))))
        assert [ended.how for ended in ends] == ["returned", "raised"]


# What is sent to the engine


@with_host
async def test_a_coroutine_runs_on_the_engines_loop_and_its_result_comes_back(host: ThreadHost) -> None:
    async def engine() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    assert await host.call(engine()) is host.loop
    assert await host.call(host.call(engine())) is host.loop


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_what_a_coroutine_raises_is_raised_to_the_caller_and_the_engine_goes_on(error: BaseException) -> None:
    async def body(host: ThreadHost) -> None:
        async def engine() -> None:
            raise error

        assert await asyncio.to_thread(host.submit(engine()).exception, LIMIT_S) is error
        await host.call(on_the_next_turn())

    with_host(body)()


@with_host
async def test_cancelling_a_call_does_not_cancel_the_engines_task(host: ThreadHost) -> None:
    begun, done = asyncio.Event(), asyncio.Event()
    release: Future[None] = Future()

    async def engine() -> None:
        host.post(begun.set)
        await asyncio.wrap_future(release)
        host.post(done.set)

    call = asyncio.create_task(host.call(engine()))
    await begun.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    release.set_result(None)
    await done.wait()


def test_the_error_of_a_call_that_was_cancelled_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def body(host: ThreadHost) -> None:
        begun = asyncio.Event()
        release: Future[None] = Future()

        async def engine() -> None:
            host.post(begun.set)
            await asyncio.wrap_future(release)
            raise ValueError("too late")

        call = asyncio.create_task(host.call(engine()))
        await begun.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        release.set_result(None)
        await host.call(on_the_next_turn())
        await host.call(on_the_next_turn())

    with_host(body)()
    assert ["too late" in str(record.exc_info) for record in caplog.records] == [True]


@with_host
async def test_a_future_of_the_engine_cannot_be_cancelled(host: ThreadHost) -> None:
    future = host.submit(on_the_next_turn())
    assert not future.cancel()
    await asyncio.wrap_future(future)


def test_a_task_that_tries_to_end_the_engines_loop_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def body(host: ThreadHost) -> None:
        async def exit_() -> None:
            raise SystemExit

        async def engine() -> None:
            task = asyncio.create_task(exit_())
            await asyncio.wait([task])
            with pytest.raises(SystemExit):
                task.result()

        await host.call(engine())

    with_host(body)()
    assert [record.levelname for record in caplog.records] == ["ERROR"]


# Beginning and end


def test_a_host_that_is_not_started_or_is_closed_takes_nothing() -> None:
    host = ThreadHost(None, name="test")
    assert not host.started
    with pytest.raises(StateError, match="not been started"):
        host.submit(on_the_next_turn())
    host.start()
    assert (host.started, host.closed) == (True, False)
    with pytest.raises(StateError, match="started before"):
        host.start()
    assert host.close()
    assert (host.started, host.closed) == (True, True)
    with pytest.raises(StateError, match="closed"):
        host.submit(on_the_next_turn())
    with pytest.raises(StateError):
        host.start()


def test_a_host_that_was_never_started_can_be_closed() -> None:
    host = ThreadHost(None, name="test")
    assert host.close()
    assert host.close()


def test_no_thread_and_no_loop_is_left_after_the_close() -> None:
    before = set(threading.enumerate())
    host = ThreadHost(None, name="test")
    host.start()
    assert host.submit(_ends(host, *[plain_work(int)] * 20)).result(LIMIT_S) == [Ended("returned")] * 20
    assert set(threading.enumerate()) > before
    assert host.close()
    assert host.close()
    assert set(threading.enumerate()) == before
    assert host.loop.is_closed()
    assert host.app_loop.is_closed()


def test_closing_cancels_what_the_engine_still_runs_and_answers_who_waits() -> None:
    unwound: list[str] = []

    async def engine() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await on_the_next_turn()
            unwound.append("engine")

    begun = threading.Event()
    host = ThreadHost(None, name="test")
    host.start()
    future = host.submit(engine())
    assert begun.wait(LIMIT_S)
    assert host.close()
    with pytest.raises(StateError, match="stopped"):
        future.result(LIMIT_S)
    assert unwound == ["engine"]


def test_closing_answers_what_was_sent_a_moment_before() -> None:
    for _ in range(50):
        host = ThreadHost(None, name="test")
        host.start()
        futures = [host.submit(asyncio.Event().wait()) for _ in range(3)]
        assert host.close()
        for future in futures:
            assert isinstance(future.exception(LIMIT_S), StateError)


def test_closing_cancels_the_handlers_on_the_hosts_own_loop() -> None:
    ends: list[Ended] = []

    async def handler() -> None:
        await asyncio.Event().wait()

    async def engine() -> None:
        begun = asyncio.Event()
        call = host.start_calls([async_work(handler)])[0]
        call.ended.add_done_callback(lambda ended: ends.append(ended.result()))
        call.on_began = begun.set
        await begun.wait()

    host = ThreadHost(None, name="test")
    host.start()
    host.submit(engine()).result(LIMIT_S)
    assert host.close()
    assert ends == [Ended("cancelled")]


def test_the_engine_may_ask_for_the_close_itself() -> None:
    async def engine() -> bool:
        return host.close()

    host = ThreadHost(None, name="test")
    host.start()
    assert host.submit(engine()).result(LIMIT_S) is False
    assert host.close()


def test_closing_does_not_wait_for_a_plain_handler_for_ever() -> None:
    begun, release = threading.Event(), threading.Event()

    def handler() -> None:
        begun.set()
        assert release.wait(LIMIT_S)

    async def engine() -> None:
        host.start_calls([plain_work(handler)])

    host = ThreadHost(None, name="test")
    host.start()
    host.submit(engine()).result(LIMIT_S)
    assert begun.wait(LIMIT_S)
    assert not host.close(timeout=0.001)
    release.set()
    assert host.close()


def test_a_host_that_gets_no_thread_for_its_engine_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    host = ThreadHost(None, name="test")
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError):
            host.start()
    assert not host.started
    assert host.close()


# Processes


def run_script(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-X", "dev", "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )


@pytest.mark.processes
def test_a_process_ends_with_handlers_that_hang() -> None:
    done = run_script("""
        import asyncio, threading, time
        from anarchon.host.base import Work
        from anarchon.host.thread import ThreadHost

        async def swallow():
            while True:
                try:
                    await asyncio.sleep(3600)
                except asyncio.CancelledError:
                    pass

        async def engine():
            works = [Work(name="hangs", fn=threading.Event().wait, is_async=False),
                     Work(name="swallows", fn=swallow, is_async=True)]
            for work in works:
                begun = asyncio.Event()
                host.start_calls([work])[0].on_began = begun.set
                await begun.wait()

        host = ThreadHost(None, name="test")
        host.start()
        host.submit(engine()).result(30)
        print("main is done", flush=True)
        """)
    assert (done.returncode, done.stdout, done.stderr) == (0, "main is done\n", "")


@pytest.mark.processes
def test_a_host_can_be_used_and_closed_at_exit() -> None:
    done = run_script("""
        import asyncio, atexit
        from anarchon.host.thread import ThreadHost

        async def last_words():
            return "handed over"

        def at_exit():
            print(host.submit(last_words()).result(30), host.close(), flush=True)

        atexit.register(at_exit)
        host = ThreadHost(None, name="test")
        host.start()
        """)
    assert (done.returncode, done.stdout, done.stderr) == (0, "handed over True\n", "")


@pytest.mark.processes
def test_a_forked_child_refuses_to_go_on_and_leaves_the_parent_alone() -> None:
    done = run_script("""
        import os, sys, warnings
        from anarchon.errors import StateError
        from anarchon.host.thread import ThreadHost

        async def who():
            return "parent works"

        warnings.simplefilter("ignore", DeprecationWarning)
        host = ThreadHost(None, name="test")
        host.start()
        assert not host.forked
        pid = os.fork()
        if pid == 0:
            try:
                host.submit(who())
            except StateError as error:
                print(host.forked, "forked" in str(error), host.close(), flush=True)
            sys.exit(7)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
        print(host.submit(who()).result(30), host.close())
        """)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True True True\n7\nparent works True\n", "")
