"""Asks the store for due slots, in batches, until each is answered, too late, or replaced by a newer one.

What happens when an answer is lost: the slot stays at the head of its task's queue and is asked for again with the
same token. The store then says whose it is. Still unknown when the slot is too late: skip 'claim-unknown'; if the
lost request did take effect, its lease runs out and recovery starts the run.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

from anarchon.clock import Timer
from anarchon.engine.active import Grant
from anarchon.engine.env import Env
from anarchon.engine.recorder import Recorder
from anarchon.engine.runner import Runner
from anarchon.engine.task import EngineTask
from anarchon.errors import BackendError, OutcomeUnknownError
from anarchon.model.asks import Claim, ClaimOutcome, Closed, LeaseOutcome, LeaseTerms, Won
from anarchon.model.events import ClaimLost, LoopLagged
from anarchon.model.run import Skip, run_id_of_slot
from anarchon.model.slots import is_late, trust_deadline
from anarchon.model.words import RunReason, SkipReason

TermsT = TypeVar("TermsT")

HICCUP_MS = 10_000
"""A backlog of one task that spans more than this is a sleep or an outage: only its newest slot is asked for."""

LAG_LIMIT_MS = 1_000
"""While the application's loop owes an answer for longer than this, async tasks are not claimed, ms."""

MOST_AT_ONCE = 1_000
BUSY_LOOK_MS = 250
OWN_LOOK_MS = 50

CATCH_BREATH_MS = 500
"""After a late answer the run of that slot may be over in a moment, and must not close the next one: so long the
losers of a slot wait at least before they ask for the next, ms. Its winner waits until its outcome is stored."""

MOST_OF_GAP = 0.25
"""No such wait takes more of the time between two slots than this: who waited for longer would never catch up."""

SLOW_MS = 250
"""A slot that was answered more than this after its turn is behind, ms."""

UNNOTICED_MS = 4_000
"""For how long the return of a store may go unnoticed: a call that hangs and the wait before the next, ms."""


@dataclass(slots=True, eq=False)
class Ask:
    """One slot that this instance wants."""

    task: EngineTask
    slot_ms: int
    token: str
    reason: RunReason
    ready_at: float
    in_flight: bool = False
    unknown: bool = False
    """A request was sent and no answer came."""
    since: float = 0.0
    """When it could have been sent first."""
    after_own: bool = False
    """Ready before `ready_at` once no run of the task is held here."""
    busy: bool = False
    """It was kept back for want of room, or because the application's loop lags."""


class Claimer:
    """One queue per task; its head is asked for, the rest waits for the head's answer."""

    def __init__(self, env: Env, runner: Runner, recorder: Recorder) -> None:
        self._env = env
        self._runner = runner
        self._recorder = recorder
        self._queues: dict[str, deque[Ask]] = {}
        self._breath: dict[str, tuple[float, bool]] = {}
        """Until when the next slot of a task waits after a late answer, and whether the slot before was won here."""
        self._superseded: dict[str, tuple[int, int]] = {}
        """The first and the last slot of a task that newer ones have replaced; told with the next answer."""
        self._flying = 0
        self._landed = asyncio.Event()
        self._landed.set()
        self._timer: Timer | None = None
        self._timer_at = float("inf")
        self._lag_said = False
        self._kept_back = False

    @property
    def waiting(self) -> int:
        """How many slots wait for an answer or for their turn."""
        return sum(len(queue) for queue in self._queues.values())

    def submit(self, due: Iterable[tuple[EngineTask, int]], reason: RunReason = "schedule") -> None:
        """These slots are due and their jitter has passed."""
        now = self._env.clock.monotonic_ms()
        for task, slot_ms in due:
            ask = Ask(task=task, slot_ms=slot_ms, token=self._env.token(), reason=reason, ready_at=now, since=now)
            queue = self._queues.setdefault(task.name, deque())
            queue.append(ask)
            if len(queue) > 1:
                self._thin_out(queue)
            else:
                self._let_breathe(ask)
        self.pump()

    def _let_breathe(self, ask: Ask) -> None:
        until, ask.after_own = self._breath.pop(ask.task.name, (ask.ready_at, False))
        ask.ready_at = max(ask.ready_at, until)

    def _thin_out(self, queue: deque[Ask]) -> None:
        """After a sleep or an outage only the newest slot is asked for; one whose answer is lost must be settled."""
        newest = queue[-1]
        oldest = next((ask for ask in queue if not ask.in_flight and not ask.unknown), newest)
        span_ms = UNNOTICED_MS if self._env.away_ms > HICCUP_MS else HICCUP_MS
        if newest.slot_ms - oldest.slot_ms <= span_ms and oldest.reason != "catch-up":
            return
        # While the store is away, its return may be noticed a little late: a slot after it must not be dropped.
        since_ms = newest.slot_ms - (UNNOTICED_MS if self._env.away_ms > HICCUP_MS else 0)
        kept = [ask for ask in queue if ask.in_flight or ask.unknown or ask.slot_ms >= since_ms]
        dropped = [ask for ask in queue if ask not in kept]
        queue.clear()
        queue.extend(kept)
        if dropped:
            # What was on its way when newer slots were dropped may be dropped after them, and is older.
            first, last = self._superseded.get(newest.task.name, (dropped[0].slot_ms, dropped[-1].slot_ms))
            first, last = min(first, dropped[0].slot_ms), max(last, dropped[-1].slot_ms)
            self._superseded[newest.task.name] = first, last

    # ---------------------------------------------------------------- sending

    def pump(self) -> None:
        """Send what can be sent now."""
        if self._env.stopping:
            return
        now = self._env.clock.monotonic_ms()
        wall = self._env.clock.now_ms()
        room = self._room()
        self._kept_back = False
        lagging = self._env.host.lag_ms() > LAG_LIMIT_MS or not self._env.host.alive
        batch: list[Ask] = []
        next_look = float("inf")
        for name in list(self._queues):
            head = self._head(name, wall)
            if head is None or head.in_flight:
                continue
            if head.ready_at > now and not (head.after_own and not self._runner.holds(name)):
                next_look = min(next_look, now + OWN_LOOK_MS if head.after_own else head.ready_at)
            elif self._recorder.is_behind(name):
                next_look = min(next_look, now + OWN_LOOK_MS)
            elif (head.task.is_async and lagging) or room <= len(batch):
                head.busy = True
                self._kept_back = True
                next_look = min(next_look, now + BUSY_LOOK_MS)
                self._say_lag(lagging and head.task.is_async)
            else:
                batch.append(head)
        if not lagging:
            self._lag_said = False
        for start in range(0, len(batch), MOST_AT_ONCE):
            part = batch[start : start + MOST_AT_ONCE]
            for ask in part:
                ask.in_flight = True
            self._flying += len(part)
            self._landed.clear()
            self._env.spawn(self._send(part), "claim")
        self._look_at(next_look)

    def _head(self, name: str, wall: int) -> Ask | None:
        queue = self._queues[name]
        while queue:
            head = queue[0]
            if head.in_flight or head.reason != "schedule":
                return head
            if not is_late(head.slot_ms, wall, head.task.settings.max_late_ms):
                return head
            self._skip(head, "claim-unknown" if head.unknown else "busy" if head.busy else "late")
            queue.popleft()
        del self._queues[name]
        return None

    def _room(self) -> float:
        most = self._env.settings.max_concurrent_runs
        return float("inf") if most is None else most - len(self._runner.running) - self._flying

    def room_changed(self) -> None:
        """A run has ended here: a slot that was kept back may be asked for now."""
        if self._kept_back:
            self.pump()

    @property
    def room(self) -> float:
        """How many more runs may be taken."""
        return self._room()

    def _say_lag(self, lagging: bool) -> None:
        if lagging and not self._lag_said:
            self._lag_said = True
            tasks = tuple(sorted({run.task.name for run in self._runner.running.values()}))
            lag_ms = int(self._env.host.lag_ms())
            self._env.emit(LoopLagged(which="application", lag_ms=lag_ms, tasks=tasks, **self._env.said()))

    def _look_at(self, at: float) -> None:
        if at >= self._timer_at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = at
        self._timer = self._env.clock.call_at(at, self._look)

    def _look(self) -> None:
        self._timer = None
        self._timer_at = float("inf")
        self.pump()

    async def _send(self, asks: Sequence[Ask]) -> None:
        sent = self._env.clock.monotonic_ms()
        try:
            answers = await self._ask_store(asks)
        except BackendError as error:
            retry_at = self._env.clock.monotonic_ms() + self._env.retry_delay_ms()
            for ask in asks:
                ask.in_flight = False
                ask.unknown = ask.unknown or isinstance(error, OutcomeUnknownError)
                ask.ready_at = retry_at
        else:
            self._answered(asks, answers, sent)
        finally:
            self._flying -= len(asks)
            if self._flying == 0:
                self._landed.set()
        self.pump()

    async def _ask_store(self, asks: Sequence[Ask]) -> Sequence[ClaimOutcome] | Sequence[LeaseOutcome]:
        env = self._env
        if env.lease is not None:
            return await env.ask(
                env.lease.claim([self._claim(ask, terms_of(ask.task, env.settings.lease_ms)) for ask in asks])
            )
        assert env.claim_only is not None
        return await env.ask(env.claim_only.claim([self._claim(ask, None) for ask in asks]))

    def _claim(self, ask: Ask, terms: TermsT) -> Claim[TermsT]:
        settings = self._env.settings
        return Claim(
            task=ask.task.name,
            slot_ms=ask.slot_ms,
            run_id=run_id_of_slot(settings.namespace, ask.task.name, ask.slot_ms),
            token=ask.token,
            instance_id=settings.instance_id,
            reason=ask.reason,
            terms=terms,
        )

    # ---------------------------------------------------------------- answers

    def _answered(
        self, asks: Sequence[Ask], answers: Sequence[ClaimOutcome] | Sequence[LeaseOutcome], sent: float
    ) -> None:
        env = self._env
        until = trust_deadline(sent, env.settings.lease_ms) if env.lease is not None else float("inf")
        grants: list[Grant] = []
        now, draw = env.clock.monotonic_ms(), env.rng.random()
        for ask, answer in zip(asks, answers, strict=True):
            ask.in_flight = False
            self._tell_superseded(ask.task)
            queue = self._queues[ask.task.name]
            queue.popleft()
            if ask.task.settings.overlap == "skip" and (queue or now - ask.since > SLOW_MS):
                # The run of this slot may be over in a moment, here or elsewhere: it must not close the next one.
                breath = min(CATCH_BREATH_MS * (1 + 2 * draw), _gap_after(ask) * MOST_OF_GAP)
                self._breath[ask.task.name] = now + breath, isinstance(answer, Won)
            if queue:
                self._let_breathe(queue[0])
            else:
                del self._queues[ask.task.name]
            if isinstance(answer, Won):
                self._runner.interrupted_elsewhere(answer.interrupted)
                grants.append(Grant(answer.run, ask.task, until, ask.reason))
            elif isinstance(answer, Closed):
                self._runner.interrupted_elsewhere(answer.interrupted)
                env.skipped(ask.task.name, ask.slot_ms, answer.reason)
                if answer.took_up is not None:
                    reason = answer.took_up.attempts[-1].reason
                    grants.append(Grant(answer.took_up, ask.task, until, reason))
            else:
                env.counters.claims_lost += 1
                env.emit(ClaimLost(task=ask.task.name, slot_ms=ask.slot_ms, **env.said()))
        if grants:
            self._runner.begin(grants)

    def _skip(self, ask: Ask, reason: SkipReason) -> None:
        self._tell_superseded(ask.task)
        self.skip(ask.task, ask.slot_ms, reason)

    def _tell_superseded(self, task: EngineTask) -> None:
        """Once for all that newer slots have replaced, however long the store was away."""
        if task.name in self._superseded:
            first, last = self._superseded.pop(task.name)
            self.skip(task, first, "superseded", last if last > first else None)

    def skip(self, task: EngineTask, slot_ms: int, reason: SkipReason, until_ms: int | None = None) -> None:
        """This instance will not run the slot. Others may: nothing is closed."""
        self._env.skipped(task.name, slot_ms, reason, until_ms)
        self._recorder.skip(
            Skip(
                task=task.name,
                slot_ms=slot_ms,
                reason=reason,
                instance_id=self._env.settings.instance_id,
                at_ms=self._env.clock.now_ms(),
                until_ms=until_ms,
            )
        )

    # ---------------------------------------------------------------- stop

    async def stop(self) -> None:
        """Ask for nothing more; return once every request under way is answered. `env.stopping` is set."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        await self._landed.wait()
        for ask in chain.from_iterable(self._queues.values()):
            self._skip(ask, "claim-unknown" if ask.unknown else "stopping")
        self._queues.clear()


def _gap_after(ask: Ask) -> float:
    following = ask.task.schedule.next(ask.slot_ms)
    return float("inf") if following is None else following - ask.slot_ms


def terms_of(task: EngineTask, lease_ms: int) -> LeaseTerms:
    """The terms under which runs of this task are asked for."""
    settings = task.settings
    return LeaseTerms(lease_ms=lease_ms, overlap=settings.overlap, max_attempts=settings.max_attempts)
