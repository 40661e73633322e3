"""Starts real services, reads what they say, and ends them whatever happens."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from anarchon import Run
from anarchon.model.run import Skip
from anarchon_sqlite import SQLiteBackend

LIMIT_S = 60
"""For how long a test waits for what never comes."""

Line = dict[str, Any]


def now_ms() -> int:
    """The wall clock that all processes of this machine share, store included."""
    return time.time_ns() // 1_000_000


class Service:
    """One process under test. `said` are the lines of its stdout."""

    def __init__(self, arguments: Sequence[str], name: str, errors: Path, news: threading.Condition) -> None:
        self.name = name
        self.said: list[Line] = []
        self._news = news
        self._errors = errors
        with errors.open("w") as sink:
            # A group of its own, so that children it forks can be ended with it.
            self.process = subprocess.Popen(
                arguments, stdout=subprocess.PIPE, stderr=sink, stdin=subprocess.DEVNULL, start_new_session=True
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self.process.pid

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._news:
                self.said.append(json.loads(line))
                self._news.notify_all()
        with self._news:
            self._news.notify_all()

    def told(self, event: str, **fields: object) -> list[Line]:
        """The lines of a kind with these values."""
        return [
            line
            for line in list(self.said)
            if line.get("event") == event and all(line.get(name) == value for name, value in fields.items())
        ]

    def until(self, event: str, count: int = 1, **fields: object) -> Line:
        """Wait until it has said so many lines of a kind; the last of them."""
        with self._news:
            came = self._news.wait_for(
                lambda: len(self.told(event, **fields)) >= count or not self._reader.is_alive(), LIMIT_S
            )
        assert came, f"{self.name} did not say {event} {fields} {count} times: {self.report()}"
        found = self.told(event, **fields)
        assert len(found) >= count, f"{self.name} ended without saying {event} {fields}: {self.report()}"
        return found[count - 1]

    def send(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def ended(self) -> int:
        """Wait until it has ended; its exit code, negative for a signal."""
        try:
            code = self.process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} does not end: {self.report()}") from None
        self._reader.join(LIMIT_S)
        return code

    def report(self) -> str:
        """What it said last, for a failing test."""
        return f"said {self.said[-5:]}, on stderr:\n{self._errors.read_text()[-3_000:]}"

    @property
    def stderr(self) -> str:
        return self._errors.read_text()

    def end(self) -> None:
        """End it and the children that it forked, at once."""
        with suppress(ProcessLookupError):
            # The group bears its pid, and goes on to do so while any of its children lives.
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()
        self._reader.join(LIMIT_S)
        assert self.process.stdout is not None
        self.process.stdout.close()


class Services:
    """The services of one store, and what they leave behind."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.store = folder / "store.db"
        self.all: list[Service] = []
        self._news = threading.Condition()

    def start(self, tasks: Sequence[Line], *, mode: str = "run", count: int = 1, **scheduler: object) -> list[Service]:
        """Start services with these tasks; they are not awaited."""
        started: list[Service] = []
        for _ in range(count):
            name = f"service {len(self.all)}"
            config = {
                "store": str(self.store),
                "notes": str(self._notes(len(self.all))),
                "tasks": list(tasks),
                "mode": mode,
                "scheduler": {"lease_ttl_ms": 2_000, **scheduler},
            }
            program = str(Path(__file__).with_name("service.py"))
            started.append(self._start([sys.executable, "-X", "dev", program, json.dumps(config)], name))
        return started

    def run(self, program: str, name: str) -> Service:
        """Start a program of a test's own, given as text."""
        return self._start([sys.executable, "-c", program], name)

    def _start(self, arguments: Sequence[str], name: str) -> Service:
        service = Service(arguments, name, self._folder / f"errors-{len(self.all)}.txt", self._news)
        self.all.append(service)
        return service

    def ready(self, services: Sequence[Service]) -> None:
        """Wait until each has started its scheduler."""
        for service in services:
            service.until("SchedulerStarted")

    def first(self, event: str, **fields: object) -> tuple[Service, Line]:
        """Wait for a line of any service; that service and the line."""
        with self._news:
            came = self._news.wait_for(lambda: any(one.told(event, **fields) for one in self.all), LIMIT_S)
        assert came, f"nobody said {event} {fields}: {[one.report() for one in self.all]}"
        return next((one, one.told(event, **fields)[0]) for one in self.all if one.told(event, **fields))

    def _notes(self, number: int) -> Path:
        return self._folder / f"notes-{number}.jsonl"

    def notes(self, **fields: object) -> list[Line]:
        """What the handlers of all services have noted, by time."""
        lines: list[Line] = []
        for number in range(len(self.all)):
            path = self._notes(number)
            if path.exists():
                lines += [json.loads(line) for line in path.read_text().splitlines()]
        found = [line for line in lines if all(line[name] == value for name, value in fields.items())]
        return sorted(found, key=lambda line: line["at_ms"])

    def runs(self, task: str) -> list[Run]:
        """The runs of a task in the store, oldest first."""
        return self._read(lambda store: store.history(task, 10_000))[::-1]

    def run_of(self, task: str) -> Run:
        """The one run of a task in the store."""
        (run,) = self.runs(task)
        return run

    def skips(self, task: str) -> list[Skip]:
        return self._read(lambda store: store.skips(task, 10_000))

    def _read(self, ask: Callable[[SQLiteBackend], Any]) -> list[Any]:
        async def read() -> list[Any]:
            store = SQLiteBackend(self.store)
            await store.open("default", None)
            try:
                return list(await ask(store))
            finally:
                await store.close()

        return asyncio.run(read())

    def end(self) -> None:
        for service in self.all:
            service.end()

    def complaints(self) -> list[str]:
        """What Python's development mode found wrong in any of them."""
        signs = ("was never awaited", "was destroyed but it is pending", "ResourceWarning", "never retrieved")
        return [line for one in self.all for line in one.stderr.splitlines() if any(sign in line for sign in signs)]
