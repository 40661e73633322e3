"""The same seed takes the same steps, on every supported Python and whatever the hashes of strings are."""

from __future__ import annotations

import pytest

from tests.simulation.traces import VERSIONS, interpreter, stored, trace_here, trace_on


@pytest.fixture(scope="module")
def here() -> dict[str, str]:
    return trace_here()


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_a_seed_has_the_same_trace_on_every_python(version: str, here: dict[str, str]) -> None:
    path = interpreter(version)
    if path is not None:
        assert trace_on(path, hash_seed=version[-2:]) == here
        return
    kept = stored()
    assert kept is not None, (
        f"there is no Python {version} here, and traces.json is of other sources: run "
        "`python -m tests.simulation.traces --renew` where 3.11, 3.12 and 3.13 are installed"
    )
    assert kept == here


def test_different_seeds_have_different_traces(here: dict[str, str]) -> None:
    assert len(set(here.values())) == len(here)
