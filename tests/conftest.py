"""For every test: the Hypothesis profiles, the rule that nothing is skipped, and an interrupt that interrupts."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

# A slow machine is no reason to fail, so no profile has a deadline; `print_blob` makes a failure of CI replayable.
_shared = settings(deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", _shared, max_examples=30)
settings.register_profile("ci", _shared, max_examples=200)
settings.register_profile("nightly", _shared, max_examples=5_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell that starts the tests in the background has them ignore it, and every process that they start as well.
    signal.signal(signal.SIGINT, signal.default_int_handler)

_RULE = "nothing is skipped here, and nothing is expected to fail: repair the test or remove it"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Make a failure of each skipped test, and of each that was expected to fail."""
    report = yield
    if report.outcome == "skipped" or hasattr(report, "wasxfail"):
        _forbid(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Make an error of each file that skips itself."""
    report = yield
    if report.outcome == "skipped":
        _forbid(report)
    return report


def _forbid(report: pytest.TestReport | pytest.CollectReport) -> None:
    if hasattr(report, "wasxfail"):
        reason = f"marked xfail: {report.__dict__.pop('wasxfail')}"
    elif isinstance(report.longrepr, tuple):
        path, line, text = report.longrepr
        reason = f"{text} ({path}:{line})"
    else:
        reason = report.longreprtext
    report.outcome = "failed"
    report.longrepr = f"{reason}\n{_RULE}"
