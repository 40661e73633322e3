"""No refusal, representation or log line shows what a URL may hide: a user, a password, a host, parameters."""

from __future__ import annotations

import traceback
from collections.abc import Callable

import pytest

from anarchon import Scheduler, open_backend, open_lease_backend
from anarchon.errors import AnarchonError
from anarchon.testing import MemoryBackend, MemoryClaimBackend
from anarchon_sqlite import SQLiteBackend

SECRET = "s3cret"
URLS = [
    f"sqlite://ann:{SECRET}@host/x.db",
    f"sqlite:ann:{SECRET}@host/x.db",
    f"sqlite:/ann:{SECRET}@host/x.db",
    f"sqlite:///ann:{SECRET}@host/x.db",
    f"sqlite:////ann:{SECRET}@host/x.db",
    f"sqlite:///x.db?key={SECRET}",
    f"sqlite:///x.db#{SECRET}",
    f"SQLITE:///x.db?key={SECRET}",
    f"sqlite://[{SECRET}/x.db",
    f"sqlite://ann:{SECRET}@ho\u2100st/x.db",
    f"sqlite:///:memory:{SECRET}",
    f"sqlite:///x.db\0{SECRET}",
    f"file:x.db?mode=memory&key={SECRET}",
    f"file:x.db?key={SECRET}",
    f":memory:{SECRET}",
    f"x.db?mode=memory&key={SECRET}",
    f"memory://ann:{SECRET}@host",
    f"memory://shared?key={SECRET}",
    f"memory://shared#{SECRET}",
    f"postgresql://ann:{SECRET}@host/db",
    f"redis://:{SECRET}@host",
    f"ann:{SECRET}@host://db",
    f"ann {SECRET}://db",
]
MAKERS: list[Callable[[str], object]] = [
    SQLiteBackend, MemoryBackend, MemoryClaimBackend, open_backend, open_lease_backend, Scheduler,  # type: ignore[list-item]
]  # fmt: skip


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("url", URLS, ids=lambda url: ascii(url.partition("s3")[0]))
def test_a_url_that_is_refused_is_not_shown(make: Callable[[str], object], url: str) -> None:
    with pytest.raises(AnarchonError) as caught:
        make(url)

    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert "host" not in str(caught.value)


@pytest.mark.parametrize("given", ["sqlite:///a%40b/x.db", "sqlite:///a@b/x.db", "sqlite:////var/a:b/c@d.db"])
def test_a_sign_of_a_path_is_not_taken_for_a_password(given: str) -> None:
    assert SQLiteBackend(given).path.endswith(".db")


@pytest.mark.parametrize("given", [None, 5, b"x.db"])
def test_what_is_no_path_is_refused(given: object) -> None:
    with pytest.raises(AnarchonError, match=r"a str or a pathlib\.Path, not "):
        SQLiteBackend(given)  # type: ignore[arg-type]
