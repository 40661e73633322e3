"""Registering tasks: names, handlers, decorators, refusals and warnings, and that nothing refused is left behind."""

from __future__ import annotations

import asyncio
import functools
import json
import time
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import AsyncMock, Mock

import pytest

from anarchon import (
    AnarchonWarning,
    Backend,
    ClaimBackend,
    ConfigurationError,
    InvalidBaselineError,
    InvalidCronError,
    InvalidInstantError,
    InvalidIntervalError,
    InvalidTimezoneError,
    LeaseBackend,
    RunContext,
    Scheduler,
    StateError,
    TaskExistsError,
    UnsafeOptionError,
    UnsupportedOptionError,
    parse_cron,
)
from anarchon.engine import EngineTask
from anarchon.testing import MemoryBackend, MemoryClaimBackend

SPECS = Path(__file__).parents[1] / "data" / "specs.jsonl"
T = TypeVar("T")


@dataclass
class Payload:
    n: int


async def plain() -> None: ...


def lease() -> Scheduler[Any]:
    return Scheduler(MemoryBackend())


def claim() -> Scheduler[Any]:
    return Scheduler(MemoryClaimBackend())


def refusal(kind: type[Exception], call: Callable[..., object], *args: Any, **options: Any) -> str:
    with pytest.raises(kind) as caught:
        call(*args, **options)
    assert type(caught.value) is kind
    return str(caught.value)


def for_engine(scheduler: Scheduler[Any], name: str) -> EngineTask:
    """What the engine is given for a task."""
    found: EngineTask = scheduler.task(name)._for_engine()
    return found


# ------------------------------------------------------------------ what a registration returns


def test_a_task_shows_what_was_registered() -> None:
    scheduler = lease()

    task = scheduler.every("sync", "5m", plain, data=3, timeout_ms=60_000)

    assert scheduler.task("sync") is task
    assert (task.name, task.data, task.fn) == ("sync", 3, plain)
    assert task.schedule.describe() == "every 5 minutes"
    assert task.settings.timeout_ms == 60_000
    assert repr(task) == "<Task 'sync': every 5 minutes>"


def test_a_task_that_is_not_there_is_refused_with_those_that_are() -> None:
    scheduler = lease()
    assert refusal(ConfigurationError, scheduler.task, "sink") == (
        "no task is registered as 'sink'; registered are: none"
    )
    for number in range(12):
        scheduler.every(f"t{number}", "5m", plain)

    assert refusal(ConfigurationError, scheduler.task, "sink").endswith("'t8', 't9' and 2 more")


@pytest.mark.parametrize("interval", ["5m", 300_000, timedelta(minutes=5)])
def test_an_interval_is_a_text_milliseconds_or_a_timedelta(interval: str | int | timedelta) -> None:
    assert lease().every("a", interval, plain).schedule.shortest_gap() == 300_000


@pytest.mark.parametrize("when", ["2027-01-01T00:00:00Z", 1_798_761_600_000, datetime(2027, 1, 1, tzinfo=UTC)])
def test_an_instant_is_a_text_milliseconds_or_an_aware_datetime(when: str | int | datetime) -> None:
    assert lease().at("a", when, plain).schedule.next(0) == 1_798_761_600_000


def test_the_decorator_returns_the_function_itself() -> None:
    scheduler = lease()

    async def ping() -> None: ...

    assert scheduler.every("ping", "30s")(ping) is ping
    assert scheduler.task("ping").fn is ping


def test_one_function_may_serve_several_tasks() -> None:
    scheduler = lease()

    @scheduler.every("often", "30s")
    @scheduler.cron("seldom", "0 2 * * *")
    async def ping() -> None: ...

    assert scheduler.task("often").fn is scheduler.task("seldom").fn is ping


def test_a_second_function_for_one_task_is_refused() -> None:
    scheduler = lease()
    task = scheduler.every("ping", "30s", plain)

    assert refusal(ConfigurationError, task, plain) == (
        "task 'ping' on memory already has a function; register another task for another function"
    )
    assert scheduler.task("ping") is task


def test_a_name_is_taken_once() -> None:
    scheduler = lease()
    scheduler.every("ping", "30s", plain)

    assert refusal(TaskExistsError, scheduler.cron, "ping", "0 2 * * *", plain) == (
        "task 'ping' on memory: a task of this name is registered already (every 30 seconds); give one of them another "
        "name"
    )


def test_a_name_that_is_taken_in_the_meantime_is_refused_at_the_decorator() -> None:
    scheduler = lease()
    first = scheduler.every("ping", "30s")
    refusal(ConfigurationError, first, 5)
    scheduler.every("ping", "40s", plain)

    refusal(TaskExistsError, first, plain)


# ------------------------------------------------------------------ nothing refused is left behind


@pytest.mark.parametrize(
    "register",
    [
        lambda s: s.every("a", "5x", plain),
        lambda s: s.every("a", "5m", plain, jitter_ms=300_000),
        lambda s: s.every("a", "5m", 5),
        lambda s: s.every("a", "5m", plain, overlap="maybe"),
        lambda s: s.every("a", "5m", timezone="UTC"),
        lambda s: s.cron("a", "* * * *", plain),
        lambda s: s.cron("a", "0 2 * * *", plain, timezone="Mars/Olympus"),
        lambda s: s.at("a", "tomorrow", plain),
        lambda s: s.every("a", "5m")(5),
    ],
)
def test_a_refused_registration_leaves_the_name_free(register: Callable[[Scheduler[Any]], object]) -> None:
    scheduler = lease()

    with pytest.raises(ConfigurationError):
        register(scheduler)

    assert scheduler.list() == ()
    scheduler.every("a", "5m", plain)


def test_a_decorator_whose_function_was_refused_takes_a_better_one() -> None:
    scheduler = lease()
    task = scheduler.every("a", "5m")
    assert refusal(ConfigurationError, task, 5).startswith("task 'a' on memory: the handler 5 ")

    task(plain)

    assert scheduler.task("a") is task


# ------------------------------------------------------------------ the errors of schedules say whose they are


@pytest.mark.parametrize(
    ("kind", "register"),
    [
        (InvalidIntervalError, lambda s: s.every("a", "5 m", plain)),
        (InvalidIntervalError, lambda s: s.every("a", "99ms", plain)),
        (InvalidIntervalError, lambda s: s.every("a", True, plain)),
        (InvalidIntervalError, lambda s: s.every("a", None, plain)),
        (InvalidIntervalError, lambda s: s.every("a", "5m", plain, offset_ms=300_000)),
        (InvalidBaselineError, lambda s: s.every("a", "5m", plain, baseline="25:00")),
        (InvalidBaselineError, lambda s: s.every("a", "5m", plain, baseline="")),
        (InvalidTimezoneError, lambda s: s.every("a", "5m", plain, baseline="02:00", timezone="Europe")),
        (InvalidCronError, lambda s: s.cron("a", "0 0 30 2 *", plain)),
        (InvalidCronError, lambda s: s.cron("a", 5, plain)),
        (InvalidTimezoneError, lambda s: s.cron("a", "0 2 * * *", plain, timezone="UTC+2")),
        (InvalidTimezoneError, lambda s: s.cron("a", "0 2 * * *", plain, timezone="")),
        (InvalidTimezoneError, lambda s: s.cron("a", "0 2 * * *", plain, timezone=7200)),
        (InvalidInstantError, lambda s: s.at("a", "2027-01-01T00:00:00", plain)),
        (InvalidInstantError, lambda s: s.at("a", datetime(2027, 1, 1), plain)),  # noqa: DTZ001
        (InvalidInstantError, lambda s: s.at("a", 1.5, plain)),
    ],
)
def test_a_bad_schedule_is_refused_with_task_and_backend(
    kind: type[ConfigurationError], register: Callable[[Scheduler[Any]], object]
) -> None:
    assert refusal(kind, register, lease()).startswith("task 'a' on memory: ")


def test_options_of_another_method_do_not_exist() -> None:
    scheduler = lease()

    calls: list[Callable[[], object]] = [
        lambda: scheduler.at("a", 0, plain, overlap="skip"),  # type: ignore[call-arg]
        lambda: scheduler.at("a", 0, plain, timezone="UTC"),  # type: ignore[call-arg]
        lambda: scheduler.cron("a", "0 2 * * *", plain, offset_ms=5),  # type: ignore[call-arg]
        lambda: scheduler.every("a", "5m", plain, job="x"),  # type: ignore[call-arg]
    ]
    for call in calls:
        with pytest.raises(TypeError, match="unexpected keyword argument"):
            call()


def test_lease_options_are_refused_on_a_claim_only_backend_by_name() -> None:
    assert refusal(UnsupportedOptionError, claim().every, "a", "5m", plain, overlap="skip") == (
        "task 'a' on memory (claim-only): overlap='skip' needs a lease backend, and memory (claim-only) only remembers "
        "that a slot was claimed; leave the option out, or use a lease backend such as SQLite"
    )


def test_the_slot_memory_of_a_claim_only_backend_bounds_what_is_late() -> None:
    scheduler = Scheduler(MemoryClaimBackend(slot_ttl_ms=62_000))

    assert "remembers a claimed slot for only 62000 ms" in refusal(UnsafeOptionError, scheduler.every, "a", "5m", plain)
    scheduler.every("a", "5m", plain, max_late_ms=59_999)


@pytest.mark.parametrize("given", [0, -1, "5m", True, None])
def test_a_slot_memory_that_is_no_duration_is_refused(given: Any) -> None:
    assert "slot_ttl_ms" in refusal(ConfigurationError, MemoryClaimBackend, slot_ttl_ms=given)


def test_the_schedulers_zone_is_for_cron_and_for_baselines() -> None:
    scheduler = Scheduler(MemoryBackend(), timezone="europe/berlin")

    assert scheduler.cron("a", "0 2 * * *", plain).schedule.timezone == "Europe/Berlin"
    assert scheduler.every("b", "1d", plain, baseline="02:00").schedule.timezone == "Europe/Berlin"
    assert scheduler.every("c", "1d", plain).schedule.timezone is None
    assert scheduler.cron("d", "0 2 * * *", plain, timezone="UTC").schedule.timezone == "UTC"


# ------------------------------------------------------------------ the scheduler itself


def extends_backend_directly() -> Backend:
    half: Any = type("HalfBackend", (Backend,), {})
    half.__abstractmethods__ = frozenset()
    made: Backend = half()
    return made


@pytest.mark.parametrize(
    ("backend", "why"),
    [
        ("sqlite://x", "and is str; open_backend(url) makes one from a URL"),
        (None, "and is NoneType"),
        (MemoryBackend, "and is the class MemoryBackend, not an instance"),
        (
            extends_backend_directly(),
            "HalfBackend extends Backend directly; a backend extends ClaimBackend or LeaseBackend",
        ),
    ],
)
def test_a_scheduler_needs_a_backend(backend: Any, why: str) -> None:
    assert why in refusal(ConfigurationError, Scheduler, backend)


def test_a_schedulers_url_is_not_shown() -> None:
    secret: Any = "postgresql://user:secret@host/db"

    assert "secret" not in refusal(ConfigurationError, Scheduler, secret)


@pytest.mark.parametrize(
    "options",
    [
        {"namespace": ""},
        {"namespace": "a" * 65},
        {"instance_id": ""},
        {"lease_ttl_ms": 1_999},
        {"lease_ttl_ms": True},
        {"shutdown_grace_ms": -1},
        {"max_concurrent_runs": 0},
        {"jitter_ms": -1},
        {"max_late_ms": 0},
        {"history_size": 0},
        {"history_ttl_ms": 0},
        {"timezone": "Europe"},
        {"timezone": ""},
    ],
)
def test_bad_options_of_the_scheduler_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        Scheduler(MemoryBackend(), **options)


def test_an_age_of_history_for_a_scheduler_that_cannot_is_refused() -> None:
    assert "history_ttl_ms=5 needs a backend that can drop runs by age" in refusal(
        UnsupportedOptionError, Scheduler, MemoryClaimBackend(), history_ttl_ms=5
    )


# ------------------------------------------------------------------ handlers


def sync_plain() -> None: ...
async def with_context(ctx: RunContext) -> None: ...
def sync_context(ctx: RunContext) -> None: ...
async def with_any_name(run: RunContext) -> None: ...
async def unannotated(x):  # type: ignore[no-untyped-def]
    ...


async def with_default(ctx: RunContext | None = None) -> None: ...
async def annotated_default(run: RunContext | None = None) -> None: ...
async def own_default(limit: int = 5) -> None: ...
async def context_and_default(ctx: RunContext, limit: int = 5) -> None: ...
async def any_arguments(*args: object) -> None: ...
async def any_keywords(**kwargs: object) -> None: ...
async def positional_only(ctx: RunContext, /) -> None: ...
async def keyword_default(*, limit: int = 5) -> None: ...
async def two(a: int, ctx: RunContext) -> None: ...


def unwrapped_decorator(fn: Callable[..., object]) -> Callable[..., object]:
    @functools.wraps(fn)
    def wrapper(*args: object, **kwargs: object) -> object:
        return fn(*args, **kwargs)

    return wrapper


class Service:
    async def method(self, ctx: RunContext) -> None: ...
    async def bare(self) -> None: ...
    def sync_method(self) -> None: ...

    @classmethod
    async def of_class(cls, ctx: RunContext) -> None: ...

    @staticmethod
    async def of_none(ctx: RunContext) -> None: ...


class AsyncCallable:
    async def __call__(self, ctx: RunContext) -> None: ...


class SyncCallable:
    def __call__(self) -> None: ...


SHAPES: list[tuple[Any, bool, bool]] = [
    # handler, is it async, does it take the context
    (plain, True, False),
    (sync_plain, False, False),
    (with_context, True, True),
    (sync_context, False, True),
    (with_any_name, True, True),
    (unannotated, True, True),
    (with_default, True, True),
    (annotated_default, True, True),
    (own_default, True, False),
    (context_and_default, True, True),
    (any_arguments, True, True),
    (any_keywords, True, False),
    (positional_only, True, True),
    (keyword_default, True, False),
    (lambda: None, False, False),
    (lambda ctx: None, False, True),
    (lambda i=5: None, False, False),
    (functools.partial(two, 1), True, True),
    (functools.partial(functools.partial(two, 1)), True, True),
    (functools.partial(own_default, limit=1), True, False),
    (functools.partial(Service().method), True, True),
    (Service().method, True, True),
    (Service().bare, True, False),
    (Service().sync_method, False, False),
    (Service.of_class, True, True),
    (Service.of_none, True, True),
    (staticmethod(with_context), True, True),
    (AsyncCallable(), True, True),
    (SyncCallable(), False, False),
    (functools.partial(AsyncCallable()), True, True),
    (unwrapped_decorator(with_context), False, True),
    (unwrapped_decorator(plain), False, False),
    (functools.lru_cache(sync_plain), False, False),
    ([].append, False, True),
    (AsyncMock(), True, True),
    (Mock(), False, True),
]


@pytest.mark.parametrize(("handler", "is_async", "takes_context"), SHAPES)
def test_how_a_handler_is_called_is_found_out(handler: Any, is_async: bool, takes_context: bool) -> None:
    scheduler = lease()

    scheduler.every("called", "5m", handler)
    scheduler.every("decorated", "5m")(handler)

    for name in ("called", "decorated"):
        task = for_engine(scheduler, name)
        assert (task.fn, task.is_async, task.takes_context) == (handler, is_async, takes_context)


async def generator() -> AsyncIterator[int]:
    yield 1


def sync_generator() -> Iterator[int]:
    yield 1


async def needs_keyword(*, limit: int) -> None: ...


class GeneratorCallable:
    def __call__(self) -> Iterator[int]:
        yield 1


def takes_self(self: object) -> None: ...


REFUSED: list[tuple[Any, str]] = [
    (5, "cannot be called; pass an async def or def function"),
    ("plain", "cannot be called"),
    (Service, "Service is a class; pass a function, or an instance of it that can be called"),
    (generator, "generator is a generator function: calling it runs none of its code; take the yield out"),
    (sync_generator, "is a generator function"),
    (functools.partial(sync_generator), "is a generator function"),
    (GeneratorCallable(), "is a generator function"),
    (two, "two needs 2 arguments (a, ctx), and gets the context at most; use functools.partial or data= for the rest"),
    (Service.method, "Service.method needs 2 arguments (self, ctx), and gets the context at most; pass a bound method"),
    (Service.bare, "Service.bare takes self: it is a method that is bound to no object; pass a bound method"),
    (takes_self, "takes self"),
    (needs_keyword, "needs the keyword 'limit', which nobody passes; use functools.partial or data="),
    (Service.__dict__["of_class"], "cannot be called"),
    ({}.update, "does not show its parameters; put a function around it, such as a lambda"),
]


@pytest.mark.parametrize(("handler", "why"), REFUSED)
def test_what_cannot_be_a_handler_is_refused(handler: Any, why: str) -> None:
    scheduler = lease()

    text = refusal(ConfigurationError, scheduler.every, "a", "5m", handler)
    assert text.startswith("task 'a' on memory: the handler ")
    assert why in text
    assert why in refusal(ConfigurationError, scheduler.every("a", "5m"), handler)
    assert scheduler.list() == ()


def test_a_coroutine_is_refused_with_a_hint() -> None:
    coroutine: Any = plain()

    assert "is awaitable already; pass the function itself, without calling it" in refusal(
        ConfigurationError, lease().every, "a", "5m", coroutine
    )
    coroutine.close()


# ------------------------------------------------------------------ handlers that want data


def wants(ctx: RunContext[Payload]) -> None: ...
def wants_or_none(ctx: RunContext[Payload | None]) -> None: ...
def wants_any(ctx: RunContext[Any]) -> None: ...
def wants_object(ctx: RunContext[object]) -> None: ...
def wants_generic(ctx: RunContext[T]) -> None: ...
def wants_unknown(ctx: RunContext[Nowhere]) -> None: ...  # type: ignore[name-defined]  # noqa: F821
def wants_beside_unknown(ctx: RunContext[Payload]) -> Nowhere: ...  # type: ignore[name-defined]  # noqa: F821


class WithData:
    async def method(self, ctx: RunContext[Payload]) -> None: ...
    async def __call__(self, ctx: RunContext[Payload]) -> None: ...


@pytest.mark.parametrize(
    "handler",
    [
        wants,
        wants_beside_unknown,
        WithData().method,
        WithData(),
        functools.partial(wants),
        unwrapped_decorator(wants),
    ],
)
def test_a_handler_that_wants_data_is_refused_without(handler: Any) -> None:
    scheduler = lease()

    text = refusal(ConfigurationError, scheduler.every, "a", "5m", handler)
    assert text.endswith(
        "wants data (its context is annotated with a type of data), and data= was left out; pass data=, or annotate it "
        "RunContext"
    )
    assert "wants data" in refusal(ConfigurationError, scheduler.every("a", "5m"), handler)
    scheduler.every("a", "5m", handler, data=Payload(1))


@pytest.mark.parametrize("handler", [wants_or_none, wants_any, wants_object, wants_generic, wants_unknown])
def test_a_handler_that_does_without_data_or_cannot_be_told_is_taken(handler: Any) -> None:
    lease().every("a", "5m", handler)


# ------------------------------------------------------------------ warnings


@pytest.mark.parametrize(
    ("register", "text"),
    [
        (lambda s: s.every("a", "5m", plain, overlap="skip"), "overlap='skip' without timeout_ms"),
        (lambda s: s.cron("a", "0 2 * * *", plain, overlap="skip"), "overlap='skip' without timeout_ms"),
        (lambda s: s.cron("a", "* 2 * * *", plain), "fires every minute from 02:00 to 02:59"),
        (lambda s: s.cron("a", "0 0 13 * FRI", plain), "sets both day fields"),
        (lambda s: s.at("a", datetime(2027, 1, 1, 2, 3, 4, 5678, UTC), plain), "looks like a time computed from"),
        (lambda s: s.at("a", "2027-01-01T02:03:04.005678+00:00", plain), "2027-01-01T02:03:04.005Z is not on a whole"),
        (lambda s: s.cron("a", "0 2 * * *", plain, timezone="local"), 'timezone="local" is'),
        (lambda s: s.every("a", "1d", plain, baseline="02:00", timezone="LOCAL"), 'timezone="local" is'),
        (lambda s: Scheduler(MemoryBackend(), timezone="local"), 'timezone="local" is'),
    ],
)
def test_what_hurts_is_warned_of_at_the_users_line(register: Callable[[Scheduler[Any]], object], text: str) -> None:
    with pytest.warns(AnarchonWarning) as caught:
        register(lease())

    (warning,) = caught
    assert text in str(warning.message)
    assert warning.filename == __file__


def test_a_warning_that_is_made_an_error_leaves_nothing_behind() -> None:
    scheduler = lease()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(AnarchonWarning):
            scheduler.every("a", "5m", plain, overlap="skip")

    assert scheduler.list() == ()


def test_ordinary_registrations_warn_of_nothing() -> None:
    scheduler = lease()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scheduler.every("a", "5m", plain)
        scheduler.cron("b", "0 2 * * *", plain, overlap="skip", timeout_ms=5)
        scheduler.at("c", 0, plain)
        scheduler.at("d", datetime(2027, 1, 1, tzinfo=UTC), plain)
        scheduler.at("e", "2027-01-01T00:00:00Z", plain)
        scheduler.at("f", 1_798_761_600_123, plain)


# ------------------------------------------------------------------ when registration ends


def test_start_refuses_a_task_without_a_function_and_names_it() -> None:
    scheduler = lease()
    scheduler.every("forgotten", "5m")

    async def story() -> None:
        with pytest.raises(StateError, match="task 'forgotten' has no function"):
            await scheduler.start()

    asyncio.run(story())
    assert scheduler.status().started is False


def test_registration_ends_at_start_and_is_open_again_after_stop() -> None:
    scheduler = lease()
    pending = scheduler.every("before", "5m", plain)

    async def story() -> None:
        async with scheduler:
            for call in (
                lambda: scheduler.every("late", "5m", plain),
                lambda: scheduler.cron("late", "0 2 * * *", plain),
                lambda: scheduler.at("late", 0, plain),
                lambda: pending(plain),
            ):
                with pytest.raises(StateError, match="registration ends when the scheduler starts"):
                    call()

    asyncio.run(story())
    scheduler.every("late", "5m", plain)


# ------------------------------------------------------------------ many


def test_ten_thousand_registrations_keep_their_order() -> None:
    scheduler = lease()
    for number in range(10_000):
        scheduler.cron(f"t{number}", f"{number % 60} {number % 24} * * *", plain)

    assert [task.name for task in scheduler.list()] == [f"t{number}" for number in range(10_000)]


@pytest.mark.slow
def test_ten_thousand_registrations_cost_little_more_than_parsing_their_expressions() -> None:
    expressions = [f"{n % 60} {n // 60 % 24} {n % 28 + 1} {n % 12 + 1} *" for n in range(10_000)]

    def register() -> None:
        scheduler = lease()
        for number, expression in enumerate(expressions):
            scheduler.cron(f"t{number}", expression, plain)

    def parse() -> None:
        for expression in expressions:
            parse_cron(expression)

    assert best_of(register) < LITTLE * best_of(parse)


LITTLE = 4
"""The measured ratio is below 3; the rest is for a busy machine."""


def best_of(work: Callable[[], object], times: int = 5) -> float:
    found: list[float] = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        found.append(time.perf_counter() - began)
    return min(found)


# ------------------------------------------------------------------ the rows of kind 'spec'

BACKENDS: dict[str, Callable[[], Backend]] = {
    "lease": MemoryBackend,
    "redis strategy=claim": MemoryClaimBackend,
}


def spec_rows() -> list[Any]:
    rows = [json.loads(line) for line in SPECS.read_text(encoding="utf-8").splitlines()]
    return [pytest.param(row, id=row["id"]) for row in rows if row["kind"] == "spec"]


@pytest.mark.parametrize("row", spec_rows())
def test_a_spec_that_cannot_work_is_refused(row: dict[str, Any]) -> None:
    spec = dict(row["input"])
    scheduler: Scheduler[Any] = Scheduler(BACKENDS[spec.pop("backend", "lease")]())
    if "tz" in spec:
        spec["timezone"] = spec.pop("tz")
    (method,) = {"every", "cron", "at"} & spec.keys()
    schedule = spec.pop(method)

    assert row["valid"] is False
    # An option that a method does not have is no keyword of it.
    with pytest.raises((ConfigurationError, TypeError)):
        getattr(scheduler, method)("a", schedule, plain, **spec)
    assert scheduler.list() == ()


def test_both_kinds_of_backend_are_what_they_say() -> None:
    assert isinstance(MemoryBackend(), LeaseBackend)
    assert isinstance(MemoryClaimBackend(), ClaimBackend)
