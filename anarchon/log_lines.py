"""Log lines of anarchon's own, written where they hold up nobody.

The handlers of `logging` are the application's: one may hang for as long as a pipe is full, and one may raise. So no
line is written by the thread that has something to say. A daemon thread writes what has gathered, and ends.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable

MOST = 1_000
"""How many lines wait to be written; beyond that the oldest are dropped."""


class _Writer:
    """One for the process."""

    def __init__(self) -> None:
        self._lines: deque[Callable[[], object]] = deque(maxlen=MOST)
        # Reentrant: a signal handler or a finalizer may have something to say at any moment.
        self._changed = threading.Condition()
        self._at_work = False

    def put(self, line: Callable[[], object]) -> None:
        with self._changed:
            self._lines.append(line)
            if self._at_work:
                return
            self._at_work = True
        try:
            threading.Thread(target=self._write, name="anarchon-log-lines", daemon=True).start()
        except (RuntimeError, MemoryError):
            # Out of threads, or the interpreter is shutting down.
            self._write()

    def written(self, timeout: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: not self._at_work, timeout)

    def _write(self) -> None:
        while True:
            with self._changed:
                if not self._lines:
                    self._at_work = False
                    self._changed.notify_all()
                    return
                line = self._lines.popleft()
            attempt(line)


_writer = _Writer()


def say(logger: logging.Logger, level: int, text: str, *args: object, error: BaseException | None = None) -> None:
    """Have a line written soon, with the traceback of `error`. Never raises and never waits. From any thread."""
    if logger.isEnabledFor(level):
        _writer.put(lambda: logger.log(level, text, *args, exc_info=error))


def attempt(line: Callable[[], object]) -> None:
    """Write a line here and now, whatever the application's handlers raise: there is nobody left to be told."""
    try:
        line()
    except BaseException:  # also what would end the thread, since none of it is ours
        return


def in_words(error: BaseException) -> str:
    """`TypeName: message`, at most 1,000 characters; safe against an exception whose text cannot be had."""
    name = type(error).__name__
    try:
        text = str(error)
        return (f"{name}: {text}" if text else name)[:1_000]
    except BaseException:  # an exception's own code may raise anything
        return f"{name}: (its message could not be read)"


def all_written(timeout: float) -> bool:
    """Wait until every line is written; False: after `timeout` seconds some are not."""
    return _writer.written(timeout)


def _after_fork() -> None:
    # The thread is the parent's, and so are its lines; the lock may have been held by it.
    global _writer
    _writer = _Writer()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
