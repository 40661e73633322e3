"""Another program holds the lock: who waits, how long, and who does not."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import pytest

from anarchon.errors import BackendUnavailableError
from anarchon.model.asks import LOST, Lease, Won
from anarchon.testing.conformance.kit import record
from tests.unit.sqlite.support import ask, locked, on_a_loop, opened, win


def hold(path: Path, seconds: float) -> threading.Thread:
    """Hold the lock for a while, beginning now."""
    taken = threading.Event()

    def holder() -> None:
        with locked(path):
            taken.set()
            time.sleep(seconds)

    thread = threading.Thread(target=holder)
    thread.start()
    taken.wait(5)
    return thread


@pytest.mark.slow
@on_a_loop
async def test_a_program_that_holds_the_lock_for_three_seconds_costs_no_slot(tmp_path: Path) -> None:
    async with opened(tmp_path / "x.db") as backend:
        held = await win(backend, -1)
        holder = hold(tmp_path / "x.db", 3)

        answers = await asyncio.gather(*(backend.claim([ask(slot)]) for slot in range(20)))
        renewed = await backend.renew([Lease(task="t", run_id=held.run_id, fence=held.fence or 0)], 15_000)
        holder.join()

        assert all(isinstance(answer, Won) for (answer,) in answers)
        assert list(renewed) == [True]


@on_a_loop
async def test_a_lock_past_the_limit_is_unavailable_and_nothing_was_applied(tmp_path: Path) -> None:
    async with opened(tmp_path / "x.db", busy_timeout_ms=200) as backend:
        waited = pytest.raises(BackendUnavailableError, match="locked by another program for 200 ms")
        with locked(tmp_path / "x.db"), waited as caught:
            await win(backend)
        await asyncio.sleep(0.2)

        assert str(tmp_path / "x.db") in str(caught.value)
        assert list(await backend.history("t", 10)) == []
        await win(backend)


@on_a_loop
async def test_a_call_with_hardly_any_time_is_tried_once(tmp_path: Path) -> None:
    async with opened(tmp_path / "x.db", busy_timeout_ms=1) as backend:
        for slot in range(20):
            await win(backend, slot)


@on_a_loop
async def test_the_lease_of_a_claim_that_waited_begins_after_the_wait(tmp_path: Path) -> None:
    async with opened(tmp_path / "x.db") as backend:
        before = (await backend.survey("a", 15_000)).store_now_ms
        holder = hold(tmp_path / "x.db", 0.4)
        run = await win(backend)
        holder.join()

        assert run.claimed_at_ms >= before + 350


@on_a_loop
async def test_each_call_that_waits_gives_up_in_its_own_time(tmp_path: Path) -> None:
    ended: list[str] = []

    async with opened(tmp_path / "x.db", busy_timeout_ms=400) as backend:

        async def call(name: str, slot: int) -> None:
            with pytest.raises(BackendUnavailableError):
                await win(backend, slot)
            ended.append(name)

        with locked(tmp_path / "x.db"):
            first = asyncio.create_task(call("first", 0))
            await asyncio.sleep(0.25)
            second = asyncio.create_task(call("second", 1))
            await first
            assert ended == ["first"]
            await asyncio.sleep(0.1)
            assert ended == ["first"]
            await second

        assert ended == ["first", "second"]


@on_a_loop
async def test_the_loop_turns_and_readers_are_answered_while_the_lock_is_held(tmp_path: Path) -> None:
    order: list[str] = []

    async with opened(tmp_path / "x.db") as backend:
        await backend.register([record()])

        async def claims() -> None:
            await win(backend)
            order.append("claimed")

        with locked(tmp_path / "x.db"):
            waiting = asyncio.create_task(claims())
            for _ in range(3):
                await asyncio.sleep(0.05)
                order.append("turned")
                await backend.task_names()
                order.append("read")
            order.append("released")
        await waiting

    assert order == ["turned", "read"] * 3 + ["released", "claimed"]


@on_a_loop
async def test_a_call_that_was_cancelled_while_it_waited_is_not_applied(tmp_path: Path) -> None:
    async with opened(tmp_path / "x.db") as backend:
        with locked(tmp_path / "x.db"):
            call = asyncio.create_task(win(backend))
            await asyncio.sleep(0.05)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call

        assert list(await backend.history("t", 10)) == []


@on_a_loop
async def test_a_close_ends_in_time_while_the_lock_is_held(tmp_path: Path) -> None:
    threads = threading.active_count()
    async with opened(tmp_path / "x.db") as backend:
        with locked(tmp_path / "x.db"):
            waiting = asyncio.create_task(win(backend))
            await asyncio.sleep(0.05)
            async with asyncio.timeout(5):
                await backend.close()
            with pytest.raises(BackendUnavailableError, match="closed"):
                await waiting

    assert threading.active_count() == threads


@on_a_loop
async def test_what_gathered_behind_a_lock_is_done_in_the_order_in_which_it_was_asked(tmp_path: Path) -> None:
    async with opened(tmp_path / "x.db") as backend:
        with locked(tmp_path / "x.db"):
            calls = [asyncio.create_task(backend.claim([ask(by=by)])) for by in "abcdef"]
            await asyncio.sleep(0.05)
        answers = [answer for (answer,) in await asyncio.gather(*calls)]

        assert isinstance(answers[0], Won)
        assert answers[1:] == [LOST] * 5
