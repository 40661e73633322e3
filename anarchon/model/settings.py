"""Options after every rule was checked and every default was filled in: what the engine works with."""

from __future__ import annotations

from dataclasses import dataclass

from anarchon.model.words import OverlapPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSettings:
    """The options in force for one task, ms where the name says so.

    On a claim-only backend `overlap` is 'allow', `max_attempts` 1 and `catch_up_ms` 0.
    """

    jitter_ms: int
    max_late_ms: int
    timeout_ms: int | None
    overlap: OverlapPolicy
    max_attempts: int
    catch_up_ms: int
    history_size: int
    history_ttl_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSettings:
    """The options in force for one scheduler, without the defaults it hands to its tasks."""

    namespace: str
    instance_id: str
    lease_ms: int
    shutdown_grace_ms: int
    max_concurrent_runs: int | None
