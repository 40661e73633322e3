"""For tests, of applications and of backends: stores in memory, a store that fails on purpose, and conformance suites.

Nothing of it is imported unless asked for. The conformance suites need pytest; the rest needs nothing.
"""

from anarchon.testing.faulty import Call as Call
from anarchon.testing.faulty import Fault as Fault
from anarchon.testing.faulty import Faults as Faults
from anarchon.testing.faulty import FaultyClaimBackend as FaultyClaimBackend
from anarchon.testing.faulty import FaultyLeaseBackend as FaultyLeaseBackend
from anarchon.testing.faulty import random_plan as random_plan
from anarchon.testing.memory import MemoryBackend as MemoryBackend
from anarchon.testing.memory_claim import MemoryClaimBackend as MemoryClaimBackend
from anarchon.testing.memory_store import MemoryStore as MemoryStore
