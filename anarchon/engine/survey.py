"""The one periodic statement of an instance: it says that it is alive and learns what is owed.

Sent when the earliest live lease ends, and at the latest after `survey_interval_ms`. Everything that has to be
asked of the store now and then rides on it: recovery, the turn to sweep, the gathered skips.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from anarchon.engine.active import Grant
from anarchon.engine.claimer import LAG_LIMIT_MS, Claimer, terms_of
from anarchon.engine.env import Env
from anarchon.engine.recorder import Recorder
from anarchon.engine.runner import Runner
from anarchon.errors import BackendError
from anarchon.model.asks import Spent, TakeUp, TakeUpOutcome, Won
from anarchon.model.run import Run
from anarchon.model.slots import survey_interval_ms, trust_deadline
from anarchon.protocol import LeaseBackend

AGAIN_MS = 250.0
"""After how long a survey looks again at an owed run whose outcome this instance is about to store, ms."""

SHORTEST_WAIT_MS = 20.0
"""Two surveys are at least this far apart, whatever asks for one, ms."""


class Survey:
    """Sends surveys and takes owed runs up."""

    def __init__(self, env: Env, store: LeaseBackend, runner: Runner, claimer: Claimer, recorder: Recorder) -> None:
        self._env = env
        self._store = store
        self._runner = runner
        self._claimer = claimer
        self._recorder = recorder
        self._pending: dict[tuple[str, int], TakeUp] = {}
        """Take-ups whose answer is still out; asked again with the same token."""
        self._left_for_room = False
        self._left_for_recorder = False
        self._landed = asyncio.Event()
        self._landed.set()
        self._wanted = asyncio.Event()

    def room_changed(self) -> None:
        """A run has ended here: an owed run that was left for want of room may be taken up now."""
        if self._left_for_room:
            self._left_for_room = False
            self._wanted.set()

    async def landed(self) -> None:
        """Return once no take-up is under way."""
        await self._landed.wait()

    async def survey_for_ever(self, wait_ms: float) -> None:
        """Survey for ever, the first time after `wait_ms`."""
        while True:
            await self._wait(wait_ms)
            try:
                wait_ms = await self.survey_once()
            except BackendError:
                wait_ms = self._env.retry_delay_ms()

    async def _wait(self, wait_ms: float) -> None:
        at = self._env.clock.monotonic_ms() + max(wait_ms, SHORTEST_WAIT_MS)
        timer = self._env.clock.call_at(at, self._wanted.set)
        try:
            await self._wanted.wait()
        finally:
            timer.cancel()
            self._wanted.clear()

    async def survey_once(self) -> float:
        """One survey with everything that follows from it; the wait until the next, ms."""
        env = self._env
        self._recorder.flush()
        lease_ms = env.settings.lease_ms
        page: str | None = None
        while True:
            sent_wall = env.clock.now_ms()
            answer = await env.ask(self._store.survey(env.settings.instance_id, lease_ms, page))
            env.counters.surveys += 1
            env.note_skew(answer.store_now_ms, sent_wall)
            if not env.stopping:
                await self._take_up(answer.owed)
            page = answer.next_page
            if page is None:
                break
        if answer.sweep:
            await env.ask(self._store.sweep())
        wait = survey_interval_ms(lease_ms, answer.shortest_other_lease_ms)
        if answer.earliest_lease_end_ms is not None:
            wait = min(wait, answer.earliest_lease_end_ms - answer.store_now_ms + 1)
        if self._left_for_recorder:
            self._left_for_recorder = False
            wait = min(wait, AGAIN_MS)
        return wait

    async def _take_up(self, owed: Sequence[Run]) -> None:
        env = self._env
        lagging = env.host.lag_ms() > LAG_LIMIT_MS or not env.host.alive
        room = self._claimer.room - len(self._pending)
        for run in owed:
            task = env.tasks.get(run.task)
            if task is None or run.fence is None or (run.run_id, run.fence) in self._pending:
                continue
            if self._recorder.has(run.run_id):
                # It is over, or was given back, and the store will hear of it in a moment.
                self._left_for_recorder = True
                continue
            if room < 1 or (task.is_async and lagging):
                self._left_for_room = True
                continue
            room -= 1
            self._pending[run.run_id, run.fence] = TakeUp(
                task=run.task,
                run_id=run.run_id,
                seen_fence=run.fence,
                token=env.token(),
                instance_id=env.settings.instance_id,
                terms=terms_of(task, env.settings.lease_ms),
            )
        if not self._pending:
            return
        asks = dict(self._pending)
        sent = env.clock.monotonic_ms()
        self._landed.clear()
        try:
            answers = await env.ask(self._store.take_up(list(asks.values())))
            self._taken_up(asks, sent, answers)
        finally:
            self._landed.set()

    def _taken_up(self, asks: Mapping[tuple[str, int], TakeUp], sent: float, answers: Sequence[TakeUpOutcome]) -> None:
        env = self._env
        until = trust_deadline(sent, env.settings.lease_ms)
        grants: list[Grant] = []
        for (key, ask), answer in zip(asks.items(), answers, strict=True):
            self._pending.pop(key, None)
            if isinstance(answer, Won):
                grants.append(Grant(answer.run, env.tasks[ask.task], until, answer.run.attempts[-1].reason))
            elif isinstance(answer, Spent):
                self._runner.interrupted_elsewhere((answer.run,))
        if grants:
            self._runner.begin(grants)
