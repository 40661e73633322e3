"""Opening, closing, names, namespaces, batches: what every backend does, whatever it promises about leases."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, Generic

import pytest

from anarchon.errors import BackendUnavailableError, StateError
from anarchon.model.asks import LOST
from anarchon.testing.conformance.kit import BackendT, Kit, count_won, finish, instance, record, scenario, won

NAMES = [
    "plain",
    "with blanks and\ttabs",
    "dots.and/slashes:and*stars>",
    "quotes ' \" ` ; --",
    "percent %s %d {0} $1 ?",
    "Übergrößenträger",
    "任务 🚀 e\u0301",
    "UPPER",
    "l" * 128,
    "長" * 128,
]


class LifecycleConformance(Kit[BackendT], Generic[BackendT]):
    """Mixed into the suites; not to be used alone."""

    def test_a_backend_has_a_name_and_says_what_it_can(self) -> None:
        backend = self.make_backend()

        assert backend.name
        assert isinstance(backend.capabilities.lease, bool)

    @scenario
    async def test_opening_tells_the_clock_and_the_memory_of_the_store(self) -> None:
        backend = self.make_backend()

        info = await backend.open("ns", instance("a"))
        await backend.close()

        assert info.remembers_ms == backend.remembers_ms
        if info.store_now_ms is not None:
            assert abs(info.store_now_ms - self.store_now()) <= self.clock_tolerance_ms

    @scenario
    async def test_a_backend_that_is_open_cannot_be_opened(self) -> None:
        backend = await self.client()

        with pytest.raises(StateError):
            await backend.open("other", instance("b"))

        assert list(await backend.task_names()) == []

    @scenario
    async def test_closing_is_repeatable_and_never_raises(self) -> None:
        backend = self.make_backend()

        await backend.close()
        await backend.open("ns", instance("a"))
        await backend.close()
        await backend.close()

    @scenario
    async def test_a_call_on_a_backend_that_is_not_open_is_refused(self) -> None:
        backend = self.make_backend()

        with pytest.raises((StateError, BackendUnavailableError)):
            await backend.history("t", 1)
        with pytest.raises((StateError, BackendUnavailableError)):
            await self.claim(backend, self.ask())

    @scenario
    async def test_a_call_on_a_backend_that_was_closed_is_refused(self) -> None:
        backend = await self.client()
        await backend.close()

        with pytest.raises((StateError, BackendUnavailableError)):
            await backend.history("t", 1)
        with pytest.raises((StateError, BackendUnavailableError)):
            await self.claim(backend, self.ask())

    @scenario
    async def test_a_closed_backend_can_be_opened_again_and_knows_what_it_knew(self) -> None:
        backend = await self.client("a")
        await self.win(backend, self.ask())
        await backend.close()

        await backend.open("conformance", instance("b"))
        (again,) = await self.claim(backend, self.ask(by="b"))

        assert again == LOST

    @scenario
    async def test_a_restarted_client_knows_what_was_claimed_before(self) -> None:
        before = await self.client("a")
        await self.win(before, self.ask())
        await before.close()

        after = await self.client("b")
        (again,) = await self.claim(after, self.ask(by="b"))

        assert again == LOST

    @scenario
    async def test_nothing_is_left_running_after_a_close(self) -> None:
        threads, tasks = threading.active_count(), len(asyncio.all_tasks())
        backend = await self.client()
        await self.win(backend, self.ask())

        await backend.close()

        assert len(asyncio.all_tasks()) == tasks
        assert threading.active_count() == threads

    @scenario
    async def test_many_clients_can_open_an_empty_store_at_once(self) -> None:
        opened = await self.clients(20)

        outcomes = await asyncio.gather(
            *(self.claim(client, self.ask(by=f"i{number}")) for number, client in enumerate(opened))
        )

        assert count_won([outcome for (outcome,) in outcomes]) == 1

    @scenario
    async def test_a_reader_sees_the_history_and_the_tasks(self) -> None:
        writer = await self.client("a")
        await writer.register([record("t")])
        run = await self.win(writer, self.ask())
        await writer.finish([finish(run)])

        reader = await self.client(None)

        assert [each.run_id for each in await reader.history("t", 10)] == [run.run_id]
        assert list(await reader.skips("t", 10)) == []
        assert list(await reader.task_names()) == ["t"]

    @scenario
    async def test_a_reader_sees_what_is_written_after_it_was_opened(self) -> None:
        writer = await self.client("a")
        await writer.register([record("t")])
        reader = await self.client(None)
        assert list(await reader.history("t", 10)) == []

        await writer.finish([finish(await self.win(writer, self.ask()))])

        assert len(await reader.history("t", 10)) == 1

    @scenario
    async def test_a_reader_of_an_unknown_task_sees_nothing(self) -> None:
        await self.client("a")
        reader = await self.client(None)

        assert list(await reader.history("nobody", 10)) == []
        assert list(await reader.skips("nobody", 10)) == []

    @pytest.mark.parametrize("name", NAMES)
    @scenario
    async def test_any_text_can_name_a_task(self, name: str) -> None:
        backend = await self.client()
        await backend.register([record(name)])
        run = await self.win(backend, self.ask(name))
        await backend.finish([finish(run)])

        assert run.task == name
        assert list(await backend.task_names()) == [name]
        assert [(each.task, each.run_id) for each in await backend.history(name, 10)] == [(name, run.run_id)]

    @pytest.mark.parametrize("name", NAMES)
    @scenario
    async def test_any_text_can_name_a_namespace(self, name: str) -> None:
        backend = await self.client(namespace=name)
        other = await self.client(namespace=name)
        await self.win(backend, self.ask(namespace=name))

        (again,) = await self.claim(other, self.ask(by="b", namespace=name))

        assert again == LOST

    @scenario
    async def test_names_that_differ_a_little_are_different_tasks(self) -> None:
        backend = await self.client()
        await backend.register([record(name) for name in NAMES])

        outcomes = await self.claim(backend, *(self.ask(name) for name in [*NAMES, "Plain", "plain ", "upper"]))

        assert count_won(outcomes) == len(outcomes)

    @scenario
    async def test_namespaces_do_not_see_each_other(self) -> None:
        one, two = await self.client("a", namespace="one"), await self.client("b", namespace="two")
        await one.register([record("t")])
        run = await self.win(one, self.ask(namespace="one"))
        await one.finish([finish(run)])

        assert list(await two.task_names()) == []
        assert list(await two.history("t", 10)) == []
        assert (await self.win(two, self.ask(by="b", namespace="two"))).instance_id == "b"
        assert [each.instance_id for each in await one.history("t", 10)] == ["a"]

    @scenario
    async def test_a_namespace_and_a_task_are_not_taken_for_another_pair(self) -> None:
        one, two = await self.client(namespace="a/b"), await self.client(namespace="a")

        await self.win(one, self.ask("c", namespace="a/b"))
        await self.win(two, self.ask("b/c", namespace="a"))

    @scenario
    async def test_an_empty_batch_is_answered_by_an_empty_batch(self) -> None:
        backend = await self.client()

        assert list(await self.claim(backend)) == []
        assert list(await backend.finish([])) == []
        assert list(await backend.register([])) == []
        await backend.record_skips([])

    @scenario
    async def test_a_batch_is_answered_in_its_own_order(self) -> None:
        a, b = await self.client("a"), await self.client("b")
        names = [f"t{(number * 7) % 20}" for number in range(20)]
        await self.claim(a, *(self.ask(name) for name in names[::2]))

        outcomes = await self.claim(b, *(self.ask(name, by="b") for name in names))

        assert [outcome == LOST for outcome in outcomes] == [number % 2 == 0 for number in range(20)]
        assert [won(outcome).task for outcome in outcomes[1::2]] == names[1::2]

    @scenario
    async def test_a_batch_of_a_thousand_is_one_call(self) -> None:
        backend = await self.client()
        names = [f"t{number}" for number in range(1_000)]
        await backend.register([record(name) for name in names])

        outcomes = await self.claim(backend, *(self.ask(name) for name in names))
        taken = await backend.finish([finish(won(outcome)) for outcome in outcomes])

        assert [won(outcome).task for outcome in outcomes] == names
        assert list(taken) == [True] * 1_000

    @scenario
    async def test_tasks_are_listed_once_and_sorted(self) -> None:
        backend, other = await self.client("a"), await self.client("b")
        await backend.register([record("b"), record("a")])
        await other.register([record("b"), record("c")])

        assert list(await backend.task_names()) == ["a", "b", "c"]

    @scenario
    async def test_a_cancelled_call_leaves_the_client_usable(self) -> None:
        backend = await self.client()
        calls: list[asyncio.Task[Any]] = [
            asyncio.ensure_future(self.claim(backend, self.ask(f"t{number}"))) for number in range(10)
        ]
        await asyncio.sleep(0)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)

        assert won((await self.claim(backend, self.ask("after")))[0]).task == "after"
