"""Daemon threads that are used again. An executor would do, but its threads keep a process from ending."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from anarchon.log_lines import say

_log = logging.getLogger(__name__)


class Job(NamedTuple):
    """What a thread is to do. Exactly one of the two is called."""

    run: Callable[[], object]
    refuse: Callable[[BaseException], object]
    """Called, on any thread, when the system gives no thread for it."""


class DaemonThreads:
    """Runs every job at once, each on a thread of its own; a thread without a job ends after some seconds.

    There is no upper limit: how much runs at a time is for the caller to decide. Callers start one thread at most:
    a new thread starts the next while jobs are left, so a batch does not hold the caller up.
    """

    def __init__(self, name: str, *, idle_s: float = 5.0) -> None:
        self._name = name
        self._idle_s = idle_s
        self._changed = threading.Condition(threading.Lock())
        self._jobs: deque[Job] = deque()
        self._threads: set[threading.Thread] = set()
        self._idle = 0
        self._busy = 0
        self._starting = False
        self._closed = False
        self.started = 0
        """How many threads have been started in all."""

    def run(self, jobs: Sequence[Job]) -> None:
        """Run the jobs. They must not raise."""
        with self._changed:
            self._jobs.extend(jobs)
            self._changed.notify(len(jobs))
            more = self._one_more_is_needed()
        if more:
            self._start_one()

    def busy(self) -> int:
        """How many jobs are on a thread now."""
        with self._changed:
            return self._busy

    def close(self, timeout: float) -> bool:
        """End every idle thread, and each busy one after its job. False: after `timeout` seconds some are left."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            threads = list(self._threads)
        give_up_at = time.monotonic() + timeout
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, give_up_at - time.monotonic()))
        return not any(thread.is_alive() for thread in threads)

    def end_idle(self) -> None:
        """As `close`, without waiting."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _one_more_is_needed(self) -> bool:
        if self._starting or len(self._jobs) <= self._idle:
            return False
        self._starting = True
        return True

    def _start_one(self) -> None:
        self.started += 1
        thread = threading.Thread(target=self._work, name=f"{self._name}-{self.started}", daemon=True)
        with self._changed:
            self._threads.add(thread)
        try:
            thread.start()
        except (RuntimeError, MemoryError) as error:
            # Out of threads, or the interpreter is shutting down.
            with self._changed:
                self._threads.discard(thread)
                self._starting = False
                refused, self._jobs = self._jobs, deque()
            say(_log, logging.ERROR, "no thread could be started for %d handlers: %s", len(refused), error)
            for job in refused:
                job.refuse(error)

    def _work(self) -> None:
        with self._changed:
            self._starting = False
        try:
            job = self._next(first=True)
            while job is not None:
                try:
                    job.run()
                except Exception as error:
                    say(_log, logging.ERROR, "a job of the scheduler's host failed", error=error)
                del job  # an idle thread must not keep what a handler was given
                job = self._next()
        finally:
            with self._changed:
                self._threads.discard(threading.current_thread())

    def _next(self, *, first: bool = False) -> Job | None:
        with self._changed:
            if not first:
                self._busy -= 1
            if not self._jobs and not self._closed:
                self._idle += 1
                self._changed.wait_for(lambda: bool(self._jobs) or self._closed, self._idle_s)
                self._idle -= 1
            if not self._jobs:
                return None
            job = self._jobs.popleft()
            self._busy += 1
            more = self._one_more_is_needed()
        if more:
            self._start_one()
        return job
