"""What is sent to the engine of the thread host, and its beginning and end."""

from __future__ import annotations

import asyncio
import gc
import threading
from concurrent.futures import Future

import pytest

from anarchon.errors import StateError
from anarchon.host.base import Ended
from anarchon.host.thread import ThreadHost
from anarchon.log_lines import all_written
from tests.unit.host.thread_hosts import (
    ERRORS,
    LIMIT_S,
    async_work,
    ends_on_engine,
    on_the_next_turn,
    plain_work,
    with_host,
)

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
    assert all_written(LIMIT_S)
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
    assert all_written(LIMIT_S)
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
    assert host.submit(ends_on_engine(host, *[plain_work(int)] * 20)).result(LIMIT_S) == [Ended("returned")] * 20
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


@pytest.mark.parametrize("threads_before", [0, 1])
def test_a_host_that_gets_no_thread_does_not_start(threads_before: int, monkeypatch: pytest.MonkeyPatch) -> None:
    alive = set(threading.enumerate())
    start_thread, left = threading.Thread.start, [None] * threads_before

    def start_or_refuse(thread: threading.Thread) -> None:
        if not left:
            raise RuntimeError("can't start new thread")
        left.pop()
        start_thread(thread)

    host = ThreadHost(None, name="test")
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start_or_refuse)
        with pytest.raises(RuntimeError):
            host.start()
    assert not host.started
    assert host.close()
    for thread in set(threading.enumerate()) - alive:
        thread.join(LIMIT_S)
        assert not thread.is_alive()
    gc.collect()
