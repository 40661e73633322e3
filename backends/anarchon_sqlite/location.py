"""Which file a URL or a path means. No refusal shows a URL: what was meant for another store may hold a password."""

from __future__ import annotations

import os
import re
from urllib.parse import unquote

from anarchon.errors import ConfigurationError

_HOW = (
    "write sqlite:///relative.db, sqlite:////absolute.db or a plain path. A store that lives in memory belongs to "
    "one process: use anarchon.testing.MemoryBackend for that"
)
_USER = re.compile(r"/+[^/@]*:[^/]*@")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")


def path_of(url_or_path: str | os.PathLike[str]) -> str:
    """The path that was named, made absolute, so that a later change of directory does not change the store."""
    given: object = url_or_path
    if isinstance(url_or_path, os.PathLike):
        given = os.fspath(url_or_path)
    if not isinstance(given, str):
        raise ConfigurationError(f"the file is a str or a pathlib.Path, not {type(given).__name__}: {_HOW}")
    match = _SCHEME.match(given)
    scheme = "" if match is None else match[1].lower()
    path = _path_of_url(given) if scheme == "sqlite" else given
    shown = f"this {scheme}: URL" if scheme else "this path"
    if not path.strip():
        raise ConfigurationError(f"{shown} names no file: {_HOW}")
    if path.startswith((":memory:", "file:")) or "mode=memory" in path:
        raise ConfigurationError(f"{shown} is not a file that several instances can open: {_HOW}")
    if "://" in path or "\0" in path:
        raise ConfigurationError(f"{shown} is not the path of a file: {_HOW}")
    return os.path.abspath(path)


def _path_of_url(url: str) -> str:
    # Not by urlsplit(), which refuses some hosts and shows them.
    before, slashes, rest = url.partition("//")
    if before.lower() != "sqlite:" or not slashes or rest[:1] not in ("/", ""):
        raise ConfigurationError(
            f"this sqlite: URL needs three slashes before a relative path and four before an absolute one: {_HOW}"
        )
    if "?" in rest or "#" in rest:
        raise ConfigurationError(
            "this sqlite: URL has parameters, and takes none: pass options such as busy_timeout_ms to SQLiteBackend "
            "(a ? or # that belongs to the path is written %3F or %23)"
        )
    if _USER.match(rest):
        raise ConfigurationError(
            "this sqlite: URL has a user and a password, and a file needs none (an @ that belongs to the path is "
            f"written %40): {_HOW}"
        )
    return unquote(rest.removeprefix("/"))
