"""The inline host, in virtual time."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from anarchon.errors import StateError
from anarchon.host.base import Call, Ended, Work
from anarchon.host.inline import InlineHost
from anarchon.testing.vloop import run_virtual

variable = contextvars.ContextVar("variable", default="unset")

ERRORS = [ValueError("no"), SystemExit(3), KeyboardInterrupt(), GeneratorExit()]


def with_host(body: Callable[[InlineHost], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """A test whose body runs on a virtual loop with a started host."""

    async def main() -> None:
        variable.set("at the start")
        host = InlineHost()
        host.start()
        variable.set("later")
        await body(host)
        host.close()

    def test() -> None:
        run_virtual(main)

    return test


def async_work(fn: Callable[..., object], *args: object) -> Work:
    return Work(name="task", fn=fn, args=args, is_async=True)


def plain_work(fn: Callable[..., object], *args: object) -> Work:
    return Work(name="task", fn=fn, args=args, is_async=False)


async def hour() -> None:
    await asyncio.sleep(3600)


async def ends_of(host: InlineHost, *works: Work) -> list[Ended]:
    return [await call.ended for call in host.start_calls(works)]


@with_host
async def test_both_kinds_of_handlers_run_on_the_one_loop(host: InlineHost) -> None:
    ran: list[str] = []

    async def rest() -> None:
        await hour()
        ran.append("rest")

    works = [plain_work(ran.append, "first"), plain_work(lambda: rest()), async_work(rest), plain_work(ran.append, "b")]
    assert await ends_of(host, *works) == [Ended("returned")] * 4
    assert ran == ["first", "b", "rest", "rest"]


@with_host
async def test_nothing_begins_before_the_loop_has_turned(host: InlineHost) -> None:
    said: list[str] = []
    calls = host.start_calls([plain_work(said.append, "plain"), async_work(hour)])
    for call in calls:
        call.on_began = lambda: said.append("began")
    assert not any(call.began for call in calls)
    await asyncio.sleep(1)
    assert said == ["began", "plain", "began"]
    assert all(call.began for call in calls)
    await calls[1].ended


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_whatever_a_handler_raises_is_its_end_and_nobody_elses(error: BaseException) -> None:
    def plain() -> None:
        raise error

    async def rest() -> None:
        raise error

    async def body(host: InlineHost) -> None:
        ends = await ends_of(host, plain_work(plain), async_work(rest), plain_work(lambda: rest()), async_work(hour))
        assert ends == [Ended("raised", error)] * 3 + [Ended("returned")]

    with_host(body)()


@with_host
async def test_an_async_handler_is_cancelled_and_one_that_swallows_it_goes_on(host: InlineHost) -> None:
    async def swallow() -> None:
        try:
            await hour()
        except asyncio.CancelledError:
            await hour()

    calls = host.start_calls([async_work(hour), async_work(swallow), plain_work(lambda: hour())])
    await asyncio.sleep(1)
    for call in calls:
        call.cancel()
    assert [await call.ended for call in calls] == [Ended("cancelled"), Ended("returned"), Ended("cancelled")]
    assert asyncio.get_running_loop().time() == 3601


@with_host
async def test_what_has_not_begun_is_dropped(host: InlineHost) -> None:
    ran: list[str] = []
    calls = host.start_calls([async_work(ran.append, "async"), plain_work(ran.append, "plain")])
    for call in calls:
        call.cancel()
        call.cancel()
    assert [await call.ended for call in calls] == [Ended("never-began")] * 2
    await hour()
    assert ran == []


@with_host
async def test_a_task_that_is_cancelled_before_its_first_step_never_began(host: InlineHost) -> None:
    calls: list[Call] = []
    calls += host.start_calls([async_work(hour), plain_work(lambda: calls[0].cancel())])
    assert [await call.ended for call in calls] == [Ended("never-began"), Ended("returned")]


@with_host
async def test_each_handler_gets_a_copy_of_the_variables_at_the_start(host: InlineHost) -> None:
    seen: list[str] = []

    def plain() -> None:
        seen.append(variable.get())
        variable.set("by a handler")

    async def rest() -> None:
        plain()

    await ends_of(host, *[plain_work(plain), async_work(rest)] * 2)
    assert seen == ["at the start"] * 4
    assert variable.get() == "later"


@with_host
async def test_the_lag_is_what_a_test_says(host: InlineHost) -> None:
    host.probe()
    assert host.lag_ms() == 0
    host.lag = 2_000
    assert host.lag_ms() == 2_000
    assert host.threads_alive() == 0


@with_host
async def test_a_closed_application_ends_what_runs_and_starts_nothing(host: InlineHost) -> None:
    running = host.start_calls([async_work(hour)])
    called = asyncio.Event()
    assert host.post(called.set)
    await called.wait()
    waiting = host.start_calls([async_work(hour)])
    alive = [host.alive]
    host.close_app()
    alive.append(host.alive)
    assert alive == [True, False]
    assert not host.post(called.set)
    late = host.start_calls([async_work(hour), plain_work(int)])
    assert [await call.ended for call in (*running, *waiting, *late)] == [
        Ended("cancelled"),
        Ended("never-began"),
        Ended("never-began"),
        Ended("returned"),
    ]


@with_host
async def test_cancelling_a_call_does_not_cancel_the_engines_task(host: InlineHost) -> None:
    done: list[str] = []

    async def engine() -> None:
        await hour()
        done.append("engine")

    call = asyncio.create_task(host.call(engine()))
    await asyncio.sleep(1)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await hour()
    assert done == ["engine"]


@with_host
async def test_closing_cancels_what_has_been_submitted(host: InlineHost) -> None:
    call = asyncio.create_task(host.call(hour()))
    await asyncio.sleep(1)
    host.close()
    with pytest.raises(StateError):
        await call
    with pytest.raises(StateError):
        await host.call(hour())
    assert host.closed


@with_host
async def test_a_callback_that_fails_does_not_harm_the_loop(host: InlineHost) -> None:
    def fail() -> None:
        raise ValueError

    call = host.start_calls([plain_work(int)])[0]
    call.on_began = fail
    assert host.post(fail)
    assert await call.ended == Ended("returned")
