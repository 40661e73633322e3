"""What a scheduler costs that has nothing to do: 10,000 tasks on SQLite, all due tomorrow.

    python benchmarks/idle.py [--seconds 60] [--json]

Two processes run side by side for so many seconds: one with a started scheduler, one with the same imports and an
empty asyncio loop. Then the tasks are registered, and their expressions parsed, in processes of their own, so that
neither finds what the other has left in a cache.

Exit code 0 only when all of these hold: at most SURVEYS surveys in any minute; no other call to the backend but a
sweep a minute; at most CPU_S of CPU time a minute above the empty loop; registering takes at most FACTOR times as
long as parsing (median of the passes).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from time import monotonic, perf_counter, process_time
from typing import Any

from anarchon import Scheduler, SchedulerStarted, parse_cron
from anarchon_sqlite import SQLiteBackend

TASKS = 10_000
SURVEYS = 6
CPU_S = 0.05
FACTOR = 3.0
PASSES = 5
SETTLE_S = 3.0
"""How long both processes wait before they measure, for what a start leaves to do."""

CALLS = (
    "open",
    "register",
    "claim",
    "take_up",
    "renew",
    "hand_over",
    "finish",
    "record_skips",
    "history",
    "skips",
    "task_names",
    "survey",
    "sweep",
)


def expressions() -> list[str]:
    """So many different expressions, all of them due tomorrow and never before."""
    # Just before midnight, tomorrow would begin during the run.
    day = datetime.now(UTC) + timedelta(days=1, minutes=30)
    return [f"{n % 60},{n // 60 % 60} {n // 3_600} {day.day} {day.month} *" for n in range(TASKS)]


async def nothing() -> None:
    """A handler that never runs here."""


class CountingBackend(SQLiteBackend):
    """Notes the instant of every call."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.called: list[tuple[str, float]] = []
        for name in CALLS:
            setattr(self, name, self._noted(name, getattr(self, name)))

    def _noted(self, name: str, method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        def call(*args: Any, **options: Any) -> Awaitable[Any]:
            self.called.append((name, monotonic()))
            return method(*args, **options)

        return call


# ------------------------------------------------------------------ what the children do


async def idle(seconds: float, folder: Path) -> dict[str, Any]:
    """A started scheduler with nothing to do."""
    backend = CountingBackend(folder / "idle.db")
    scheduler = Scheduler(backend)
    for number, expression in enumerate(expressions()):
        scheduler.cron(f"t{number}", expression, nothing)
    started = asyncio.Event()
    scheduler.events.on(SchedulerStarted, lambda _: started.set())
    await scheduler.start()
    await started.wait()
    await asyncio.sleep(SETTLE_S)
    backend.called.clear()
    begin = process_time()
    await asyncio.sleep(seconds)
    cpu_s = process_time() - begin
    called = list(backend.called)
    await scheduler.stop()
    surveys = [at for name, at in called if name == "survey"]
    busiest = max((sum(at <= other < at + 60 for other in surveys) for at in surveys), default=0)
    return {"cpu_s": cpu_s, "calls": Counter(name for name, _ in called), "busiest_minute": busiest}


async def empty(seconds: float) -> dict[str, Any]:
    """A loop with nothing on it."""
    await asyncio.sleep(SETTLE_S)
    begin = process_time()
    await asyncio.sleep(seconds)
    return {"cpu_s": process_time() - begin}


def register(folder: Path) -> dict[str, Any]:
    """Every task, on a scheduler that is never started."""
    texts = expressions()
    scheduler = Scheduler(SQLiteBackend(folder / "register.db"))
    begin = perf_counter()
    for number, expression in enumerate(texts):
        scheduler.cron(f"t{number}", expression, nothing)
    return {"took_s": perf_counter() - begin}


def parse() -> dict[str, Any]:
    """Every expression."""
    texts = expressions()
    begin = perf_counter()
    for expression in texts:
        parse_cron(expression)
    return {"took_s": perf_counter() - begin}


def child(role: str, seconds: float, folder: Path) -> dict[str, Any]:
    """What one process measures."""
    if role == "idle":
        return asyncio.run(idle(seconds, folder))
    if role == "empty":
        return asyncio.run(empty(seconds))
    return register(folder) if role == "register" else parse()


# ------------------------------------------------------------------ the parent


def start(role: str, seconds: float, folder: Path) -> subprocess.Popen[str]:
    """A process that measures one thing."""
    arguments = [sys.executable, __file__, "--seconds", str(seconds), "--child", role, "--folder", str(folder)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)


def result_of(process: subprocess.Popen[str]) -> dict[str, Any]:
    """What it has measured."""
    said, _ = process.communicate()
    if process.returncode != 0:
        raise SystemExit(f"a measuring process ended with {process.returncode}")
    measured: dict[str, Any] = json.loads(said)
    return measured


def measure(seconds: float, folder: Path) -> dict[str, Any]:
    """Everything."""
    both = [start(role, seconds, folder) for role in ("idle", "empty")]
    idled, emptied = (result_of(process) for process in both)
    took: dict[str, list[float]] = {"register": [], "parse": []}
    for _ in range(PASSES):
        for role, times in took.items():
            times.append(result_of(start(role, seconds, folder))["took_s"])
    calls: dict[str, int] = idled["calls"]
    minutes = seconds / 60
    above = (idled["cpu_s"] - emptied["cpu_s"]) / minutes
    factor = median(took["register"]) / median(took["parse"])
    others = {name: count for name, count in calls.items() if name not in ("survey", "sweep")}
    return {
        "tasks": TASKS,
        "seconds": seconds,
        "surveys": calls.get("survey", 0),
        "surveys_in_the_busiest_minute": idled["busiest_minute"],
        "sweeps": calls.get("sweep", 0),
        "other_calls": others,
        "cpu_s": idled["cpu_s"],
        "empty_loop_cpu_s": emptied["cpu_s"],
        "cpu_s_a_minute_above": above,
        "register_s": median(took["register"]),
        "parse_s": median(took["parse"]),
        "register_to_parse": factor,
        "holds": {
            "surveys": idled["busiest_minute"] <= SURVEYS,
            "nothing else": not others and calls.get("sweep", 0) <= minutes + 1,
            "cpu": above <= CPU_S,
            "registration": factor <= FACTOR,
        },
    }


def table(found: dict[str, Any]) -> str:
    """The measured figures beside their targets."""
    rows: Sequence[tuple[str, str, str, str]] = [
        ("", "measured", "target", ""),
        (
            "surveys in the busiest minute",
            f"{found['surveys_in_the_busiest_minute']} ({found['surveys']} in {found['seconds']:g} s)",
            f"at most {SURVEYS}",
            "surveys",
        ),
        (
            "other calls to the backend",
            f"sweeps: {found['sweeps']}, {found['other_calls'] or 'no other'}",
            "sweeps",
            "nothing else",
        ),
        (
            "CPU s a minute above an empty loop",
            f"{found['cpu_s_a_minute_above']:.4f} ({found['cpu_s']:.4f} to {found['empty_loop_cpu_s']:.4f} in all)",
            f"at most {CPU_S}",
            "cpu",
        ),
        (
            f"registering {TASKS:,} tasks",
            f"{found['register_s']:.3f} s, {found['register_to_parse']:.2f} times parsing ({found['parse_s']:.3f} s)",
            f"at most {FACTOR:g} times",
            "registration",
        ),
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines: list[str] = []
    for *cells, key in rows:
        verdict = "" if not key else "holds" if found["holds"][key] else "MISSED"
        lines.append(
            "  ".join([*(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)), verdict]).rstrip()
        )
    return "\n".join(lines)


def main() -> int:
    """Measure, print, and answer with the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", choices=("idle", "empty", "register", "parse"), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child is not None:
        print(json.dumps(child(given.child, given.seconds, given.folder)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        found = measure(given.seconds, Path(folder))
    print(json.dumps(found, indent=2) if given.json else table(found))
    return 0 if all(found["holds"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
