"""Recovery: what a survey shows, and who gets an owed run."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from anarchon.model.asks import LOST, LeaseTerms, Spent
from anarchon.model.run import Run
from anarchon.model.trimming import ALIVE_MS, SWEEP_EVERY_MS
from anarchon.protocol import LeaseBackend
from anarchon.testing.conformance.kit import (
    LEASE_MS,
    Kit,
    count_won,
    fence_of,
    finish,
    hand_over,
    scenario,
    take_up,
    won,
)

SKIP = LeaseTerms(lease_ms=LEASE_MS, overlap="skip", max_attempts=3)
ONCE = LeaseTerms(lease_ms=LEASE_MS, overlap="allow", max_attempts=1)


class RecoveryConformance(Kit[LeaseBackend]):
    """Mixed into the suite of leases; not to be used alone."""

    async def owed_run(self, client: LeaseBackend, task: str = "t", *, max_attempts: int = 3) -> Run:
        """A run whose lease has run out."""
        run = await self.win(client, self.ask(task, lease_ms=2_000, max_attempts=max_attempts))
        await self.pass_time(2_000)
        return run

    # ---------------------------------------------------------------- take-up

    @scenario
    async def test_a_run_whose_lease_ran_out_is_taken_up_in_the_next_attempt(self) -> None:
        a, b = await self.client("a"), await self.client("b")
        owed = await self.owed_run(a)

        run = won((await b.take_up([take_up(owed, by="b")]))[0])

        assert (run.run_id, run.instance_id, run.status, run.attempt) == (owed.run_id, "b", "running", 2)
        assert fence_of(run) > fence_of(owed)
        assert [(each.number, each.instance_id, each.reason, each.status) for each in run.attempts] == [
            (1, "a", "schedule", "interrupted"),
            (2, "b", "recovery", "running"),
        ]
        assert run.reason == "schedule"
        assert list(await b.history("t", 10)) == [run]

    @scenario
    async def test_a_handed_over_run_is_taken_up_in_the_same_attempt(self) -> None:
        a, b = await self.client("a"), await self.client("b")
        held = await self.win(a, self.ask(max_attempts=1))
        await a.hand_over([hand_over(held)])

        run = won((await b.take_up([take_up(held, by="b", terms=ONCE)]))[0])

        assert run.attempt == 1
        assert [(each.number, each.instance_id, each.reason) for each in run.attempts] == [
            (1, "a", "schedule"),
            (1, "b", "hand-over"),
        ]

    @scenario
    async def test_a_live_run_is_not_taken_up(self) -> None:
        a, b = await self.client("a"), await self.client("b")
        run = await self.win(a, self.ask())

        assert list(await b.take_up([take_up(run, by="b")])) == [LOST]

    @scenario
    async def test_a_final_or_unknown_run_is_not_taken_up(self) -> None:
        a, b = await self.client("a"), await self.client("b")
        run = await self.win(a, self.ask())
        await a.finish([finish(run)])
        asked = take_up(run, by="b")

        answers = await b.take_up([asked, replace(asked, run_id="nobody's"), replace(asked, task="unheard-of")])

        assert list(answers) == [LOST, LOST, LOST]

    @scenario
    async def test_a_take_up_that_saw_an_old_fence_is_lost(self) -> None:
        a, b, c = [await self.client(name) for name in "abc"]
        owed = await self.owed_run(a)
        await b.take_up([take_up(owed, by="b")])
        await self.pass_time(LEASE_MS)

        assert list(await c.take_up([take_up(owed, by="c")])) == [LOST]

    @scenario
    async def test_one_of_many_takes_an_owed_run_up(self) -> None:
        clients = await self.clients(20)
        owed = await self.owed_run(clients[0])

        answers = await asyncio.gather(
            *(client.take_up([take_up(owed, by=f"i{number}")]) for number, client in enumerate(clients))
        )

        assert count_won([answer for (answer,) in answers]) == 1

    @scenario
    async def test_who_took_a_run_up_and_asks_again_has_it(self) -> None:
        a, b = await self.client("a"), await self.client("b")
        owed = await self.owed_run(a)
        first = won((await b.take_up([take_up(owed, by="b")]))[0])

        second = won((await b.take_up([take_up(owed, by="b")]))[0])

        assert (second.fence, second.attempt, len(second.attempts)) == (first.fence, first.attempt, 2)

    @scenario
    async def test_a_run_without_attempts_left_is_interrupted_by_the_take_up(self) -> None:
        a, b = await self.client("a"), await self.client("b")
        owed = await self.owed_run(a, max_attempts=1)

        (answer,) = await b.take_up([take_up(owed, by="b")])

        assert isinstance(answer, Spent)
        assert (answer.run.status, answer.run.lease_ends_at_ms) == ("interrupted", None)
        assert list(await b.history("t", 10)) == [answer.run]
        assert (await b.survey("b", LEASE_MS)).owed == ()

    @pytest.mark.parametrize(("stored", "asked"), [(1, 3), (3, 1)])
    @scenario
    async def test_the_smaller_of_stored_and_asked_attempts_counts(self, stored: int, asked: int) -> None:
        a, b = await self.client("a"), await self.client("b")
        owed = await self.owed_run(a, max_attempts=stored)
        terms = LeaseTerms(lease_ms=LEASE_MS, overlap="allow", max_attempts=asked)

        (answer,) = await b.take_up([take_up(owed, by="b", terms=terms)])

        assert isinstance(answer, Spent)

    @scenario
    async def test_attempts_are_counted_and_hand_overs_are_not(self) -> None:
        backend = await self.client()
        run = await self.win(backend, self.ask(max_attempts=2))
        for number in range(5):
            await backend.hand_over([hand_over(run)])
            run = won((await backend.take_up([take_up(run, by="a", token=f"hand-over {number}")]))[0])
        await self.pass_time(LEASE_MS)
        run = won((await backend.take_up([take_up(run, by="a", token="recovery")]))[0])
        await self.pass_time(LEASE_MS)

        (answer,) = await backend.take_up([take_up(run, by="a", token="too many")])

        assert run.attempt == 2
        assert isinstance(answer, Spent)

    @scenario
    async def test_under_skip_a_run_stays_owed_while_another_is_live(self) -> None:
        a, b = await self.client("a"), await self.client("b")
        owed = await self.owed_run(a)
        live = await self.win(a, self.ask("t", self.slot(1)))

        assert list(await b.take_up([take_up(owed, by="b", terms=SKIP)])) == [LOST]
        await a.finish([finish(live)])
        assert won((await b.take_up([take_up(owed, by="b", terms=SKIP)]))[0]).attempt == 2

    @scenario
    async def test_the_history_of_attempts_is_bounded(self) -> None:
        backend = await self.client()
        run = await self.win(backend, self.ask())
        for number in range(120):
            await backend.hand_over([hand_over(run)])
            run = won((await backend.take_up([take_up(run, by=f"i{number}", token=f"take {number}")]))[0])

        (shown,) = await backend.history("t", 1)

        assert len(shown.attempts) == 50
        assert (shown.attempts[0].instance_id, shown.attempts[-1].instance_id) == ("a", "i119")
        assert list(await backend.finish([finish(run)])) == [True]

    # ---------------------------------------------------------------- survey

    @scenario
    async def test_a_survey_shows_the_store_s_clock(self) -> None:
        answer = await (await self.client()).survey("a", LEASE_MS)

        assert abs(answer.store_now_ms - self.store_now()) <= self.clock_tolerance_ms
        assert (answer.owed, answer.next_page, answer.earliest_lease_end_ms) == ((), None, None)

    @scenario
    async def test_a_survey_shows_what_is_owed_in_the_order_of_the_leases_ends(self) -> None:
        a, b = await self.client("a"), await self.client("b")
        late = await self.win(a, self.ask("late", lease_ms=4_000))
        early = await self.win(a, self.ask("early", lease_ms=2_000))
        handed = await self.win(a, self.ask("handed", lease_ms=60_000))
        await self.win(a, self.ask("live", lease_ms=60_000))
        await a.finish([finish(await self.win(a, self.ask("done")))])
        await a.hand_over([hand_over(handed)])
        await self.pass_time(4_000)

        owed = (await b.survey("b", LEASE_MS)).owed

        assert [run.run_id for run in owed] == [handed.run_id, early.run_id, late.run_id]
        assert owed[1] == early

    @scenario
    async def test_a_survey_tells_the_earliest_end_of_a_live_lease(self) -> None:
        a, b = await self.client("a"), await self.client("b")
        await self.win(a, self.ask("out", lease_ms=2_000))
        soon = await self.win(a, self.ask("soon", lease_ms=10_000))
        await self.win(a, self.ask("later", lease_ms=20_000))
        await self.pass_time(3_000)

        assert (await b.survey("b", LEASE_MS)).earliest_lease_end_ms == soon.lease_ends_at_ms

    @scenario
    async def test_a_lease_has_run_out_exactly_at_its_end(self) -> None:
        backend = await self.client()
        await self.win(backend, self.ask(lease_ms=5_000))

        await self.pass_time(4_000)
        before = await backend.survey("a", LEASE_MS)
        await self.pass_time(1_000)
        after = await backend.survey("a", LEASE_MS)

        assert (len(before.owed), before.earliest_lease_end_ms is None) == (0, False)
        assert (len(after.owed), after.earliest_lease_end_ms) == (1, None)

    @scenario
    async def test_more_than_a_page_of_owed_runs_is_shown_page_by_page(self) -> None:
        backend = await self.client()
        asks = [self.ask(f"t{number % 50}", self.slot(-number), lease_ms=2_000) for number in range(250)]
        await self.claim(backend, *asks)
        await self.pass_time(2_000)

        seen: list[str] = []
        answer = await backend.survey("a", LEASE_MS)
        seen += [run.run_id for run in answer.owed]
        while answer.next_page is not None:
            answer = await backend.survey("a", LEASE_MS, answer.next_page)
            seen += [run.run_id for run in answer.owed]

        assert len(seen) == 250
        assert set(seen) == {ask.run_id for ask in asks}

    @scenario
    async def test_a_survey_tells_the_shortest_lease_of_the_others(self) -> None:
        a = await self.client("a", lease_ms=5_000)
        alone = await a.survey("a", 5_000)
        await self.client("b", lease_ms=30_000)
        await self.client("c", lease_ms=20_000)
        await self.client("d", namespace="elsewhere", lease_ms=2_000)
        await self.client(None)

        together = await a.survey("a", 5_000)

        assert (alone.shortest_other_lease_ms, together.shortest_other_lease_ms) == (None, 20_000)

    @scenario
    async def test_a_survey_stamps_its_instance_as_alive(self) -> None:
        a, b = await self.client("a"), await self.client("b", lease_ms=7_000)
        await self.pass_time(ALIVE_MS - 5_000)
        await b.survey("b", 7_000)
        await self.pass_time(10_000)

        assert (await a.survey("a", LEASE_MS)).shortest_other_lease_ms == 7_000

    @scenario
    async def test_who_is_silent_does_not_count_as_alive(self) -> None:
        a = await self.client("a")
        await self.client("b", lease_ms=7_000)

        await self.pass_time(ALIVE_MS + 5_000)

        assert (await a.survey("a", LEASE_MS)).shortest_other_lease_ms is None

    @scenario
    async def test_who_has_closed_does_not_count_as_alive(self) -> None:
        a, b = await self.client("a"), await self.client("b")
        await b.close()

        assert (await a.survey("a", LEASE_MS)).shortest_other_lease_ms is None

    @scenario
    async def test_the_turn_to_sweep_is_given_to_one_once_a_minute(self) -> None:
        clients = await self.clients(5)

        first = await asyncio.gather(*(c.survey(f"i{number}", LEASE_MS) for number, c in enumerate(clients)))
        again = [await c.survey(f"i{number}", LEASE_MS) for number, c in enumerate(clients)]
        await self.pass_time(SWEEP_EVERY_MS + 1_000)
        later = [await c.survey(f"i{number}", LEASE_MS) for number, c in enumerate(clients)]

        assert [sum(answer.sweep for answer in each) for each in (first, again, later)] == [1, 0, 1]
