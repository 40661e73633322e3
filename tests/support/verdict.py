"""Judges a history by the seven lines that must always hold of a lease store, and names what broke them.

1. A slot is won by at most one instance.
2. Under overlap='skip' two runs of a task never hold a live lease at once, and an owed run counts as in progress.
3. A run starts at most max_attempts times, and once more for each hand-over; with 1, at most once. It is interrupted
   exactly when that is used up.
4. A run whose lease ran out starts again within a second of it while an instance is well that has the task, or is
   interrupted; one that was handed over by the next survey. No run lies idle or loses its lease under a well runner.
5. A write under an old fence is refused; an outcome is recorded once.
6. A handler is told to stop before its lease ends, unless its process stands still.
7. No slot stays unclaimed while an instance is well that has the task, and on time; nothing runs before its slot or
   after it was closed; catch-up touches the latest slot alone; nothing is missed without a word.

Where the promise depends on an instance being well, only one that surely was counts: a doubt goes to the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from anarchon.model.slots import late_claim_ms
from tests.support.history import (
    FOREVER,
    ClockPiece,
    Finished,
    Granted,
    History,
    InstanceFacts,
    Interrupted,
    Span,
    TaskFacts,
    covering,
    shared_ms,
    without,
)
from tests.support.ledger import Ledger, RunLedger, Tenure, keep_ledger

LINES = (1, 2, 3, 4, 5, 6, 7)

AGAIN_MS = 1_000
"""How long after its lease's end a run may wait, by the promise."""

FAULT_MS = 4_500
"""A request that was under way when things got better may take this long to fail and be sent again."""

ANSWERED_MS = 6_000
"""How long an instance that is well may take over one claim, with one failed request in it."""

LOOK_MS = 5_000
"""No wait of an instance for its wall clock is longer."""

LONG_LEASE_MS = 6_000
"""A lease of so long can be renewed in time after one request that failed, even after it hung."""

BACKLOG_MS = 15_000
"""Before a slot is due, trouble in this time may have left older slots that come first."""

HICCUP_MS = 3_000
"""After a disturbance up to this, every slot is asked for; after a long one, some may be superseded."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What broke a line."""

    line: int
    what: str
    task: str
    where: str
    """The slot or the run."""
    at_ms: float

    def __str__(self) -> str:
        return f"line {self.line}: {self.task} {self.where} at {self.at_ms:.0f}: {self.what}"


@dataclass(slots=True)
class Verdict:
    """Every finding."""

    findings: list[Finding] = field(default_factory=list[Finding])

    @property
    def sound(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    def of(self, line: int) -> list[Finding]:
        """The findings of one line; line 0: the history says nothing."""
        return [finding for finding in self.findings if finding.line == line]

    def __str__(self) -> str:
        shown = [str(finding) for finding in self.findings[:20]]
        if len(self.findings) > 20:
            shown.append(f"... and {len(self.findings) - 20} more")
        return "\n".join(shown) or "sound"


def judge(history: History, lines: Collection[int] = LINES) -> Verdict:
    """Judge by these lines. A history in which nothing was granted or nothing began is no evidence, and fails."""
    judging = _Judging(history)
    if not judging.ledger.runs or not history.notes or not history.instances:
        return Verdict([Finding(0, "nothing happened", "-", "-", 0)])
    checks: dict[int, tuple[Callable[[], None], ...]] = {
        2: (judging.live_leases_do_not_meet,),
        3: (judging.starts_are_counted, judging.interrupted_when_used_up),
        4: (judging.owed_runs_start_again, judging.grants_do_not_lie_idle, judging.well_runners_keep_leases),
        6: (judging.handlers_are_told,),
        7: (
            judging.nothing_runs_early,
            judging.slots_are_claimed,
            judging.catch_up_is_the_latest_alone,
            judging.misses_are_told,
        ),
    }
    judging.the_log_is_sound()
    for line in lines:
        for check in checks.get(line, ()):
            check()
    found = [finding for finding in judging.findings if finding.line in lines]
    return Verdict(sorted(found, key=lambda finding: finding.at_ms))


class _Judging:
    def __init__(self, history: History) -> None:
        self.history = history
        self.ledger: Ledger = keep_ledger(history.writes)
        self.findings: list[Finding] = []
        self.instances = {facts.id: facts for facts in history.instances}
        self.began = {(note.run_id, note.fence): note for note in history.notes if note.what == "began"}
        self.survey_ms = min(10_000, history.lease_ms * 2 / 3)

    def find(self, line: int, what: str, task: str, where: object, at_ms: float) -> None:
        self.findings.append(Finding(line, what, task, str(where), at_ms))

    # ---------------------------------------------------------------- 1 and 5: the log by itself

    def the_log_is_sound(self) -> None:
        for line, what, write in self.ledger.wrong:
            where = getattr(write, "run_id", None) or getattr(write, "slot_ms", "-")
            self.find(line, what, write.task, where, write.at_ms)
        for note in self.began.values():
            tenure = self.ledger.tenures.get((note.run_id, note.fence))
            if tenure is None or tenure.grant.instance != note.instance:
                self.find(1, f"began on {note.instance} without a grant", note.task, note.run_id, note.at_ms)
        begun: set[tuple[str, int]] = set()
        for note in self.history.notes:
            if note.what == "began":
                if (note.run_id, note.fence) in begun:
                    self.find(1, "began twice under one fence", note.task, note.run_id, note.at_ms)
                begun.add((note.run_id, note.fence))
        if self.history.stored is not None:
            self._stored_as_written(self.history.stored)

    def _stored_as_written(self, stored: dict[str, str]) -> None:
        for run in self.ledger.runs.values():
            shown = stored.get(run.run_id)
            expected: set[str | None]
            match run.final:
                case Finished():
                    expected = {run.final.status, None}
                case Interrupted():
                    expected = {"interrupted", None}
                case None:
                    expected = {"running", "handed-over"}
            if shown not in expected:
                what = f"the store shows {shown or 'nothing'} for a run that was left {sorted(map(str, expected))}"
                self.find(4 if run.final is None else 5, what, run.task, run.run_id, self.history.ended_ms)

    # ---------------------------------------------------------------- 2

    def live_leases_do_not_meet(self) -> None:
        for task, runs in self.ledger.by_task.items():
            live = [(span, tenure) for run in runs for tenure in run.tenures for span in tenure.live]
            live.sort(key=lambda pair: pair[0].start_ms)
            latest: list[tuple[Span, Tenure]] = []
            for span, tenure in live:
                latest = [pair for pair in latest if pair[0].end_ms > span.start_ms]
                if tenure.grant.overlap == "skip":
                    for other, holder in latest:
                        if holder.grant.run_id != tenure.grant.run_id and other.end_ms > span.start_ms:
                            what = f"a lease while {holder.grant.run_id} held one on {holder.grant.instance}"
                            self.find(2, what, task, tenure.grant.run_id, span.start_ms)
                latest.append((span, tenure))
            for run in runs:
                if run.first.overlap == "skip":
                    self._nothing_was_owed(run, runs)

    def _nothing_was_owed(self, run: RunLedger, runs: list[RunLedger]) -> None:
        at = run.first.at_ms
        for other in runs:
            if other is run:
                break  # in the order in which they came to be
            if not other.final_at(at) and not any(tenure.live_at(at) for tenure in other.tenures):
                self.find(2, f"won although {other.run_id} was owed", run.task, run.run_id, at)

    # ---------------------------------------------------------------- 3

    def starts_are_counted(self) -> None:
        for run in self.ledger.runs.values():
            begun = [tenure for tenure in run.tenures if (run.run_id, tenure.grant.fence) in self.began]
            most = run.first.max_attempts + len(run.hand_overs)
            if len(begun) > most or (run.first.max_attempts == 1 and len(begun) > 1):
                what = (
                    f"began {len(begun)} times, max_attempts={run.first.max_attempts}, {len(run.hand_overs)} hand-overs"
                )
                self.find(3, what, run.task, run.run_id, begun[-1].grant.at_ms)
            for tenure in run.tenures[1:]:
                allowed = min(run.first.max_attempts, tenure.grant.max_attempts)
                if tenure.grant.attempt > allowed:
                    what = f"attempt {tenure.grant.attempt} of {allowed}"
                    self.find(3, what, run.task, run.run_id, tenure.grant.at_ms)

    def interrupted_when_used_up(self) -> None:
        for run in self.ledger.runs.values():
            final = run.final
            used = len(run.tenures) - len(run.hand_overs)
            if isinstance(final, Interrupted):
                allowed = min(run.first.max_attempts, final.max_attempts)
                if used < allowed:
                    self.find(3, f"interrupted after {used} of {allowed} attempts", run.task, run.run_id, final.at_ms)
            elif isinstance(final, Finished) and final.status == "interrupted":
                allowed = min(run.first.max_attempts, run.tenures[-1].grant.max_attempts)
                if allowed > 1:
                    self.find(3, f"ended as interrupted with {allowed} attempts", run.task, run.run_id, final.at_ms)

    # ---------------------------------------------------------------- who was well

    def answering(self, facts: InstanceFacts, is_async: bool) -> list[Span]:
        """When an instance was up, running, connected and able to start a handler; single requests may have failed."""
        if facts.up is None:
            return []
        gaps = [*facts.frozen, *facts.cut, *(facts.lagging if is_async else ())]
        return without([facts.up], gaps)

    def well(self, facts: InstanceFacts, is_async: bool) -> list[Span]:
        """The same without a single failed request."""
        return without(self.answering(facts, is_async), facts.faults)

    # ---------------------------------------------------------------- 4

    def owed_runs_start_again(self) -> None:
        for owed in self.ledger.owed:
            grant = owed.tenure.grant
            since, until = owed.span.start_ms, owed.span.end_ms
            for facts in self.history.instances:
                task = facts.tasks.get(grant.task)
                if task is None or facts.limited:
                    continue
                for span in self.well(facts, task.is_async):
                    limit = self._taken_up_by(owed.why == "run-out", since, span)
                    if limit > min(span.end_ms, self.history.ended_ms) or until <= limit:
                        continue
                    if task.settings.overlap == "skip" and self._another_is_live(grant, since, limit):
                        continue
                    left = f"left for {until - since:.0f} ms, though {facts.id} was well"
                    what = f"{owed.why} on {grant.instance} and {left}"
                    self.find(4, what, grant.task, grant.run_id, since)
                    break
                else:
                    continue
                break

    def _taken_up_by(self, ran_out: bool, since: float, well: Span) -> float:
        settled = well.start_ms + self.survey_ms + FAULT_MS
        if ran_out and settled <= since:
            return since + AGAIN_MS
        return max(since, well.start_ms) + self.survey_ms + FAULT_MS + AGAIN_MS

    def _another_is_live(self, grant: Granted, since: float, until: float) -> bool:
        return any(
            span.start_ms < until and since - self.history.round_trip_ms < span.end_ms
            for run in self.ledger.by_task[grant.task]
            if run.run_id != grant.run_id
            for tenure in run.tenures
            for span in tenure.live
        )

    def grants_do_not_lie_idle(self) -> None:
        """Whoever has a run and is well begins it or gives it back before long: a lost answer is asked for."""
        for run in self.ledger.runs.values():
            for tenure in run.tenures:
                grant = tenure.grant
                facts = self.instances.get(grant.instance)
                if facts is None or facts.limited or (run.run_id, grant.fence) in self.began:
                    continue
                task = facts.tasks[run.task]
                for span in self.answering(facts, task.is_async):
                    since = max(span.start_ms, grant.at_ms)
                    limit = since + ANSWERED_MS + FAULT_MS
                    if limit > min(span.end_ms, tenure.over_ms, tenure.live[-1].end_ms, self.history.ended_ms):
                        continue
                    asked = grant.asked_slot_ms
                    if asked is not None and facts.highest_wall(limit) > asked + task.settings.max_late_ms:
                        continue  # no longer asked for: 'claim-unknown'
                    what = f"granted to {facts.id}, which was well and neither began it nor gave it back"
                    self.find(4, what, run.task, run.run_id, limit)
                    break

    def well_runners_keep_leases(self) -> None:
        """Whoever is well renews the lease, or has the outcome stored."""
        stopped: dict[tuple[str, int], float] = {}
        for each in self.history.notes:
            if each.what != "began":
                stopped.setdefault((each.run_id, each.fence), each.at_ms)
        for owed in self.ledger.owed:
            tenure, end = owed.tenure, owed.span.start_ms
            key = (tenure.grant.run_id, tenure.grant.fence)
            note = self.began.get(key)
            facts = self.instances.get(tenure.grant.instance)
            if owed.why != "run-out":
                continue
            if note is None or facts is None or facts.up is None or end > self.history.ended_ms:
                continue
            since = end - 2 * self.history.lease_ms
            if note.at_ms >= end or stopped.get(key, FOREVER) <= end - self.history.lease_ms:
                continue  # what moved its end last was a request delivered late
            alive = Span(facts.up.start_ms, facts.alive_until_ms)
            # A long lease outlasts one failed renewal.
            faults = facts.faults if self.history.lease_ms < LONG_LEASE_MS else []
            if covering(without([alive], [*facts.frozen, *facts.cut, *faults]), since, end):
                what = f"its lease ran out on {facts.id}, which was well"
                self.find(4, what, tenure.grant.task, tenure.grant.run_id, end)

    # ---------------------------------------------------------------- 6

    def handlers_are_told(self) -> None:
        stopped: dict[tuple[str, int], float] = {}
        for note in self.history.notes:
            if note.what != "began":
                stopped.setdefault((note.run_id, note.fence), note.at_ms)
        for key, note in self.began.items():
            tenure = self.ledger.tenures.get(key)
            facts = self.instances.get(note.instance)
            if tenure is None or facts is None:
                continue
            holds = [span.end_ms for span in tenure.live if span.start_ms <= note.at_ms < span.end_ms]
            ends = holds[0] if holds else note.at_ms
            limit = self._told_by(facts, tenure, ends)
            if limit >= min(self.history.ended_ms, facts.alive_until_ms):
                continue
            told = stopped.get(key, FOREVER)
            if told > limit:
                late = "never" if told == FOREVER else f"{told - limit:.0f} ms too late"
                what = f"its lease was over at {ends:.0f}; told {late} on {facts.id}"
                self.find(6, what, note.task, note.run_id, ends)

    def _told_by(self, facts: InstanceFacts, tenure: Tenure, ends: float) -> float:
        # A machine that slept believes its lease for as much longer as it slept: its monotonic clock stood still.
        limit = ends
        while True:
            later = ends + shared_ms(facts.suspended, tenure.grant.at_ms, limit)
            for span in facts.frozen:
                if span.start_ms <= later < span.end_ms:
                    later = span.end_ms
            if later <= limit:
                return limit + 1
            limit = later

    # ---------------------------------------------------------------- 7

    def nothing_runs_early(self) -> None:
        for (run_id, fence), note in self.began.items():
            tenure = self.ledger.tenures.get((run_id, fence))
            facts = self.instances.get(note.instance)
            if tenure is None or facts is None:
                continue
            slot = tenure.grant.slot_ms
            if tenure.grant.first and slot is not None and facts.highest_wall(note.at_ms) < slot - 1:
                wall = facts.wall_at(note.at_ms)
                self.find(7, f"began {slot - wall:.0f} ms before its slot by {facts.id}", note.task, run_id, note.at_ms)

    def slots_are_claimed(self) -> None:
        for facts in self.history.instances:
            if facts.limited or facts.up is None:
                continue
            for task in facts.tasks.values():
                answering = self.answering(facts, task.is_async)
                for slot, due in _slots_reached(facts, task, min(facts.up.end_ms, self.history.ended_ms)):
                    self._one_slot_is_claimed(facts, task, answering, slot, due)

    def _one_slot_is_claimed(
        self, facts: InstanceFacts, task: TaskFacts, answering: list[Span], slot: int, due: float
    ) -> None:
        settled = self.ledger.settled_ms.get((task.name, slot), FOREVER)
        if settled <= due:
            return
        jittered = facts.reached_at(slot + task.settings.jitter_ms)
        if jittered is None:
            return
        for span in answering:
            if span.end_ms <= due:
                continue
            asked = max(span.start_ms, due, jittered)
            unrest = _unrest(facts, answering, due - BACKLOG_MS, asked)
            limit = asked + ANSWERED_MS + (LOOK_MS if unrest else 0)
            if settled <= limit or limit > min(span.end_ms, self.history.ended_ms):
                continue
            if facts.wall_at(limit) > slot + task.settings.max_late_ms:
                return
            if limit > slot + late_claim_ms(task.settings.jitter_ms, task.settings.max_late_ms):
                return  # its clock is so far behind that the slot's record may have been trimmed
            if any(by < 0 and due <= at <= limit for at, by in facts.jumps()):
                return
            following = task.schedule.next(slot)
            if unrest > HICCUP_MS and following is not None and following <= facts.wall_at(limit):
                continue  # it may have been superseded
            what = "never claimed" if settled == FOREVER else f"claimed {settled - limit:.0f} ms too late"
            self.find(7, f"{what}, though {facts.id} was well and on time", task.name, slot, due)
            return

    def catch_up_is_the_latest_alone(self) -> None:
        for run in self.ledger.runs.values():
            grant = run.first
            facts = self.instances.get(grant.instance)
            if facts is None or grant.slot_ms is None or not grant.first:
                continue
            task = facts.tasks[run.task]
            if grant.reason == "catch-up":
                latest = task.schedule.prev(facts.start_wall_ms)
                if grant.slot_ms != latest:
                    self.find(7, f"caught up although {latest} was the latest", run.task, grant.slot_ms, grant.at_ms)
                elif facts.start_wall_ms - grant.slot_ms >= task.settings.catch_up_ms:
                    self.find(7, "caught up although it was too old", run.task, grant.slot_ms, grant.at_ms)
            elif grant.reason == "schedule" and grant.slot_ms <= facts.lowest_wall(grant.at_ms):
                self.find(7, f"scheduled although {facts.id} started after it", run.task, grant.slot_ms, grant.at_ms)
        for facts in self.history.instances:
            if not facts.limited and facts.up is not None:
                for task in facts.tasks.values():
                    self._latest_is_caught_up(facts, task, facts.up.start_ms)

    def _latest_is_caught_up(self, facts: InstanceFacts, task: TaskFacts, up_ms: float) -> None:
        slot = task.schedule.prev(facts.start_wall_ms)
        limit = up_ms + ANSWERED_MS
        if slot is None or facts.start_wall_ms - slot >= task.settings.catch_up_ms:
            return
        one_shot = task.schedule.next(slot) is None
        known = self.ledger.known_since_ms.get((task.name, task.schedule.canonical), FOREVER)
        following = task.schedule.next(slot)
        if not one_shot and (known >= slot or (following is not None and following <= facts.wall_at(limit))):
            return
        if limit > self.history.ended_ms or not covering(self.well(facts, task.is_async), up_ms, limit):
            return
        if self.ledger.settled_ms.get((task.name, slot), FOREVER) > limit:
            self.find(7, f"not caught up by {facts.id}, which was well", task.name, slot, up_ms)

    def misses_are_told(self) -> None:
        """An instance that passed a slot which nobody got has said why, at the latest when the store is back."""
        said: dict[tuple[str, str], list[tuple[int, int]]] = {}
        for word in self.history.said:
            until = word.until_ms if word.until_ms is not None else word.slot_ms
            said.setdefault((word.instance, word.task), []).append((word.slot_ms, until))
        for facts in self.history.instances:
            if facts.up is None or facts.limited:
                continue  # a full one tells when it has room
            for task in facts.tasks.values():
                running = without([facts.up], [*facts.frozen, *facts.cut])
                ranges = said.get((facts.id, task.name), [])
                latest = task.settings.jitter_ms + task.settings.max_late_ms
                for slot, due in _slots_reached(facts, task, min(facts.up.end_ms, self.history.ended_ms)):
                    if (task.name, slot) in self.ledger.settled_ms:
                        continue
                    passed = facts.reached_at(slot + latest)
                    if passed is None or any(low <= slot <= high for low, high in ranges):
                        continue
                    if any(by < 0 and due <= at for at, by in facts.jumps()):
                        continue
                    for span in running:
                        end = max(due, passed, span.start_ms) + ANSWERED_MS + LOOK_MS
                        if end <= min(span.end_ms, self.history.ended_ms):
                            self.find(7, f"missed by {facts.id} without a word", task.name, slot, due)
                            break


def _slots_reached(facts: InstanceFacts, task: TaskFacts, until_ms: float) -> Iterable[tuple[int, float]]:
    """Every slot after the start that the wall clock has come to by `until_ms`, and when."""
    slot = task.schedule.next(facts.start_wall_ms)
    while slot is not None:
        due = facts.reached_at(slot)
        if due is None or due >= until_ms:
            return
        ahead = facts.wall_at(due) - slot
        if ahead > 30_000:
            # Far behind after a jump: only the newest counts, and those shortly before it.
            slot = max(slot, task.schedule.prev(int(facts.wall_at(due)) - 30_000) or slot)
            due = facts.reached_at(slot)
            assert due is not None
        yield slot, due
        slot = task.schedule.next(slot)


def _unrest(facts: InstanceFacts, answering: list[Span], since_ms: float, until_ms: float) -> float:
    """For how long things were not in order: time without answers and jumps of the clock."""
    since_ms = max(since_ms, facts.started_ms)
    still = (until_ms - since_ms) - shared_ms(answering, since_ms, until_ms)
    return still + sum(abs(by) for at, by in facts.jumps() if since_ms <= at <= until_ms + ANSWERED_MS)


def steady_clock(since_ms: float, offset_ms: float = 0.0) -> list[ClockPiece]:
    """A clock that never jumps."""
    return [ClockPiece(since_ms, since_ms + offset_ms)]
