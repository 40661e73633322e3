"""A run that this instance holds, from the answer that granted it until its outcome is stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from anarchon.clock import Timer
from anarchon.context import StopSignal
from anarchon.engine.task import EngineTask
from anarchon.host.base import Call
from anarchon.model.run import Run
from anarchon.model.words import RunReason, SignalReason


@dataclass(frozen=True, slots=True)
class Grant:
    """A run that the store has just granted, and until when that may be believed (monotonic ms; claim-only: inf)."""

    run: Run
    task: EngineTask
    trusted_until: float
    reason: RunReason
    """Why this attempt starts."""


@dataclass(slots=True, eq=False)
class ActiveRun:
    """One attempt on this instance."""

    run: Run
    task: EngineTask
    reason: RunReason
    signal: StopSignal
    trusted_until: float
    begin_by_wall_ms: int
    call: Call | None = None
    timeout_timer: Timer | None = None
    outlived_timer: Timer | None = None
    began_at_ms: int | None = None
    told: SignalReason | None = None
    """Why the signal was set, as the engine knows it."""
    ended: bool = False
    """The handler's own task or thread has said that it is over."""
    outlived_said: bool = False

    @property
    def fence(self) -> int:
        """The fence of a held lease."""
        assert self.run.fence is not None
        return self.run.fence

    def facts(self) -> dict[str, Any]:
        """The fields that every event of a run has."""
        return {
            "task": self.task.name,
            "run_id": self.run.run_id,
            "slot_ms": self.run.slot_ms,
            "scheduled_at_ms": self.run.scheduled_at_ms,
            "attempt": self.run.attempt,
            "reason": self.reason,
            "fence": self.run.fence,
        }
