"""Which file a URL or a path means."""

from __future__ import annotations

import os
from urllib.parse import unquote, urlsplit

from anarchon.errors import ConfigurationError

_HOW = (
    "write sqlite:///relative.db, sqlite:////absolute.db or a plain path. A store that lives in memory belongs to "
    "one process: use anarchon.testing.MemoryBackend for that"
)


def path_of(url_or_path: str | os.PathLike[str]) -> str:
    """The path that was named, made absolute, so that a later change of directory does not change the store."""
    given = os.fspath(url_or_path)
    path = _path_of_url(given) if given.startswith("sqlite:") else given
    if not path.strip():
        raise ConfigurationError(f"{given!r} names no file: {_HOW}")
    if path.startswith((":memory:", "file:")) or "mode=memory" in path:
        raise ConfigurationError(f"{given!r} is not a file that several instances can open: {_HOW}")
    if "://" in path or "\0" in path:
        raise ConfigurationError(f"{given!r} is not the path of a file: {_HOW}")
    return os.path.abspath(path)


def _path_of_url(url: str) -> str:
    parts = urlsplit(url)
    if not url.startswith("sqlite://") or parts.netloc:
        raise ConfigurationError(
            f"{url!r} needs three slashes before a relative path and four before an absolute one: {_HOW}"
        )
    if parts.query or parts.fragment:
        raise ConfigurationError(
            f"{url!r} has parameters, and this URL takes none: pass options such as busy_timeout_ms to SQLiteBackend "
            "(a ? or # that belongs to the path is written %3F or %23)"
        )
    return unquote(parts.path.removeprefix("/"))
