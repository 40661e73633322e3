"""Log lines that hold up nobody, and errors in words whatever they do."""

from __future__ import annotations

import logging
import threading

import pytest

from anarchon.log_lines import MOST, all_written, in_words, say
from tests.support.heard import SOON_S

logger = logging.getLogger("anarchon.test_log_lines")


class RefusesError(Exception):
    def __init__(self, raises: type[BaseException]) -> None:
        super().__init__()
        self.raises = raises

    def __str__(self) -> str:
        raise self.raises


@pytest.mark.parametrize("raises", [RuntimeError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_an_error_whose_message_cannot_be_had_is_named_all_the_same(raises: type[BaseException]) -> None:
    assert in_words(RefusesError(raises)) == "RefusesError: (its message could not be read)"


def test_an_error_in_words_is_cut() -> None:
    assert len(in_words(ValueError("x" * 1_000_000))) == 1_000
    assert in_words(ValueError()) == "ValueError"


class Held(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.go_on = threading.Event()
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.go_on.wait(SOON_S)
        self.seen.append(record.getMessage())
        if record.getMessage() == "700":
            raise KeyboardInterrupt


def test_lines_gather_behind_a_handler_that_hangs_up_to_a_limit_and_all_are_written_after_it() -> None:
    held = Held()
    logger.addHandler(held)
    logger.propagate = False
    try:
        for number in range(MOST + 500):
            say(logger, logging.WARNING, "%d", number)
        assert not all_written(0.01)
        held.go_on.set()
        assert all_written(SOON_S)
    finally:
        logger.removeHandler(held)
        logger.propagate = True
    assert len(held.seen) in (MOST, MOST + 1)  # the first is with the handler, or was dropped before it got there
    assert held.seen[-1] == str(MOST + 499)


def test_a_line_that_nobody_wants_is_not_kept() -> None:
    say(logger, logging.DEBUG, "unwanted")
    assert all_written(0)
