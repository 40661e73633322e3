"""What happened to a cluster, as values: written down by whoever watches it, judged by `tests.support.verdict`.

Every instant is ms on the store's clock, unless its name says `wall` (the clock of one instance). The store's log
holds what the store accepted, whether or not anybody heard of it, so a lost answer needs no guessing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from anarchon.model.settings import TaskSettings
from anarchon.model.words import FinalStatus, OverlapPolicy, RunReason, SkipReason
from anarchon.times.schedule import At, Cron, Every

FOREVER = float("inf")

# ------------------------------------------------------------------ what the store accepted


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """An instance made a task known."""

    at_ms: float
    task: str
    schedule: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted:
    """A claim or a take-up gave a run to an instance under a new fence."""

    at_ms: float
    task: str
    slot_ms: int | None
    run_id: str
    fence: int
    instance: str
    attempt: int
    lease_ends_at_ms: int
    overlap: OverlapPolicy
    max_attempts: int
    """What the instance asked with."""
    reason: RunReason
    first: bool
    """The run came to be by it."""
    asked_slot_ms: int | None = None
    """The slot whose ordinary claim got it, which may be another one's run; None: it was asked for otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewed:
    """The end of a lease was moved, by a renewal or by asking again for what had been granted."""

    at_ms: float
    task: str
    run_id: str
    fence: int
    lease_ends_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """An outcome was taken from a runner."""

    at_ms: float
    task: str
    run_id: str
    fence: int
    status: FinalStatus
    stamp: int
    """The same in a repetition of the same request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedOver:
    """A run was given back."""

    at_ms: float
    task: str
    run_id: str
    fence: int
    stamp: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupted:
    """A claim or a take-up ended an owed run for good."""

    at_ms: float
    task: str
    run_id: str
    max_attempts: int
    """What the instance asked with that did it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedSlot:
    """A claim closed a slot for everybody."""

    at_ms: float
    task: str
    slot_ms: int
    instance: str


Write: TypeAlias = Registered | Granted | Renewed | Finished | HandedOver | Interrupted | ClosedSlot

# ------------------------------------------------------------------ what handlers and instances say


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """What a handler wrote itself: that it began, was told to stop, or ended."""

    at_ms: float
    what: Literal["began", "told", "ended"]
    instance: str
    task: str
    run_id: str
    attempt: int
    fence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What an instance said of a due slot that it did not run: a reason to skip, or 'lost' to somebody else."""

    at_ms: float
    instance: str
    task: str
    slot_ms: int
    reason: SkipReason | Literal["lost"]
    until_ms: int | None = None


# ------------------------------------------------------------------ what the instances were


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """From an instant up to another."""

    start_ms: float
    end_ms: float = FOREVER


@dataclass(frozen=True, slots=True)
class ClockPiece:
    """From `since_ms` on the instance's wall clock shows `wall_ms` and goes on at `rate`."""

    since_ms: float
    wall_ms: float
    rate: float = 1.0


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """A task as one instance registered it."""

    name: str
    schedule: Every | Cron | At
    settings: TaskSettings
    is_async: bool = True


@dataclass(slots=True, kw_only=True)
class InstanceFacts:
    """One started scheduler: what it had registered, and what was wrong with it when."""

    id: str
    tasks: dict[str, TaskFacts]
    started_ms: float
    """When start() was called; by its own clock at `start_wall_ms`."""
    start_wall_ms: int
    up: Span | None = None
    """From the end of start() to the call of stop(), or the kill; None: it never came up."""
    alive_until_ms: float = FOREVER
    """When nothing of it was left."""
    clock: list[ClockPiece] = field(default_factory=list[ClockPiece])
    frozen: list[Span] = field(default_factory=list[Span])
    suspended: list[Span] = field(default_factory=list[Span])
    """Frozen with the monotonic clock standing still; in `frozen`, too."""
    cut: list[Span] = field(default_factory=list[Span])
    """Most requests failed."""
    faults: list[Span] = field(default_factory=list[Span])
    """One request failed, between others that did not; until it was asked again and answered."""
    lagging: list[Span] = field(default_factory=list[Span])
    """The application's loop did not answer."""
    limited: bool = False
    """It had a limit of concurrent runs, so that it may have had no room."""

    def wall_at(self, at_ms: float) -> float:
        """What the wall clock showed."""
        piece = self.clock[0]
        for each in self.clock:
            if each.since_ms > at_ms:
                break
            piece = each
        return piece.wall_ms + (at_ms - piece.since_ms) * piece.rate

    def reached_at(self, wall_ms: float) -> float | None:
        """When the wall clock first showed `wall_ms` or later; None: never."""
        ends = [piece.since_ms for piece in self.clock[1:]] + [FOREVER]
        for piece, end in zip(self.clock, ends, strict=True):
            if piece.wall_ms >= wall_ms:
                return piece.since_ms
            at = piece.since_ms + (wall_ms - piece.wall_ms) / piece.rate
            if at < end:
                return at
        return None

    def highest_wall(self, at_ms: float) -> float:
        """The latest that the wall clock had shown by then."""
        ends = [piece.since_ms for piece in self.clock[1:]] + [FOREVER]
        shown = [
            piece.wall_ms + (min(end, at_ms) - piece.since_ms) * piece.rate
            for piece, end in zip(self.clock, ends, strict=True)
            if piece.since_ms <= at_ms
        ]
        return max(shown)

    def lowest_wall(self, at_ms: float) -> float:
        """The earliest that the wall clock had shown by then: at the start, or after it was set back."""
        return min(piece.wall_ms for piece in self.clock if piece.since_ms <= at_ms)

    def jumps(self) -> list[tuple[float, float]]:
        """When the wall clock jumped, and by how much."""
        found: list[tuple[float, float]] = []
        for before, after in zip(self.clock, self.clock[1:], strict=False):
            expected = before.wall_ms + (after.since_ms - before.since_ms) * before.rate
            found.append((after.since_ms, after.wall_ms - expected))
        return found


@dataclass(slots=True, kw_only=True)
class History:
    """All of it."""

    lease_ms: int
    ended_ms: float
    """When watching ended; what was still open then is not judged."""
    instances: list[InstanceFacts] = field(default_factory=list[InstanceFacts])
    writes: list[Write] = field(default_factory=list[Write])
    """In the order in which the store took them."""
    notes: list[Note] = field(default_factory=list[Note])
    said: list[Said] = field(default_factory=list[Said])
    stored: dict[str, str] | None = None
    """What the store showed at the end: the status of each run by id. None: nobody looked."""
    round_trip_ms: float = 300.0
    """The longest that an undisturbed request and its answer took."""


# ------------------------------------------------------------------ spans


def without(spans: Iterable[Span], gaps: Iterable[Span]) -> list[Span]:
    """What is left of `spans` when the gaps are cut out."""
    left = sorted(spans)
    for gap in gaps:
        left = [
            part
            for span in left
            for part in (
                Span(span.start_ms, min(span.end_ms, gap.start_ms)),
                Span(max(span.start_ms, gap.end_ms), span.end_ms),
            )
            if part.end_ms > part.start_ms
        ]
    return left


def covering(spans: Sequence[Span], start_ms: float, end_ms: float) -> bool:
    """Whether one of the spans holds the whole stretch."""
    return any(span.start_ms <= start_ms and end_ms <= span.end_ms for span in spans)


def shared_ms(spans: Iterable[Span], start_ms: float, end_ms: float) -> float:
    """How much of the stretch lies in the spans."""
    return sum(max(0.0, min(span.end_ms, end_ms) - max(span.start_ms, start_ms)) for span in spans)
