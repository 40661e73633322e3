"""Whether a run of the demo was as promised: the store's history against what the handlers wrote, slot by slot.

Pure functions. What is promised: every due slot has one run that succeeds, or was closed because the run before it
was still in progress; no attempt begins twice; no two handlers of a task that skips overlaps are at work at once;
what the killed process had begun begins again on another, after its lease has ended and at most `LATEST_MS` later.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from anarchon.cli.demo.evidence import Evidence, HandlerRecord, Kill
from anarchon.cli.demo.plan import LONG
from anarchon.cli.output import clock_time, duration
from anarchon.model.run import Attempt, Run, Skip

LATEST_MS: Final = 3_000
"""How long after its lease's end a run of a killed process has begun again at the latest."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is not as promised."""

    task: str
    slot_ms: int | None
    text: str

    def __str__(self) -> str:
        where = self.task if self.slot_ms is None else f"{self.task}, slot {clock_time(self.slot_ms)} UTC"
        return f"{where}: {self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """How the run of the killed process began again."""

    slot_ms: int
    instance_id: str
    after_kill_ms: int
    after_lease_end_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCount:
    """One task in numbers; of due slots alone."""

    task: str
    due: int
    in_history: int
    """Slots whose run succeeded, by the store."""
    by_handlers: int
    """Slots whose handler came to its end, by the handlers' own files."""
    overlaps: int
    duplicates: int
    missed: int


def check(evidence: Evidence) -> list[Problem]:
    """Everything that is not as promised, by task and slot; empty when all is."""
    problems = [Problem("handlers' files", None, f"{place} cannot be read") for place in evidence.unreadable]
    for task in evidence.due:
        for slot_ms in _slots(evidence, task):
            problems.extend(_Slot(evidence, task, slot_ms).problems())
        problems.extend(_manual(evidence, task))
    problems.extend(_at_once(evidence, LONG))
    if evidence.kill is not None:
        problems.extend(_not_recovered(evidence, evidence.kill))
    return problems


def count(evidence: Evidence) -> list[TaskCount]:
    """The tasks in numbers."""
    found: list[TaskCount] = []
    for task, due in evidence.due.items():
        slots = [_Slot(evidence, task, slot_ms) for slot_ms in due]
        found.append(
            TaskCount(
                task=task,
                due=len(due),
                in_history=sum(any(run.status == "succeeded" for run in slot.runs) for slot in slots),
                by_handlers=sum(bool(slot.ended) for slot in slots),
                overlaps=sum(slot.overlap is not None for slot in slots),
                duplicates=sum(slot.twice for slot in slots),
                missed=sum(slot.missed for slot in slots),
            )
        )
    return found


def recovery(evidence: Evidence) -> Recovery | None:
    """How what the killed process was at work on began again; None where it did not."""
    kill = evidence.kill
    lost = None if kill is None else _lost_attempt(evidence, kill)
    if kill is None or lost is None:
        return None
    before, after = lost
    again = [
        record.at_ms
        for record in _Slot(evidence, kill.task, kill.slot_ms).began
        if record.instance_id == after.instance_id and record.attempt == after.number
    ]
    if not again or before.ended_at_ms is None:
        return None
    return Recovery(
        slot_ms=kill.slot_ms,
        instance_id=after.instance_id,
        after_kill_ms=again[0] - kill.at_ms,
        # A lost attempt ends with its lease.
        after_lease_end_ms=again[0] - before.ended_at_ms,
    )


class _Slot:
    """All that is known of one slot."""

    def __init__(self, evidence: Evidence, task: str, slot_ms: int) -> None:
        self.task = task
        self.slot_ms = slot_ms
        self.is_due = slot_ms in evidence.due[task]
        self.killed = evidence.kill.instance_id if evidence.kill is not None else None
        self.task_runs = evidence.runs[task]
        self.runs = [run for run in self.task_runs if run.slot_ms == slot_ms]
        self.skips = [skip for skip in evidence.skips[task] if _covers(skip, slot_ms)]
        self.overlap = next((skip for skip in self.skips if skip.reason == "overlap"), None)
        self.records = [record for record in evidence.records if (record.task, record.slot_ms) == (task, slot_ms)]
        self.began = [record for record in self.records if record.what == "began"]
        # What the killed process had not recorded yet when it was killed is owed once more, as promised.
        self.ended = [record for record in self.records if record.what == "ended" and not self._lost(record)]

    def _lost(self, record: HandlerRecord) -> bool:
        return record.instance_id == self.killed and any(
            attempt.number == record.attempt and attempt.instance_id == self.killed and attempt.status == "interrupted"
            for run in self.runs
            for attempt in run.attempts[:-1]
        )

    @property
    def twice(self) -> bool:
        """Whether it ran to its end more than once, or one attempt of it began more than once."""
        attempts = [record.attempt for record in self.began]
        return len(self.runs) > 1 or len(self.ended) > 1 or len(set(attempts)) < len(attempts)

    @property
    def missed(self) -> bool:
        """Whether it was due and nobody ran it, without the one excuse there is."""
        return self.is_due and not self.runs and not self.records and self.overlap is None

    def problems(self) -> Iterable[Problem]:
        """What is not as promised."""
        return [Problem(self.task, self.slot_ms, text) for text in self._texts()]

    def _texts(self) -> Iterable[str]:
        yield from self._repeated()
        if not self.runs:
            yield from self._without_a_run()
            return
        if len(self.runs) > 1:
            yield f"the history has {len(self.runs)} runs of this slot"
        if self.overlap is not None:
            yield "the history says both that it ran and that it was closed because of an overlap"
        for run in self.runs:
            yield from self._compared(run)

    def _repeated(self) -> Iterable[str]:
        if len(self.ended) > 1:
            yield f"ran twice: the handler came to its end {len(self.ended)} times, {_on(self.ended)}"
        for number in sorted({record.attempt for record in self.began}):
            same = [record for record in self.began if record.attempt == number]
            if len(same) > 1:
                yield f"ran twice: attempt {number} began {len(same)} times, {_on(same)}"

    def _without_a_run(self) -> Iterable[str]:
        if self.records:
            yield f"the handler ran {_on(self.records)}, and the history has no run of this slot"
        elif self.overlap is not None:
            if not any(_in_progress(run, self.overlap.at_ms) for run in self.task_runs):
                yield "closed because of an overlap, and no run was in progress then"
        elif self.is_due:
            reasons = ", ".join(sorted({skip.reason for skip in self.skips}))
            yield f"missed: it was due and nobody ran it{f' (skipped: {reasons})' if reasons else ''}"

    def _compared(self, run: Run) -> Iterable[str]:
        if run.status != "succeeded":
            yield f"the run is {run.status!r} in the history" + (f": {run.error}" if run.error else "")
        elif not self.ended:
            yield f"the history says that it succeeded on {run.instance_id}, and the handler wrote no end of it"
        if run.attempt > run.max_attempts:
            yield f"the history has attempt {run.attempt}, and {run.max_attempts} are allowed"
        for record in self.ended:
            if run.status == "succeeded" and record.instance_id != run.instance_id:
                yield f"the handler ended on {record.instance_id}, and the history says {run.instance_id}"
        known = {(attempt.number, attempt.instance_id) for attempt in run.attempts}
        for record in self.began:
            if (record.attempt, record.instance_id) not in known:
                yield f"attempt {record.attempt} began on {record.instance_id}, and the history does not know of it"
        begun = {(record.attempt, record.instance_id) for record in self.began}
        for attempt in run.attempts:
            yield from self._attempt(run, attempt, begun)

    def _attempt(self, run: Run, attempt: Attempt, begun: set[tuple[int, str]]) -> Iterable[str]:
        lost = attempt.status == "interrupted" and attempt is not run.attempts[-1]
        if lost and attempt.instance_id != self.killed:
            yield (
                f"attempt {attempt.number} lost its lease on {attempt.instance_id}, which was not killed; is this "
                "machine too busy?"
            )
        # A process that dies between claim and start leaves an attempt that never began.
        may_not_have_begun = (lost and attempt.instance_id == self.killed) or attempt.status == "handed-over"
        if not may_not_have_begun and (attempt.number, attempt.instance_id) not in begun:
            yield (
                f"the history has attempt {attempt.number} on {attempt.instance_id}, and the handler has not written "
                "that it began"
            )


def _slots(evidence: Evidence, task: str) -> list[int]:
    """Every slot of the task that anything is known of."""
    found = set(evidence.due[task])
    found.update(run.slot_ms for run in evidence.runs[task] if run.slot_ms is not None)
    found.update(record.slot_ms for record in evidence.records if record.task == task)
    return sorted(found)


def _manual(evidence: Evidence, task: str) -> list[Problem]:
    outside = [run for run in evidence.runs[task] if run.slot_ms is None]
    return [Problem(task, None, f"run {run.run_id} belongs to no slot") for run in outside]


def _at_once(evidence: Evidence, task: str) -> Iterable[Problem]:
    """Handlers of one task that were at work at the same time, by what they wrote."""
    spans: dict[tuple[int, int, str], tuple[int, int]] = {}
    for record in evidence.records:
        if record.task == task:
            key = (record.slot_ms, record.attempt, record.instance_id)
            first, last = spans.get(key, (record.at_ms, record.at_ms))
            spans[key] = min(first, record.at_ms), max(last, record.at_ms)
    ordered = sorted(spans.items(), key=lambda item: item[1])
    for number, (key, (first, _)) in enumerate(ordered):
        for other, (_, last) in ordered[:number]:
            if last > first:
                yield Problem(
                    task,
                    key[0],
                    f"attempt {key[1]} began on {key[2]} while attempt {other[1]} of slot {clock_time(other[0])} UTC "
                    f"was at work on {other[2]}",
                )


def _not_recovered(evidence: Evidence, kill: Kill) -> Iterable[Problem]:
    found = recovery(evidence)
    if found is None:
        yield Problem(
            kill.task, kill.slot_ms, f"{kill.instance_id} was killed while it ran this, and nobody began again"
        )
        return
    if found.instance_id == kill.instance_id:
        yield Problem(kill.task, kill.slot_ms, f"began again on {kill.instance_id}, which was killed")
    if found.after_lease_end_ms < 0:
        yield Problem(
            kill.task, kill.slot_ms, f"began again {duration(-found.after_lease_end_ms)} before its lease had ended"
        )
    if found.after_lease_end_ms > LATEST_MS:
        yield Problem(
            kill.task,
            kill.slot_ms,
            f"began again {duration(found.after_lease_end_ms)} after its lease's end; "
            f"{duration(LATEST_MS)} are promised at the latest",
        )


def _lost_attempt(evidence: Evidence, kill: Kill) -> tuple[Attempt, Attempt] | None:
    """The attempt that ended with the kill, and the one after it."""
    for run in evidence.runs[kill.task]:
        if run.slot_ms == kill.slot_ms:
            for before, after in zip(run.attempts, run.attempts[1:], strict=False):
                if before.instance_id == kill.instance_id:
                    return before, after
    return None


def _in_progress(run: Run, at_ms: int) -> bool:
    begin = run.attempts[0].claimed_at_ms if run.attempts else run.claimed_at_ms
    return begin <= at_ms and (run.finished_at_ms is None or at_ms <= run.finished_at_ms)


def _covers(skip: Skip, slot_ms: int) -> bool:
    return skip.slot_ms <= slot_ms <= (skip.slot_ms if skip.until_ms is None else skip.until_ms)


def _on(records: Sequence[HandlerRecord]) -> str:
    places = list(dict.fromkeys(record.instance_id for record in records))
    return f"on {' and '.join(places)}"
