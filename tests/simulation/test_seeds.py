"""The sound engine in its ordinary world: nothing that must hold is broken, whatever the seed."""

from __future__ import annotations

import os

import pytest

from tests.simulation.run import how_to_replay, kept_seeds, try_range, try_seed

CHUNKS = 10


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_seed_breaks_what_must_hold(chunk: int) -> None:
    each = int(os.environ.get("ANARCHON_SEEDS", "200")) // CHUNKS
    report = try_range(chunk * each, each, 1)
    assert report.seeds == each
    assert report.starts > 20 * each, "the worlds have become too quiet to prove anything"
    assert not report.failures, how_to_replay(report.failures)


@pytest.mark.parametrize("seed", kept_seeds())
def test_a_seed_that_found_something_once_finds_nothing_now(seed: int) -> None:
    failures = try_seed(seed).failures
    assert not failures, how_to_replay(failures)
