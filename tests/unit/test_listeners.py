"""Listeners and the log: they hear everything in order, and hold up nothing."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from anarchon import (
    ConfigurationError,
    Event,
    ListenerFailed,
    RunEvent,
    RunFailed,
    RunRecovered,
    RunSucceeded,
    Scheduler,
    SchedulerStarted,
    SchedulerStopped,
    SlotSkipped,
)
from anarchon.clock import SystemClock
from anarchon.event_log import LEVELS, level_of, log_event
from anarchon.listeners import INBOX, Dispatcher
from anarchon.log_lines import all_written
from anarchon.model import events
from anarchon.session import Session
from anarchon.testing import MemoryBackend
from tests.support.heard import SOON_S, Heard


def make(**options: Any) -> Scheduler[MemoryBackend]:
    return Scheduler(MemoryBackend(), **options)


def session_of(scheduler: Scheduler[Any]) -> Session:
    session = scheduler._session
    assert session is not None
    return session


async def noop() -> None: ...


# ------------------------------------------------------------------ listeners


def one_event(number: int = 0, **changed: Any) -> RunFailed:
    values: dict[str, Any] = {
        "at_ms": number,
        "instance_id": "a",
        "task": "sync",
        "run_id": "default/sync/5",
        "slot_ms": 5,
        "scheduled_at_ms": 5,
        "attempt": 1,
        "reason": "schedule",
        "fence": 9,
        "duration_ms": 1,
        "error": "ValueError: no",
        **changed,
    }
    return RunFailed(**values)


def on_a_loop(story: Callable[[Dispatcher], Any]) -> None:
    """Run a story with a dispatcher whose events go to the story's own loop."""

    async def told() -> None:
        loop = asyncio.get_running_loop()
        dispatcher = Dispatcher(lambda: 0)

        def post(callback: Callable[[], object]) -> bool:
            loop.call_soon_threadsafe(callback)
            return True

        dispatcher.attach(post)
        await story(dispatcher)

    asyncio.run(told())


async def settled(dispatcher: Dispatcher, within_ms: float = 5_000) -> None:
    await dispatcher.last_events(SystemClock(), within_ms)


def test_a_listener_gets_its_class_and_every_subclass_in_order() -> None:
    async def story(dispatcher: Dispatcher) -> None:
        failed: list[Event] = []
        runs: list[Event] = []
        everything: list[Event] = []
        dispatcher.add(RunFailed, failed.append)
        dispatcher.add(RunEvent, runs.append)
        dispatcher.add(Event, everything.append)
        stopped = SchedulerStopped(at_ms=2, instance_id="a", left_running=0)
        told: Sequence[Event] = [one_event(1), stopped, one_event(3)]

        for event in told:
            dispatcher.publish(event)
        await settled(dispatcher)

        assert failed == runs == [told[0], told[2]]
        assert everything == told

    on_a_loop(story)


def test_an_async_listener_gets_its_events_one_at_a_time() -> None:
    async def story(dispatcher: Dispatcher) -> None:
        seen: list[int] = []
        at_once: list[int] = []

        async def listener(event: Event) -> None:
            at_once.append(len(at_once) + 1)
            await SystemClock().sleep_ms(0)
            seen.append(event.at_ms)
            at_once.pop()
            assert at_once == []

        dispatcher.add(Event, listener)
        for number in range(250):
            dispatcher.publish(one_event(number))
        await settled(dispatcher)

        assert seen == list(range(250))

    on_a_loop(story)


def test_a_listener_that_raises_is_logged_once_a_minute_and_told_to_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(dispatcher: Dispatcher) -> None:
        others: list[Event] = []

        def broken(event: Event) -> None:
            raise ValueError("no")

        async def broken_too(event: Event) -> None:
            raise TypeError("neither")

        dispatcher.add(Event, broken)
        dispatcher.add(Event, broken_too)
        dispatcher.add(Event, others.append)
        for number in range(3):
            dispatcher.publish(one_event(number))
        await settled(dispatcher)

        failures = [event for event in others if isinstance(event, ListenerFailed)]
        # Each fails on the three events and, unsaid, on what it hears of the other's failures.
        assert len(failures) == 6
        assert {(event.listener.rpartition(".")[2], event.error) for event in failures} == {
            ("broken", "ValueError: no"),
            ("broken_too", "TypeError: neither"),
        }
        assert len([event for event in others if isinstance(event, RunFailed)]) == 3

    with caplog.at_level(logging.ERROR, "anarchon"):
        on_a_loop(story)
        assert all_written(SOON_S)
    assert len(caplog.records) == 2
    assert all("raised on RunFailed" in record.getMessage() for record in caplog.records)
    assert all(record.exc_info for record in caplog.records)


class UnreadableError(Exception):
    """Its message cannot be had."""

    def __str__(self) -> str:
        raise KeyboardInterrupt


class Nameless:
    """A listener that has no name and cannot be shown."""

    def __call__(self, event: Event) -> None:
        raise UnreadableError

    def __repr__(self) -> str:
        raise ValueError("no")


def test_whatever_a_listener_raises_the_next_one_gets_its_events() -> None:
    async def story(dispatcher: Dispatcher) -> None:
        others: list[Event] = []

        def unreadable(event: Event) -> None:
            raise UnreadableError

        async def unreadable_too(event: Event) -> None:
            raise UnreadableError

        def cancelled(event: Event) -> None:
            raise asyncio.CancelledError

        for broken in (unreadable, unreadable_too, cancelled, Nameless()):
            dispatcher.add(RunFailed, broken)
        dispatcher.add(Event, others.append)
        for number in range(3):
            dispatcher.publish(one_event(number))
        await settled(dispatcher)

        assert len([event for event in others if isinstance(event, RunFailed)]) == 3
        failures = [event for event in others if isinstance(event, ListenerFailed)]
        assert {(event.listener.rpartition(".")[2], event.error) for event in failures} == {
            ("unreadable", "UnreadableError: (its message could not be read)"),
            ("unreadable_too", "UnreadableError: (its message could not be read)"),
            ("cancelled", "CancelledError"),
            ("Nameless", "UnreadableError: (its message could not be read)"),
        }

    on_a_loop(story)


def test_an_async_listener_that_hangs_holds_up_nobody_and_loses_its_oldest() -> None:
    async def story(dispatcher: Dispatcher) -> None:
        counted: list[int] = []

        async def hang(event: Event) -> None:
            await asyncio.get_running_loop().create_future()

        dispatcher.add(Event, hang)
        dispatcher.add(Event, lambda event: counted.append(event.at_ms))
        dispatcher.publish(one_event(-1))
        await SystemClock().sleep_ms(0)
        await SystemClock().sleep_ms(0)
        for number in range(INBOX + 5):
            dispatcher.publish(one_event(number))
            await SystemClock().sleep_ms(0)
        await settled(dispatcher, within_ms=20)

        assert counted == [-1, *range(INBOX + 5)]
        assert dispatcher.dropped == INBOX + 5

    on_a_loop(story)


def test_off_and_the_returned_function_end_a_subscription() -> None:
    scheduler = make()
    heard = Heard(scheduler)
    first: list[Event] = []
    second: list[Event] = []
    scheduler.events.on(SchedulerStarted, first.append)
    end_second = scheduler.events.on(SchedulerStarted, second.append)
    scheduler.events.off(SchedulerStopped, first.append)
    scheduler.events.off(SchedulerStarted, first.append)
    end_second()
    end_second()

    with scheduler:
        heard.wait(SchedulerStarted)

    assert first == second == []
    assert scheduler.events.dropped == 0


@pytest.mark.parametrize("kind", [int, None, one_event(), "RunFailed"])
def test_only_classes_of_events_can_be_listened_to(kind: Any) -> None:
    with pytest.raises(ConfigurationError, match="needs a class of event"):
        make().events.on(kind, print)


def test_only_functions_can_listen() -> None:
    listener: Any = 5

    with pytest.raises(ConfigurationError, match=r"events.on\(RunFailed, 5\) needs a function"):
        make().events.on(RunFailed, listener)


def test_a_listener_that_hangs_does_not_hold_up_stop_for_long() -> None:
    scheduler = make()
    cancelled = threading.Event()

    async def hang(event: SchedulerStarted) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            cancelled.set()

    scheduler.events.on(SchedulerStarted, hang)

    async def story() -> None:
        async with scheduler:
            pass

    asyncio.run(story())
    assert cancelled.is_set()


def test_a_listener_may_stop_the_scheduler_and_goes_on_after_it() -> None:
    scheduler = make()
    through = threading.Event()

    async def stop(event: SchedulerStarted) -> None:
        await scheduler.stop()
        through.set()

    scheduler.events.on(SchedulerStarted, stop)

    async def story() -> None:
        await scheduler.start()
        assert await asyncio.to_thread(through.wait, SOON_S)

    asyncio.run(story())
    assert scheduler.status().started is False


# ------------------------------------------------------------------ the log


def test_every_event_has_a_level_and_words() -> None:
    kinds = {each for each in vars(events).values() if isinstance(each, type) and issubclass(each, Event)}

    assert kinds - {Event, RunEvent} == LEVELS.keys()


def test_a_failure_is_logged_with_its_traceback_and_the_event(caplog: pytest.LogCaptureFixture) -> None:
    event = one_event(traceback="Traceback (most recent call last):\n  ...\nValueError: no\n")

    with caplog.at_level(logging.DEBUG, "anarchon"):
        log_event(event)

    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.getMessage() == (
        "run failed: instance_id='a' task='sync' run_id='default/sync/5' slot_ms=5 scheduled_at_ms=5 attempt=1 "
        "reason='schedule' fence=9 duration_ms=1 error='ValueError: no'\n"
        "Traceback (most recent call last):\n  ...\nValueError: no"
    )
    assert record.__dict__["anarchon"] is event


@pytest.mark.parametrize(
    ("reason", "level"), [("late", logging.WARNING), ("overlap", logging.INFO), ("not-leader", logging.DEBUG)]
)
def test_ordinary_skips_are_quieter(reason: Any, level: int) -> None:
    assert level_of(SlotSkipped(at_ms=0, instance_id="a", task="sync", slot_ms=5, reason=reason)) == level


@pytest.mark.parametrize(("reason", "level"), [("recovery", logging.WARNING), ("hand-over", logging.INFO)])
def test_a_hand_over_is_quieter_than_a_recovery(reason: Any, level: int) -> None:
    facts = {name: getattr(one_event(), name) for name in RunEvent.__dataclass_fields__}

    assert level_of(RunRecovered(**{**facts, "reason": reason})) == level


class Stuck(logging.Handler):
    """A log handler that hangs, as one does whose disk or pipe is full."""

    def __init__(self) -> None:
        super().__init__()
        self.entered = threading.Event()
        self.go_on = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.entered.set()
        self.go_on.wait(SOON_S)


class Raising(logging.Handler):
    """A log handler that raises, which `logging` lets through."""

    def emit(self, record: logging.LogRecord) -> None:
        raise ValueError("the log is broken")


def test_a_log_handler_that_raises_breaks_neither_runs_nor_stop() -> None:
    scheduler = make()
    heard = Heard(scheduler)
    scheduler.every("fast", "100ms", noop, jitter_ms=0)

    def broken(event: Event) -> None:
        raise ValueError("and so is this listener")

    scheduler.events.on(Event, broken)
    raising = Raising()
    log = logging.getLogger("anarchon")
    level = log.level
    log.addHandler(raising)
    log.setLevel(logging.INFO)
    try:
        scheduler.start_background()
        session = session_of(scheduler)
        heard.wait(RunSucceeded)
        scheduler.shutdown()
        assert session.ended.done()
        assert all_written(SOON_S)
    finally:
        log.removeHandler(raising)
        log.setLevel(level)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["scheduler started", "raised on RunSucceeded", "would not end"])
def test_a_log_handler_that_hangs_holds_up_neither_runs_nor_stop(what: str) -> None:
    scheduler = make()
    heard = Heard(scheduler)
    scheduler.every("fast", "100ms", noop, jitter_ms=0)
    release = threading.Event()
    scheduler.every("hangs", "100ms", lambda: release.wait(SOON_S), jitter_ms=0)

    def broken(event: Event) -> None:
        raise ValueError("no")

    scheduler.events.on(RunSucceeded, broken)
    stuck = Stuck()
    stuck.addFilter(lambda record: what in record.getMessage())
    log = logging.getLogger("anarchon")
    level = log.level
    log.addHandler(stuck)
    log.setLevel(logging.INFO)
    try:
        scheduler.start_background()
        session = session_of(scheduler)
        heard.wait(RunSucceeded)
        scheduler.shutdown(100)
        assert scheduler.status().state == "lingering"
        assert stuck.entered.wait(SOON_S)
        release.set()
        session.ended.result(SOON_S)
        assert not stuck.go_on.is_set()
    finally:
        log.removeHandler(stuck)
        log.setLevel(level)
        release.set()
        stuck.go_on.set()
    assert all_written(SOON_S)
