"""The one thread that touches the file, and the queue in front of it.

sqlite3 blocks. So requests go to a thread, which does all that have gathered in one transaction, and answers each
loop once per transaction. A request is in one of three states:

    waiting --begun by the thread--> begun --> answered
       '----withdrawn by its caller, or out of time: surely not applied

While another program holds the lock, the thread asks for it in short slices. Between two of them it answers
readers, which the lock does not concern, and those whose time is up. So no request waits on another's account.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Final, Generic, TypeVar

from anarchon.errors import BackendUnavailableError, OutcomeUnknownError
from anarchon_sqlite.connection import SLICE_MS, Link
from anarchon_sqlite.errors import CommitError, commit_errors, is_busy, spoils_connection, translated

ResultT = TypeVar("ResultT")

MOST_AT_ONCE: Final = 256
"""How many requests share a transaction at most."""

GRACE_MS: Final = 2_000
"""How much longer than its time a caller waits for a thread that does not come back from the disk."""


class Request(Generic[ResultT]):
    """One piece of work on its way to the thread. Made and awaited on a loop."""

    def __init__(
        self, path: str, work: Callable[[sqlite3.Connection, int], ResultT], *, writes: bool, busy_ms: int
    ) -> None:
        self.work = work
        self.writes = writes
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[ResultT] = self.loop.create_future()
        self.busy_ms = busy_ms
        self.expires_at = time.monotonic() + busy_ms / 1_000
        self._path = path
        self._lock = threading.Lock()
        self._begun = False
        self._withdrawn = False

    def begin(self) -> bool:
        """The thread is about to do it; False: it has been withdrawn."""
        with self._lock:
            self._begun = not self._withdrawn
            return self._begun

    def again(self) -> None:
        """The thread has rolled it back and puts it off."""
        with self._lock:
            self._begun = False

    def withdraw(self) -> bool:
        """Nobody waits for it any more; True: surely not applied, and it never will be."""
        with self._lock:
            if not self._begun:
                self._withdrawn = True
            return self._withdrawn

    async def answer(self) -> ResultT:
        """Wait for the answer, but not longer than a caller has to."""
        guard = self.loop.call_later((self.busy_ms + GRACE_MS) / 1_000, self._give_up)
        try:
            return await self.future
        except asyncio.CancelledError:
            self.withdraw()
            raise
        finally:
            guard.cancel()

    def _give_up(self) -> None:
        if self.future.done():
            return
        if self.withdraw():
            self.future.set_exception(BackendUnavailableError(f"{self._path} could not be reached: its disk hangs"))
        else:
            self.future.set_exception(
                OutcomeUnknownError(f"{self._path}: the disk has not answered, the request may still be applied")
            )

    def settle(self, result: ResultT | None, error: BaseException | None) -> None:
        """Answer. On the loop only."""
        if self.future.done():
            return
        if error is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(result)  # type: ignore[arg-type]


AnyRequest = Request[Any]
Answer = tuple[AnyRequest, Any, BaseException | None]


class FileThread:
    """Owns the thread and, on it, the connection. `connect` is called on the thread, again after a failure."""

    def __init__(self, path: str, connect: Callable[[], Link], clock: Callable[[], int] | None) -> None:
        self._path = path
        self._connect = connect
        self._clock = clock
        self._link: Link | None = None
        self._queue: SimpleQueue[AnyRequest | None] = SimpleQueue()
        self._ended: tuple[asyncio.AbstractEventLoop, asyncio.Future[None]] | None = None
        self._thread = threading.Thread(target=self._run, name="anarchon-sqlite", daemon=True)
        self._thread.start()
        _file_threads.add(self)

    # ---------------------------------------------------------------- on the loop

    def submit(
        self, work: Callable[[sqlite3.Connection, int], ResultT], *, writes: bool, busy_ms: int
    ) -> Request[ResultT]:
        """Put work into the queue; it gets the connection and the store's clock."""
        request = Request(self._path, work, writes=writes, busy_ms=busy_ms)
        self._queue.put(request)
        return request

    async def stop(self) -> None:
        """End the thread and close the connection; what still waits is refused."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()
        self._ended = loop, ended
        self._queue.put(None)
        await asyncio.wait({ended}, timeout=GRACE_MS / 1_000)
        if ended.done():
            # Saying so was the last thing that it did.
            self._thread.join(1)

    # ---------------------------------------------------------------- on the thread

    def _run(self) -> None:
        readers: list[AnyRequest] = []
        writers: list[AnyRequest] = []
        while True:
            stopping = self._gather(readers, writers, wait=not readers and not writers)
            if stopping:
                break
            waited = self._read(readers) if readers else False
            waited |= self._write(writers) if writers else False
            # After the try, so that each has at least one, however short its time.
            self._expire(readers)
            self._expire(writers)
            if waited:
                # SQLite refuses some locks without waiting for them.
                time.sleep(SLICE_MS / 10_000)
        closed = BackendUnavailableError(f"{self._path}: this backend was closed before the request was begun")
        self._answer([(request, None, translated(closed, self._path)) for request in (*readers, *writers)])
        self._disconnect()
        if self._ended is not None:
            loop, ended = self._ended
            _call(loop, lambda: None if ended.done() else ended.set_result(None))

    def _gather(self, readers: list[AnyRequest], writers: list[AnyRequest], *, wait: bool) -> bool:
        """Take over what is queued; True: the backend is being closed."""
        try:
            request = self._queue.get(block=wait)
            while request is not None:
                (writers if request.writes else readers).append(request)
                request = self._queue.get(block=False)
        except Empty:
            return False
        return True

    def _expire(self, requests: list[AnyRequest]) -> None:
        now = time.monotonic()
        expired = [request for request in requests if request.expires_at <= now]
        if not expired:
            return
        requests[:] = [request for request in requests if request.expires_at > now]
        self._answer(
            [
                (
                    request,
                    None,
                    BackendUnavailableError(
                        f"{self._path} was locked by another program for {request.busy_ms} ms: end its transaction, "
                        "or raise busy_timeout_ms"
                    ),
                )
                for request in expired
                if request.withdraw()
            ]
        )

    def _read(self, readers: list[AnyRequest]) -> bool:
        """Answer readers; True: a lock was not to be had, and they still wait."""
        begun = [request for request in readers if request.begin()]
        readers.clear()
        answers: list[Answer] = []
        for index, request in enumerate(begun):
            try:
                link = self._current_link()
                answers.append((request, request.work(link.connection, self._now_ms(link)), None))
            except BaseException as error:
                if is_busy(error):
                    for later in begun[index:]:
                        later.again()
                    readers.extend(begun[index:])
                    break
                answers.append((request, None, self._failed(error)))
        self._answer(answers)
        return bool(readers)

    def _write(self, writers: list[AnyRequest]) -> bool:
        """Do what waits in one transaction; True: the lock was not to be had, and it still waits."""
        try:
            link = self._begin()
        except BaseException as error:
            if is_busy(error):
                return True
            self._answer([(request, None, self._failed(error)) for request in writers if request.begin()])
            writers.clear()
            return False
        taken, writers[:] = writers[:MOST_AT_ONCE], writers[MOST_AT_ONCE:]
        group = [request for request in taken if request.begin()]
        try:
            answers = self._transact(link, group)
        except CommitError as error:
            self._answer([(request, None, self._failed(error)) for request in group])
        except BaseException as error:
            # One of them was at fault, or the lock was lost at the end; nothing was applied.
            if is_busy(error) or len(group) > 1:
                for request in group:
                    request.again()
            if is_busy(error):
                writers[:0] = group
                return True
            if len(group) > 1:
                self._one_by_one(group, writers)
            else:
                self._answer([(request, None, self._failed(error)) for request in group])
        else:
            self._answer(answers)
        return False

    def _one_by_one(self, group: Sequence[AnyRequest], writers: list[AnyRequest]) -> None:
        """Do again what failed together, so that only the one at fault fails."""
        for request in group:
            alone = [request]
            if self._write(alone):
                writers.extend(alone)

    def _begin(self) -> Link:
        """A connection with a transaction that has the lock, on the file that the path names."""
        while True:
            link = self._current_link()
            try:
                link.connection.execute("BEGIN IMMEDIATE")
            except BaseException as error:
                self._failed(error)
                raise
            if link.is_current():
                return link
            link.connection.execute("ROLLBACK")

    def _transact(self, link: Link, group: Sequence[AnyRequest]) -> list[Answer]:
        try:
            now_ms = self._now_ms(link)
            answers: list[Answer] = [(request, request.work(link.connection, now_ms), None) for request in group]
            with commit_errors():
                link.connection.execute("COMMIT")
            return answers
        except BaseException as error:
            self._roll_back(link, error)
            raise

    def _now_ms(self, link: Link) -> int:
        return link.now_ms(None if self._clock is None else self._clock())

    def _roll_back(self, link: Link, error: BaseException) -> None:
        try:
            if link.connection.in_transaction:
                link.connection.execute("ROLLBACK")
        except sqlite3.Error:
            self._disconnect()
        if spoils_connection(error):
            self._disconnect()

    def _current_link(self) -> Link:
        if self._link is not None and not self._link.is_current():
            self._disconnect()
        if self._link is None:
            self._link = self._connect()
        return self._link

    def _failed(self, error: BaseException) -> BaseException:
        if spoils_connection(error):
            self._disconnect()
        return translated(error, self._path)

    def _disconnect(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            with suppress(sqlite3.Error):
                link.close()

    def _answer(self, answers: Sequence[Answer]) -> None:
        by_loop: dict[asyncio.AbstractEventLoop, list[Answer]] = {}
        for answer in answers:
            by_loop.setdefault(answer[0].loop, []).append(answer)
        for loop, its in by_loop.items():
            _call(loop, _settle_all, its)

    def survive_fork(self) -> None:
        """In a forked child: never close the connection, whose locks and mutexes belong to the parent."""
        if self._link is not None:
            _kept_by_the_fork(self._link.connection)


def _settle_all(answers: Sequence[Answer]) -> None:
    for request, result, error in answers:
        request.settle(result, error)


def _call(loop: asyncio.AbstractEventLoop, callback: Callable[..., object], *arguments: object) -> None:
    # A loop that is closed raises: nobody waits there any more.
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(callback, *arguments)


_file_threads: weakref.WeakSet[FileThread] = weakref.WeakSet()


def _kept_by_the_fork(connection: sqlite3.Connection) -> None:
    # Another reference that nothing ever gives back: not even the end of the interpreter may finalize the connection,
    # since a mutex of SQLite may have been held by a thread that the child does not have.
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


def _after_fork() -> None:
    for each in list(_file_threads):
        each.survive_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
