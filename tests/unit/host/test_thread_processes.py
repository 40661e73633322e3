"""The thread host in whole processes: their end, and their children."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

from tests.unit.host.thread_hosts import LIMIT_S


def run_script(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-X", "dev", "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


@pytest.mark.processes
def test_a_process_ends_with_handlers_that_hang() -> None:
    done = run_script("""
        import asyncio, threading, time
        from anarchon.host.base import Work
        from anarchon.host.thread import ThreadHost

        async def swallow():
            while True:
                try:
                    await asyncio.sleep(3600)
                except asyncio.CancelledError:
                    pass

        async def engine():
            works = [Work(name="hangs", fn=threading.Event().wait, is_async=False),
                     Work(name="swallows", fn=swallow, is_async=True)]
            for work in works:
                begun = asyncio.Event()
                host.start_calls([work])[0].on_began = begun.set
                await begun.wait()

        host = ThreadHost(None, name="test")
        host.start()
        host.submit(engine()).result(30)
        print("main is done", flush=True)
        """)
    assert (done.returncode, done.stdout, done.stderr) == (0, "main is done\n", "")


@pytest.mark.processes
def test_a_host_can_be_used_and_closed_at_exit() -> None:
    done = run_script("""
        import asyncio, atexit
        from anarchon.host.thread import ThreadHost

        async def last_words():
            return "handed over"

        def at_exit():
            print(host.submit(last_words()).result(30), host.close(), flush=True)

        atexit.register(at_exit)
        host = ThreadHost(None, name="test")
        host.start()
        """)
    assert (done.returncode, done.stdout, done.stderr) == (0, "handed over True\n", "")


@pytest.mark.processes
def test_a_forked_child_refuses_to_go_on_and_leaves_the_parent_alone() -> None:
    done = run_script("""
        import os, sys, warnings
        from anarchon.errors import StateError
        from anarchon.host.thread import ThreadHost

        async def who():
            return "parent works"

        warnings.simplefilter("ignore", DeprecationWarning)
        host = ThreadHost(None, name="test")
        host.start()
        assert not host.forked
        pid = os.fork()
        if pid == 0:
            try:
                host.submit(who())
            except StateError as error:
                print(host.forked, "forked" in str(error), host.close(), flush=True)
            sys.exit(7)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
        print(host.submit(who()).result(30), host.close())
        """)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True True True\n7\nparent works True\n", "")
