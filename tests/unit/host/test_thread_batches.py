"""How the thread host saves wake-ups and threads."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future

import pytest

from anarchon.host.base import Ended
from anarchon.host.thread import ThreadHost
from anarchon.host.threads import DaemonThreads, Job
from tests.unit.host.thread_hosts import (
    LIMIT_S,
    BlockedLoop,
    async_work,
    ends_of,
    on_the_next_turn,
    plain_work,
    with_host,
)


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
        woken_before = host.wake_ups()[0]
        calls = host.start_calls([async_work(handler)] * 1_000)
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
async def test_a_hundred_plain_handlers_run_at_once_where_they_wait_for_each_other(host: ThreadHost) -> None:
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
