"""What a scheduler shows of itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from anarchon.engine import RunningRun


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStatus:
    """One registered task. Instants are UTC epoch ms."""

    name: str
    schedule: str
    """The schedule in words."""
    timezone: str | None
    """The zone in which its wall times are meant; None where no zone matters."""
    next_slot_ms: int | None
    """Its next slot; None when there is none any more."""
    running: int
    """How many runs of it this instance is at work on."""
    has_handler: bool
    jitter_ms: int
    max_late_ms: int
    timeout_ms: int | None
    overlap: str
    max_attempts: int
    catch_up_ms: int
    history_size: int
    history_ttl_ms: int | None

    def to_dict(self) -> dict[str, Any]:
        """As JSON takes it."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerStatus:
    """One scheduler. Instants are UTC epoch ms of this machine's clock."""

    state: str
    """'stopped', 'starting', 'running', 'stopping', or 'lingering': stopped but for handlers that will not end."""
    started: bool
    started_at_ms: int | None
    instance_id: str | None
    """The id of this start; None where it has not started."""
    namespace: str
    backend: str
    backend_away: bool
    """Whether the last call to the backend failed."""
    answering: bool
    """Whether the engine answered when it was asked just now; if not, what follows is older."""
    tasks: tuple[TaskStatus, ...]
    running: tuple[RunningRun, ...]
    outlived: tuple[RunningRun, ...]
    """Handlers that go on although their run is over."""
    counters: Mapping[str, int]
    skew_ms: float | None
    """By how much the store's clock is ahead of this machine's; None where it is not known."""
    lag_ms: float
    """For how long the application's loop has owed an answer."""
    events_dropped: int
    """Events that slow listeners or a slow log lost."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON takes it."""
        found = asdict(self)
        found["counters"] = dict(self.counters)
        return found
