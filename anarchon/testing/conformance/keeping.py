"""Trimming: what a lease store drops, what it keeps, and what it remembers of what it dropped."""

from __future__ import annotations

import pytest

from anarchon.model.asks import LOST
from anarchon.model.run import Run
from anarchon.model.trimming import GONE_MS
from anarchon.protocol import LeaseBackend
from anarchon.testing.conformance.kit import LEASE_MS, Kit, finish, record, scenario, won

HOUR_MS = 3_600_000


class KeepingConformance(Kit[LeaseBackend]):
    """Mixed into the suite of leases; not to be used alone."""

    async def finished(self, client: LeaseBackend, *numbers: int, task: str = "t") -> list[Run]:
        """Runs of these slots, in one batch."""
        answers = await self.claim(client, *(self.ask(task, self.slot(number)) for number in numbers))
        runs = [won(answer) for answer in answers]
        assert all(await client.finish([finish(run) for run in runs]))
        return runs

    async def shown(self, client: LeaseBackend, task: str = "t") -> list[int]:
        """The numbers of the slots in the history, newest first."""
        runs = await client.history(task, 100_000)
        return [((run.slot_ms or 0) - self.start_ms) // 60_000 for run in runs]

    async def sweep_all(self, client: LeaseBackend) -> int:
        """Sweep until nothing is left to sweep."""
        swept, last = 0, await client.sweep()
        while last:
            swept += last
            last = await client.sweep()
        return swept

    # ---------------------------------------------------------------- by count

    @scenario
    async def test_a_slot_that_a_late_claim_could_ask_for_is_not_counted_out(self) -> None:
        backend = await self.client()
        await backend.register([record(history_size=1, late_claim_ms=10 * 60_000)])

        await self.finished(backend, *range(-9, 1))

        assert await self.shown(backend) == list(range(0, -10, -1))

    @scenario
    async def test_a_finish_that_was_just_taken_is_not_counted_out(self) -> None:
        backend = await self.client()
        await backend.register([record(history_size=1)])
        runs = await self.finished(backend, -30, -20, -10)

        # A lost answer is settled by asking again.
        assert list(await backend.finish([finish(run) for run in runs])) == [True, True, True]

    @scenario
    async def test_a_run_in_progress_is_never_trimmed(self) -> None:
        backend = await self.client()
        await backend.register([record(history_size=2, history_ttl_ms=HOUR_MS)])
        await self.win(backend, self.ask("t", self.slot(-100), lease_ms=2_000))
        await self.finished(backend, -50, -40, -30)

        await self.pass_time(10 * HOUR_MS)
        await self.sweep_all(backend)

        assert await self.shown(backend) == [-100]
        assert len((await backend.survey("a", LEASE_MS)).owed) == 1

    @scenario
    async def test_runs_in_progress_come_on_top_of_the_size(self) -> None:
        backend = await self.client()
        await backend.register([record(history_size=2)])
        await self.finished(backend, -50, -40, -30)
        await self.win(backend, self.ask("t", self.slot(-10)))
        await self.pass_time(200_000)

        await self.finished(backend, -20)

        assert await self.shown(backend) == [-10, -20, -30]

    @scenario
    async def test_the_size_that_was_registered_last_counts(self) -> None:
        backend = await self.client()
        await backend.register([record(history_size=100)])
        await self.finished(backend, *range(-60, -50))
        await self.pass_time(200_000)
        await backend.register([record(history_size=4)])

        assert await self.sweep_all(backend) == 6

        assert await self.shown(backend) == [-51, -52, -53, -54]

    @scenario
    async def test_each_task_is_trimmed_by_its_own_rules(self) -> None:
        backend = await self.client()
        await backend.register([record("t", history_size=1), record("u", history_size=3)])
        for task in ("t", "u"):
            await self.finished(backend, *range(-60, -50), task=task)
        await self.pass_time(200_000)

        await self.sweep_all(backend)

        assert (len(await self.shown(backend, "t")), len(await self.shown(backend, "u"))) == (1, 3)

    @scenario
    async def test_a_long_history_is_trimmed_in_the_end(self) -> None:
        backend = await self.client()
        await backend.register([record(history_size=10)])
        await self.finished(backend, *range(-1_500, -100))
        await self.pass_time(200_000)

        await self.sweep_all(backend)

        assert await self.shown(backend) == list(range(-101, -111, -1))

    # ---------------------------------------------------------------- by age

    @scenario
    async def test_old_runs_are_dropped_whatever_their_number(self) -> None:
        backend = await self.client()
        await backend.register([record(history_ttl_ms=HOUR_MS)])
        await self.finished(backend, -3, -2, -1)
        await self.pass_time(HOUR_MS // 2)
        await self.finished(backend, 20)
        await self.pass_time(HOUR_MS // 2 + 60_000)

        assert await self.sweep_all(backend) == 3

        assert await self.shown(backend) == [20]

    @scenario
    async def test_old_runs_are_dropped_with_a_finish_too(self) -> None:
        backend = await self.client()
        await backend.register([record(history_ttl_ms=HOUR_MS)])
        await self.finished(backend, -3, -2, -1)
        await self.pass_time(2 * HOUR_MS)

        await self.finished(backend, 110)

        assert await self.shown(backend) == [110]

    @pytest.mark.parametrize(("late_claim_ms", "catch_up_ms"), [(HOUR_MS, 0), (0, HOUR_MS)])
    @scenario
    async def test_a_slot_that_could_be_asked_for_is_not_aged_out(self, late_claim_ms: int, catch_up_ms: int) -> None:
        backend = await self.client()
        await backend.register([record(history_ttl_ms=1, late_claim_ms=late_claim_ms, catch_up_ms=catch_up_ms)])
        await self.finished(backend, -3, -2, -1)

        await self.pass_time(HOUR_MS - 60_000)
        kept = await self.sweep_all(backend)
        await self.pass_time(120_000)
        gone = await self.sweep_all(backend)

        assert (kept, gone) == (0, 3)

    # ---------------------------------------------------------------- the floor

    @scenario
    async def test_a_slot_at_or_below_a_trimmed_one_is_lost(self) -> None:
        a, b = await self.client("a"), await self.client("b")
        await a.register([record(history_size=1)])
        await self.finished(a, -60, -50, -40)
        await self.pass_time(200_000)
        assert await self.sweep_all(a) == 2

        answers = await self.claim(b, *(self.ask("t", self.slot(number), by="b") for number in (-70, -60, -55, -50)))

        assert list(answers) == [LOST] * 4
        await self.win(b, self.ask("t", self.slot(-49), by="b"))

    @scenario
    async def test_a_trimmed_slot_is_lost_for_its_winner_too(self) -> None:
        backend = await self.client()
        await backend.register([record(history_size=1)])
        await self.finished(backend, -60, -50)
        await self.pass_time(200_000)
        await self.sweep_all(backend)

        assert list(await self.claim(backend, self.ask("t", self.slot(-60)))) == [LOST]

    @scenario
    async def test_a_run_below_the_floor_that_is_in_progress_can_be_finished(self) -> None:
        backend = await self.client()
        await backend.register([record(history_size=1)])
        old = await self.win(backend, self.ask("t", self.slot(-90)))
        await self.finished(backend, -60, -50)
        await self.pass_time(200_000)
        await self.sweep_all(backend)

        assert list(await backend.finish([finish(old)])) == [True]

    @scenario
    async def test_the_floor_of_one_task_does_not_concern_another(self) -> None:
        backend = await self.client()
        await backend.register([record("t", history_size=1), record("u")])
        await self.finished(backend, -60, -50)
        await self.pass_time(200_000)
        await self.sweep_all(backend)

        await self.win(backend, self.ask("u", self.slot(-60)))

    @scenario
    async def test_closed_slots_are_trimmed_and_stay_closed(self) -> None:
        a, b = await self.client("a"), await self.client("b")
        await a.register([record(history_ttl_ms=HOUR_MS)])
        await self.win(a, self.ask("t", self.slot(-3), overlap="skip", lease_ms=LEASE_MS))
        await self.claim(a, self.ask("t", self.slot(-2), overlap="skip"))
        assert len(await a.skips("t", 10)) == 1

        await self.pass_time(2 * HOUR_MS)
        await self.sweep_all(a)

        assert list(await a.skips("t", 10)) == []
        assert list(await self.claim(b, self.ask("t", self.slot(-2), by="b"))) == [LOST]

    # ---------------------------------------------------------------- instances

    @scenario
    async def test_sweeping_an_empty_store_finds_nothing(self) -> None:
        assert await (await self.client()).sweep() == 0

    @scenario
    async def test_instances_that_have_long_gone_are_forgotten(self) -> None:
        a = await self.client("a")
        await self.client("b")
        await self.pass_time(GONE_MS + 1_000)
        await a.survey("a", LEASE_MS)

        assert await self.sweep_all(a) == 1

    @scenario
    async def test_an_instance_that_was_forgotten_and_comes_back_counts_again(self) -> None:
        a, b = await self.client("a"), await self.client("b", lease_ms=9_000)
        await self.pass_time(GONE_MS + 1_000)
        await a.survey("a", LEASE_MS)
        await self.sweep_all(a)

        await b.survey("b", 9_000)

        assert (await a.survey("a", LEASE_MS)).shortest_other_lease_ms == 9_000
