"""Each store call of a rich scenario fails once: before it takes effect, after it, or long after its caller gave up."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, TypeAlias

import pytest

from anarchon.protocol import LeaseBackend
from anarchon.testing import MemoryBackend, MemoryStore
from anarchon.testing.clock import VirtualClock
from anarchon.testing.faulty import FaultKind
from anarchon.testing.vloop import run_virtual
from anarchon_sqlite import SQLiteBackend
from tests.crash_points.inline_sqlite import sqlite_inline
from tests.crash_points.scenario import Scenario
from tests.crash_points.watching import Point
from tests.support.history import History
from tests.support.verdict import judge

Store: TypeAlias = Literal["memory", "SQLite"]

STORES: tuple[Store, ...] = ("memory", "SQLite")
EVERYTHING = {"open", "register", "claim", "take_up", "renew", "hand_over", "finish", "record_skips", "survey", "sweep"}


async def _story(point: Point, make_backends: Callable[[VirtualClock], Callable[[], LeaseBackend]]) -> History:
    clock = VirtualClock()
    scenario = Scenario(clock, make_backends(clock), point)
    history = await scenario.tell()
    assert scenario.fatal == []
    return history


def _in_memory(clock: VirtualClock) -> Callable[[], LeaseBackend]:
    store = MemoryStore(clock=clock)
    return lambda: MemoryBackend(store)


def _in_file(path: Path, clock: VirtualClock) -> Callable[[], LeaseBackend]:
    return lambda: SQLiteBackend(path, synchronous="NORMAL", clock=clock.now_ms)


def told(store: Store, number: int, kind: FaultKind) -> tuple[Point, History]:
    """The scenario with this point."""
    point = Point(number, kind)
    if store == "memory":
        return point, run_virtual(partial(_story, point, _in_memory), limit_ms=600_000)
    with TemporaryDirectory() as directory, sqlite_inline():
        in_file = partial(_in_file, Path(directory) / "points.db")
        return point, run_virtual(partial(_story, point, in_file), limit_ms=600_000)


@lru_cache
def calls_of(store: Store) -> int:
    """How many the undisturbed scenario makes."""
    return told(store, 0, "none")[0].calls


@pytest.mark.parametrize("store", STORES)
def test_the_undisturbed_scenario_is_sound_and_ends_as_it_should(store: Store) -> None:
    _, history = told(store, 0, "none")
    assert str(judge(history)) == "sound"
    assert history.stored is not None
    ends = {run_id.split("/")[1]: status for run_id, status in history.stored.items()}
    assert (ends["raises"], ends["timed"], ends["missed"]) == ("failed", "failed", "succeeded")
    assert {ends[f"long-{number}"] for number in range(4)} == {"succeeded"}


def test_the_scenario_takes_the_same_steps_on_both_stores() -> None:
    (memory, on_memory), (sqlite, on_sqlite) = told("memory", 0, "none"), told("SQLite", 0, "none")
    # In any order within one instant.
    assert sorted(map(repr, on_memory.writes)) == sorted(map(repr, on_sqlite.writes))
    assert sorted(map(repr, on_memory.notes)) == sorted(map(repr, on_sqlite.notes))
    assert memory.calls == sqlite.calls


@pytest.mark.slow
@pytest.mark.parametrize(
    ("store", "kind"),
    [
        ("memory", "refused"),
        ("memory", "lost"),
        ("memory", "answer-lost"),
        ("memory", "late"),
        ("SQLite", "lost"),
        ("SQLite", "answer-lost"),
    ],
)
def test_whichever_call_fails_nothing_that_must_hold_is_broken(store: Store, kind: FaultKind) -> None:
    broken: list[str] = []
    hit: set[str] = set()
    for number in range(1, calls_of(store) + 1):
        point, history = told(store, number, kind)
        assert point.hit is not None
        hit.add(point.hit)
        verdict = judge(history)
        assert history.stored is not None
        # The grids go on to the end; every one-shot must have come to an outcome.
        open_ones = sorted(
            run_id
            for run_id, status in history.stored.items()
            if status in ("running", "handed-over") and run_id.split("/")[1] not in ("beat", "closing")
        )
        if not verdict.sound or open_ones:
            broken.append(f"call {number} ({point.hit}) {kind}: {verdict} {open_ones}")
    assert broken == []
    assert hit == EVERYTHING
