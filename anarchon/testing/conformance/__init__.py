"""The contract of a backend as test suites: subclass the one of your kind and give it a store. Needs pytest.

For a claim-only backend:

    class TestMyStore(ClaimConformance):
        def make_backend(self): return MyBackend(...)

For a lease backend the same with `LeaseConformance`. Both want an empty store for each test, and a clock of the
store that the test can move or wait for: see `Kit`.
"""

import pytest

pytest.register_assert_rewrite(
    *(
        f"anarchon.testing.conformance.{name}"
        for name in ("by_hand", "claim", "history", "keeping", "lease", "lifecycle")
    ),
    *(f"anarchon.testing.conformance.{name}" for name in ("kit", "overlap", "recovery")),
)

from anarchon.testing.conformance.claim import ClaimConformance as ClaimConformance  # noqa: E402
from anarchon.testing.conformance.kit import Kit as Kit  # noqa: E402
from anarchon.testing.conformance.kit import StoreClock as StoreClock  # noqa: E402
from anarchon.testing.conformance.kit import scenario as scenario  # noqa: E402
from anarchon.testing.conformance.lease import LeaseConformance as LeaseConformance  # noqa: E402
