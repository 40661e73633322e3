"""The words that are stored, logged and compared: one meaning each, spelled the same everywhere."""

from __future__ import annotations

from typing import Literal, TypeAlias

OverlapPolicy: TypeAlias = Literal["skip", "allow"]

RunReason: TypeAlias = Literal["schedule", "catch-up", "recovery", "hand-over", "manual", "misfire"]
"""Why an attempt started."""

RunStatus: TypeAlias = Literal["running", "succeeded", "failed", "interrupted", "handed-over"]
"""Where a run stands. 'running' and 'handed-over' may still change; the other three are final."""

FinalStatus: TypeAlias = Literal["succeeded", "failed", "interrupted"]

SkipReason: TypeAlias = Literal[
    "late", "overlap", "paused", "superseded", "not-leader", "busy", "stopping", "claim-unknown"
]
"""Why a due slot did not run here. 'overlap' and 'paused' close the slot for every instance."""

SignalReason: TypeAlias = Literal["timeout", "stopping", "lease-lost", "watchdog", "cancelled"]
"""Why a handler was told to stop."""

CLOSING: frozenset[SkipReason] = frozenset({"overlap", "paused"})
"""The skip reasons that close a slot for good; every other reason excuses one instance alone."""

FINAL: frozenset[RunStatus] = frozenset({"succeeded", "failed", "interrupted"})
"""The run statuses that never change again."""

MIN_LEASE_MS = 2_000
"""The shortest lease, ms."""

SKEW_LIMIT_MS = 1_000
"""How far an instance's clock may differ from the store's before it is said, ms; also the slack that trimming keeps."""
