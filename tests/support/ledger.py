"""From the store's log to who held which run when, and when a run was owed to nobody in particular."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from tests.support.history import (
    FOREVER,
    ClosedSlot,
    Finished,
    Granted,
    HandedOver,
    Interrupted,
    Registered,
    Renewed,
    Span,
    Write,
)


@dataclass(slots=True, eq=False)
class Tenure:
    """One holding of a run: under one fence, by one instance."""

    grant: Granted
    live: list[Span]
    """When a lease on it held. More than one: it ran out and was asked for again with the same token."""
    over_ms: float = FOREVER
    """When the store wrote something that ended it; the lease may have run out before."""

    def live_at(self, at_ms: float) -> bool:
        """Whether the lease held."""
        return any(span.start_ms <= at_ms < span.end_ms for span in self.live)


@dataclass(frozen=True, slots=True)
class Owed:
    """A run waited for somebody."""

    tenure: Tenure
    why: Literal["run-out", "handed-over"]
    span: Span


@dataclass(slots=True, eq=False)
class RunLedger:
    """All that the store wrote about one run."""

    run_id: str
    task: str
    tenures: list[Tenure] = field(default_factory=list[Tenure])
    hand_overs: list[HandedOver] = field(default_factory=list[HandedOver])
    final: Finished | Interrupted | None = None

    @property
    def first(self) -> Granted:
        """The grant by which it came to be."""
        return self.tenures[0].grant

    def final_at(self, at_ms: float) -> bool:
        """Whether it had an outcome."""
        return self.final is not None and self.final.at_ms <= at_ms


@dataclass(slots=True)
class Ledger:
    """The whole log, sorted out. `wrong` is what no sound store would have written: (line, what, write)."""

    runs: dict[str, RunLedger] = field(default_factory=dict[str, RunLedger])
    by_task: dict[str, list[RunLedger]] = field(default_factory=dict[str, list[RunLedger]])
    owed: list[Owed] = field(default_factory=list[Owed])
    closings: dict[tuple[str, int], ClosedSlot] = field(default_factory=dict[tuple[str, int], ClosedSlot])
    settled_ms: dict[tuple[str, int], float] = field(default_factory=dict[tuple[str, int], float])
    """When each slot was granted or closed."""
    known_since_ms: dict[tuple[str, str], float] = field(default_factory=dict[tuple[str, str], float])
    """When the store first learned of each (task, schedule)."""
    tenures: dict[tuple[str, int], Tenure] = field(default_factory=dict[tuple[str, int], Tenure])
    """By run id and fence."""
    fences: dict[str, int] = field(default_factory=dict[str, int])
    wrong: list[tuple[int, str, Write]] = field(default_factory=list[tuple[int, str, Write]])


def keep_ledger(writes: Sequence[Write]) -> Ledger:
    """Go through the log once."""
    ledger = Ledger()
    for write in writes:
        match write:
            case Registered():
                ledger.known_since_ms.setdefault((write.task, write.schedule), write.at_ms)
            case ClosedSlot():
                _closed(ledger, write)
            case Granted():
                _granted(ledger, write)
            case _:
                run = ledger.runs.get(write.run_id)
                if run is None:
                    ledger.wrong.append((5, "a write about a run that was never granted", write))
                    continue
                match write:
                    case Renewed():
                        _renewed(ledger, run, write)
                    case Finished():
                        _finished(ledger, run, write)
                    case HandedOver():
                        _handed_over(ledger, run, write)
                    case Interrupted():
                        _interrupted(ledger, run, write)
    for run in ledger.runs.values():
        if run.final is None:
            _note_owed(ledger, run, FOREVER)
    return ledger


def _closed(ledger: Ledger, write: ClosedSlot) -> None:
    key = (write.task, write.slot_ms)
    if key in ledger.closings:
        ledger.wrong.append((7, "a slot was closed twice", write))
    ledger.closings[key] = write
    ledger.settled_ms.setdefault(key, write.at_ms)


def _granted(ledger: Ledger, write: Granted) -> None:
    if write.fence <= ledger.fences.get(write.task, -1):
        ledger.wrong.append((1, f"the fence did not grow from {ledger.fences[write.task]}", write))
    ledger.fences[write.task] = max(write.fence, ledger.fences.get(write.task, -1))
    run = ledger.runs.get(write.run_id)
    if run is None:
        run = ledger.runs[write.run_id] = RunLedger(write.run_id, write.task)
        ledger.by_task.setdefault(write.task, []).append(run)
        if not write.first:
            ledger.wrong.append((1, "a run was taken up that was never granted", write))
    elif write.first:
        ledger.wrong.append((1, f"won a second time, after {run.first.instance}", write))
    if run.final is not None:
        ledger.wrong.append((5, "granted after its outcome was recorded", write))
    if write.slot_ms is not None and write.first:
        ledger.settled_ms.setdefault((write.task, write.slot_ms), write.at_ms)
        if (write.task, write.slot_ms) in ledger.closings:
            ledger.wrong.append((7, "a slot that was closed was granted", write))
    if run.tenures:
        _note_owed(ledger, run, write.at_ms)
        _end(run, write.at_ms)
    tenure = Tenure(write, [Span(write.at_ms, write.lease_ends_at_ms)])
    run.tenures.append(tenure)
    known = ledger.tenures.setdefault((write.run_id, write.fence), tenure)
    if known.grant.instance != write.instance:
        ledger.wrong.append((1, f"the same fence belongs to {known.grant.instance}", write))


def _renewed(ledger: Ledger, run: RunLedger, write: Renewed) -> None:
    tenure = run.tenures[-1]
    if not _by_the_holder(ledger, run, write):
        return
    last = tenure.live[-1]
    if write.at_ms < last.end_ms:
        tenure.live[-1] = Span(last.start_ms, write.lease_ends_at_ms)
    else:
        ledger.owed.append(Owed(tenure, "run-out", Span(last.end_ms, write.at_ms)))
        tenure.live.append(Span(write.at_ms, write.lease_ends_at_ms))


def _finished(ledger: Ledger, run: RunLedger, write: Finished) -> None:
    final = run.final
    if isinstance(final, Finished) and (final.fence, final.status, final.stamp) == (
        write.fence,
        write.status,
        write.stamp,
    ):
        return
    if not _by_the_holder(ledger, run, write):
        return
    _note_owed(ledger, run, write.at_ms)
    _end(run, write.at_ms)
    run.final = write


def _handed_over(ledger: Ledger, run: RunLedger, write: HandedOver) -> None:
    if any((done.fence, done.stamp) == (write.fence, write.stamp) for done in run.hand_overs):
        return
    if not _by_the_holder(ledger, run, write):
        return
    _note_owed(ledger, run, write.at_ms)
    _end(run, write.at_ms)
    run.hand_overs.append(write)


def _interrupted(ledger: Ledger, run: RunLedger, write: Interrupted) -> None:
    if run.final is not None:
        ledger.wrong.append((5, "interrupted after its outcome was recorded", write))
        return
    if run.tenures[-1].live_at(write.at_ms):
        ledger.wrong.append((5, "interrupted while its lease held", write))
    _note_owed(ledger, run, write.at_ms)
    _end(run, write.at_ms)
    run.final = write


def _by_the_holder(ledger: Ledger, run: RunLedger, write: Renewed | Finished | HandedOver) -> bool:
    newest = run.tenures[-1].grant.fence
    if write.fence != newest:
        ledger.wrong.append((5, f"accepted under fence {write.fence} although {newest} was granted", write))
        return False
    if run.final is not None:
        ledger.wrong.append((5, "accepted after its outcome was recorded", write))
        return False
    if run.tenures[-1].over_ms <= write.at_ms:
        ledger.wrong.append((5, "accepted after the run was given back", write))
        return False
    return True


def _note_owed(ledger: Ledger, run: RunLedger, until_ms: float) -> None:
    tenure = run.tenures[-1]
    if tenure.over_ms < FOREVER:
        ledger.owed.append(Owed(tenure, "handed-over", Span(tenure.over_ms, until_ms)))
    elif tenure.live[-1].end_ms < until_ms:
        ledger.owed.append(Owed(tenure, "run-out", Span(tenure.live[-1].end_ms, until_ms)))


def _end(run: RunLedger, at_ms: float) -> None:
    tenure = run.tenures[-1]
    if tenure.over_ms < FOREVER:
        return
    tenure.over_ms = at_ms
    last = tenure.live[-1]
    tenure.live[-1] = Span(last.start_ms, min(last.end_ms, at_ms))
