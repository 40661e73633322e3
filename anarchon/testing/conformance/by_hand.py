"""What people and handlers ask of a lease store besides: pause and resume, runs by hand, freeing, checkpoints."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from anarchon.model.asks import LOST, Checkpoint, Closed, Lease, LeaseTerms, Manual, Won
from anarchon.model.run import Run, run_id_by_hand
from anarchon.model.words import OverlapPolicy
from anarchon.protocol import LeaseBackend
from anarchon.testing.conformance.kit import (
    LEASE_MS,
    NAMESPACE,
    Kit,
    count_won,
    fence_of,
    finish,
    hand_over,
    record,
    scenario,
    take_up,
    won,
)


class ByHandConformance(Kit[LeaseBackend]):
    """Mixed into the suite of leases; not to be used alone."""

    def by_hand(
        self,
        task: str = "t",
        *,
        by: str = "a",
        token: str = "0123456789abcdef0123",
        held: bool = True,
        overlap: OverlapPolicy = "skip",
        max_attempts: int = 3,
        lease_ms: int = LEASE_MS,
    ) -> Manual:
        """A request for one run outside the grid."""
        return Manual(
            task=task,
            run_id=run_id_by_hand(NAMESPACE, task, token),
            token=token,
            instance_id=by,
            at_ms=self.start_ms + 1,
            held=held,
            terms=LeaseTerms(lease_ms=lease_ms, overlap=overlap, max_attempts=max_attempts),
        )

    async def owed_run_of(self, client: LeaseBackend, *, max_attempts: int = 3) -> Run:
        """A run whose lease has run out."""
        run = await self.win(client, self.ask(lease_ms=2_000, max_attempts=max_attempts))
        await self.pass_time(2_000)
        return run

    # ---------------------------------------------------------------- pause and resume

    @scenario
    async def test_a_paused_task_closes_each_slot_that_is_asked_for_on_every_instance(self) -> None:
        a, b = await self.client("a"), await self.client("b")
        await a.register([record()])
        outcome = await a.pause("t", "ops")
        assert (outcome.known, outcome.changed, outcome.interrupted) == (True, True, ())
        assert [(pause.by, pause.to_ms) for pause in outcome.pauses] == [("ops", None)]

        for client, by in ((a, "a"), (b, "b")):
            (answer,) = await self.claim(client, self.ask(slot_ms=self.slot(-1), by=by, token=by))
            assert answer == (Closed("paused") if by == "a" else LOST)
        (skip,) = await b.skips("t", 10)
        assert (skip.reason, skip.slot_ms, skip.instance_id) == ("paused", self.slot(-1), "a")
        assert list(await a.history("t", 10)) == []

    @scenario
    async def test_pausing_and_resuming_twice_changes_nothing(self) -> None:
        a = await self.client("a")
        await a.register([record()])
        assert (await a.resume("t", "ops")).changed is False
        first = await a.pause("t", "ops")
        again = await a.pause("t", "somebody else")
        assert (again.changed, again.pauses) == (False, first.pauses)
        assert (await a.resume("t", "ops")).changed is True
        assert (await a.resume("t", "ops")).changed is False

    @scenario
    async def test_a_task_that_nobody_registered_is_neither_paused_nor_run_nor_made_known(self) -> None:
        a = await self.client("a")
        assert (await a.pause("nobody", "ops")).known is False
        assert (await a.resume("nobody", "ops")).known is False
        assert await a.run_now(self.by_hand("nobody")) == LOST
        assert list(await a.free("nobody", "ops")) == []
        assert list(await a.task_names()) == []

    @scenario
    async def test_a_slot_that_fell_due_in_a_pause_stays_closed_after_it_and_a_later_one_runs(self) -> None:
        a = await self.client("a")
        await a.register([record()])
        await a.pause("t", "ops")
        in_between = self.store_now()
        await self.pass_time(60_000)
        await a.resume("t", "ops")
        await self.pass_time(60_000)
        (asked,) = await self.claim(a, self.ask(slot_ms=in_between + 1_000))
        assert asked == Closed("paused")
        assert isinstance((await self.claim(a, self.ask(slot_ms=in_between + 110_000)))[0], Won)

    @scenario
    async def test_a_run_that_was_in_progress_when_its_task_was_paused_goes_on_to_its_end(self) -> None:
        a = await self.client("a")
        await a.register([record()])
        run = await self.win(a, self.ask())
        await a.pause("t", "ops")
        assert list(await a.renew([Lease(task="t", run_id=run.run_id, fence=fence_of(run))], LEASE_MS)) == [True]
        assert list(await a.finish([finish(run)])) == [True]

    @scenario
    async def test_an_owed_run_of_a_paused_task_is_shown_to_nobody_and_taken_up_by_nobody(self) -> None:
        a, b = await self.client("a"), await self.client("b")
        await a.register([record()])
        owed = await self.owed_run_of(a)
        assert [run.run_id for run in (await b.survey("b", LEASE_MS)).owed] == [owed.run_id]
        await b.pause("t", "ops")
        assert (await b.survey("b", LEASE_MS)).owed == ()
        assert list(await b.take_up([take_up(owed, by="b")])) == [LOST]
        assert [run.status for run in await b.history("t", 10)] == ["running"]

    @scenario
    async def test_resuming_owes_nothing(self) -> None:
        a, b = await self.client("a"), await self.client("b")
        await a.register([record()])
        owed = await self.owed_run_of(a)
        given_back = await self.win(a, self.ask(slot_ms=self.slot(-1)))
        await a.hand_over([hand_over(given_back)])
        live = await self.win(a, self.ask(slot_ms=self.slot(-2)))
        await a.pause("t", "ops")
        outcome = await b.resume("t", "ops")
        assert {run.run_id for run in outcome.interrupted} == {owed.run_id, given_back.run_id}
        by_id = {run.run_id: run for run in await b.history("t", 10)}
        assert by_id[owed.run_id].status == by_id[given_back.run_id].status == "interrupted"
        assert "resum" in (by_id[owed.run_id].error or "")
        assert by_id[live.run_id].status == "running"
        assert (await b.survey("b", LEASE_MS)).owed == ()

    # ---------------------------------------------------------------- runs by hand

    @scenario
    async def test_a_run_by_hand_has_no_slot_and_is_held_by_who_asked(self) -> None:
        a = await self.client("a")
        await a.register([record()])
        run = won(await a.run_now(self.by_hand()))
        assert (run.slot_ms, run.scheduled_at_ms, run.reason) == (None, self.start_ms + 1, "manual")
        assert (run.status, run.instance_id, run.attempt) == ("running", "a", 1)
        assert list(await a.finish([finish(run)])) == [True]

    @scenario
    async def test_a_run_by_hand_that_is_asked_for_again_is_the_same_run(self) -> None:
        a = await self.client("a")
        await a.register([record()])
        first = won(await a.run_now(self.by_hand()))
        await self.pass_time(10)
        again = won(await a.run_now(self.by_hand()))
        assert (again.run_id, again.fence) == (first.run_id, first.fence)
        assert len(await a.history("t", 10)) == 1
        await a.finish([finish(again)])
        assert await a.run_now(self.by_hand()) == LOST

    @scenario
    async def test_a_run_by_hand_raises_the_fence(self) -> None:
        a = await self.client("a")
        await a.register([record()])
        before = await self.win(a, self.ask(overlap="allow"))
        run = won(await a.run_now(self.by_hand(overlap="allow")))
        assert fence_of(run) > fence_of(before)

    @scenario
    async def test_a_run_by_hand_obeys_overlap_and_changes_nothing_when_it_is_refused(self) -> None:
        a = await self.client("a")
        await a.register([record()])
        spent = await self.owed_run_of(a, max_attempts=1)
        live = await self.win(a, self.ask(slot_ms=self.slot(-1), overlap="allow"))
        answer = await a.run_now(self.by_hand())
        assert isinstance(answer, Closed)
        assert (answer.reason, None if answer.met is None else answer.met.run_id) == ("overlap", live.run_id)
        assert {run.run_id: run.status for run in await a.history("t", 10)} == {
            spent.run_id: "running",
            live.run_id: "running",
        }
        assert isinstance(await a.run_now(self.by_hand(overlap="allow")), Won)

    @scenario
    async def test_a_run_by_hand_meets_an_owed_run_as_one_in_progress(self) -> None:
        a = await self.client("a")
        await a.register([record()])
        owed = await self.owed_run_of(a)
        answer = await a.run_now(self.by_hand())
        assert isinstance(answer, Closed)
        assert answer.met is not None
        assert answer.met.run_id == owed.run_id

    @scenario
    async def test_a_run_without_an_attempt_left_is_interrupted_by_a_run_by_hand(self) -> None:
        a = await self.client("a")
        await a.register([record()])
        spent = await self.owed_run_of(a, max_attempts=1)
        answer = await a.run_now(self.by_hand())
        assert isinstance(answer, Won)
        assert [(run.run_id, run.status) for run in answer.interrupted] == [(spent.run_id, "interrupted")]

    @scenario
    async def test_a_run_that_was_asked_for_is_taken_up_by_any_instance_also_while_the_task_is_paused(self) -> None:
        a, b = await self.client("a"), await self.client("b")
        await a.register([record()])
        await a.pause("t", "ops")
        asked = won(await a.run_now(self.by_hand(by="somebody", held=False, max_attempts=1)))
        assert (asked.status, asked.instance_id, asked.attempts) == ("handed-over", "", ())
        assert won(await a.run_now(self.by_hand(by="somebody", held=False, max_attempts=1))) == asked
        (shown,) = (await b.survey("b", LEASE_MS)).owed
        answers = [(await one.take_up([take_up(shown, by=by)]))[0] for one, by in ((a, "a"), (b, "b"))]
        assert count_won(answers) == 1
        run = won(answers[0])
        assert [(each.number, each.instance_id, each.reason) for each in run.attempts] == [(1, "a", "manual")]

    @scenario
    async def test_a_run_that_was_asked_for_cannot_be_given_back_by_who_never_had_it(self) -> None:
        a = await self.client("a")
        await a.register([record()])
        asked = won(await a.run_now(self.by_hand(held=False)))
        assert list(await a.hand_over([hand_over(asked)])) == [False]

    @scenario
    async def test_resuming_keeps_a_run_that_was_asked_for(self) -> None:
        a = await self.client("a")
        await a.register([record()])
        await a.pause("t", "ops")
        asked = won(await a.run_now(self.by_hand(held=False)))
        assert (await a.resume("t", "ops")).interrupted == ()
        assert [run.run_id for run in (await a.survey("a", LEASE_MS)).owed] == [asked.run_id]

    @scenario
    async def test_of_many_runs_by_hand_at_once_one_is_won(self) -> None:
        clients = await self.clients(8)
        await clients[0].register([record()])
        answers = await asyncio.gather(
            *(one.run_now(self.by_hand(by=f"i{n}", token=f"{n:032x}"[::-1])) for n, one in enumerate(clients))
        )
        assert count_won(answers) == 1

    # ---------------------------------------------------------------- free

    @scenario
    async def test_freeing_ends_what_is_in_progress_and_refuses_the_late_result(self) -> None:
        a, b = await self.client("a"), await self.client("b")
        await a.register([record()])
        stuck = await self.win(a, self.ask())
        freed = list(await b.free("t", "ops"))
        assert [(run.run_id, run.status, run.error) for run in freed] == [
            (stuck.run_id, "interrupted", "it was freed by ops")
        ]
        assert list(await a.renew([Lease(task="t", run_id=stuck.run_id, fence=fence_of(stuck))], LEASE_MS)) == [False]
        assert list(await a.finish([finish(stuck)])) == [False]
        assert list(await b.free("t", "ops")) == []
        assert [run.status for run in await b.history("t", 10)] == ["interrupted"]

    # ---------------------------------------------------------------- checkpoints

    @scenario
    async def test_a_checkpoint_follows_its_run_through_recovery_and_hand_over_and_goes_at_its_end(self) -> None:
        a, b = await self.client("a"), await self.client("b")
        await a.register([record()])
        run = await self.win(a, self.ask(lease_ms=2_000))
        assert list(await a.save_checkpoints([checkpoint(run, '{"at":1}')])) == [True]
        await self.pass_time(2_000)
        (owed,) = (await b.survey("b", LEASE_MS)).owed
        recovered = won((await b.take_up([take_up(owed, by="b")]))[0])
        assert recovered.checkpoint == '{"at":1}'
        assert list(await b.save_checkpoints([checkpoint(recovered, "2")])) == [True]
        await b.hand_over([hand_over(recovered)])
        (owed,) = (await a.survey("a", LEASE_MS)).owed
        last = won((await a.take_up([take_up(owed, by="a")]))[0])
        assert last.checkpoint == "2"
        await a.finish([finish(last)])
        assert [each.checkpoint for each in await a.history("t", 10)] == [None]

    @scenario
    async def test_a_checkpoint_under_an_old_fence_is_refused(self) -> None:
        a, b = await self.client("a"), await self.client("b")
        await a.register([record()])
        run = await self.owed_run_of(a)
        assert list(await a.save_checkpoints([checkpoint(run, "1")])) == [True], "nobody has taken it up yet"
        taken = won((await b.take_up([take_up(run, by="b")]))[0])
        assert list(await a.save_checkpoints([checkpoint(run, "2"), checkpoint(taken, "3")])) == [False, True]
        await b.finish([finish(taken)])
        assert list(await b.save_checkpoints([checkpoint(taken, "4")])) == [False]
        unknown = replace(checkpoint(taken, "5"), run_id="no such run")
        assert list(await b.save_checkpoints([unknown])) == [False]

    # ---------------------------------------------------------------- a tool in somebody's hand

    @scenario
    async def test_a_tool_acts_without_being_an_instance(self) -> None:
        a = await self.client("a")
        await a.register([record()])
        tool = self.make_backend()
        self._clients.append(tool)
        await tool.open_to_act(NAMESPACE)
        assert (await tool.pause("t", "ops")).changed
        assert (await tool.resume("t", "ops")).changed
        asked = won(await tool.run_now(self.by_hand(by="ops", held=False)))
        assert [run.run_id for run in await tool.free("t", "ops")] == [asked.run_id]
        assert (await a.survey("a", LEASE_MS)).shortest_other_lease_ms is None


def checkpoint(run: Run, value: str) -> Checkpoint:
    """What the holder of this run leaves."""
    return Checkpoint(task=run.task, run_id=run.run_id, fence=fence_of(run), value=value)
