"""What becomes of a run when its handler has ended."""

from __future__ import annotations

import pytest

from anarchon.model.settling import settle, stays_silent


def test_a_handler_that_returns_has_succeeded() -> None:
    assert settle("returned", signal=None, seen=False, lease=True, max_attempts=3) == "succeeded"


@pytest.mark.parametrize("signal", [None, "stopping", "lease-lost"])
def test_a_handler_that_raises_has_failed(signal: str | None) -> None:
    assert settle("raised", signal=signal, seen=True, lease=True, max_attempts=3) == "failed"  # type: ignore[arg-type]


def test_a_handler_that_cancels_itself_has_failed() -> None:
    assert settle("cancelled", signal=None, seen=False, lease=True, max_attempts=3) == "failed"


def test_a_handler_cancelled_by_stop_is_handed_over() -> None:
    assert settle("cancelled", signal="stopping", seen=False, lease=True, max_attempts=3) == "hand-over"


def test_a_handler_that_saw_the_signal_and_returned_is_handed_over() -> None:
    assert settle("returned", signal="stopping", seen=True, lease=True, max_attempts=2) == "hand-over"


def test_a_handler_that_finished_without_looking_has_succeeded() -> None:
    assert settle("returned", signal="stopping", seen=False, lease=True, max_attempts=3) == "succeeded"


def test_a_run_that_may_not_start_twice_is_interrupted_instead_of_handed_over() -> None:
    assert settle("cancelled", signal="stopping", seen=False, lease=True, max_attempts=1) == "interrupted"


def test_a_claim_only_run_is_interrupted_instead_of_handed_over() -> None:
    assert settle("cancelled", signal="stopping", seen=False, lease=False, max_attempts=1) == "interrupted"


def test_a_handler_stopped_by_a_lost_lease_leaves_its_run_to_recovery() -> None:
    assert settle("cancelled", signal="lease-lost", seen=False, lease=True, max_attempts=3) == "leave"


def test_a_result_that_comes_after_the_lease_was_lost_is_still_offered() -> None:
    assert settle("returned", signal="lease-lost", seen=False, lease=True, max_attempts=3) == "succeeded"


@pytest.mark.parametrize("attempts", [1, 3])
def test_a_run_that_never_began_is_given_back_whatever_its_attempts(attempts: int) -> None:
    assert settle("never-began", signal=None, seen=False, lease=True, max_attempts=attempts) == "hand-over"


def test_a_run_that_never_began_under_a_lost_lease_is_left() -> None:
    assert settle("never-began", signal="lease-lost", seen=False, lease=True, max_attempts=3) == "leave"


def test_a_claimed_slot_that_never_began_is_interrupted_without_leases() -> None:
    assert settle("never-began", signal=None, seen=False, lease=False, max_attempts=1) == "interrupted"


def test_the_end_of_a_timed_out_handler_changes_nothing() -> None:
    assert stays_silent("timeout")
    assert not stays_silent("stopping")
    assert not stays_silent(None)


def test_without_leases_nothing_is_handed_over_whatever_the_attempts() -> None:
    assert settle("cancelled", signal="stopping", seen=False, lease=False, max_attempts=3) == "interrupted"
