"""Backends by URL: found by scheme, and no secret of a URL is shown."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from anarchon import (
    Backend,
    BackendMisconfiguredError,
    ConfigurationError,
    Scheduler,
    open_backend,
    open_lease_backend,
)
from anarchon import registry as registry_module
from anarchon.testing import MemoryBackend, MemoryClaimBackend
from anarchon_sqlite import SQLiteBackend


async def noop() -> None: ...


def entry(name: str, value: str) -> EntryPoint:
    return EntryPoint(name=name, value=value, group="anarchon.backends")


class ClaimsEntry:
    """As an entry point of a third party."""

    name = "claims"
    value = "claims:Backend"

    def load(self) -> Callable[[str], Backend]:
        return lambda url: MemoryClaimBackend()


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is installed, instead of what really is."""
    found: list[Any] = [
        entry("memory", "anarchon.testing:MemoryBackend"),
        ClaimsEntry(),
        entry("redis", "a_driver_that_is_not_there:Backend"),
        entry("odd", "builtins:str"),
    ]
    monkeypatch.setattr(registry_module, "entry_points", lambda group: found)
    return found


def test_a_backend_is_made_from_a_url(installed: list[Any]) -> None:
    assert isinstance(open_backend("memory://"), MemoryBackend)
    assert isinstance(open_backend("MEMORY://"), MemoryBackend)
    assert isinstance(open_lease_backend("memory://"), MemoryBackend)
    assert isinstance(open_backend("claims://"), MemoryClaimBackend)


def test_the_installed_backends_are_found_by_their_schemes(tmp_path: Path) -> None:
    assert isinstance(open_backend("memory://"), MemoryBackend)
    assert open_lease_backend(f"sqlite:///{tmp_path}/app.db").name == "SQLite"


SECRET = "user:s3cret@host/db?password=s3cret"
KNOWN = "known schemes: claims, memory, odd, redis"


@pytest.mark.parametrize(
    ("url", "kind", "parts"),
    [
        (
            f"postgresql://{SECRET}",
            ConfigurationError,
            [
                f"no installed package brings a backend for postgresql://; {KNOWN}; ",
                "install a package that brings one, or use one of these",
            ],
        ),
        (
            f"mongodb://{SECRET}",
            ConfigurationError,
            [
                f"no installed package brings a backend for mongodb://; {KNOWN}; ",
                "install a package that brings one, or use one of these",
            ],
        ),
        (
            f"redis://{SECRET}",
            BackendMisconfiguredError,
            [
                "the backend for redis:// needs module 'a_driver_that_is_not_there', which cannot be imported; ",
                "install it",
            ],
        ),
        (
            f"odd://{SECRET}",
            ConfigurationError,
            [
                "the entry point 'odd' of anarchon.backends (builtins:str) made a str, which is no Backend; it must ",
                "take a URL and answer with a ClaimBackend or a LeaseBackend",
            ],
        ),
        (
            SECRET,
            ConfigurationError,
            [
                f"a backend's URL begins with a scheme and ://, and this text of {len(SECRET)} characters does not; ",
                KNOWN,
            ],
        ),
        (None, ConfigurationError, ["a backend's URL must be a str, not NoneType"]),
    ],
)
def test_a_url_that_names_no_backend_is_refused_without_being_shown(
    installed: list[Any], url: Any, kind: type[Exception], parts: list[str]
) -> None:
    with pytest.raises(kind) as caught:
        open_backend(url)

    assert type(caught.value) is kind
    assert str(caught.value) == "".join(parts)
    assert "s3cret" not in repr(caught.value.__cause__)


def test_a_claim_only_url_is_refused_where_leases_are_needed(installed: list[Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"memory \(claim-only\), which claims:// names, only remembers"):
        open_lease_backend("claims://")


def test_a_backend_by_url_works_in_a_scheduler(installed: list[Any]) -> None:
    backend: Backend = open_backend("claims://")
    scheduler = Scheduler(backend)
    scheduler.every("sync", "5m", noop)

    with scheduler:
        assert scheduler.status().backend == "memory (claim-only)"


@pytest.mark.parametrize("given", [0, -1, "5s", 2.5, True, None, 10**12])
def test_a_time_for_the_lock_that_is_no_duration_is_refused(given: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"SQLite: busy_timeout_ms=.* must be"):
        SQLiteBackend("x.db", busy_timeout_ms=given)
