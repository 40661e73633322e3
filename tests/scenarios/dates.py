"""Instants for stories that begin at a date of their own."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any

from anarchon.testing.vloop import run_virtual

SECOND = 1_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR


def utc(text: str) -> int:
    """The UTC epoch ms of "2026-03-29T01:00" or the like, or of a text with an offset."""
    when = datetime.fromisoformat(text)
    return round((when if when.tzinfo is not None else when.replace(tzinfo=UTC)).timestamp() * 1_000)


def from_date(text: str, story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Tell a story in virtual time that begins at a date."""
    run_virtual(story, start_at_ms=utc(text), limit_ms=40 * DAY)
