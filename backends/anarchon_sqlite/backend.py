"""The backend: what it was given, whether it is open, and one line per call."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from anarchon.errors import BackendError, ConfigurationError, StateError
from anarchon.model.asks import (
    Checkpoint,
    Claim,
    Finish,
    HandOver,
    InstanceRecord,
    Lease,
    LeaseOutcome,
    LeaseTerms,
    Manual,
    PauseOutcome,
    StoreInfo,
    SurveyAnswer,
    TakeUp,
    TakeUpOutcome,
    TaskRecord,
)
from anarchon.model.options import LONGEST_LEASE_MS, whole
from anarchon.model.run import Run, Skip
from anarchon.protocol import LeaseBackend
from anarchon_sqlite import history, steps
from anarchon_sqlite.connection import Link, Synchronous
from anarchon_sqlite.location import path_of
from anarchon_sqlite.slate import Slate
from anarchon_sqlite.thread import FileThread

ResultT = TypeVar("ResultT")

LEAVING_MS: Final = 1_000
"""How long a close waits for the lock to say that the instance has gone."""


class SQLiteBackend(LeaseBackend):
    """A lease backend in one file, for any number of processes on one machine.

    `url_or_path` is `sqlite:///relative.db`, `sqlite:////absolute.db`, or a path. The file must be on a local disk:
    write-ahead logging needs shared memory, which network file systems do not have. SQLite keeps two files beside
    it, `-wal` and `-shm`, so that every user who runs or reads needs write permission on the directory too. The
    file may be one that the application has tables of its own in; it is switched to write-ahead logging then. Who
    replaces it while it is in use, to restore a backup, removes `-wal` and `-shm` with it, or SQLite applies the old
    log to the new file.

    `synchronous="FULL"` syncs each commit to the disk. With "NORMAL" a power failure may take the last commits
    away, so that a slot could be won twice; a crash of the process or a `kill -9` never does, with either.
    `busy_timeout_ms` is how long a call waits while other programs hold the lock; then it raises
    BackendUnavailableError and was surely not applied. `clock` is for tests: what to take for the store's clock
    instead of the host's.

    A backend that was opened before a fork raises StateError in the child.
    """

    def __init__(
        self,
        url_or_path: str | os.PathLike[str],
        *,
        synchronous: Synchronous = "FULL",
        busy_timeout_ms: int = 10_000,
        clock: Callable[[], int] | None = None,
    ) -> None:
        if synchronous not in ("FULL", "NORMAL"):
            raise ConfigurationError(
                f"synchronous is {synchronous!r}: use 'FULL', which survives a power failure, or 'NORMAL'"
            )
        self._busy_ms = whole(self.name, "busy_timeout_ms", busy_timeout_ms, least=1, most=LONGEST_LEASE_MS)
        self._path = path_of(url_or_path)
        self._synchronous: Synchronous = synchronous
        self._clock = clock
        self._thread: FileThread | None = None
        self._namespace = ""
        self._instance: InstanceRecord | None = None
        self._acts = False
        self._pid = 0
        # What a file that replaces this one has to be told again.
        self._registered: dict[str, TaskRecord] = {}

    def __repr__(self) -> str:
        return f"SQLiteBackend({self._path!r})"

    @property
    def name(self) -> str:
        """ "SQLite"."""
        return "SQLite"

    @property
    def path(self) -> str:
        """The file, as an absolute path."""
        return self._path

    # ---------------------------------------------------------------- opening and closing

    async def open(self, namespace: str, instance: InstanceRecord | None) -> StoreInfo:
        """Connect, create the file and its tables where they are missing, and register the instance.

        For reading (`instance` None) nothing is created or written: a file that is missing or has no tables of
        anarchon is a BackendMisconfiguredError.
        """
        return await self._open(namespace, instance, acts=instance is not None)

    async def open_to_act(self, namespace: str) -> StoreInfo:
        """As `open` for reading: nothing is created. What is asked of `pause` and its like is written."""
        return await self._open(namespace, None, acts=True)

    async def _open(self, namespace: str, instance: InstanceRecord | None, *, acts: bool) -> StoreInfo:
        if self._thread is not None:
            raise StateError(f"this backend of {self._path} is open: one backend object serves one scheduler at a time")
        self._namespace, self._instance, self._pid = namespace, instance, os.getpid()
        self._acts = acts
        self._registered.clear()
        self._thread = FileThread(self._path, self._connect, self._clock)
        try:
            now_ms = await self._ask(steps.now, writes=acts)
        except BaseException:
            await self._stop()
            raise
        return StoreInfo(store_now_ms=now_ms, remembers_ms=None)

    def _connect(self) -> Link:
        # On the thread. Also after the file was replaced or the connection broke.
        instance = self._instance
        link = Link(self._path, synchronous=self._synchronous, creates=instance is not None, reads_only=not self._acts)
        if instance is not None:
            try:
                self._introduce(link, instance)
            except BaseException:
                link.close()
                raise
        return link

    def _introduce(self, link: Link, instance: InstanceRecord) -> None:
        link.connection.execute("BEGIN IMMEDIATE")
        now_ms = link.now_ms(None if self._clock is None else self._clock())
        steps.arrive(link.connection, self._namespace, instance, now_ms)
        steps.register(Slate(link.connection, self._namespace, now_ms), list(self._registered.values()))
        link.connection.execute("COMMIT")

    async def close(self) -> None:
        """End the thread and close the file. The last one to do so folds the log into the file."""
        if self._thread is None:
            return
        if self._pid != os.getpid():
            # Another process's thread and connection: left alone.
            self._thread = None
            return
        try:
            if self._instance is not None:
                await self._ask(self._leave, busy_ms=min(self._busy_ms, LEAVING_MS))
        except BackendError:
            pass  # the others will see it by its silence
        finally:
            await self._stop()

    def _leave(self, connection: sqlite3.Connection, _now_ms: int) -> None:
        instance = self._instance
        if instance is not None:
            steps.leave(connection, self._namespace, instance.instance_id)

    async def _stop(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            await thread.stop()

    async def migrate(self) -> int:
        """Create the file, or bring it up to date, and answer its schema. Done by `open` for who may.

        Safe at any time, from any number of processes. By hand it can be run with more rights than the service has.
        """
        thread = FileThread(self._path, self._connect_to_migrate, self._clock)
        try:
            return await thread.submit(steps.schema, writes=True, busy_ms=self._busy_ms).answer()
        finally:
            await thread.stop()

    def _connect_to_migrate(self) -> Link:
        return Link(self._path, synchronous=self._synchronous, creates=True, reads_only=False)

    # ---------------------------------------------------------------- claims and leases

    async def register(self, tasks: Sequence[TaskRecord]) -> Sequence[int | None]:
        """Known since when, by name and schedule."""
        answers = await self._write(lambda slate: steps.register(slate, tasks))
        self._registered.update({task.name: task for task in tasks})
        return answers

    async def claim(self, claims: Sequence[Claim[LeaseTerms]]) -> Sequence[LeaseOutcome]:
        """One transaction for the batch."""
        return await self._write(lambda slate: steps.claim(slate, claims)) if claims else []

    async def take_up(self, asks: Sequence[TakeUp]) -> Sequence[TakeUpOutcome]:
        """One transaction for the batch."""
        return await self._write(lambda slate: steps.take_up(slate, asks)) if asks else []

    async def renew(self, leases: Sequence[Lease], lease_ms: int) -> Sequence[bool]:
        """One transaction for the batch."""
        return await self._write(lambda slate: steps.renew(slate, leases, lease_ms)) if leases else []

    async def hand_over(self, asks: Sequence[HandOver]) -> Sequence[bool]:
        """One transaction for the batch."""
        return await self._write(lambda slate: steps.hand_over(slate, asks)) if asks else []

    async def finish(self, finishes: Sequence[Finish]) -> Sequence[bool]:
        """One transaction for the batch, trimming included."""
        return await self._write(lambda slate: steps.finish(slate, finishes)) if finishes else []

    async def survey(self, instance_id: str, lease_ms: int, page: str | None = None) -> SurveyAnswer:
        """One transaction."""
        instance = replace(self._writing_instance(), instance_id=instance_id)
        return await self._write(lambda slate: steps.survey(slate, instance, lease_ms, page))

    async def sweep(self) -> int:
        """One transaction."""
        return await self._write(history.sweep)

    # ---------------------------------------------------------------- by hand

    async def save_checkpoints(self, asks: Sequence[Checkpoint]) -> Sequence[bool]:
        """One transaction for the batch."""
        return await self._write(lambda slate: steps.save_checkpoints(slate, asks)) if asks else []

    async def run_now(self, ask: Manual) -> LeaseOutcome:
        """One transaction."""
        return await self._act(lambda slate: steps.run_now(slate, ask))

    async def pause(self, task: str, by: str) -> PauseOutcome:
        """One transaction."""
        return await self._act(lambda slate: steps.pause(slate, task, by))

    async def resume(self, task: str, by: str) -> PauseOutcome:
        """One transaction."""
        return await self._act(lambda slate: steps.resume(slate, task, by))

    async def free(self, task: str, by: str) -> Sequence[Run]:
        """One transaction."""
        return await self._act(lambda slate: steps.free(slate, task, by))

    # ---------------------------------------------------------------- history

    async def record_skips(self, skips: Sequence[Skip]) -> None:
        """One transaction for the batch."""
        if skips:
            await self._write(lambda slate: history.record_skips(slate, skips))

    async def history(self, task: str, limit: int) -> Sequence[Run]:
        """Runs in progress included. Does not wait for writers."""
        return await self._read(lambda connection: history.history(connection, self._namespace, task, limit))

    async def skips(self, task: str, limit: int) -> Sequence[Skip]:
        """Closing ones included. Does not wait for writers."""
        return await self._read(lambda connection: history.skips(connection, self._namespace, task, limit))

    async def task_names(self) -> Sequence[str]:
        """Sorted. Does not wait for writers."""
        return await self._read(lambda connection: history.task_names(connection, self._namespace))

    # ---------------------------------------------------------------- the way to the thread

    async def _write(self, step: Callable[[Slate], ResultT]) -> ResultT:
        self._writing_instance()
        return await self._act(step)

    async def _act(self, step: Callable[[Slate], ResultT]) -> ResultT:
        self._open_thread()
        if not self._acts:
            raise StateError(
                f"this backend of {self._path} was opened for reading: open it with an instance, or by open_to_act(), "
                "to write"
            )
        return await self._ask(lambda connection, now_ms: step(Slate(connection, self._namespace, now_ms)))

    async def _read(self, step: Callable[[sqlite3.Connection], ResultT]) -> ResultT:
        return await self._ask(lambda connection, _now_ms: step(connection), writes=False)

    async def _ask(
        self,
        work: Callable[[sqlite3.Connection, int], ResultT],
        *,
        writes: bool = True,
        busy_ms: int | None = None,
    ) -> ResultT:
        thread = self._open_thread()
        return await thread.submit(work, writes=writes, busy_ms=busy_ms or self._busy_ms).answer()

    def _writing_instance(self) -> InstanceRecord:
        self._open_thread()
        if self._instance is None:
            raise StateError(f"this backend of {self._path} was opened for reading: open it with an instance to write")
        return self._instance

    def _open_thread(self) -> FileThread:
        if self._thread is None:
            raise StateError(f"this backend of {self._path} is not open: await open() before any other call")
        if self._pid != os.getpid():
            raise StateError(
                f"this backend of {self._path} was opened in process {self._pid} and is used in its child "
                f"{os.getpid()}: SQLite's connections do not survive a fork; make and open one in the child"
            )
        return self._thread
