"""Schedulers in processes of their own: exits, forks and signals."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def program(text: str, *, expect: int = 0) -> list[str]:
    """Run a program of its own and return the lines that it printed."""
    done = subprocess.run(
        [sys.executable, "-c", HEAD + text],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'backends'}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == expect, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr, done.stderr
    return [line for line in done.stdout.splitlines() if line]


HEAD = """
import asyncio, logging, os, signal, sys, threading
from anarchon import *
from anarchon.testing import MemoryBackend
logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(message)s")
scheduler = Scheduler(MemoryBackend())
running = threading.Event()
def say(*words):
    # In one piece, since the log writes to the same place from another thread.
    os.write(1, f"\\n{' '.join(map(str, words))}\\n".encode())
"""


@pytest.mark.processes
def test_a_process_that_forgets_stop_ends_and_hands_over() -> None:
    lines = program("""
@scheduler.every("stuck", "100ms", jitter_ms=0)
def stuck():
    running.set()
    threading.Event().wait()

scheduler.start_background()
running.wait(10)
""")

    assert [line.split(":")[0] for line in lines] == ["scheduler started", "run handed over"]


@pytest.mark.processes
def test_a_child_forked_after_the_start_is_refused_everything_and_the_parent_goes_on() -> None:
    lines = program("""
import warnings
warnings.simplefilter("ignore")
@scheduler.every("fast", "100ms", jitter_ms=0)
def fast():
    running.set()

with scheduler:
    running.wait(10)
    if os.fork() == 0:
        calls = [scheduler.status, scheduler.list, scheduler.shutdown, scheduler.start_background, scheduler.run,
                 lambda: asyncio.run(scheduler.start()), lambda: asyncio.run(scheduler.stop()),
                 lambda: asyncio.run(scheduler.serve()), lambda: asyncio.run(scheduler.history("fast")),
                 lambda: scheduler.every("b", "5m", fast), lambda: scheduler.task("fast")]
        for call in calls:
            try:
                call()
            except StateError as error:
                assert "was forked from process" in str(error) and "Start it after forking" in str(error)
            else:
                say("not refused:", call)
        sys.exit(0)
    _, status = os.wait()
    say("child", status)
    running.clear()
    say("parent", running.wait(10))
""")

    assert [line for line in lines if line.startswith(("not", "child", "parent"))] == ["child 0", "parent True"]
    assert sum(line.startswith("scheduler stopped") for line in lines) == 1


@pytest.mark.processes
def test_children_forked_before_the_start_have_ids_of_their_own() -> None:
    lines = program("""
for _ in range(3):
    if os.fork() == 0:
        with scheduler:
            say("id", scheduler.instance_id)
        os._exit(0)
for _ in range(3):
    os.wait()
""")

    assert len({line for line in lines if line.startswith("id ")}) == 3


@pytest.mark.processes
@pytest.mark.parametrize("call", ["scheduler.run()", "asyncio.run(scheduler.serve())"])
def test_the_exit_code_of_a_handler_is_that_of_the_process(call: str) -> None:
    lines = program(
        f"""
@scheduler.every("leaver", "100ms", jitter_ms=0)
async def leaver():
    sys.exit(7)

{call}
""",
        expect=7,
    )

    assert lines[-1].startswith("scheduler stopped")


@pytest.mark.processes
def test_sigterm_ends_a_program_in_order_and_with_code_zero() -> None:
    lines = program("""
@scheduler.every("fast", "100ms", jitter_ms=0)
async def fast():
    if not running.is_set():
        running.set()
        os.kill(os.getpid(), signal.SIGTERM)

scheduler.run()
say("end")
""")

    assert [line.split(":")[0] for line in lines] == [
        "scheduler started",
        "run succeeded",
        "scheduler stopped",
        "end",
    ]
