"""anarchon's backend for SQLite: several processes on one machine share one file."""

from anarchon_sqlite.backend import SQLiteBackend as SQLiteBackend
