"""Works out which slots are due from the wall clock alone, waits their jitter, and hands them to the claimer."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence

from anarchon.engine.claimer import HICCUP_MS, Claimer
from anarchon.engine.env import Env
from anarchon.engine.runner import Runner
from anarchon.engine.task import EngineTask
from anarchon.model.events import LoopLagged
from anarchon.model.slots import LONGEST_SLEEP_MS, Handled, jitter_groups

LOOP_LAG_MS = 1_000
"""A wake-up that comes this much too late is told: the engine's own loop did not turn, ms of monotonic time."""

PROBE_MS = 2_000
"""How often the application's loop is asked for a sign of life at most, ms."""

BACKWARD_MS = 1_000
"""A wall clock that went back by more than this is looked at afresh, ms."""

JUMP_MS = 5_000
"""A wall clock that ran ahead of monotonic time by more than this has jumped (or the machine slept), ms."""


class Planner:
    """Two heaps: the next slot of each task, and groups of due slots that wait out their jitter."""

    def __init__(self, env: Env, claimer: Claimer, runner: Runner, host_gone: Callable[[], None]) -> None:
        self._env = env
        self._claimer = claimer
        self._runner = runner
        self._host_gone = host_gone
        self._handled: dict[str, Handled] = {}
        self._coming: list[tuple[int, int, EngineTask]] = []
        self._ripening: list[tuple[float, int, list[tuple[EngineTask, int]]]] = []
        self._serial = 0
        self._last_wall = 0
        self._last_monotonic = 0.0
        self._last_probe = float("-inf")

    def begin(self, start_ms: int) -> None:
        """Plan every task's first slot after the start. Slots at or before it belong to catch-up alone."""
        self._last_wall = start_ms
        self._last_monotonic = self._env.clock.monotonic_ms()
        for task in self._env.tasks.values():
            self._handled[task.name] = Handled.before(start_ms)
        self._plan_all(start_ms)

    def next_slots(self) -> dict[str, int | None]:
        """The slot that is planned next for each task; None where none comes."""
        planned = {task.name: slot for slot, _, task in self._coming}
        return {name: planned.get(name) for name in self._env.tasks}

    def _plan_all(self, now: int) -> None:
        self._coming = []
        for task in self._env.tasks.values():
            slot = self._handled[task.name].after(now, task.schedule.next)
            if slot is not None:
                self._serial += 1
                self._coming.append((slot, self._serial, task))
        heapq.heapify(self._coming)

    async def plan(self) -> None:
        """Plan for ever."""
        while True:
            self._probe()
            if not self._env.host.alive:
                self._host_gone()
                return
            now = self._env.clock.now_ms()
            self._look(now)
            wake_in = self._ms_until_next(now)
            expected = self._env.clock.monotonic_ms() + wake_in
            await self._env.clock.sleep_ms(wake_in)
            self._watch_lag(self._env.clock.monotonic_ms() - expected)

    def _probe(self) -> None:
        """The host notices a closed or blocked application loop only when it asks something of it."""
        monotonic = self._env.clock.monotonic_ms()
        if monotonic - self._last_probe >= PROBE_MS:
            self._last_probe = monotonic
            self._env.host.probe()

    def _ms_until_next(self, now: int) -> float:
        wake_at: float = now + LONGEST_SLEEP_MS
        if self._coming:
            wake_at = min(wake_at, self._coming[0][0])
        if self._ripening:
            wake_at = min(wake_at, self._ripening[0][0])
        return max(wake_at - now, 0)

    def _watch_lag(self, late_by: float) -> None:
        if late_by > LOOP_LAG_MS:
            tasks = tuple(sorted({run.task.name for run in self._runner.running.values()}))
            self._env.emit(LoopLagged(which="engine", lag_ms=int(late_by), tasks=tasks, **self._env.said()))

    def _look(self, now: int) -> None:
        monotonic = self._env.clock.monotonic_ms()
        jumped = (now - self._last_wall) - (monotonic - self._last_monotonic) > JUMP_MS
        if now < self._last_wall - BACKWARD_MS:
            # What was dealt with stays dealt with; what lies before it on a corrected clock is planned again.
            self._plan_all(now)
        self._last_wall, self._last_monotonic = now, monotonic

        due: dict[int, list[EngineTask]] = {}
        while self._coming and self._coming[0][0] <= now:
            slot, _, task = heapq.heappop(self._coming)
            following = task.schedule.next(slot)
            newest = slot
            if following is None or following > now:
                due.setdefault(slot, []).append(task)
            else:
                newest = task.schedule.prev(now) or slot
                for each in self._backlog(task, slot, newest):
                    due.setdefault(each, []).append(task)
            handled = self._handled[task.name].through(newest, jumped=jumped)
            self._handled[task.name] = handled
            if newest != slot or len(handled.ranges) > 1:
                following = handled.after(max(now, slot), task.schedule.next)
            if following is not None:
                self._serial += 1
                heapq.heappush(self._coming, (following, self._serial, task))
        for slot, tasks in due.items():
            self._ripen(slot, tasks)
        ripe: list[tuple[EngineTask, int]] = []
        while self._ripening and self._ripening[0][0] <= now:
            ripe.extend(heapq.heappop(self._ripening)[2])
        if ripe:
            self._claimer.submit(ripe)

    def _backlog(self, task: EngineTask, slot: int, newest: int) -> Sequence[int]:
        """Every due slot from `slot` to `newest`, in order; after a sleep or an outage the newest alone."""
        if newest - slot > HICCUP_MS:
            before = task.schedule.prev(newest - 1)
            until = before if before is not None and before > slot else None
            self._claimer.skip(task, slot, "superseded", until_ms=until)
            return (newest,)
        slots = [slot]
        following = task.schedule.next(slot)
        while following is not None and following <= newest:
            slots.append(following)
            following = task.schedule.next(following)
        return slots

    def _ripen(self, slot: int, tasks: Sequence[EngineTask]) -> None:
        if any(task.is_async for task in tasks):
            self._env.host.probe()
        for wait, group in jitter_groups(tasks, lambda task: task.settings.jitter_ms, self._env.rng.random):
            self._serial += 1
            heapq.heappush(self._ripening, (slot + wait, self._serial, [(task, slot) for task in group]))

    def unripe(self) -> list[tuple[EngineTask, int]]:
        """The due slots that still wait out their jitter."""
        return [pair for _, _, pairs in self._ripening for pair in pairs]
