"""Bugs that are put into the engine or the store on purpose, to see that the simulation sees them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import anarchon.engine.engine as engine_module
import anarchon.engine.keeper as keeper_module
import anarchon.model.leasing as leasing
import anarchon.testing.memory_store as memory_store
from anarchon.engine.claimer import Ask, Claimer
from anarchon.engine.engine import Engine
from anarchon.engine.keeper import LeaseKeeper
from anarchon.engine.planner import Planner
from anarchon.engine.survey import Survey
from anarchon.engine.task import EngineTask
from anarchon.errors import BackendError
from anarchon.model.asks import Claim, Finish, HandOver, Lease, LeaseOutcome, LeaseTerms, TaskRecord
from anarchon.model.run import Run
from anarchon.model.slots import owes_catch_up
from anarchon.model.trimming import Record
from anarchon.times.schedule import At
from tests.support.recording import OnRecord

Plant = Callable[[], AbstractContextManager[None]]
"""Makes a context manager in which the bug is there."""


@contextmanager
def no_fence() -> Generator[None, None, None]:
    """Renewals, outcomes and hand-overs are taken under any fence."""

    def renewal(run: Run | None, lease: Lease, *, now_ms: int, lease_ms: int) -> Run | None:
        unfenced = lease if run is None else replace(lease, fence=run.fence or 0)
        return leasing.decide_renewal(run, unfenced, now_ms=now_ms, lease_ms=lease_ms)

    def finish(run: Run | None, finish: Finish) -> tuple[bool, Run | None]:
        return leasing.decide_finish(run, finish if run is None else replace(finish, fence=run.fence))

    def hand_over(run: Run | None, ask: HandOver) -> tuple[bool, Run | None]:
        return leasing.decide_hand_over(run, ask if run is None else replace(ask, fence=run.fence or 0))

    with (
        patch.object(memory_store, "decide_renewal", renewal),
        patch.object(memory_store, "decide_finish", finish),
        patch.object(memory_store, "decide_hand_over", hand_over),
    ):
        yield


@contextmanager
def deadline_on_an_answer() -> Generator[None, None, None]:
    """The trust deadline is looked at when a renewal is answered or has failed, not by a timer."""
    renew = LeaseKeeper._renew

    async def then_look(self: LeaseKeeper, actives: list[Any]) -> None:
        await renew(self, actives)
        self._look()

    with (
        patch.object(LeaseKeeper, "_arm", lambda self, at: None),
        patch.object(LeaseKeeper, "_renew", then_look),
    ):
        yield


@contextmanager
def trusted_past_its_end() -> Generator[None, None, None]:
    """A lease is believed for 0.2 s longer than it was asked for."""

    def deadline(sent_monotonic_ms: float, lease_ms: int) -> float:
        return sent_monotonic_ms + lease_ms + 200

    with (
        patch.object(keeper_module, "trust_deadline", deadline),
        patch("anarchon.engine.claimer.trust_deadline", deadline),
        patch("anarchon.engine.survey.trust_deadline", deadline),
    ):
        yield


@contextmanager
def overlap_checked_outside() -> Generator[None, None, None]:
    """A claim looks for live runs in one step and takes its slot in another, a moment later."""
    claim, decide = OnRecord.claim, leasing.decide_claim

    async def in_two_steps(self: OnRecord, claims: Sequence[Claim[LeaseTerms]]) -> Sequence[LeaseOutcome]:
        now_ms, space = self.store.now_ms(), self.store.leases("sim")
        free = {
            each.token for each in claims if not any(run.live(now_ms) for run in space.history(each.task, 1_000_000))
        }
        await asyncio.sleep(0.1)

        def unchecked(each: Claim[LeaseTerms], **facts: Any) -> leasing.ClaimDecision:
            if each.token in free:
                facts["in_progress"] = [run for run in facts["in_progress"] if not run.live(facts["now_ms"])]
            return decide(each, **facts)

        with patch.object(memory_store, "decide_claim", unchecked):
            return await claim(self, claims)

    with patch.object(OnRecord, "claim", in_two_steps):
        yield


@contextmanager
def trimmed_too_early() -> Generator[None, None, None]:
    """A record goes as soon as there are too many, even where a claim could still ask for its slot."""

    def trim(
        oldest: Iterable[Record[Any]], *, stored: int, keep: int, rules: TaskRecord, now_ms: int
    ) -> list[Record[Any]]:
        return list(oldest)[: max(stored - keep, 0)]

    with patch.object(memory_store, "trim", trim):
        yield


@contextmanager
def catch_up_of_three() -> Generator[None, None, None]:
    """At a start the three latest slots are asked for."""

    def slots(
        tasks: Sequence[EngineTask], known_since: Mapping[str, int | None], start_ms: int
    ) -> tuple[list[tuple[EngineTask, int]], list[tuple[EngineTask, int]]]:
        wanted: list[tuple[EngineTask, int]] = []
        for task in tasks:
            slot = task.schedule.prev(start_ms)
            for _ in range(3):
                if slot is not None and owes_catch_up(
                    slot,
                    start_ms=start_ms,
                    catch_up_ms=task.settings.catch_up_ms,
                    known_since_ms=known_since.get(task.name),
                    one_shot=isinstance(task.schedule, At),
                ):
                    wanted.append((task, slot))
                    slot = task.schedule.prev(slot - 1)
        return wanted, []

    with patch.object(engine_module, "slots_to_catch_up", slots), patch.object(Claimer, "_thin_out", lambda *_: None):
        yield


@contextmanager
def hand_over_counted() -> Generator[None, None, None]:
    """A run that was handed over starts under the next attempt number."""
    with patch.object(leasing, "_attempt_after", lambda run: run.attempt + 1):
        yield


@contextmanager
def next_from_now() -> Generator[None, None, None]:
    """After a due slot, the next one is the first after now; what fell due in between is forgotten."""

    def backlog(self: Planner, task: EngineTask, slot: int, newest: int) -> Sequence[int]:
        return (slot,)

    with patch.object(Planner, "_backlog", backlog):
        yield


@contextmanager
def token_not_reused() -> Generator[None, None, None]:
    """Each repetition of a claim or take-up carries a new token."""
    claim, send = Claimer._claim, Survey._take_up

    def with_a_new_token(self: Claimer, ask: Ask, terms: Any) -> Claim[Any]:
        return replace(claim(self, ask, terms), token=self._env.token())

    async def forgetting(self: Survey, owed: Sequence[Run]) -> None:
        try:
            await send(self, owed)
        except BackendError:
            self._pending.clear()
            raise

    with patch.object(Claimer, "_claim", with_a_new_token), patch.object(Survey, "_take_up", forgetting):
        yield


@contextmanager
def owed_run_forgotten() -> Generator[None, None, None]:
    """Under 'skip' a claim looks at live runs only."""
    decide = leasing.decide_claim

    def only_the_live(claim: Claim[LeaseTerms], **facts: Any) -> leasing.ClaimDecision:
        live = [run for run in facts["in_progress"] if run.live(facts["now_ms"])]
        return decide(claim, **{**facts, "in_progress": live})

    with patch.object(memory_store, "decide_claim", only_the_live):
        yield


@contextmanager
def renewal_stopped_early() -> Generator[None, None, None]:
    """Renewing ends when stop() is called, not when the handlers have ended."""
    stop = Engine._stop

    async def at_once(self: Engine) -> int:
        for duty in self._duties:
            if duty.get_name() == "anarchon-keeper":
                duty.cancel()
        return await stop(self)

    with patch.object(Engine, "_stop", at_once):
        yield


PLANTED: dict[str, Plant] = {
    "no fence": no_fence,
    "deadline checked only on an answer": deadline_on_an_answer,
    "lease trusted past its end": trusted_past_its_end,
    "overlap checked outside the atomic step": overlap_checked_outside,
    "history trimmed too early": trimmed_too_early,
    "catch-up of more than the latest": catch_up_of_three,
    "attempts counted at hand-over": hand_over_counted,
    "next slot computed from now": next_from_now,
    "token not reused": token_not_reused,
    "owed run forgotten under 'skip'": owed_run_forgotten,
    "renewal stopped before handlers end": renewal_stopped_early,
}
