"""Claims: at most one winner of a slot, and the same answer for the same token."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Generic

from anarchon.model.asks import LOST, Claim, LeaseOutcome, LeaseTerms
from anarchon.protocol import ClaimBackend
from anarchon.testing.conformance.history import HistoryConformance
from anarchon.testing.conformance.kit import NAMESPACE, BackendT, count_won, finish, instance, record, scenario, won
from anarchon.testing.conformance.lifecycle import LifecycleConformance


class ClaimConformance(LifecycleConformance[BackendT], HistoryConformance[BackendT], Generic[BackendT]):
    """The contract of a claim-only backend. Subclass it with a name that pytest collects:

        class TestMyStore(ClaimConformance):
            def make_store(self, directory): self.server = ...
            def make_backend(self): return MyBackend(self.server.url)

    See `Kit` for what else a subclass may give, the store's clock above all.
    """

    async def claim(self, client: BackendT, *asks: Claim[LeaseTerms]) -> Sequence[LeaseOutcome]:
        """A claim-only backend takes no terms."""
        assert isinstance(client, ClaimBackend)
        bare: list[Claim[None]] = [
            Claim(
                task=ask.task,
                slot_ms=ask.slot_ms,
                run_id=ask.run_id,
                token=ask.token,
                instance_id=ask.instance_id,
                reason=ask.reason,
                terms=None,
            )
            for ask in asks
        ]
        return await client.claim(bare)

    # ---------------------------------------------------------------- the answer

    @scenario
    async def test_a_free_slot_is_won(self) -> None:
        backend = await self.client()
        ask = self.ask()

        run = await self.win(backend, ask)

        assert (run.run_id, run.task, run.slot_ms, run.scheduled_at_ms) == (
            ask.run_id,
            ask.task,
            ask.slot_ms,
            ask.slot_ms,
        )
        assert (run.status, run.instance_id, run.reason, run.attempt) == ("running", "a", "schedule", 1)
        assert (run.finished_at_ms, run.error, run.traceback) == (None, None, None)

    @scenario
    async def test_a_won_run_has_the_fence_and_the_lease_of_its_kind(self) -> None:
        run = await self.win(await self.client(), self.ask())

        assert (run.fence, run.lease_ends_at_ms, run.max_attempts) == (None, None, 1)

    @scenario
    async def test_the_reason_of_a_claim_is_the_reason_of_its_run(self) -> None:
        run = await self.win(await self.client(), replace(self.ask(), reason="catch-up"))

        assert run.reason == "catch-up"

    @scenario
    async def test_a_slot_that_somebody_has_is_lost(self) -> None:
        a, b = await self.client("a"), await self.client("b")
        await self.win(a, self.ask())

        assert list(await self.claim(b, self.ask(by="b"))) == [LOST]

    @scenario
    async def test_another_slot_and_another_task_are_free(self) -> None:
        backend = await self.client()
        await self.win(backend, self.ask("t", self.slot(0)))

        await self.win(backend, self.ask("t", self.slot(1)))
        await self.win(backend, self.ask("t", self.slot(0) - 1))
        await self.win(backend, self.ask("u", self.slot(0)))

    @scenario
    async def test_a_finished_slot_stays_claimed(self) -> None:
        a, b = await self.client("a"), await self.client("b")
        await a.finish([finish(await self.win(a, self.ask()))])

        assert list(await self.claim(b, self.ask(by="b"))) == [LOST]

    @scenario
    async def test_a_task_that_was_never_registered_can_be_claimed(self) -> None:
        backend = await self.client()

        run = await self.win(backend, self.ask("unheard-of"))
        taken = await backend.finish([finish(run)])

        assert list(taken) == [True]
        assert len(await backend.history("unheard-of", 10)) == 1

    @scenario
    async def test_a_claimed_slot_is_remembered_as_long_as_was_promised(self) -> None:
        a, b = await self.client("a"), await self.client("b")
        remembers_ms = b.remembers_ms
        await self.win(a, self.ask())
        assert remembers_ms is not None

        await self.pass_time(remembers_ms - 1_000)

        assert list(await self.claim(b, self.ask(by="b"))) == [LOST]

    # ---------------------------------------------------------------- the token

    @scenario
    async def test_the_winner_asking_again_has_won_the_same_run(self) -> None:
        backend = await self.client()
        first = await self.win(backend, self.ask())

        second = await self.win(backend, self.ask())

        assert (second.run_id, second.fence, second.attempt) == (first.run_id, first.fence, first.attempt)

    @scenario
    async def test_the_winner_asking_again_from_another_client_has_won(self) -> None:
        before = await self.client("a")
        first = await self.win(before, self.ask())
        await before.close()

        second = await self.win(await self.client("a"), self.ask())

        assert second.run_id == first.run_id

    @scenario
    async def test_the_loser_asking_again_has_lost(self) -> None:
        a, b = await self.client("a"), await self.client("b")
        await self.win(a, self.ask())
        await self.claim(b, self.ask(by="b"))

        assert list(await self.claim(b, self.ask(by="b"), self.ask(by="b"))) == [LOST, LOST]

    @scenario
    async def test_the_loser_stays_lost_after_the_winner_has_finished(self) -> None:
        a, b = await self.client("a"), await self.client("b")
        run = await self.win(a, self.ask())
        await self.claim(b, self.ask(by="b"))
        await a.finish([finish(run)])

        assert list(await self.claim(b, self.ask(by="b"))) == [LOST]

    @scenario
    async def test_one_token_sent_ten_times_at_once_wins_ten_times(self) -> None:
        backend = await self.client()

        answers = await asyncio.gather(*(self.claim(backend, self.ask()) for _ in range(10)))

        assert count_won([answer for (answer,) in answers]) == 10
        assert len({won(answer).fence for (answer,) in answers}) == 1

    @scenario
    async def test_a_new_token_of_the_same_instance_is_another_asker(self) -> None:
        backend = await self.client()
        await self.win(backend, self.ask(token="one"))

        assert list(await self.claim(backend, self.ask(token="two"))) == [LOST]

    # ---------------------------------------------------------------- many at once

    @scenario
    async def test_fifty_asks_of_one_client_have_one_winner(self) -> None:
        backend = await self.client()

        answers = await asyncio.gather(*(self.claim(backend, self.ask(by=f"i{number}")) for number in range(50)))

        assert count_won([answer for (answer,) in answers]) == 1
        assert sum(answer == LOST for (answer,) in answers) == 49

    @scenario
    async def test_fifty_clients_have_one_winner(self) -> None:
        clients = await self.clients(50)

        answers = await asyncio.gather(
            *(self.claim(client, self.ask(by=f"i{number}")) for number, client in enumerate(clients))
        )

        assert count_won([answer for (answer,) in answers]) == 1

    @scenario
    async def test_one_batch_may_ask_twice_for_a_slot(self) -> None:
        backend = await self.client()

        answers = await self.claim(backend, self.ask(by="a"), self.ask(by="b"), self.ask(by="a"))

        assert count_won(answers) == 2
        assert answers[1] == LOST
        assert won(answers[0]).run_id == won(answers[2]).run_id

    @scenario
    async def test_batches_of_the_same_slots_in_different_orders_split_them(self) -> None:
        clients = await self.clients(4)
        names = [f"t{number:02}" for number in range(40)]

        answers = await asyncio.gather(
            *(
                self.claim(
                    client, *(self.ask(name, by=f"i{number}") for name in names[number * 10 :] + names[: number * 10])
                )
                for number, client in enumerate(clients)
            )
        )

        winners = [won(answer).task for batch in answers for answer in batch if answer != LOST]
        assert sorted(winners) == names

    @scenario
    async def test_many_slots_asked_by_many_clients_are_each_won_once(self) -> None:
        clients = await self.clients(8)
        slots = [self.slot(-number) for number in range(25)]

        answers = await asyncio.gather(
            *(
                self.claim(client, self.ask("t", slot_ms, by=f"i{number}"))
                for slot_ms in slots
                for number, client in enumerate(clients)
            )
        )

        winners = [won(answer).slot_ms for (answer,) in answers if answer != LOST]
        assert sorted(slot_ms or 0 for slot_ms in winners) == sorted(slots)

    @scenario
    async def test_a_reopened_client_may_ask_for_a_slot_that_it_has_won(self) -> None:
        backend = await self.client("a")
        await backend.register([record()])
        first = await self.win(backend, self.ask())
        await backend.close()
        await backend.open(NAMESPACE, instance("a"))

        assert (await self.win(backend, self.ask())).run_id == first.run_id
