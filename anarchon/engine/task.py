"""What the engine knows of a registered task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from anarchon.model.settings import TaskSettings
from anarchon.times.schedule import At, Cron, Every


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EngineTask:
    """A task with every option resolved."""

    name: str
    schedule: Every | Cron | At
    settings: TaskSettings
    fn: Callable[..., object]
    is_async: bool
    takes_context: bool
    data: object = field(default=None, repr=False)
