"""Whatever is accepted keeps every rule, and whatever is refused breaks at least one."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import event, given
from hypothesis import strategies as st

from anarchon.errors import ConfigurationError, UnsafeOptionError, UnsupportedOptionError
from anarchon.model.options import DEFAULT, Given, Schedule, Store, TaskDefaults, resolve
from anarchon.model.settings import TaskSettings
from anarchon.times.schedule import at, cron, every

SCHEDULES = st.one_of(
    st.integers(100, 400_000).map(lambda interval: every(interval)),
    st.integers(1, 86_400_000).map(lambda interval: every(max(interval, 3_600_000), baseline="02:30")),
    st.sampled_from(["* * * * *", "*/2 * * * *", "0,59 * * * *", "0 2 * * *", "30 2 29 2 *"]).map(
        lambda expression: cron(expression, timezone="Europe/Berlin")
    ),
    st.just(at(0)),
)
STORES = st.builds(
    Store,
    name=st.just("a store"),
    lease=st.booleans(),
    history_ttl=st.booleans(),
    remembers_ms=st.none() | st.integers(1, 400_000),
)
# Near each other, so that the rules between them are met from both sides.
DURATIONS = st.integers(1, 400_000)
DEFAULTS = st.builds(
    TaskDefaults,
    jitter_ms=st.integers(0, 100_000),
    max_late_ms=DURATIONS,
    history_size=st.integers(1, 1_000),
    history_ttl_ms=st.none() | DURATIONS,
    timezone=st.just("UTC"),
)
SMALL = st.integers(-1, 5)


def or_left_out(values: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.just(DEFAULT) | values


GIVENS = st.builds(
    Given,
    jitter_ms=st.none() | st.integers(-1, 100_000),
    max_late_ms=st.none() | st.integers(-1, 400_000),
    timeout_ms=st.none() | SMALL,
    history_size=st.none() | SMALL,
    history_ttl_ms=or_left_out(SMALL),
    overlap=or_left_out(st.sampled_from(["skip", "allow", "maybe"])),
    max_attempts=or_left_out(SMALL),
    catch_up_ms=or_left_out(SMALL),
)


@dataclass
class Verdict:
    """What the rules say about one combination, written a second time."""

    unsupported: bool
    range_broken: bool
    unsafe: bool


def judge(schedule: Schedule, given_: Given, defaults: TaskDefaults, store: Store) -> Verdict:
    lease_options = (given_.overlap, given_.max_attempts, given_.catch_up_ms)
    unsupported = (not store.lease and any(option is not DEFAULT for option in lease_options)) or (
        not store.history_ttl and given_.history_ttl_ms is not DEFAULT
    )
    least = {
        "jitter_ms": 0,
        "max_late_ms": 1,
        "timeout_ms": 1,
        "history_size": 1,
        "history_ttl_ms": 1,
        "max_attempts": 1,
        "catch_up_ms": 0,
    }
    values = {name: getattr(given_, name) for name in least}
    range_broken = given_.overlap == "maybe" or any(
        isinstance(value, int) and value < least[name] for name, value in values.items()
    )
    gap = schedule.shortest_gap()
    jitter = given_.jitter_ms
    if not isinstance(jitter, int):
        jitter = defaults.jitter_ms if gap is None else min(defaults.jitter_ms, gap // 4)
    max_late = given_.max_late_ms
    if not isinstance(max_late, int):
        max_late = defaults.max_late_ms if jitter < defaults.max_late_ms else jitter + defaults.max_late_ms
    unsafe = (
        (gap is not None and jitter * 2 >= gap)
        or max_late <= jitter
        or (not store.lease and store.remembers_ms is not None and jitter + max_late >= store.remembers_ms)
    )
    return Verdict(unsupported, range_broken, unsafe)


def keeps_the_rules(found: TaskSettings, schedule: Schedule, store: Store) -> None:
    gap = schedule.shortest_gap()
    assert 0 <= found.jitter_ms < found.max_late_ms
    assert gap is None or 2 * found.jitter_ms < gap
    assert found.timeout_ms is None or found.timeout_ms >= 1
    assert found.history_size >= 1
    assert found.history_ttl_ms is None or found.history_ttl_ms >= 1
    if store.lease:
        assert found.overlap in ("skip", "allow")
        assert found.max_attempts >= 1
        assert found.catch_up_ms >= 0
    else:
        assert (found.overlap, found.max_attempts, found.catch_up_ms) == ("allow", 1, 0)
        assert store.remembers_ms is None or found.jitter_ms + found.max_late_ms < store.remembers_ms


@given(SCHEDULES, GIVENS, DEFAULTS, STORES)
def test_what_is_accepted_keeps_the_rules_and_what_is_refused_breaks_one(
    schedule: Schedule, options: Given, defaults: TaskDefaults, store: Store
) -> None:
    verdict = judge(schedule, options, defaults, store)
    try:
        found = resolve("task 'a' on a store", schedule, options, defaults, store)
    except UnsupportedOptionError:
        event("unsupported")
        assert verdict.unsupported
    except UnsafeOptionError:
        event("unsafe")
        assert verdict.unsafe
    except ConfigurationError:
        event("out of range")
        assert verdict.range_broken
    else:
        event("accepted")
        assert verdict == Verdict(unsupported=False, range_broken=False, unsafe=False)
        keeps_the_rules(found, schedule, store)


@given(SCHEDULES, DEFAULTS)
def test_a_lease_backend_refuses_nobody_who_writes_nothing(schedule: Schedule, defaults: TaskDefaults) -> None:
    store = Store(name="a store", lease=True, history_ttl=True, remembers_ms=None)

    keeps_the_rules(resolve("task 'a' on a store", schedule, Given(), defaults, store), schedule, store)


@given(SCHEDULES, GIVENS, DEFAULTS, STORES)
def test_every_refusal_begins_with_task_and_backend_and_names_an_option(
    schedule: Schedule, options: Given, defaults: TaskDefaults, store: Store
) -> None:
    try:
        resolve("task 'a' on a store", schedule, options, defaults, store)
    except ConfigurationError as error:
        text = str(error)
        option, _, rest = text.removeprefix("task 'a' on a store: ").partition("=")
        assert text.startswith("task 'a' on a store: ")
        assert hasattr(options, option)
        assert rest
