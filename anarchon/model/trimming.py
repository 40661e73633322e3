"""Which records of a task may go, and which instances count as alive, as pure functions on the store's clock.

A task keeps its newest `history_size` final runs, runs in progress on top of them, and drops what is older than
`history_ttl_ms` besides. Two kinds of record outlive these limits: one that a claim could still ask for, and one
that was written so recently that a lost answer may still be asked for again. Both are kept for `late_claim_ms`
when counted out and for `catch_up_ms` as well when aged out.

Where the record of a slot goes, the task's floor rises to that slot, so that no later claim finds it unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from anarchon.model.asks import TaskRecord
from anarchon.model.run import Run, Skip
from anarchon.model.words import CLOSING

KeyT = TypeVar("KeyT")

TRIM_BATCH: Final = 100
"""How many records of one kind a finish trims of one task at most."""

SKIPS_KEPT: Final = 1_000
"""How many skips a task keeps: so many that closed their slot, and so many that excused one instance."""

SWEEP_BATCH: Final = 1_000
"""After how many records a sweep goes on to no further task."""

SWEEP_EVERY_MS: Final = 60_000
"""The turn to sweep is given once in this time."""

SURVEY_PAGE: Final = 100
"""How many owed runs a page of a survey holds."""

ALIVE_MS: Final = 30_000
"""An instance is alive when it was seen within this time: the longest wait between two surveys, three times."""

GONE_MS: Final = 86_400_000
"""An instance that was not seen for this long is forgotten."""

NO_FLOOR: Final = -1
"""The floor of a task of which nothing was trimmed."""


@dataclass(frozen=True, slots=True)
class Record(Generic[KeyT]):
    """What trimming looks at: a final run or a skip, by its key in the store."""

    key: KeyT
    slot_ms: int | None
    """The slot whose claim this record answers; None: it answers none."""
    touched_at_ms: int
    """When it was last of use to a claim or written: the later of its slot and its end."""


def unregistered(task: str) -> TaskRecord:
    """The rules for a task that was asked for before it was registered: generous, since nothing is known of it."""
    return TaskRecord(
        name=task,
        schedule="",
        history_size=1_000,
        history_ttl_ms=None,
        late_claim_ms=86_400_000,
        catch_up_ms=86_400_000,
    )


def run_record(key: KeyT, *, slot_ms: int | None, scheduled_at_ms: int, finished_at_ms: int | None) -> Record[KeyT]:
    """A final run as trimming sees it."""
    return Record(key, slot_ms, max(scheduled_at_ms, finished_at_ms or 0))


def closing_record(key: KeyT, *, slot_ms: int, at_ms: int) -> Record[KeyT]:
    """A skip that closed its slot as trimming sees it."""
    return Record(key, slot_ms, max(slot_ms, at_ms))


def counted_out_at(rules: TaskRecord, now_ms: int) -> int:
    """Records touched at or before this instant may go when there are too many."""
    return now_ms - rules.late_claim_ms


def aged_out_at(rules: TaskRecord, now_ms: int) -> int | None:
    """Records touched at or before this instant go whatever their number; None: age does not matter."""
    if rules.history_ttl_ms is None:
        return None
    return now_ms - max(rules.history_ttl_ms, rules.catch_up_ms, rules.late_claim_ms)


def trim(
    oldest: Iterable[Record[KeyT]], *, stored: int, keep: int, rules: TaskRecord, now_ms: int
) -> list[Record[KeyT]]:
    """Those of the oldest records that go now.

    `oldest` are records of one kind of one task, oldest slot first, at least the first `TRIM_BATCH` of them or of
    those that are old enough; `stored` is how many there are in all.
    """
    counted_out = counted_out_at(rules, now_ms)
    aged_out = aged_out_at(rules, now_ms)
    gone: list[Record[KeyT]] = []
    for rank, record in zip(range(TRIM_BATCH), oldest, strict=False):
        too_many = rank < stored - keep and record.touched_at_ms <= counted_out
        too_old = aged_out is not None and record.touched_at_ms <= aged_out
        if too_many or too_old:
            gone.append(record)
    return gone


def may_trim(*, stored: int, keep: int, rules: TaskRecord) -> bool:
    """Whether it is worth looking for records to trim."""
    return stored > 0 and (stored > keep or rules.history_ttl_ms is not None)


def raised_floor(floor_ms: int, gone: Sequence[Record[KeyT]]) -> int:
    """The task's floor once these records are gone."""
    return max((floor_ms, *(record.slot_ms for record in gone if record.slot_ms is not None)))


def closes(skip: Skip) -> bool:
    """Whether this skip closed its slot for everybody."""
    return skip.reason in CLOSING


def newest_first(run: Run) -> tuple[int, str]:
    """How history is ordered, as a sort key to be reversed."""
    return run.scheduled_at_ms, run.run_id


def sweep_is_due(swept_at_ms: int | None, now_ms: int) -> bool:
    """Whether the turn to sweep may be given. A clock that was set back by more than the interval does not stop it."""
    return swept_at_ms is None or abs(now_ms - swept_at_ms) >= SWEEP_EVERY_MS
