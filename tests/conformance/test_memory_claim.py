"""The claim-only memory backend keeps the contract of a claim-only backend."""

from __future__ import annotations

from pathlib import Path

from anarchon.testing import MemoryClaimBackend, MemoryStore
from anarchon.testing.conformance import ClaimConformance


class TestMemoryClaim(ClaimConformance):
    def make_store(self, directory: Path) -> None:
        self.store = MemoryStore(clock=self.clock)

    def make_backend(self) -> MemoryClaimBackend:
        return MemoryClaimBackend(self.store)
