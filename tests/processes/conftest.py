"""Services that are ended after each test."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.processes.services import Services


@pytest.fixture
def services(tmp_path: Path) -> Generator[Services]:
    """The services of one store; none of their processes outlives the test."""
    made = Services(tmp_path)
    try:
        yield made
    finally:
        made.end()
    assert made.complaints() == []
