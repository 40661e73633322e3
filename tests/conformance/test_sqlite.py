"""The SQLite backend keeps the contract of a lease backend."""

from __future__ import annotations

from pathlib import Path

from anarchon.testing.conformance import LeaseConformance
from anarchon_sqlite import SQLiteBackend


class TestSQLite(LeaseConformance):
    def make_store(self, directory: Path) -> None:
        self.path = directory / "store.db"

    def make_backend(self) -> SQLiteBackend:
        return SQLiteBackend(self.path, clock=self.clock)
