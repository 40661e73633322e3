"""Backends by URL, through the entry points `anarchon.backends`: the name of each is a URL scheme."""

from __future__ import annotations

import re
from importlib.metadata import EntryPoint, entry_points

from anarchon.errors import BackendMisconfiguredError, ConfigurationError
from anarchon.protocol import Backend, LeaseBackend

GROUP = "anarchon.backends"

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def open_backend(url: str, /) -> Backend:
    """Make the backend that `url` names, such as `sqlite:///app.db` or `memory://`. Does no I/O.

    As a type it is the weakest backend, since a URL can name any; see `open_lease_backend`. Raises ConfigurationError
    for a scheme that no installed package serves and BackendMisconfiguredError where its driver is missing. No
    message shows more of the URL than its scheme.
    """
    scheme = _scheme(url)
    entry = _entry(scheme)
    try:
        # Schemes are the same in any case; a backend need not know that.
        backend: object = entry.load()(f"{scheme}{url[len(scheme) :]}")
    except ImportError as error:
        missing = f"module {error.name!r}" if error.name else "its driver"
        raise BackendMisconfiguredError(
            f"the backend for {scheme}:// needs {missing}, which cannot be imported; install it"
        ) from error
    if not isinstance(backend, Backend):
        raise ConfigurationError(
            f"the entry point {entry.name!r} of {GROUP} ({entry.value}) made a {type(backend).__name__}, which is no "
            "Backend; it must take a URL and answer with a ClaimBackend or a LeaseBackend"
        )
    return backend


def open_lease_backend(url: str, /) -> LeaseBackend:
    """As `open_backend`, for code that needs leases. Raises ConfigurationError for a backend that has none."""
    backend = open_backend(url)
    if not isinstance(backend, LeaseBackend):
        raise ConfigurationError(
            f"{backend.name}, which {_scheme(url)}:// names, only remembers that a slot was claimed and holds no "
            "leases; use open_backend, or a lease backend such as sqlite://"
        )
    return backend


def _scheme(url: object) -> str:
    if not isinstance(url, str):
        raise ConfigurationError(f"a backend's URL must be a str, not {type(url).__name__}")
    match = _SCHEME.match(url)
    if match is None:
        # Not shown: whatever it is, it may hold a password.
        raise ConfigurationError(
            f"a backend's URL begins with a scheme and ://, and this text of {len(url)} characters does not; known "
            f"schemes: {_known()}"
        )
    return match[1].lower()


def _entry(scheme: str) -> EntryPoint:
    for entry in entry_points(group=GROUP):
        if entry.name == scheme:
            return entry
    raise ConfigurationError(
        f"no installed package brings a backend for {scheme}://; known schemes: {_known()}; install a package that "
        "brings one, or use one of these"
    )


def _known() -> str:
    return ", ".join(sorted({entry.name for entry in entry_points(group=GROUP)})) or "none"
