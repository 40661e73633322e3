"""`make simulate`: many seeds on all cores, or one seed in full.

python -m tests.simulation.run --seeds 2000 [--first 0] [--jobs N]
python -m tests.simulation.run --seed 17
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.simulation.world import simulate

KEPT_SEEDS = Path(__file__).with_name("seeds.txt")

_CHUNK = 20


@dataclass(slots=True)
class Report:
    """What came of some seeds."""

    seeds: int = 0
    grants: int = 0
    starts: int = 0
    recoveries: int = 0
    hand_overs: int = 0
    instances: int = 0
    simulated_ms: float = 0
    failures: dict[int, str] = field(default_factory=dict[int, str])

    def add(self, other: Report) -> None:
        """Together."""
        self.seeds += other.seeds
        self.grants += other.grants
        self.starts += other.starts
        self.recoveries += other.recoveries
        self.hand_overs += other.hand_overs
        self.instances += other.instances
        self.simulated_ms += other.simulated_ms
        self.failures.update(other.failures)

    def __str__(self) -> str:
        hours = self.simulated_ms / 3_600_000
        return (
            f"{self.seeds} seeds, {hours:.1f} simulated hours, {self.instances} instances, {self.grants} grants, "
            f"{self.starts} starts, {self.recoveries} recoveries, {self.hand_overs} hand-overs: "
            f"{len(self.failures)} with a violation"
        )


def try_seed(seed: int) -> Report:
    """One seed, judged."""
    outcome = simulate(seed)
    history = outcome.history
    grants = [write for write in history.writes if type(write).__name__ == "Granted"]
    report = Report(
        seeds=1,
        grants=len(grants),
        starts=sum(note.what == "began" for note in history.notes),
        recoveries=sum(getattr(write, "reason", "") == "recovery" for write in grants),
        hand_overs=sum(type(write).__name__ == "HandedOver" for write in history.writes),
        instances=len(history.instances),
        simulated_ms=history.ended_ms - min(facts.started_ms for facts in history.instances),
    )
    verdict = outcome.verdict()
    if outcome.trouble or not verdict.sound:
        told = [*outcome.trouble, *([] if verdict.sound else [str(verdict)])]
        report.failures[seed] = "\n".join(told)
    return report


def try_seeds(seeds: Iterable[int]) -> Report:
    """Several, one after the other."""
    report = Report()
    with _little_collecting():
        for seed in seeds:
            report.add(try_seed(seed))
    return report


def try_range(first: int, count: int, jobs: int) -> Report:
    """Many, on so many processes."""
    chunks = [range(start, min(start + _CHUNK, first + count)) for start in range(first, first + count, _CHUNK)]
    if jobs <= 1:
        return try_seeds(range(first, first + count))
    report = Report()
    with ProcessPoolExecutor(jobs) as pool:
        for part in pool.map(try_seeds, chunks):
            report.add(part)
    return report


def kept_seeds() -> list[int]:
    """Those that have found something once."""
    lines = KEPT_SEEDS.read_text(encoding="utf-8").splitlines()
    return [int(line.split()[0]) for line in lines if line.strip() and not line.startswith("#")]


def how_to_replay(failures: dict[int, str]) -> str:
    """What to tell of failed seeds."""
    told = [
        f"seed {seed}: replay it with `make simulate SEED={seed}`, mend it, and keep it in {KEPT_SEEDS.name}\n{text}"
        for seed, text in sorted(failures.items())[:10]
    ]
    if len(failures) > 10:
        told.append(f"... and {len(failures) - 10} more: {sorted(failures)[10:60]}")
    return "\n".join(told)


@contextmanager
def _little_collecting() -> Iterator[None]:
    """The worlds make many short-lived cycles: it is cheaper to look for them seldom."""
    before = gc.get_threshold()
    gc.set_threshold(50_000, 20, 50)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def main() -> int:
    """Answer 1 when a seed failed."""
    parser = argparse.ArgumentParser(prog="make simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="how many")
    parser.add_argument("--first", type=int, default=0, help="where to begin")
    parser.add_argument("--seed", type=int, help="this one alone, with its whole history")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    began = time.monotonic()
    if options.seed is None:
        report = try_range(options.first, options.seeds, options.jobs)
    else:
        _show(options.seed)
        report = try_seeds([options.seed])
    if report.failures:
        print(how_to_replay(report.failures))
    print(f"{report}, in {time.monotonic() - began:.0f} s")
    return 1 if report.failures else 0


def _show(seed: int) -> None:
    history = simulate(seed).history
    for facts in history.instances:
        print(facts)
    events = [*history.writes, *history.notes, *history.said]
    for event in sorted(events, key=lambda event: event.at_ms):
        print(event)


if __name__ == "__main__":
    sys.exit(main())
