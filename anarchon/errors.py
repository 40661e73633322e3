"""Every error that anarchon raises, in one tree.

Each class has a stable `code`, which logs, JSON output and docs/errors.md use. The message names the value,
the rule and the way out; the code names the kind, so that programs never have to read the message.

A handler that exceeds its `timeout_ms` is not an error of anarchon: it ends with the builtin `TimeoutError`.
"""

from __future__ import annotations

from typing import ClassVar


class AnarchonError(Exception):
    """Base of every error of this package."""

    code: ClassVar[str] = "anarchon"


class ConfigurationError(AnarchonError, ValueError):
    """A value that cannot work, found where it is given and before anything is written."""

    code = "configuration"


class InvalidCronError(ConfigurationError):
    """A cron expression that does not parse, is out of range, or can never fire."""

    code = "invalid-cron"


class InvalidIntervalError(ConfigurationError):
    """A duration that does not parse or is too short or too long."""

    code = "invalid-interval"


class InvalidTimezoneError(ConfigurationError):
    """A name that is not a zone of the IANA database."""

    code = "invalid-timezone"


class InvalidBaselineError(ConfigurationError):
    """A baseline that is not a wall time written "HH:MM"."""

    code = "invalid-baseline"


class InvalidInstantError(ConfigurationError):
    """Something that is not one instant: a naive datetime, a date that does not exist, a word."""

    code = "invalid-instant"


class UnsupportedOptionError(ConfigurationError):
    """An option that this backend cannot keep."""

    code = "unsupported-option"


class UnsafeOptionError(ConfigurationError):
    """Options that contradict each other or would break a promise."""

    code = "unsafe-option"


class TaskExistsError(ConfigurationError):
    """A second registration under one name."""

    code = "task-exists"


class StateError(AnarchonError, RuntimeError):
    """A call that does not fit the state the scheduler is in."""

    code = "state"


class BackendError(AnarchonError):
    """The backend did not do what it was asked."""

    code = "backend"


class BackendUnavailableError(BackendError):
    """The request has surely not taken effect: nothing was sent, or the store refused it whole."""

    code = "backend-unavailable"


class OutcomeUnknownError(BackendError):
    """A request was sent and no answer came: it may or may not have taken effect."""

    code = "outcome-unknown"


class BackendMisconfiguredError(BackendError):
    """Waiting will not help: wrong credentials, rights, version or settings of the store."""

    code = "backend-misconfigured"


class LeaseLostError(BackendError):
    """The lease of this run has ended or belongs to another runner."""

    code = "lease-lost"


class TriggerConflictError(AnarchonError):
    """A trigger of this id exists with another spec."""

    code = "trigger-conflict"
