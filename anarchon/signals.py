"""SIGINT and SIGTERM for as long as a scheduler is served, and the application's own handlers again after that."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Generator
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def stop_signals(asked: Callable[[], None]) -> Generator[None]:
    """Call `asked` at each signal that asks the process to end. Only in the main thread; elsewhere do nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        asked()

    # By signal.signal and not by the loop, which would forget the handlers that were there before.
    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number in SIGNALS:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            # None: set by something other than Python, which cannot be put back.
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
