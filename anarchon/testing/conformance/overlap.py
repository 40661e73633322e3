"""Overlap: under 'skip' a claim meets what is in progress, runs it, waits for it, or ends it."""

from __future__ import annotations

import asyncio

from anarchon.model.asks import LOST, Closed
from anarchon.protocol import LeaseBackend
from anarchon.testing.conformance.kit import Kit, count_won, fence_of, finish, hand_over, record, scenario, won


class OverlapConformance(Kit[LeaseBackend]):
    """Mixed into the suite of leases; not to be used alone."""

    @scenario
    async def test_a_slot_that_meets_a_live_run_is_closed(self) -> None:
        a, b = await self.client("a"), await self.client("b")
        await self.win(a, self.ask("t", self.slot(-1), overlap="skip"))

        (answer,) = await self.claim(b, self.ask("t", self.slot(0), by="b", overlap="skip"))

        assert answer == Closed("overlap")

    @scenario
    async def test_a_closed_slot_is_recorded_once(self) -> None:
        a, b = await self.client("a"), await self.client("b")
        await self.win(a, self.ask("t", self.slot(-1), overlap="skip"))

        await self.claim(b, self.ask("t", self.slot(0), by="b", overlap="skip"))
        await self.claim(a, self.ask("t", self.slot(0), by="a", overlap="skip"))
        await self.claim(b, self.ask("t", self.slot(0), by="b", overlap="skip"))

        (shown,) = await b.skips("t", 10)
        assert (shown.task, shown.slot_ms, shown.reason, shown.instance_id) == ("t", self.slot(0), "overlap", "b")
        assert abs(shown.at_ms - self.store_now()) <= self.clock_tolerance_ms

    @scenario
    async def test_a_skip_that_an_instance_reports_closes_nothing(self) -> None:
        a, b = await self.client("a"), await self.client("b")
        await self.win(a, self.ask("t", self.slot(-1), overlap="skip"))
        await self.claim(b, self.ask("t", self.slot(0), by="b", overlap="skip"))

        (closing,) = await b.skips("t", 10)
        await b.record_skips([closing])

        assert list(await b.skips("t", 10)) == [closing]

    @scenario
    async def test_a_closed_slot_stays_closed_when_the_run_has_ended(self) -> None:
        a, b, c = [await self.client(name) for name in "abc"]
        run = await self.win(a, self.ask("t", self.slot(-1), overlap="skip"))
        closing = self.ask("t", self.slot(0), by="b", overlap="skip")
        await self.claim(b, closing)
        await a.finish([finish(run)])

        assert list(await self.claim(b, closing)) == [Closed("overlap")]
        assert list(await self.claim(c, self.ask("t", self.slot(0), by="c", overlap="skip"))) == [LOST]
        assert list(await self.claim(c, self.ask("t", self.slot(0), by="c", overlap="allow"))) == [LOST]

    @scenario
    async def test_the_slot_after_a_finished_run_is_free(self) -> None:
        backend = await self.client()
        await backend.finish([finish(await self.win(backend, self.ask("t", self.slot(-1), overlap="skip")))])

        await self.win(backend, self.ask("t", self.slot(0), overlap="skip"))

    @scenario
    async def test_the_overlap_of_one_task_does_not_concern_another(self) -> None:
        backend = await self.client()
        await self.win(backend, self.ask("t", self.slot(-1), overlap="skip"))

        await self.win(backend, self.ask("u", self.slot(0), overlap="skip"))

    @scenario
    async def test_where_overlap_is_allowed_several_runs_are_live(self) -> None:
        backend = await self.client()

        answers = await self.claim(backend, *(self.ask("t", self.slot(-number)) for number in range(5)))

        assert count_won(answers) == 5

    @scenario
    async def test_of_many_slots_asked_at_once_one_runs_and_the_others_are_closed(self) -> None:
        clients = await self.clients(10)

        answers = await asyncio.gather(
            *(
                self.claim(client, self.ask("t", self.slot(-number), by=f"i{number}", overlap="skip"))
                for number, client in enumerate(clients)
            )
        )

        assert count_won([answer for (answer,) in answers]) == 1
        assert sum(answer == Closed("overlap") for (answer,) in answers) == 9

    @scenario
    async def test_slots_of_one_task_in_one_batch_meet_each_other(self) -> None:
        backend = await self.client()

        first, second = await self.claim(
            backend,
            self.ask("t", self.slot(-1), overlap="skip"),
            self.ask("t", self.slot(0), overlap="skip"),
        )

        assert won(first).slot_ms == self.slot(-1)
        assert second == Closed("overlap")

    # ---------------------------------------------------------------- owed runs in the way

    @scenario
    async def test_a_claim_that_meets_a_run_whose_lease_ran_out_takes_it_up(self) -> None:
        a, b = await self.client("a"), await self.client("b")
        owed = await self.win(a, self.ask("t", self.slot(-1), lease_ms=2_000, overlap="skip"))
        await self.pass_time(2_000)

        (answer,) = await self.claim(b, self.ask("t", self.slot(0), by="b", overlap="skip"))

        assert isinstance(answer, Closed)
        assert answer.took_up is not None
        assert (answer.reason, answer.interrupted) == ("overlap", ())
        assert (answer.took_up.run_id, answer.took_up.instance_id) == (owed.run_id, "b")
        assert (answer.took_up.attempt, answer.took_up.attempts[-1].reason) == (2, "recovery")
        assert fence_of(answer.took_up) > fence_of(owed)
        assert [run.run_id for run in await b.history("t", 10)] == [owed.run_id]

    @scenario
    async def test_a_claim_that_meets_a_handed_over_run_takes_it_up_in_the_same_attempt(self) -> None:
        a, b = await self.client("a"), await self.client("b")
        owed = await self.win(a, self.ask("t", self.slot(-1), overlap="skip", max_attempts=1))
        await a.hand_over([hand_over(owed)])

        (answer,) = await self.claim(b, self.ask("t", self.slot(0), by="b", overlap="skip", max_attempts=1))

        assert isinstance(answer, Closed)
        assert answer.took_up is not None
        assert (answer.took_up.attempt, answer.took_up.attempts[-1].reason) == (1, "hand-over")

    @scenario
    async def test_the_claim_that_took_a_run_up_is_answered_so_again(self) -> None:
        a, b = await self.client("a"), await self.client("b")
        await self.win(a, self.ask("t", self.slot(-1), lease_ms=2_000, overlap="skip"))
        await self.pass_time(2_000)
        ask = self.ask("t", self.slot(0), by="b", overlap="skip")
        (first,) = await self.claim(b, ask)

        (second,) = await self.claim(b, ask)

        assert isinstance(first, Closed)
        assert isinstance(second, Closed)
        assert first.took_up is not None
        assert second.took_up is not None
        assert (first.took_up.run_id, first.took_up.fence) == (second.took_up.run_id, second.took_up.fence)
        assert len(await b.skips("t", 10)) == 1

    @scenario
    async def test_an_owed_run_without_attempts_left_is_ended_and_the_slot_proceeds(self) -> None:
        a, b = await self.client("a"), await self.client("b")
        owed = await self.win(a, self.ask("t", self.slot(-1), lease_ms=2_000, overlap="skip", max_attempts=1))
        await self.pass_time(2_000)

        (answer,) = await self.claim(b, self.ask("t", self.slot(0), by="b", overlap="skip", max_attempts=1))

        run = won(answer)
        assert run.slot_ms == self.slot(0)
        assert fence_of(run) > fence_of(owed)
        shown = await b.history("t", 10)
        assert [each.status for each in shown] == ["running", "interrupted"]
        assert shown[1].error is not None
        assert "a" in shown[1].error
        assert list(await b.skips("t", 10)) == []
        assert list(await a.finish([finish(owed)])) == [False]

    @scenario
    async def test_the_claim_tells_which_runs_it_has_ended(self) -> None:
        a, b = await self.client("a"), await self.client("b")
        owed = await self.win(a, self.ask("t", self.slot(-1), lease_ms=2_000, overlap="skip", max_attempts=1))
        await self.pass_time(2_000)

        (answer,) = await self.claim(b, self.ask("t", self.slot(0), by="b", overlap="skip"))

        assert [run.run_id for run in getattr(answer, "interrupted", ())] == [owed.run_id]

    @scenario
    async def test_where_overlap_is_allowed_an_owed_run_is_left_alone(self) -> None:
        a, b = await self.client("a"), await self.client("b")
        await self.win(a, self.ask("t", self.slot(-1), lease_ms=2_000))
        await self.pass_time(2_000)

        await self.win(b, self.ask("t", self.slot(0), by="b"))

        assert len((await b.survey("b", 15_000)).owed) == 1

    @scenario
    async def test_a_finished_run_in_the_same_batch_is_in_nobody_s_way(self) -> None:
        backend = await self.client()
        done = await self.win(backend, self.ask("t", self.slot(-1), overlap="skip", max_attempts=1))
        await backend.finish([finish(done)])

        lost, free = await self.claim(
            backend,
            self.ask("t", self.slot(-1), by="b", overlap="skip", max_attempts=1),
            self.ask("t", self.slot(0), by="b", overlap="skip", max_attempts=1),
        )

        assert lost == LOST
        assert won(free).slot_ms == self.slot(0)
        assert [run.status for run in await backend.history("t", 10)] == ["running", "succeeded"]

    @scenario
    async def test_a_run_that_was_just_taken_up_in_the_same_batch_is_live(self) -> None:
        backend = await self.client()
        await self.win(backend, self.ask("t", self.slot(-2), lease_ms=2_000, overlap="skip"))
        await self.pass_time(2_000)

        first, second = await self.claim(
            backend,
            self.ask("t", self.slot(-1), by="b", overlap="skip"),
            self.ask("t", self.slot(0), by="b", overlap="skip"),
        )

        assert isinstance(first, Closed)
        assert first.took_up is not None
        assert second == Closed("overlap")

    @scenario
    async def test_a_closed_slot_stays_closed_after_a_restart(self) -> None:
        a = await self.client("a")
        await a.register([record()])
        await self.win(a, self.ask("t", self.slot(-1), overlap="skip"))
        await self.claim(a, self.ask("t", self.slot(0), overlap="skip"))
        await a.close()

        b = await self.client("b")

        assert list(await self.claim(b, self.ask("t", self.slot(0), by="b", overlap="allow"))) == [LOST]
