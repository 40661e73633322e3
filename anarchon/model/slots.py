"""Decisions about slots and leases that an instance takes by itself, as pure functions of instants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from anarchon.model.words import SKEW_LIMIT_MS

TaskT = TypeVar("TaskT")

LONGEST_SLEEP_MS = 5_000
"""No wait for wall time is longer than this without a look at the clock, ms."""

SURVEY_AT_LATEST_MS = 10_000
"""The longest time between two surveys of an instance, ms."""

JITTER_BUCKETS = 4
"""In how many groups at most the tasks of one slot instant are claimed."""


def is_late(slot_ms: int, now_ms: int, max_late_ms: int) -> bool:
    """Whether this instance must skip the slot: later than `max_late_ms` after it."""
    return now_ms - slot_ms > max_late_ms


def margin_ms(lease_ms: int) -> float:
    """How long before its end a lease is no longer trusted: 500 ms or a tenth of the lease, whichever is more."""
    return max(500.0, lease_ms / 10)


def trust_deadline(sent_monotonic_ms: float, lease_ms: int) -> float:
    """The holder's own monotonic instant after which it no longer believes its lease.

    Anchored to the sending, not the answer: a slow reply must not stretch the lease.
    """
    return sent_monotonic_ms + lease_ms - margin_ms(lease_ms)


def survey_interval_ms(own_lease_ms: int, shortest_other_lease_ms: int | None) -> float:
    """How long an instance may go without a survey.

    Half the shortest lease of live instances, so that a run is seen before its lease ends; an instance that is alone
    watches for newcomers only, for which two thirds of its own lease are soon enough. Never more than 10 s.
    """
    if shortest_other_lease_ms is None:
        return min(SURVEY_AT_LATEST_MS, own_lease_ms * 2 / 3)
    return min(SURVEY_AT_LATEST_MS, own_lease_ms / 2, shortest_other_lease_ms / 2)


def late_claim_ms(jitter_ms: int, max_late_ms: int) -> int:
    """How old a slot may be, on the store's clock, when an instance may still ask for it in the ordinary way, ms."""
    return jitter_ms + max_late_ms + SKEW_LIMIT_MS


def owes_catch_up(slot_ms: int, *, start_ms: int, catch_up_ms: int, known_since_ms: int | None, one_shot: bool) -> bool:
    """Whether the latest slot before a start is to be asked for.

    A recurring schedule that the store first learned of after that slot owes nothing; a one-shot does.
    """
    if start_ms - slot_ms >= catch_up_ms:
        return False
    return one_shot or (known_since_ms is not None and known_since_ms < slot_ms)


def retry_delay_ms(failures: int, draw: float) -> float:
    """How long to wait after the n-th failed call in a row: 100 ms doubling to 2 s, less up to half by `draw`."""
    full: float = min(2_000.0, 100.0 * 2.0 ** min(failures - 1, 10))
    return full * (1 - draw / 2)


def jitter_groups(
    due: Sequence[TaskT], jitter_of: Callable[[TaskT], int], draw: Callable[[], float]
) -> list[tuple[float, list[TaskT]]]:
    """Split what falls due at one instant into at most 4 groups, each with the wait before it is claimed, ms.

    Tasks without jitter form one group that does not wait. The others are ordered by their jitter and cut into
    groups of like jitter; a group waits one draw of the smallest jitter in it, so that no task exceeds its own.
    """
    at_once = [task for task in due if jitter_of(task) <= 0]
    spread = sorted((task for task in due if jitter_of(task) > 0), key=jitter_of)
    groups: list[tuple[float, list[TaskT]]] = [(0.0, at_once)] if at_once else []
    buckets = min(JITTER_BUCKETS - len(groups), len(spread))
    for number in range(buckets):
        part = spread[number * len(spread) // buckets : (number + 1) * len(spread) // buckets]
        groups.append((draw() * jitter_of(part[0]), part))
    return groups


@dataclass(frozen=True, slots=True)
class Handled:
    """Which slots of a task this instance has dealt with, so that none is scheduled a second time.

    A few closed ranges of instants, oldest first. In ordinary life there is one that grows. A jump of the clock
    starts another: a clock that was wrong by years for a moment must not silence a task for years.
    """

    ranges: tuple[tuple[int, int], ...]

    MOST = 4

    @classmethod
    def before(cls, start_ms: int) -> Handled:
        """Nothing at or before the start is this instance's to schedule."""
        return cls(((start_ms, start_ms),))

    def through(self, slot_ms: int, *, jumped: bool) -> Handled:
        """The slot was dealt with; everything since the last one too, unless the clock jumped forward in between."""
        low, high = self.ranges[-1]
        if jumped and slot_ms > high:
            return Handled((*self.ranges, (slot_ms, slot_ms))[-self.MOST :])
        return Handled((*self.ranges[:-1], (low, max(high, slot_ms))))

    def after(self, now_ms: int, following: Callable[[int], int | None]) -> int | None:
        """The first slot after `now_ms` that was not dealt with; `following` is the schedule's `next`."""
        slot = following(now_ms)
        while slot is not None:
            covering = [high for low, high in self.ranges if low <= slot <= high]
            if not covering:
                return slot
            slot = following(max(covering))
        return None
