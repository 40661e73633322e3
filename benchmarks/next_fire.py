"""How fast the next slot of a cron expression is found, beside cronsim.

    python benchmarks/next_fire.py [--json]

Dense, typical and sparse expressions, in UTC and in a zone with clock changes. Each pass parses afresh and then
finds slots one after the other and from random instants; the two libraries take turns and garbage collection is
off. From a random instant cronsim needs a new object, whose making counts; the column "alone" leaves it out.

Exit code 0 only when all of these hold: in each class at least FACTOR times cronsim's fires per second, one after
the other and from random instants (median of the passes); for each expression the slowest single fire, at its best
over the passes, below LIMIT_US; parse and first fire together faster than cronsim's, for each expression.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from statistics import median
from time import perf_counter_ns
from zoneinfo import ZoneInfo

from cronsim import CronSim

from anarchon.times.cron import parse_cron
from anarchon.times.schedule import cron
from anarchon.times.zones import tz_database_version

FACTOR = 5.0
LIMIT_US = 50.0
FIRSTS = 20
ZONES = ("UTC", "Europe/Berlin", "America/New_York")
START = datetime(2026, 1, 1, tzinfo=UTC)
# Class, expressions, slots per pass and expression, days from which random starts are drawn.
CLASSES: dict[str, tuple[tuple[str, ...], int, int]] = {
    "dense": (("* * * * *", "*/5 * * * *", "*/15 * * * *", "0 * * * *"), 400, 3_650),
    "typical": (("0 2 * * *", "30 8 * * 1-5", "0 9-17 * * MON-FRI", "15,45 6,18 * * *", "0 0 1 * *"), 150, 3_650),
    "sparse": (
        ("0 0 29 2 *", "0 0 1 1 *", "30 3 31 12 *", "0 12 13 * */5", "0 0 29 2 */7", "59 23 31 1,7 */3"),
        10,
        3_650,
    ),
}


@dataclass
class Measured:
    """Nanoseconds of one library for one expression, per pass."""

    chained: list[int] = field(default_factory=list[int])
    from_random: list[int] = field(default_factory=list[int])
    from_random_alone: list[int] = field(default_factory=list[int])
    slowest: list[int] = field(default_factory=list[int])
    first: list[float] = field(default_factory=list[float])


def measure_ours(expr: str, zone: str, starts: list[datetime], count: int, into: Measured) -> list[int]:
    start_ms = [int(start.timestamp()) * 1000 for start in starts]
    firsts: list[int] = []
    for each in start_ms[:FIRSTS]:
        begun = perf_counter_ns()
        cron(parse_cron(expr), timezone=zone).next(each)
        firsts.append(perf_counter_ns() - begun)
    into.first.append(median(firsts))

    # Fresh again, so that nothing above has warmed it.
    schedule = cron(parse_cron(expr), timezone=zone)
    slots: list[int] = []
    times: list[int] = []
    at, next_slot = start_ms[0], schedule.next
    begun = perf_counter_ns()
    for _ in range(count):
        found = next_slot(at)
        assert found is not None, expr
        slots.append(found)
        at = found
    into.chained.append(perf_counter_ns() - begun)
    begun = perf_counter_ns()
    for each in start_ms:
        next_slot(each)
    into.from_random.append(perf_counter_ns() - begun)
    into.from_random_alone.append(into.from_random[-1])

    schedule = cron(parse_cron(expr), timezone=zone)
    next_slot = schedule.next
    for each in [start_ms[0], *slots[:-1], *start_ms]:
        begun = perf_counter_ns()
        next_slot(each)
        times.append(perf_counter_ns() - begun)
    into.slowest.append(max(times))
    return slots


def measure_cronsim(expr: str, zone: str, starts: list[datetime], count: int, into: Measured) -> list[int]:
    tz = UTC if zone == "UTC" else ZoneInfo(zone)
    local = [start.astimezone(tz) for start in starts]
    firsts: list[int] = []
    for each in local[:FIRSTS]:
        begun = perf_counter_ns()
        next(CronSim(expr, each))
        firsts.append(perf_counter_ns() - begun)
    into.first.append(median(firsts))

    simulated = CronSim(expr, local[0])
    found: list[datetime] = []
    begun = perf_counter_ns()
    for _ in range(count):
        found.append(next(simulated))  # noqa: PERF401 - the same loop as for ours
    into.chained.append(perf_counter_ns() - begun)

    begun = perf_counter_ns()
    for each in local:
        next(CronSim(expr, each))
    into.from_random.append(perf_counter_ns() - begun)
    ready = [CronSim(expr, each) for each in local]
    begun = perf_counter_ns()
    for made in ready:
        next(made)
    into.from_random_alone.append(perf_counter_ns() - begun)

    times: list[int] = []
    again = CronSim(expr, local[0])
    for _ in range(min(count, 50)):
        begun = perf_counter_ns()
        next(again)
        times.append(perf_counter_ns() - begun)
    into.slowest.append(max(times))
    return [int(each.timestamp()) * 1000 for each in found]


def run(passes: int) -> dict[str, object]:
    draw = random.Random(20260101)
    rows: list[dict[str, object]] = []
    classes: dict[str, dict[str, float]] = {}
    holds = True
    for name, (expressions, count, days) in CLASSES.items():
        totals = {"ours": [[0.0] * passes, [0.0] * passes], "cronsim": [[0.0] * passes, [0.0] * passes]}
        for expr in expressions:
            for zone in ZONES:
                starts = [START] + [
                    START + timedelta(seconds=draw.randrange(days * 86_400)) for _ in range(max(20, count // 2))
                ]
                ours, theirs = Measured(), Measured()
                for i in range(passes):
                    # Who goes first changes, so that neither always finds the caches warm.
                    order = (measure_ours, measure_cronsim) if i % 2 else (measure_cronsim, measure_ours)
                    for measure in order:
                        gc.collect()
                        measure(expr, zone, starts, count, ours if measure is measure_ours else theirs)
                for who, measured in (("ours", ours), ("cronsim", theirs)):
                    for i in range(passes):
                        totals[who][0][i] += measured.chained[i]
                        totals[who][1][i] += measured.from_random[i]
                slowest_us = min(ours.slowest) / 1000
                first_us = median(ours.first) / 1000
                their_first_us = median(theirs.first) / 1000
                fine = slowest_us < LIMIT_US and first_us < their_first_us
                holds = holds and fine
                rows.append(
                    {
                        "class": name,
                        "expr": expr,
                        "zone": zone,
                        "ns_per_fire": round(median(ours.chained) / count),
                        "cronsim_ns_per_fire": round(median(theirs.chained) / count),
                        "factor_chained": _ratio(theirs.chained, ours.chained),
                        "factor_random": _ratio(theirs.from_random, ours.from_random),
                        "factor_random_alone": _ratio(theirs.from_random_alone, ours.from_random_alone),
                        "slowest_us": round(slowest_us, 1),
                        "cronsim_slowest_us": round(min(theirs.slowest) / 1000, 1),
                        "parse_and_first_us": round(first_us, 1),
                        "cronsim_parse_and_first_us": round(their_first_us, 1),
                        "holds": fine,
                    }
                )
        classes[name] = {
            "factor_chained": _ratio(totals["cronsim"][0], totals["ours"][0]),
            "factor_random": _ratio(totals["cronsim"][1], totals["ours"][1]),
        }
        holds = holds and min(classes[name].values()) >= FACTOR
    return {
        "python": sys.version.split()[0],
        "tz_database": tz_database_version(),
        "passes": passes,
        "factor_wanted": FACTOR,
        "limit_us": LIMIT_US,
        "classes": classes,
        "expressions": rows,
        "holds": holds,
    }


def _ratio(theirs: list[int] | list[float], ours: list[int] | list[float]) -> float:
    return round(median(a / b for a, b in zip(theirs, ours, strict=True)), 1)


def show(result: dict[str, object]) -> None:
    rows = result["expressions"]
    classes = result["classes"]
    assert isinstance(rows, list)
    assert isinstance(classes, dict)
    print(f"Python {result['python']}, zone database {result['tz_database']}, median of {result['passes']} passes")
    print(f"{'':8} {'expression':20} {'zone':17} {'ns/fire':>8} {'cronsim':>8} {'chained':>8} {'random':>7} "
          f"{'alone':>7} {'slowest us':>10} {'parse+first us':>15} {'cronsim':>8}")  # fmt: skip
    for row in rows:
        print(f"{row['class']:8} {row['expr']:20} {row['zone']:17} {row['ns_per_fire']:8} "
              f"{row['cronsim_ns_per_fire']:8} {row['factor_chained']:7}x {row['factor_random']:6}x "
              f"{row['factor_random_alone']:6}x {row['slowest_us']:10} "
              f"{row['parse_and_first_us']:15} {row['cronsim_parse_and_first_us']:8}"
              f"{'' if row['holds'] else '  FAILS'}")  # fmt: skip
    for name, factors in classes.items():
        print(f"{name}: {factors['factor_chained']} times cronsim one after the other, "
              f"{factors['factor_random']} times from random instants (wanted: {FACTOR})")  # fmt: skip
    print("all targets hold" if result["holds"] else "a target is missed")


def main() -> int:
    parser = argparse.ArgumentParser(description="Finding the next slot, beside cronsim.")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--passes", type=int, default=5, help="passes per expression, at least 5")
    arguments = parser.parse_args()
    gc.disable()
    result = run(max(5, arguments.passes))
    if arguments.json:
        print(json.dumps(result, indent=2))
    else:
        show(result)
    return 0 if result["holds"] else 1


if __name__ == "__main__":
    sys.exit(main())
