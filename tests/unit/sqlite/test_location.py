"""Which file a URL or a path means, and what is refused before any I/O."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from anarchon.errors import ConfigurationError
from anarchon_sqlite import SQLiteBackend


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("sqlite:////var/lib/app/x.db", "/var/lib/app/x.db"),
        ("/var/lib/app/x.db", "/var/lib/app/x.db"),
        (Path("/var/lib/x.db"), "/var/lib/x.db"),
        ("sqlite:////var/a%20b%3F%23%25.db", "/var/a b?#%.db"),
        ("/var/100%.db", "/var/100%.db"),
        ("sqlite:////var/größe.db", "/var/größe.db"),
    ],
)
def test_an_absolute_path_is_taken_as_it_is(given: str | Path, path: str) -> None:
    assert SQLiteBackend(given).path == path


@pytest.mark.parametrize("given", ["sqlite:///data/x.db", "data/x.db", Path("data/x.db"), "./data/x.db"])
def test_a_relative_path_is_that_of_the_working_directory_at_the_time(
    given: str | Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    backend = SQLiteBackend(given)
    monkeypatch.chdir("/")

    assert backend.path == str(tmp_path / "data" / "x.db")


def test_making_a_backend_does_no_io(tmp_path: Path) -> None:
    SQLiteBackend(tmp_path / "nowhere" / "x.db")
    SQLiteBackend(tmp_path / "x.db")

    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("given", [":memory:", "sqlite:///:memory:", "sqlite://", "sqlite:///", "", "  ", "file:x.db"])
def test_a_store_that_is_no_file_is_refused_with_the_way_out(given: str) -> None:
    with pytest.raises(ConfigurationError, match="MemoryBackend"):
        SQLiteBackend(given)


@pytest.mark.parametrize("given", ["sqlite:x.db", "sqlite:/x.db", "sqlite://host/x.db", "sqlite://x.db"])
def test_the_wrong_number_of_slashes_is_named(given: str) -> None:
    with pytest.raises(ConfigurationError, match="three slashes"):
        SQLiteBackend(given)


@pytest.mark.parametrize("given", ["sqlite:///x.db?mode=ro", "sqlite:///x.db?timeout=5", "sqlite:///x.db#a"])
def test_parameters_of_a_url_are_refused(given: str) -> None:
    with pytest.raises(ConfigurationError, match="parameters"):
        SQLiteBackend(given)


def test_another_store_s_url_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="not the path of a file"):
        SQLiteBackend("postgresql://localhost/app")


def test_an_unknown_synchronous_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="'OFF'"):
        SQLiteBackend("x.db", synchronous="OFF")  # type: ignore[arg-type]


def test_a_busy_timeout_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="busy_timeout_ms"):
        SQLiteBackend("x.db", busy_timeout_ms=0)
