"""What becomes of a run when its handler has ended, as a pure function of how it ended."""

from __future__ import annotations

from typing import Literal, TypeAlias

from anarchon.model.words import FinalStatus, SignalReason

Settlement: TypeAlias = FinalStatus | Literal["hand-over", "leave"]
"""A final status to record; 'hand-over': give the run back; 'leave': say nothing, its lease runs out."""


def settle(
    how: Literal["returned", "raised", "cancelled", "never-began"],
    *,
    signal: SignalReason | None,
    seen: bool,
    lease: bool,
    max_attempts: int,
) -> Settlement:
    """Decide what is recorded for an attempt.

    `signal` is why the handler was told to stop, `seen` whether it has looked and found the signal set. A handler
    that was cancelled by the signal, or saw it and returned, has stopped early: its run is not done. One that
    returned without having seen the signal is done, however late. What it raises is a failure, always.
    """
    if how == "raised":
        return "failed"
    if how == "never-began":
        return "hand-over" if lease and signal != "lease-lost" else "leave" if lease else "interrupted"
    stopped_early = signal is not None and (how == "cancelled" or seen)
    if not stopped_early:
        return "succeeded" if how == "returned" else "failed"
    if signal == "lease-lost":
        return "leave"
    if lease and max_attempts > 1:
        return "hand-over"
    return "interrupted"


def stays_silent(signal: SignalReason | None) -> bool:
    """Whether the run's outcome was recorded when the signal fired, so that the handler's end changes nothing."""
    return signal in ("timeout", "watchdog")
