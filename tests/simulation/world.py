"""A cluster of whole engines on one virtual-time loop and one store, disturbed as its seed says, and its history.

The trouble: clocks that are wrong, drift and jump; requests and answers that are refused, lost, late; processes that
stand still for longer than a lease, are killed, stopped with little grace, replaced by another release; machines that
sleep; application loops that lag; the store away; all instances gone at once. Then all is mended, and a quiet time
follows in which what is owed has to be done.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from anarchon.testing.clock import VirtualClock
from anarchon.testing.vloop import run_virtual
from tests.simulation.plans import MINUTE, SECOND, MachinePlan, WorldPlan, plan_world
from tests.simulation.process import Process
from tests.simulation.work import Diary
from tests.support.history import History
from tests.support.recording import RecordingStore
from tests.support.verdict import Verdict, judge

START_MS = 1_767_225_600_000
"""2026-01-01T00:00:00Z, where virtual time begins."""

LONGEST_MS = 3_600_000


@dataclass(slots=True)
class Outcome:
    """What came of a seed."""

    seed: int
    history: History
    trouble: list[str] = field(default_factory=list[str])
    """What the engine logged as an error, or did not do at all."""

    def verdict(self) -> Verdict:
        """By the seven lines."""
        return judge(self.history)

    def digest(self) -> str:
        """The same for the same steps."""
        trace = hashlib.sha256()
        for event in (*self.history.writes, *self.history.notes, *self.history.said):
            trace.update(repr(event).encode())
        return trace.hexdigest()


def simulate(seed: int) -> Outcome:
    """Run the world of this seed from its beginning to its end."""
    heard = _Hearing()
    logger = logging.getLogger("anarchon")
    logger.addHandler(heard)
    try:
        outcome = run_virtual(partial(_story, seed), start_at_ms=START_MS, limit_ms=LONGEST_MS)
    finally:
        logger.removeHandler(heard)
    outcome.trouble.extend(heard.lines)
    return outcome


async def _story(seed: int) -> Outcome:
    return await World(seed).run()


class _Hearing(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(logging.Formatter().format(record))


@dataclass(slots=True)
class Machine:
    """Where processes follow each other. `lock` is held by whatever happens to it."""

    number: int
    plan: MachinePlan
    offset_ms: int
    rng: random.Random
    lock: asyncio.Lock
    process: Process | None = None
    processes: int = 0


class World:
    """One seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = random.Random(f"world/{seed}")
        self.plan: WorldPlan = plan_world(self.rng, START_MS)
        self.clock = VirtualClock(offset_ms=self.plan.store_offset_ms)
        self.store = RecordingStore(self.clock.now_ms)
        self.history = History(lease_ms=self.plan.lease_ms, ended_ms=0, writes=self.store.log.writes)
        self.diary = Diary(self.clock.now_ms, self.history.notes.append)
        self.machines = [
            Machine(number, plan, plan.offset_ms, random.Random(f"{seed}/machine/{number}"), asyncio.Lock())
            for number, plan in enumerate(self.plan.machines)
        ]
        self.processes: list[Process] = []
        self.tasks = self.plan.tasks
        self.heals_at = self.clock.now_ms() + self.plan.troubled_ms
        self._starting: set[asyncio.Task[None]] = set()
        self._away: Callable[[Process], None] | None = None

    async def run(self) -> Outcome:
        """From the first start to the last stop."""
        trouble: list[str] = []
        asyncio.get_running_loop().set_exception_handler(partial(self._unhandled, trouble))
        for machine in self.machines:
            self._start(machine)
            if machine.rng.random() < 0.5:
                await self.clock.sleep_ms(machine.rng.random() * 10 * SECOND)
        scripts: list[Awaitable[None]] = [self._live(machine) for machine in self.machines]
        scripts += [self._deploy(), self._blackout(), self._outage()]
        await asyncio.gather(*scripts)
        for machine in self.machines:
            if machine.process is None:
                self._start(machine)
        for process in self.processes:
            process.way.turn("calm")
        await self.clock.sleep_ms(self.plan.quiet_ms)
        outcome = self._close_books(trouble)
        self.diary.over = True
        await self._stop_all(trouble)
        return outcome

    def _unhandled(self, trouble: list[str], _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not self.diary.over:
            trouble.append(f"unhandled: {context.get('message')} {context.get('exception')!r}")

    def _close_books(self, trouble: list[str]) -> Outcome:
        for process in self.processes:
            process.close_book()
            trouble.extend(f"{process.id} ended fatally: {error!r}" for error in process.fatal)
        self.history.ended_ms = self.clock.now_ms()
        names = self.store.space.task_names()
        self.history.stored = {
            run.run_id: run.status for name in names for run in self.store.space.history(name, 1_000_000)
        }
        self.history.writes = list(self.history.writes)
        self.history.notes = list(self.history.notes)
        self.history.said = list(self.history.said)
        return Outcome(self.seed, self.history, trouble)

    async def _stop_all(self, trouble: list[str]) -> None:
        running = [machine.process for machine in self.machines if machine.process is not None]
        stops = [asyncio.ensure_future(process.stop(0)) for process in running]
        _, late = await asyncio.wait(stops, timeout=20)
        trouble.extend("stop(0) did not end within 20 s" for _ in late)
        lingering = [process.lingering for process in self.processes if process.lingering is not None]
        if lingering:
            _, late = await asyncio.wait(lingering, timeout=60)
            trouble.extend("a stopped engine did not end within 60 s of its last handler" for _ in late)
        for process in self.processes:
            await process.way.drop()

    # ---------------------------------------------------------------- starts and stops

    def _start(self, machine: Machine) -> None:
        machine.processes += 1
        process = Process(
            f"m{machine.number}.{machine.processes}",
            machine.plan,
            VirtualClock(offset_ms=machine.offset_ms, drift_ppm=machine.plan.drift_ppm),
            self.tasks,
            world_clock=self.clock,
            store=self.store,
            history=self.history,
            diary=self.diary,
            seed=self.seed,
        )
        machine.process = process
        self.processes.append(process)
        if self._away is not None:
            self._away(process)
        starting = asyncio.get_running_loop().create_task(process.engine.start())
        self._starting.add(starting)
        starting.add_done_callback(self._starting.discard)

    async def _stop(self, machine: Machine, grace_ms: int) -> None:
        process, machine.process = machine.process, None
        if process is not None:
            await process.stop(grace_ms)

    def _kill(self, machine: Machine) -> None:
        process, machine.process = machine.process, None
        if process is not None:
            process.kill()

    def _jump(self, machine: Machine, ms: int) -> None:
        machine.offset_ms += ms
        if machine.process is not None:
            machine.process.jump(ms)

    # ---------------------------------------------------------------- trouble

    @property
    def _left_ms(self) -> float:
        return self.heals_at - self.clock.now_ms()

    async def _live(self, machine: Machine) -> None:
        rng = machine.rng
        kinds: list[tuple[Callable[[Machine], Awaitable[None]], float]] = [
            (self._stand_still_briefly, 3),
            (self._stand_still_long, 3),
            (self._sleep, 1.5),
            (self._jump_a_little, 2),
            (self._jump_an_hour, 0.5),
            (self._bad_weather, 4),
            (self._die, 3),
            (self._leave, 5),
            (self._lag, 0.7),
        ]
        while True:
            wait = rng.uniform(3, 30) * SECOND
            if wait >= self._left_ms:
                break
            await self.clock.sleep_ms(wait)
            (happens,) = rng.choices([kind for kind, _ in kinds], [weight for _, weight in kinds])
            async with machine.lock:
                if self._left_ms > 0:
                    await happens(machine)
        async with machine.lock:
            if machine.process is None:
                self._start(machine)
        await self.clock.sleep_ms(self._left_ms)

    async def _hold(self, ms: float) -> None:
        await self.clock.sleep_ms(max(min(ms, self._left_ms), 1))

    async def _stand_still_briefly(self, machine: Machine) -> None:
        await self._stand_still(machine, machine.rng.uniform(100, 3_000))

    async def _stand_still_long(self, machine: Machine) -> None:
        await self._stand_still(machine, self.plan.lease_ms * machine.rng.uniform(0.8, 2.5))

    async def _stand_still(self, machine: Machine, ms: float, *, suspend: bool = False) -> None:
        process = machine.process
        if process is not None:
            process.stand_still(suspend=suspend)
            await self._hold(ms)
            process.go_on()

    async def _sleep(self, machine: Machine) -> None:
        await self._stand_still(machine, machine.rng.uniform(1, 25) * SECOND, suspend=True)

    async def _jump_a_little(self, machine: Machine) -> None:
        self._jump(machine, round(machine.rng.choice((-1, 1)) * machine.rng.uniform(100, 9_000)))

    async def _jump_an_hour(self, machine: Machine) -> None:
        ms = machine.rng.choice((-1, 1)) * 60 * MINUTE
        self._jump(machine, ms)
        await self._hold(machine.rng.uniform(2, 40) * SECOND)
        self._jump(machine, -ms)

    async def _bad_weather(self, machine: Machine) -> None:
        process = machine.process
        if process is not None and self._away is None:
            process.way.turn("bad")
            await self._hold(machine.rng.uniform(2, 25) * SECOND)
            if self._away is None:
                process.way.turn("fair")

    async def _die(self, machine: Machine) -> None:
        self._kill(machine)
        await self._hold(machine.rng.choice((0, 1, 1)) * machine.rng.uniform(0, 20) * SECOND)
        self._start(machine)

    async def _leave(self, machine: Machine) -> None:
        await self._stop(machine, self._grace(machine.rng))
        await self._hold(machine.rng.choice((0, 1, 1)) * machine.rng.uniform(0, 20) * SECOND)
        self._start(machine)

    def _grace(self, rng: random.Random) -> int:
        return rng.choice((0, 500, 3 * self.plan.lease_ms, 3 * self.plan.lease_ms))

    async def _lag(self, machine: Machine) -> None:
        if machine.process is not None:
            await machine.process.lag(min(machine.rng.uniform(1, 8) * SECOND, max(self._left_ms, 1)))

    # ---------------------------------------------------------------- trouble for all

    async def _deploy(self) -> None:
        """Replace one process after the other by one of the next release."""
        rng = random.Random(f"{self.seed}/deploy")
        if not self.plan.deploy:
            return
        await self._hold(rng.uniform(0.2, 0.8) * self.plan.troubled_ms)
        self.tasks = self.plan.next_tasks
        for machine in self.machines:
            async with machine.lock:
                process = machine.process
                if process is not None and process.facts.up is not None and self._left_ms > 0:
                    await self._stop(machine, self._grace(rng))
                    self._start(machine)
            await self._hold(rng.uniform(0, 3) * SECOND)

    async def _blackout(self) -> None:
        """For a while there is no instance at all."""
        rng = random.Random(f"{self.seed}/blackout")
        if not self.plan.blackout:
            return
        await self._hold(rng.uniform(0.2, 0.8) * self.plan.troubled_ms)
        for machine in self.machines:
            await machine.lock.acquire()
        for machine in self.machines:
            self._kill(machine)
        await self._hold(rng.uniform(2, 50) * SECOND)
        for machine in self.machines:
            self._start(machine)
            machine.lock.release()

    async def _outage(self) -> None:
        """For a while nobody reaches the store."""
        rng = random.Random(f"{self.seed}/outage")
        if not self.plan.outage:
            return
        await self._hold(rng.uniform(0.1, 0.9) * self.plan.troubled_ms)
        hangs = rng.random() < 0.5
        for process in self.processes:
            process.way.away("hangs" if hangs else "refuses")
        self._away = lambda process: process.way.away("hangs" if hangs else "refuses")
        await self._hold(rng.uniform(1, 35) * SECOND)
        self._away = None
        for process in self.processes:
            process.way.away(None)
