"""Bugs that are planted on purpose are found by the ordinary world and its faults, on any range of seeds."""

from __future__ import annotations

import pytest

from tests.simulation.planted import PLANTED
from tests.simulation.run import try_seed
from tests.simulation.world import simulate

RANGES = (0, 10_000, 20_000)
LONGEST = 300


@pytest.mark.slow
@pytest.mark.parametrize("first", RANGES)
@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found_where_the_sound_engine_has_no_finding(bug: str, first: int) -> None:
    for seed in range(first, first + LONGEST):
        with PLANTED[bug]():
            verdict = simulate(seed).verdict()
        if not verdict.sound:
            print(f"{bug}: seed {seed}, {verdict.findings[0]}")
            assert try_seed(seed).failures == {}
            return
    pytest.fail(f"{bug!r} was not found by the seeds {first} to {first + LONGEST - 1}")
