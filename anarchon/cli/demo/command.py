"""The command line's side of the demo: where its files are, what it prints at the end, and its exit code."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from anarchon.cli.demo.plan import DEFAULT_PACE, LONG, MINUTE, NAMESPACE, STORE, Pace
from anarchon.cli.demo.play import DemoFailedError, Play, Report
from anarchon.cli.demo.stage import LineStage, Stage, slot_text, stage_for
from anarchon.cli.output import NOT_AS_PROMISED, OK, complain, duration, print_json, refusals, refuse
from anarchon.clock import SystemClock
from anarchon.times.instants import iso

SECONDS: Final = 25.0
"""How long it goes on at least, with what the minute's slot needs on top, unless a time is given."""

INTERRUPTED: Final = 130


def demo(
    seconds: Annotated[
        float | None,
        typer.Option(
            metavar="N",
            min=1,
            max=3_600,
            show_default=False,
            help="Go on for N seconds, or until the killed run was recovered. Without it: 25 s, and on to the next "
            "full minute, where the cron task is due; 25 to 65 s in all.",
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(metavar="PATH", show_default=False, help="Make the SQLite file here, and leave it there."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document on stdout; what happens goes to stderr.")
    ] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Leave all files, and say where they are.")] = False,
) -> None:
    """See it work: three processes share a schedule, one is killed, another goes on with its run.

    At the end, the store's history and what the handlers wrote into files of their own are compared, slot by slot.
    The exit code is 0 if every due slot ran exactly once, and 1 if not.

    Example: anarchon demo --keep
    """
    if file is not None and file.exists():
        refuse(f"{str(file)!r} exists, and the demo begins with a fresh file; name one that does not exist yet")
    if file is not None and not file.absolute().parent.is_dir():
        refuse(f"{str(file.absolute().parent)!r} is not a directory; make it, or choose another place for --file")
    console = Console(highlight=False, markup=False, emoji=False)
    stage: Stage = LineStage(sys.stderr) if as_json else stage_for(console, SystemClock().now_ms)
    if not as_json:
        console.print(_introduction())
    raise typer.Exit(play(stage, console, seconds=seconds, file=file, keep=keep, as_json=as_json))


def play(
    stage: Stage,
    console: Console,
    *,
    seconds: float | None = None,
    file: Path | None = None,
    keep: bool = False,
    as_json: bool = False,
    pace: Pace = DEFAULT_PACE,
    before_check: Callable[[Path], object] | None = None,
) -> int:
    """Play the demo and print how it went. Returns the exit code.

    No process is left behind, and no file unless it was asked for. `before_check` gets the folder with the handlers'
    files and the store once all processes have ended.
    """
    folder = Path(tempfile.mkdtemp(prefix="anarchon-demo-"))
    store = folder / STORE if file is None else file.absolute()
    try:
        with refusals():
            report = asyncio.run(_played(stage, store, folder, pace, seconds, before_check))
    except DemoFailedError as error:
        complain(f"error: the demo could not be played: {error}")
        return NOT_AS_PROMISED
    except (KeyboardInterrupt, asyncio.CancelledError):
        complain("interrupted; every process of the demo has been ended")
        return INTERRUPTED
    finally:
        if keep:
            complain(f"the files of the demo are in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    left = store if keep or file is not None else None
    return conclude(report, console, store=left, folder=folder if keep else None, as_json=as_json)


def conclude(report: Report, console: Console, *, store: Path | None, folder: Path | None, as_json: bool) -> int:
    """Print the report, and where files were left. Returns the exit code."""
    if as_json:
        print_json(document(report, store=store, folder=folder))
    else:
        print_report(console, report)
        _print_next_steps(console, store)
    return OK if report.ok else NOT_AS_PROMISED


async def _played(
    stage: Stage,
    store: Path,
    folder: Path,
    pace: Pace,
    seconds: float | None,
    before_check: Callable[[Path], object] | None,
) -> Report:
    task = asyncio.current_task()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        # Where the loop cannot watch signals, the processes end because their stdin does.
        with contextlib.suppress(NotImplementedError, RuntimeError):
            loop.add_signal_handler(number, lambda: None if task is None else task.cancel())
    with stage:
        return await Play(store=store, folder=folder, pace=pace, stage=stage).run(
            seconds=SECONDS if seconds is None else seconds, until_minute=seconds is None, before_check=before_check
        )


# ------------------------------------------------------------------ what is printed


def _introduction() -> Text:
    return Text.assemble(
        "Three processes, ",
        ("A, B and C", "bold"),
        ", run the same schedule on one SQLite file, and none\n"
        "leads: each slot goes to one of them. One is killed in the middle of a long\n"
        "run, and another begins that run again. All times are UTC.\n",
    )


def print_report(console: Console, report: Report) -> None:
    """The table, and every problem in words."""
    found = report.recovery
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    table.add_column("task")
    for name in ("due", "in store", "in files", "overlap", "twice", "missed", "recovery"):
        table.add_column(name, justify="right")
    for each in report.counts:
        table.add_row(
            each.task,
            str(each.due),
            str(each.in_history),
            str(each.by_handlers),
            str(each.overlaps),
            Text(str(each.duplicates), style="red" if each.duplicates else ""),
            Text(str(each.missed), style="red" if each.missed else ""),
            duration(found.after_kill_ms) if found is not None and each.task == LONG else "",
        )
    begin, end = slot_text(report.began_ms), slot_text(report.ended_ms)
    console.print()
    console.print(f"Slots due after {begin} and up to {end} UTC. How many of them ran to their", style="dim")
    console.print("end is told by the store and by files that the handlers wrote themselves.", style="dim")
    console.print(table)
    closed = sorted(skip.slot_ms for skip in report.evidence.skips[LONG] if skip.reason == "overlap")
    if closed:
        console.print(f"overlap: not run, since the run before was in progress: {', '.join(map(slot_text, closed))}")
    if not report.evidence.due[MINUTE]:
        console.print(f"{MINUTE}: not due, since no full minute fell into that time")
    if found is not None:
        console.print(f"recovery: {LONG} {slot_text(found.slot_ms)} began again on {found.instance_id},")
        console.print(f"  {duration(found.after_kill_ms)} after the kill and", end=" ")
        console.print(f"{duration(found.after_lease_end_ms)} after the killed one's lease had ended")
    console.print()
    if report.ok:
        console.print("All as promised: every slot ran to its end once, and none was missed.", style="bold green")
        return
    console.print("NOT as promised:", style="bold red")
    for problem in report.problems:
        console.print(f"  {problem}", style="red")


def _print_next_steps(console: Console, store: Path | None) -> None:
    console.print()
    console.print("What to try next:")
    lines = ['anarchon next "30 2 * * *" --tz Europe/Berlin -n 5']
    if store is None:
        lines.append("anarchon demo --keep")
    else:
        lines.append(f"anarchon history {LONG} --namespace {NAMESPACE} --backend sqlite:///{store}")
    lines.append("anarchon run myapp.tasks:scheduler")
    for line in lines:
        console.print(f"  {line}", style="cyan", soft_wrap=True)


def document(report: Report, *, store: Path | None, folder: Path | None) -> dict[str, Any]:
    """The report as JSON: instants as epoch ms (`..._ms`) and in ISO 8601, durations in ms."""
    found, kill = report.recovery, report.evidence.kill
    return {
        "ok": report.ok,
        "problems": [
            {
                "task": problem.task,
                "slot_ms": problem.slot_ms,
                "slot": None if problem.slot_ms is None else iso(problem.slot_ms),
                "text": problem.text,
            }
            for problem in report.problems
        ],
        "from_ms": report.began_ms,
        "from": iso(report.began_ms),
        "to_ms": report.ended_ms,
        "to": iso(report.ended_ms),
        "tasks": [
            {
                "task": each.task,
                "due": each.due,
                "in_history": each.in_history,
                "by_handlers": each.by_handlers,
                "overlaps": each.overlaps,
                "duplicates": each.duplicates,
                "missed": each.missed,
            }
            for each in report.counts
        ],
        "kill": None
        if kill is None
        else {
            "instance_id": kill.instance_id,
            "task": kill.task,
            "slot_ms": kill.slot_ms,
            "slot": iso(kill.slot_ms),
            "at_ms": kill.at_ms,
            "at": iso(kill.at_ms),
        },
        "recovery": None
        if found is None
        else {
            "instance_id": found.instance_id,
            "slot_ms": found.slot_ms,
            "slot": iso(found.slot_ms),
            "after_kill_ms": found.after_kill_ms,
            "after_lease_end_ms": found.after_lease_end_ms,
        },
        "store": None if store is None else str(store),
        "folder": None if folder is None else str(folder),
    }
