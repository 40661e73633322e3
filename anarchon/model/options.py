"""Every rule about options, as pure functions from what a user wrote to the settings in force.

Nothing is half accepted: a function of this module returns settings that keep every rule, or raises an error that
names the task, the backend, the option, its value, the rule and a way out. Defaults that depend on each other are
filled in so that they keep the rules by themselves; only what was written out can contradict.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import Any, Final, TypeAlias

from anarchon.errors import ConfigurationError, UnsafeOptionError, UnsupportedOptionError
from anarchon.model.settings import SchedulerSettings, TaskSettings
from anarchon.model.words import MIN_LEASE_MS, OverlapPolicy
from anarchon.times.instants import iso
from anarchon.times.schedule import At, Cron, Every

Schedule: TypeAlias = Every | Cron | At

LONGEST_MS = 3_660 * 86_400_000
"""The longest duration that an option takes: ten years, ms."""

MINUTE_MS = 60_000

LONGEST_LEASE_MS = 86_400_000
"""The longest lease, ms: a run whose instance died waits for its end."""

LARGEST_HISTORY = 1_000_000
"""The most runs that are kept per task."""

MOST_ATTEMPTS = 1_000
"""The most starts of one run."""

MOST_RUNS = 1_000_000
"""The most runs at once."""

LONGEST_TASK_NAME = 128
LONGEST_NAMESPACE = 64
LONGEST_INSTANCE_ID = 128

DEFAULT_OVERLAP: Final[OverlapPolicy] = "skip"
DEFAULT_MAX_ATTEMPTS = 3
DEFAULT_CATCH_UP_MS = 300_000


class _NotGiven:
    __slots__ = ()

    def __repr__(self) -> str:
        return "DEFAULT"


# Typed Any on purpose: checkers compare the default of an omitted argument with the solved type of the parameter.
DEFAULT: Final[Any] = _NotGiven()
"""The value of an option that was not given. An option that a backend cannot keep must be told from its default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """What the rules have to know of a backend."""

    name: str
    lease: bool
    history_ttl: bool
    remembers_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDefaults:
    """What a scheduler's tasks have where nothing was written for them."""

    jitter_ms: int
    max_late_ms: int
    history_size: int
    history_ttl_ms: int | None
    timezone: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerOptions:
    """The checked options of a scheduler."""

    namespace: str
    instance_id: str | None
    lease_ttl_ms: int
    shutdown_grace_ms: int
    max_concurrent_runs: int | None
    tasks: TaskDefaults

    def settings(self, instance_id: str) -> SchedulerSettings:
        """The settings of one start, under the id of that instance."""
        return SchedulerSettings(
            namespace=self.namespace,
            instance_id=instance_id,
            lease_ms=self.lease_ttl_ms,
            shutdown_grace_ms=self.shutdown_grace_ms,
            max_concurrent_runs=self.max_concurrent_runs,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """The options of one registration as they were written, unchecked. None, and DEFAULT where so named: left out."""

    jitter_ms: object = None
    max_late_ms: object = None
    timeout_ms: object = None
    history_size: object = None
    history_ttl_ms: object = DEFAULT
    overlap: object = DEFAULT
    max_attempts: object = DEFAULT
    catch_up_ms: object = DEFAULT


NOTHING_GIVEN = Given()


def given_options(
    jitter_ms: object,
    max_late_ms: object,
    timeout_ms: object,
    history_size: object,
    history_ttl_ms: object,
    overlap: object,
    max_attempts: object,
    catch_up_ms: object,
) -> Given:
    """The options of one registration; one object for all that leave every option out, as most do."""
    if (
        timeout_ms is None
        and overlap is max_attempts is catch_up_ms is history_ttl_ms is DEFAULT
        and jitter_ms is max_late_ms is history_size is None
    ):
        return NOTHING_GIVEN
    return Given(
        jitter_ms=jitter_ms,
        max_late_ms=max_late_ms,
        timeout_ms=timeout_ms,
        history_size=history_size,
        history_ttl_ms=history_ttl_ms,
        overlap=overlap,
        max_attempts=max_attempts,
        catch_up_ms=catch_up_ms,
    )


# ------------------------------------------------------------------ single values


def whole(where: str, option: str, value: object, *, least: int, most: int) -> int:
    """`value` as a whole number from `least` to `most`, or a ConfigurationError that says what else was given."""
    if type(value) is not int:
        # An IntEnum and the like are ints; a bool is one only by accident.
        if isinstance(value, int) and not isinstance(value, bool):
            value = int(value)
        else:
            raise ConfigurationError(f"{where}: {option}={value!r} must be an int{_instead(option, value)}")
    if least <= value <= most:
        return value
    unit = " ms" if option.endswith("_ms") else ""
    # Python refuses to print an int of more than 4,300 digits.
    shown = str(value) if value.bit_length() < 1_000 else f"(an int of {value.bit_length()} bits)"
    if value < least:
        raise ConfigurationError(f"{where}: {option}={shown} is too small; it must be at least {least}{unit}")
    raise ConfigurationError(f"{where}: {option}={shown} is too large; it must be at most {most}{unit}")


def _instead(option: str, value: object) -> str:
    if option.endswith("_ms"):
        if isinstance(value, str):
            return f' of milliseconds; ms("...") converts a text such as "20m", as in {option}=ms({value!r})'
        if isinstance(value, timedelta):
            return f" of milliseconds; ms(timedelta(...)) converts, as in {option}=ms(value)"
        return f" of milliseconds, not {_kind(value)}"
    return f", not {_kind(value)}"


def _kind(value: object) -> str:
    return "None" if value is None else type(value).__name__


def _name(what: str, value: object, longest: int) -> str:
    if not isinstance(value, str):
        raise ConfigurationError(f"{what} {value!r} must be a str, not {_kind(value)}")
    if 0 < len(value) <= longest and value.isascii() and value.isprintable() and " " not in (value[0], value[-1]):
        # The ordinary case, at once.
        return value
    if not 1 <= len(value) <= longest:
        shown = value if len(value) <= longest else f"{value[:20]}..."
        raise ConfigurationError(f"{what} {shown!r} has {len(value)} characters; it must have 1 to {longest}")
    if any(_is_control(character) for character in value):
        raise ConfigurationError(f"{what} {value!r} holds a control character or half a surrogate pair; leave it out")
    if value.strip() != value:
        raise ConfigurationError(f"{what} {value!r} begins or ends with a blank; leave the blank out")
    return value


def _is_control(character: str) -> bool:
    code = ord(character)
    return code < 0x20 or 0x7F <= code < 0xA0 or 0xD800 <= code < 0xE000 or code in (0x2028, 0x2029)


def check_task_name(value: object) -> str:
    """A task's name: 1 to 128 characters, no control characters, no blank at either end."""
    return _name("task name", value, LONGEST_TASK_NAME)


def check_grace(value: object, *, call: str) -> int:
    """The grace of a stop, ms."""
    return whole(call, "grace_ms", value, least=0, most=LONGEST_MS)


# ------------------------------------------------------------------ the scheduler's


def check_scheduler(
    *,
    store: Store,
    namespace: object,
    instance_id: object,
    lease_ttl_ms: object,
    shutdown_grace_ms: object,
    max_concurrent_runs: object,
    jitter_ms: object,
    max_late_ms: object,
    history_size: object,
    history_ttl_ms: object,
    timezone: str,
) -> SchedulerOptions:
    """Check the options of a scheduler. `timezone` has been resolved to the name of a zone before."""
    where = f"scheduler on {store.name}"
    if history_ttl_ms is not None:
        _need_history_ttl(where, store, history_ttl_ms)
    return SchedulerOptions(
        namespace=_name("namespace", namespace, LONGEST_NAMESPACE),
        instance_id=None if instance_id is None else _name("instance_id", instance_id, LONGEST_INSTANCE_ID),
        lease_ttl_ms=whole(where, "lease_ttl_ms", lease_ttl_ms, least=MIN_LEASE_MS, most=LONGEST_LEASE_MS),
        shutdown_grace_ms=whole(where, "shutdown_grace_ms", shutdown_grace_ms, least=0, most=LONGEST_MS),
        max_concurrent_runs=None
        if max_concurrent_runs is None
        else whole(where, "max_concurrent_runs", max_concurrent_runs, least=1, most=MOST_RUNS),
        tasks=TaskDefaults(
            jitter_ms=whole(where, "jitter_ms", jitter_ms, least=0, most=LONGEST_MS),
            max_late_ms=whole(where, "max_late_ms", max_late_ms, least=1, most=LONGEST_MS),
            history_size=whole(where, "history_size", history_size, least=1, most=LARGEST_HISTORY),
            history_ttl_ms=None
            if history_ttl_ms is None
            else whole(where, "history_ttl_ms", history_ttl_ms, least=1, most=LONGEST_MS),
            timezone=timezone,
        ),
    )


# ------------------------------------------------------------------ a task's


def resolve(where: str, schedule: Schedule, given: Given, defaults: TaskDefaults, store: Store) -> TaskSettings:
    """Check the options of one task against each other and against the backend, and fill in the rest.

    `where` is how messages begin: the task and the backend.
    """
    overlap, max_attempts, catch_up_ms = _lease_options(where, given, store)
    jitter_ms = _jitter(where, schedule, given.jitter_ms, defaults.jitter_ms)
    max_late_ms = _max_late(where, given, jitter_ms, defaults.max_late_ms)
    if not store.lease and store.remembers_ms is not None and jitter_ms + max_late_ms >= store.remembers_ms:
        raise UnsafeOptionError(
            f"{where}: max_late_ms={max_late_ms} with jitter_ms={jitter_ms} lets an instance ask for a slot until "
            f"{jitter_ms + max_late_ms} ms after it, but {store.name} remembers a claimed slot for only "
            f"{store.remembers_ms} ms, so a late instance could win it again; lower max_late_ms (or jitter_ms) until "
            f"their sum is less than {store.remembers_ms}, or let the backend remember longer (slot_ttl_ms)"
        )
    timeout_ms = None
    if given.timeout_ms is not None:
        timeout_ms = whole(where, "timeout_ms", given.timeout_ms, least=1, most=LONGEST_MS)
    history_size = defaults.history_size
    if given.history_size is not None:
        history_size = whole(where, "history_size", given.history_size, least=1, most=LARGEST_HISTORY)
    history_ttl_ms = _history_ttl(where, given.history_ttl_ms, defaults.history_ttl_ms, store)
    return _settings(
        jitter_ms, max_late_ms, timeout_ms, overlap, max_attempts, catch_up_ms, history_size, history_ttl_ms
    )


@lru_cache(maxsize=256)
def _settings(
    jitter_ms: int,
    max_late_ms: int,
    timeout_ms: int | None,
    overlap: OverlapPolicy,
    max_attempts: int,
    catch_up_ms: int,
    history_size: int,
    history_ttl_ms: int | None,
) -> TaskSettings:
    """One object for the many tasks that have the same options."""
    return TaskSettings(
        jitter_ms=jitter_ms,
        max_late_ms=max_late_ms,
        timeout_ms=timeout_ms,
        overlap=overlap,
        max_attempts=max_attempts,
        catch_up_ms=catch_up_ms,
        history_size=history_size,
        history_ttl_ms=history_ttl_ms,
    )


def _lease_options(where: str, given: Given, store: Store) -> tuple[OverlapPolicy, int, int]:
    if not store.lease:
        for option in ("overlap", "max_attempts", "catch_up_ms"):
            value = getattr(given, option)
            if value is not DEFAULT:
                raise UnsupportedOptionError(
                    f"{where}: {option}={value!r} needs a lease backend, and {store.name} only remembers that a slot "
                    "was claimed; leave the option out, or use a lease backend such as SQLite"
                )
        return "allow", 1, 0
    if given.overlap is DEFAULT and given.max_attempts is DEFAULT and given.catch_up_ms is DEFAULT:
        return DEFAULT_OVERLAP, DEFAULT_MAX_ATTEMPTS, DEFAULT_CATCH_UP_MS
    overlap: OverlapPolicy = DEFAULT_OVERLAP
    if given.overlap is not DEFAULT:
        if given.overlap == "skip":
            overlap = "skip"
        elif given.overlap == "allow":
            overlap = "allow"
        else:
            raise ConfigurationError(f"{where}: overlap={given.overlap!r} must be 'skip' or 'allow'")
    max_attempts = (
        DEFAULT_MAX_ATTEMPTS
        if given.max_attempts is DEFAULT
        else whole(where, "max_attempts", given.max_attempts, least=1, most=MOST_ATTEMPTS)
    )
    catch_up_ms = (
        DEFAULT_CATCH_UP_MS
        if given.catch_up_ms is DEFAULT
        else whole(where, "catch_up_ms", given.catch_up_ms, least=0, most=LONGEST_MS)
    )
    return overlap, max_attempts, catch_up_ms


def _jitter(where: str, schedule: Schedule, written: object, default_ms: int) -> int:
    if written is None and isinstance(schedule, Cron) and 4 * default_ms <= MINUTE_MS:
        # No two slots of a cron expression are closer than a minute: no need to find out how far apart they are.
        return default_ms
    gap_ms = schedule.shortest_gap()
    if written is None:
        return default_ms if gap_ms is None else min(default_ms, gap_ms // 4)
    jitter_ms = whole(where, "jitter_ms", written, least=0, most=LONGEST_MS)
    if gap_ms is not None and 2 * jitter_ms >= gap_ms:
        raise UnsafeOptionError(
            f"{where}: jitter_ms={jitter_ms} must be less than half the shortest gap between two slots, which is "
            f"{gap_ms} ms ({schedule.describe()}), or claims of neighbouring slots would mix; use at most "
            f"{(gap_ms - 1) // 2}, or leave it out for {min(default_ms, gap_ms // 4)}"
        )
    return jitter_ms


def _max_late(where: str, given: Given, jitter_ms: int, default_ms: int) -> int:
    if given.max_late_ms is None:
        return default_ms if jitter_ms < default_ms else jitter_ms + default_ms
    max_late_ms = whole(where, "max_late_ms", given.max_late_ms, least=1, most=LONGEST_MS)
    if max_late_ms <= jitter_ms:
        whose = "" if given.jitter_ms is not None else ", the default here"
        raise UnsafeOptionError(
            f"{where}: max_late_ms={max_late_ms} must be greater than jitter_ms={jitter_ms}{whose}, or the random wait "
            f"alone could make a slot late; raise max_late_ms above {jitter_ms}, or write a jitter_ms below "
            f"{max_late_ms}"
        )
    return max_late_ms


def _history_ttl(where: str, written: object, default_ms: int | None, store: Store) -> int | None:
    if written is DEFAULT:
        return default_ms
    _need_history_ttl(where, store, written)
    return whole(where, "history_ttl_ms", written, least=1, most=LONGEST_MS)


def _need_history_ttl(where: str, store: Store, value: object) -> None:
    if not store.history_ttl:
        raise UnsupportedOptionError(
            f"{where}: history_ttl_ms={value!r} needs a backend that can drop runs by age, and {store.name} trims its "
            "history by count only; leave the option out and use history_size"
        )


# ------------------------------------------------------------------ schedules


def check_every(where: str, *, offset_ms: object, baseline: object, timezone: object) -> int:
    """The rules between the options that only `every` has. Returns the offset."""
    offset = whole(where, "offset_ms", offset_ms, least=0, most=LONGEST_MS)
    if baseline is not None and offset != 0:
        raise ConfigurationError(
            f"{where}: offset_ms={offset} cannot be used with baseline={baseline!r}, which says already where the grid "
            "lies; leave one of them out"
        )
    if baseline is None and timezone is not None:
        raise ConfigurationError(
            f"{where}: timezone={timezone!r} needs baseline with every(): without one the grid is fixed to the Unix "
            'epoch and no clock change moves it; leave timezone out, or write baseline="HH:MM"'
        )
    return offset


# ------------------------------------------------------------------ legal, but it hurts


def doubts(where: str, schedule: Schedule, given: Given, when: object = None) -> list[str]:
    """What is legal and likely not meant, each as a sentence with a way out. `when`: of an `at`, as it was written."""
    found: list[str] = []
    if given.overlap is not DEFAULT and given.overlap == "skip" and given.timeout_ms is None:
        found.append(
            f"{where}: overlap='skip' without timeout_ms: one run that hangs keeps every later slot of the task "
            "from running; write a timeout_ms"
        )
    if isinstance(schedule, Cron):
        found.extend(_cron_doubts(where, schedule))
    elif isinstance(schedule, At) and schedule.at_ms % 1_000 and not isinstance(when, int):
        # What the clock says has a fraction of a second, and what people write has none. Epoch ms tell nothing.
        found.append(
            f"{where}: {iso(schedule.at_ms)} is not on a whole second, which looks like a time computed from the "
            "clock: every instance would have another, and each would run the task at its own; write one instant out "
            "that is the same in all of them"
        )
    return found


def _cron_doubts(where: str, schedule: Cron) -> list[str]:
    found: list[str] = []
    cron = schedule.expr
    if cron.minutes.bit_count() == 60 and cron.hours.bit_count() == 1:
        (hour,) = cron.hour
        found.append(
            f"{where}: {cron.expr!r} fires every minute from {hour:02d}:00 to {hour:02d}:59; for once at "
            f"{hour:02d}:00 begin it with 0 instead of *"
        )
    if cron.either_day and not cron.every_day:
        found.append(
            f"{where}: {cron.expr!r} sets both day fields, and cron then fires on days that match either of "
            "them, not both; write * in one of them, or look at the other in the handler"
        )
    return found
