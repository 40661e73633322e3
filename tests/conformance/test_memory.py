"""The memory backend keeps the contract of a lease backend."""

from __future__ import annotations

from pathlib import Path

from anarchon.testing import MemoryBackend, MemoryStore
from anarchon.testing.conformance import LeaseConformance


class TestMemory(LeaseConformance):
    def make_store(self, directory: Path) -> None:
        self.store = MemoryStore(clock=self.clock)

    def make_backend(self) -> MemoryBackend:
        return MemoryBackend(self.store)
