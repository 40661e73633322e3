"""One process of the demo: a scheduler like any other, which tells on stdout what happens and ends with its stdin.

Started as `python -m anarchon.cli.demo.instance` with its parameters as one JSON text.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
import threading
from dataclasses import asdict
from pathlib import Path

from anarchon.cli.demo.evidence import HandlerFile, What
from anarchon.cli.demo.plan import Handlers, Pace, make_scheduler
from anarchon.clock import SystemClock
from anarchon.context import RunContext
from anarchon.model.events import (
    BackendAway,
    Event,
    LeaseLost,
    LoopLagged,
    ResultRefused,
    RunFailed,
    RunInterrupted,
    SlotSkipped,
)
from anarchon.times.instants import to_ms


def parameters(process: str, store: Path, folder: Path, pace: Pace) -> str:
    """What `main` reads."""
    return json.dumps({"process": process, "store": str(store), "folder": str(folder), "pace": asdict(pace)})


async def instance(process: str, store: Path, folder: Path, pace: Pace) -> None:
    """Run until stdin ends or SIGTERM comes."""
    instance_id = f"{process}-{os.getpid()}"
    clock = SystemClock()
    file = HandlerFile(folder, process, instance_id)

    def record(ctx: RunContext, what: What) -> None:
        at_ms = clock.now_ms()
        file.write(ctx, what, at_ms)
        tell(what, at_ms=at_ms, task=ctx.task, slot_ms=to_ms(ctx.scheduled_at), attempt=ctx.attempt)

    async def short(ctx: RunContext) -> None:
        record(ctx, "began")
        record(ctx, "ended")

    def long(ctx: RunContext) -> None:
        record(ctx, "began")
        for _ in range(pace.long_takes_ms // pace.beat_ms):
            if ctx.signal.wait_sync(pace.beat_ms / 1_000):
                record(ctx, "stopped")
                return
            record(ctx, "alive")
        record(ctx, "ended")

    scheduler = make_scheduler(store, pace, Handlers(short, long), instance_id)
    scheduler.events.on(SlotSkipped, _tell_skip)
    for kind in (RunFailed, RunInterrupted, LeaseLost, ResultRefused, BackendAway, LoopLagged):
        scheduler.events.on(kind, _tell_trouble)
    stop = asyncio.Event()
    _watch_for_the_end(stop)
    async with scheduler:
        tell("up", at_ms=clock.now_ms(), instance_id=instance_id)
        await stop.wait()
    file.close()


def tell(what: str, **fields: object) -> None:
    """One line on stdout. Handlers tell by themselves, since a slow listener may lose events."""
    # One system call, so that the lines of two threads do not mix.
    os.write(1, f"{json.dumps({'what': what, **fields})}\n".encode())


def _tell_skip(event: SlotSkipped) -> None:
    tell("skipped", at_ms=event.at_ms, task=event.task, slot_ms=event.slot_ms, reason=event.reason)


def _tell_trouble(event: Event) -> None:
    tell("trouble", at_ms=event.at_ms, text=f"{type(event).__name__} {getattr(event, 'error', None) or ''}".strip())


def _watch_for_the_end(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()

    def watch_stdin() -> None:
        # By the descriptor: a thread that is left in a buffered read would disturb the end of the process.
        while os.read(0, 1_024):
            pass
        # The loop may have ended by itself.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(stop.set)

    threading.Thread(target=watch_stdin, name="stdin", daemon=True).start()
    with contextlib.suppress(NotImplementedError):
        loop.add_signal_handler(signal.SIGTERM, stop.set)


def main() -> None:
    """Read the parameters and run."""
    given = json.loads(sys.argv[1])
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)-7s %(message)s", stream=sys.stderr)
    logging.captureWarnings(True)
    asyncio.run(instance(given["process"], Path(given["store"]), Path(given["folder"]), Pace(**given["pace"])))


if __name__ == "__main__":
    main()
