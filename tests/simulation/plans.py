"""What a simulated cluster is made of, drawn from its seed: machines, tasks, and the tasks of the next release."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

from anarchon.model.settings import TaskSettings
from anarchon.model.words import OverlapPolicy
from anarchon.times.schedule import At, Cron, Every, at, cron, every
from tests.simulation.work import Temper, Work

SECOND = 1_000
MINUTE = 60 * SECOND

_INTERVALS = (1, 2, 3, 5, 5, 10, 10, 15, 20, 30, 60)
_TEMPERS: tuple[Temper, ...] = ("obedient", "obedient", "obedient", "stubborn", "raising", "thread", "instant")


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """A task of one release."""

    name: str
    schedule: Every | Cron | At
    settings: TaskSettings
    work: Work


@dataclass(frozen=True, slots=True, kw_only=True)
class MachinePlan:
    """A machine's clock and its limit of concurrent runs."""

    offset_ms: int
    drift_ppm: float
    most_runs: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldPlan:
    """A whole cluster and how long it is disturbed."""

    lease_ms: int
    store_offset_ms: int
    machines: tuple[MachinePlan, ...]
    tasks: tuple[TaskPlan, ...]
    next_tasks: tuple[TaskPlan, ...]
    """Those of the next release."""
    deploy: bool
    blackout: bool
    outage: bool
    troubled_ms: int
    quiet_ms: int


def plan_world(rng: random.Random, start_ms: int) -> WorldPlan:
    """Draw a cluster."""
    lease_ms = rng.choice((3_000, 3_000, 6_000, 15_000))
    troubled_ms = rng.randrange(90, 160) * SECOND
    machines = tuple(_machine(rng) for _ in range(rng.choice((2, 2, 3, 3, 3, 4, 4, 5, 6, 8, 12))))
    tasks = tuple(_task(rng, f"t{number}", lease_ms, start_ms) for number in range(rng.randrange(2, 6)))
    return WorldPlan(
        lease_ms=lease_ms,
        store_offset_ms=rng.randrange(-250, 251),
        machines=machines,
        tasks=tasks,
        next_tasks=tuple(_changed(rng, tasks, lease_ms, start_ms)),
        deploy=rng.random() < 0.5,
        blackout=rng.random() < 0.35,
        outage=rng.random() < 0.5,
        troubled_ms=troubled_ms,
        quiet_ms=2 * lease_ms + 40 * SECOND,
    )


def _machine(rng: random.Random) -> MachinePlan:
    offset = rng.randrange(-300, 301)
    if rng.random() < 0.06:
        offset += rng.choice((-1, 1)) * 60 * MINUTE
    most = rng.choice((1, 2, 3)) if rng.random() < 0.2 else None
    return MachinePlan(offset_ms=offset, drift_ppm=rng.uniform(-200, 200), most_runs=most)


def _task(rng: random.Random, name: str, lease_ms: int, start_ms: int) -> TaskPlan:
    kind = rng.random()
    schedule: Every | Cron | At
    if kind < 0.08:
        schedule = at(start_ms + rng.randrange(5, 140) * SECOND)
    elif kind < 0.13:
        schedule = cron("* * * * *", timezone="Europe/Berlin")
    else:
        schedule = _grid(rng)
    work = _work(rng, lease_ms)
    one_shot = isinstance(schedule, At)
    gap = schedule.shortest_gap() or MINUTE
    jitter = 0 if rng.random() < 0.5 else rng.randrange(1, min(2_000, gap // 2))
    values: dict[str, Any] = {
        "jitter_ms": jitter,
        "max_late_ms": jitter + rng.choice((4, 12, 20, 60, 60)) * SECOND,
        "timeout_ms": rng.choice((700, 2_000, 2 * lease_ms)) if rng.random() < 0.25 else None,
        "overlap": "allow" if one_shot or rng.random() < 0.35 else "skip",
        "max_attempts": rng.choice((1, 2, 3, 3)),
        "catch_up_ms": rng.choice((0, 30 * SECOND, 5 * MINUTE, 5 * MINUTE)),
        "history_size": rng.choice((1, 2, 5, 20, 1_000)),
        "history_ttl_ms": rng.choice((1_000, 30_000)) if rng.random() < 0.2 else None,
    }
    return TaskPlan(name, schedule, TaskSettings(**values), work)


def _grid(rng: random.Random) -> Every:
    seconds = rng.choice(_INTERVALS)
    offset = rng.choice((0, 0, rng.randrange(seconds * SECOND)))
    return every(seconds * SECOND, offset_ms=offset)


def _work(rng: random.Random, lease_ms: int) -> Work:
    temper = rng.choice(_TEMPERS)
    spans = (
        (0, 200),
        (100, 1_500),
        (1_000, 5_000),
        (lease_ms // 2, 2 * lease_ms),
        (lease_ms, 25_000),
        (2 * lease_ms, 3 * lease_ms + 5_000),
    )
    least, most = rng.choice(spans)
    return Work(temper=temper, least_ms=least, most_ms=most)


def _changed(rng: random.Random, tasks: tuple[TaskPlan, ...], lease_ms: int, start_ms: int) -> list[TaskPlan]:
    """The next release: other schedules, other options, a task more or less."""
    changed: list[TaskPlan] = []
    for task in tasks:
        fate = rng.random()
        another = _task(rng, task.name, lease_ms, start_ms)
        attempts = rng.choice((1, 2, 3))
        if fate < 0.1 and len(tasks) > 2:
            continue
        if fate < 0.4 and isinstance(task.schedule, Every) and isinstance(another.schedule, Every):
            changed.append(replace(another, settings=replace(another.settings, overlap=task.settings.overlap)))
        elif fate < 0.5:
            changed.append(replace(task, settings=replace(task.settings, max_attempts=attempts)))
        elif fate < 0.56 and not isinstance(task.schedule, At):
            overlap: OverlapPolicy = "allow" if task.settings.overlap == "skip" else "skip"
            changed.append(replace(task, settings=replace(task.settings, overlap=overlap)))
        else:
            changed.append(task)
    if rng.random() < 0.3:
        changed.append(_task(rng, "new", lease_ms, start_ms))
    return changed
