"""The SQL of this package: one statement, one file, parameters by name."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def sql(name: str) -> str:
    """The statement of `sql/<name>.sql`."""
    return files("anarchon_sqlite").joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")
