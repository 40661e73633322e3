"""Which event is logged at which level, and in which words: one table."""

from __future__ import annotations

import dataclasses
import logging
from typing import Final

from anarchon.model import events
from anarchon.model.words import SkipReason

logger = logging.getLogger("anarchon")

LEVELS: Final[dict[type[events.Event], tuple[int, str]]] = {
    events.SchedulerStarted: (logging.INFO, "scheduler started"),
    events.SchedulerStopped: (logging.INFO, "scheduler stopped"),
    events.RunStarted: (logging.DEBUG, "run started"),
    events.RunSucceeded: (logging.INFO, "run succeeded"),
    events.RunFailed: (logging.ERROR, "run failed"),
    events.RunInterrupted: (logging.WARNING, "run interrupted"),
    events.RunHandedOver: (logging.INFO, "run handed over"),
    events.RunRecovered: (logging.WARNING, "run recovered"),
    events.LeaseLost: (logging.WARNING, "lease lost"),
    events.ResultRefused: (logging.WARNING, "result refused"),
    events.HandlerOutlived: (logging.WARNING, "handler outlived its run"),
    events.HandlerEnded: (logging.INFO, "handler ended after its run"),
    events.SlotSkipped: (logging.WARNING, "slot skipped"),
    events.ClaimLost: (logging.DEBUG, "claim lost"),
    events.BackendAway: (logging.WARNING, "backend away"),
    events.BackendBack: (logging.INFO, "backend back"),
    events.ClockSkewed: (logging.WARNING, "clock skewed"),
    events.LoopLagged: (logging.WARNING, "loop lagged"),
    # Its failure is logged with the traceback where it happens.
    events.ListenerFailed: (logging.DEBUG, "listener failed"),
}

QUIET_SKIPS: Final[dict[SkipReason, int]] = {
    "overlap": logging.INFO,
    "paused": logging.INFO,
    "stopping": logging.INFO,
    "not-leader": logging.DEBUG,
}
"""Skips that are ordinary; every other reason is a warning."""

_LATER = ("at_ms", "traceback")


def level_of(event: events.Event) -> int:
    """The level at which this event is logged."""
    if isinstance(event, events.SlotSkipped):
        return QUIET_SKIPS.get(event.reason, logging.WARNING)
    if isinstance(event, events.RunRecovered) and event.reason == "hand-over":
        return logging.INFO
    return _entry(type(event))[0]


def log_event(event: events.Event) -> None:
    """Log one event: its words, then its fields. The record carries the event itself as `record.anarchon`."""
    level = level_of(event)
    if not logger.isEnabledFor(level):
        return
    fields = " ".join(
        f"{field.name}={getattr(event, field.name)!r}"
        for field in dataclasses.fields(event)
        if field.name not in _LATER and getattr(event, field.name) is not None
    )
    traceback = getattr(event, "traceback", None)
    logger.log(
        level,
        "%s: %s%s",
        _entry(type(event))[1],
        fields,
        f"\n{traceback.rstrip()}" if traceback else "",
        extra={"anarchon": event},
    )


def _entry(kind: type[events.Event]) -> tuple[int, str]:
    for base in kind.__mro__:
        if base in LEVELS:
            return LEVELS[base]
    return logging.INFO, kind.__name__
