"""A small real service, started by the tests with its configuration as JSON; says every event as a line of JSON.

`does` of a task names its handler below. Handlers append to `notes`, one line of JSON each.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from anarchon import Event, LeaseScheduler, RunContext, RunStarted, Scheduler, StateError
from anarchon_sqlite import SQLiteBackend

CONFIG: dict[str, Any] = json.loads(sys.argv[1])


def say(**fields: object) -> None:
    """One line on stdout, whole whatever other threads and processes say."""
    os.write(1, (json.dumps({"pid": os.getpid(), **fields}) + "\n").encode())


def note(ctx: RunContext[Any], what: str) -> None:
    line = {
        "what": what,
        "at_ms": time.time_ns() // 1_000_000,
        "task": ctx.task,
        "slot_ms": round(ctx.scheduled_at.timestamp() * 1_000),
        "attempt": ctx.attempt,
        "reason": ctx.reason,
        "fence": ctx.fence,
        "instance": ctx.instance_id,
        "pid": os.getpid(),
    }
    file = os.open(CONFIG["notes"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, (json.dumps(line) + "\n").encode())
    os.close(file)


def handler(task: dict[str, Any]) -> Callable[..., object]:
    """The handler that a task of the configuration names."""
    first_s: float = task.get("ms", 0) / 1_000

    def seconds(ctx: RunContext[Any]) -> float:
        # A service that was slow to start catches the slot up. Whoever comes after the first runner is quick.
        return first_s if ctx.attempt == 1 and ctx.reason in ("schedule", "catch-up") else 0.0

    async def notes(ctx: RunContext[Any]) -> None:
        note(ctx, "began")

    async def holds(ctx: RunContext[Any]) -> None:
        note(ctx, "began")
        try:
            await asyncio.sleep(seconds(ctx))
        except asyncio.CancelledError:
            note(ctx, f"cancelled: {ctx.signal.reason}")
            raise
        note(ctx, "ended")

    def works_on_a_thread(ctx: RunContext[Any]) -> None:
        note(ctx, "began")
        time.sleep(seconds(ctx))
        note(ctx, "ended")

    async def blocks(ctx: RunContext[Any]) -> None:
        note(ctx, "began")
        time.sleep(seconds(ctx))
        note(ctx, "ended")

    def hangs(ctx: RunContext[Any]) -> None:
        note(ctx, "began")
        threading.Event().wait()

    async def exits(ctx: RunContext[Any]) -> None:
        note(ctx, "began")
        raise SystemExit(7)

    async def interrupts(ctx: RunContext[Any]) -> None:
        note(ctx, "began")
        raise KeyboardInterrupt

    found: dict[str, Callable[..., object]] = {
        fn.__name__: fn for fn in (notes, holds, works_on_a_thread, blocks, hangs, exits, interrupts)
    }
    return found[task["does"]]


def make_scheduler() -> LeaseScheduler:
    """The scheduler of the configuration, with all its tasks."""
    scheduler = Scheduler(SQLiteBackend(CONFIG["store"]), **CONFIG.get("scheduler", {}))
    for task in CONFIG["tasks"]:
        options = task.get("options", {})
        if "at_ms" in task:
            scheduler.at(task["name"], task["at_ms"], handler(task), **options)
        else:
            scheduler.every(task["name"], task["every"], handler(task), **options)
    scheduler.events.on(Event, lambda event: say(event=type(event).__name__, **dataclasses.asdict(event)))
    return scheduler


def run() -> None:
    """As a service of its own."""
    make_scheduler().run()


def forgets_to_stop() -> None:
    """An application with a loop that ends without stop() while a handler is at work."""

    async def application() -> None:
        scheduler = make_scheduler()
        began = asyncio.Event()
        scheduler.events.on(RunStarted, lambda _: began.set())
        await scheduler.start()
        await began.wait()

    asyncio.run(application())
    say(event="left")


def forgets_to_shut_down() -> None:
    """An application without a loop that ends without shutdown() while a handler is at work."""
    scheduler = make_scheduler()
    began = threading.Event()
    scheduler.events.on(RunStarted, lambda _: began.set())
    scheduler.start_background()
    began.wait()
    say(event="left")


def forks_after_the_start() -> None:
    """A child that was forked too late asks for everything; the parent goes on."""
    scheduler = make_scheduler()
    ran = threading.Event()
    scheduler.start_background()
    child = os.fork()
    if child == 0:
        refusals: dict[str, str] = {}
        calls: dict[str, Callable[[], object]] = {
            "status": scheduler.status,
            "start_background": scheduler.start_background,
            "shutdown": scheduler.shutdown,
            "run": scheduler.run,
            "start": lambda: asyncio.run(scheduler.start()),
            "history": lambda: asyncio.run(_history(scheduler)),
        }
        for name, call in calls.items():
            try:
                call()
            except StateError as error:
                refusals[name] = str(error)
            else:
                refusals[name] = ""
        say(event="refusals", refusals=refusals)
        os._exit(0)
    os.waitpid(child, 0)
    scheduler.events.on(RunStarted, lambda _: ran.set())
    ran.wait()
    scheduler.shutdown()


async def _history(scheduler: LeaseScheduler) -> object:
    return await scheduler.history("t")


def pre_forks() -> None:
    """Made before the fork, started in each of four children; one of them is replaced when it dies."""
    scheduler = make_scheduler()

    def spawn() -> int:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                scheduler.run()
                code = 0
            finally:
                os._exit(code)
        say(event="forked", child=child)
        return child

    children = {spawn() for _ in range(4)}
    respawned = False
    while children:
        child, status = os.wait()
        children.discard(child)
        say(event="child-ended", child=child, code=os.waitstatus_to_exitcode(status))
        if not respawned and os.waitstatus_to_exitcode(status) < 0:
            respawned = True
            children.add(spawn())


if __name__ == "__main__":
    modes = (run, forgets_to_stop, forgets_to_shut_down, forks_after_the_start, pre_forks)
    {mode.__name__: mode for mode in modes}[CONFIG.get("mode", "run")]()
