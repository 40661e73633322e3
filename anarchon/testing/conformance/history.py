"""History and skips: what every backend shows of what has happened."""

from __future__ import annotations

from typing import Generic

import pytest

from anarchon.model.trimming import SKIPS_KEPT
from anarchon.testing.conformance.kit import BackendT, Kit, finish, record, scenario, skip

LONG = "Traceback: größer als 64 kB ' \" \\ \0 🚀\n" * 4_000


class HistoryConformance(Kit[BackendT], Generic[BackendT]):
    """Mixed into the suites; not to be used alone."""

    most_skips = SKIPS_KEPT
    """How many skips of a task the store shows at most."""

    @scenario
    async def test_a_finished_run_shows_how_it_ended(self) -> None:
        backend = await self.client()
        await backend.register([record()])
        run = await self.win(backend, self.ask())
        outcome = finish(run, "failed", error="ValueError: no", traceback="Traceback ...")

        assert list(await backend.finish([outcome])) == [True]

        (shown,) = await backend.history("t", 10)
        assert (shown.run_id, shown.task, shown.slot_ms) == (run.run_id, "t", run.slot_ms)
        assert (shown.status, shown.error, shown.traceback) == ("failed", "ValueError: no", "Traceback ...")
        assert (shown.started_at_ms, shown.finished_at_ms) == (outcome.started_at_ms, outcome.finished_at_ms)
        assert (shown.instance_id, shown.attempt, shown.lease_ends_at_ms) == ("a", 1, None)
        assert [(each.number, each.instance_id, each.status) for each in shown.attempts] == [(1, "a", "failed")]

    @scenario
    async def test_every_client_sees_the_same_history(self) -> None:
        a, b = await self.client("a"), await self.client("b")
        await a.register([record()])
        await a.finish([finish(await self.win(a, self.ask()))])

        assert list(await a.history("t", 10)) == list(await b.history("t", 10))

    @scenario
    async def test_a_finish_sent_again_is_taken_and_shown_once(self) -> None:
        backend = await self.client()
        await backend.register([record()])
        outcome = finish(await self.win(backend, self.ask()))
        await backend.finish([outcome])

        assert list(await backend.finish([outcome, outcome])) == [True, True]
        assert len(await backend.history("t", 10)) == 1

    @scenario
    async def test_long_texts_come_back_whole(self) -> None:
        backend = await self.client()
        await backend.register([record()])
        run = await self.win(backend, self.ask())

        await backend.finish([finish(run, "failed", error=LONG[:1_000], traceback=LONG)])

        (shown,) = await backend.history("t", 10)
        assert (shown.error, shown.traceback) == (LONG[:1_000], LONG)

    @scenario
    async def test_text_that_is_not_unicode_does_not_lose_the_outcome(self) -> None:
        backend = await self.client()
        await backend.register([record()])
        run = await self.win(backend, self.ask())

        taken = await backend.finish([finish(run, "failed", error="no such file: caf\udce9", traceback="\ud800")])

        assert list(taken) == [True]
        (shown,) = await backend.history("t", 10)
        assert shown.status == "failed"
        assert str(shown.error).startswith("no such file: caf")

    @scenario
    async def test_history_is_shown_newest_slot_first_whatever_finished_first(self) -> None:
        backend = await self.client()
        await backend.register([record()])
        runs = [await self.win(backend, self.ask("t", self.slot(-number))) for number in (2, 0, 3, 1)]
        await backend.finish([finish(run) for run in runs])

        shown = await backend.history("t", 10)

        assert [run.slot_ms for run in shown] == [self.slot(-number) for number in range(4)]

    @pytest.mark.parametrize("limit", [0, 1, 3, 5, 1_000_000])
    @scenario
    async def test_no_more_runs_are_shown_than_were_asked_for(self, limit: int) -> None:
        backend = await self.client()
        await backend.register([record()])
        runs = [await self.win(backend, self.ask("t", self.slot(-number))) for number in range(5)]
        await backend.finish([finish(run) for run in runs])

        shown = await backend.history("t", limit)

        assert [run.slot_ms for run in shown] == [self.slot(-number) for number in range(5)][:limit]

    @scenario
    async def test_each_task_has_a_history_of_its_own(self) -> None:
        backend = await self.client()
        await backend.register([record("t"), record("u")])
        runs = [await self.win(backend, self.ask(name)) for name in ("t", "u")]
        await backend.finish([finish(run) for run in runs])

        assert [run.task for run in await backend.history("t", 10)] == ["t"]
        assert [run.task for run in await backend.history("u", 10)] == ["u"]

    @scenario
    async def test_history_keeps_the_newest_runs_up_to_its_size(self) -> None:
        backend = await self.client()
        await backend.register([record(history_size=3)])
        for number in range(-60, -50):
            await backend.finish([finish(await self.win(backend, self.ask("t", self.slot(number))))])
        await self.pass_time(200_000)

        await backend.finish([finish(await self.win(backend, self.ask("t", self.slot(-40))))])

        shown = [run.slot_ms for run in await backend.history("t", 100)]
        assert shown == [self.slot(-40), self.slot(-51), self.slot(-52)]

    # ---------------------------------------------------------------- skips

    @scenario
    async def test_a_skip_is_shown_with_its_reason(self) -> None:
        backend = await self.client()
        given = skip(self.slot(0), "late")

        await backend.record_skips([given])

        assert list(await backend.skips("t", 10)) == [given]

    @scenario
    async def test_a_skipped_range_keeps_its_end(self) -> None:
        backend = await self.client()
        given = skip(self.slot(0), "superseded", until=self.slot(9))

        await backend.record_skips([given])

        assert list(await backend.skips("t", 10)) == [given]

    @scenario
    async def test_a_skip_is_kept_once_for_each_slot_reason_and_instance(self) -> None:
        backend = await self.client()
        given = [
            skip(self.slot(0), "late", by="a"),
            skip(self.slot(0), "late", by="a"),
            skip(self.slot(0), "late", by="b"),
            skip(self.slot(0), "busy", by="a"),
            skip(self.slot(1), "late", by="a"),
        ]

        await backend.record_skips(given)
        await backend.record_skips(given)

        shown = await backend.skips("t", 10)
        assert len(shown) == 4
        assert {(each.slot_ms, each.reason, each.instance_id) for each in shown} == {
            (each.slot_ms, each.reason, each.instance_id) for each in given
        }

    @scenario
    async def test_skips_are_shown_newest_slot_first_and_no_more_than_asked_for(self) -> None:
        backend = await self.client()
        await backend.record_skips([skip(self.slot(number)) for number in (1, 3, 0, 2)])

        assert [each.slot_ms for each in await backend.skips("t", 3)] == [self.slot(n) for n in (3, 2, 1)]
        assert list(await backend.skips("t", 0)) == []

    @scenario
    async def test_a_skip_that_excuses_one_instance_leaves_the_slot_to_the_others(self) -> None:
        a, b = await self.client("a"), await self.client("b")
        await a.record_skips([skip(self.slot(0), "late"), skip(self.slot(0), "busy")])

        assert (await self.win(b, self.ask(by="b"))).instance_id == "b"

    @scenario
    async def test_skips_are_kept_in_bounded_number_the_newest_of_them(self) -> None:
        backend = await self.client()
        many = [skip(self.start_ms - number * 1_000) for number in range(self.most_skips + 200)]

        for start in range(0, len(many), 500):
            await backend.record_skips(many[start : start + 500])

        shown = await backend.skips("t", 1_000_000)
        assert 100 <= len(shown) <= self.most_skips
        assert [each.slot_ms for each in shown] == [each.slot_ms for each in many[: len(shown)]]
