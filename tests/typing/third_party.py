"""Backends as somebody else would write them: they extend the two public classes and nothing of ours besides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, overload

from anarchon import Backend, ClaimBackend, LeaseBackend, Run
from anarchon.model.asks import (
    LOST,
    Checkpoint,
    Claim,
    ClaimOutcome,
    Finish,
    HandOver,
    InstanceRecord,
    Lease,
    LeaseOutcome,
    LeaseTerms,
    Manual,
    PauseOutcome,
    StoreInfo,
    SurveyAnswer,
    TakeUp,
    TakeUpOutcome,
    TaskRecord,
)
from anarchon.model.run import Skip
from anarchon.protocol import CLAIM_TTL, ClaimTtlCapabilities


class _Common(Backend):
    """What both kinds have. Remembers nothing."""

    @property
    def name(self) -> str:
        return type(self).__name__

    async def open(self, namespace: str, instance: InstanceRecord | None) -> StoreInfo:
        return StoreInfo(store_now_ms=None, remembers_ms=None)

    async def close(self) -> None: ...

    async def register(self, tasks: Sequence[TaskRecord]) -> Sequence[int | None]:
        return [None for _ in tasks]

    async def finish(self, finishes: Sequence[Finish]) -> Sequence[bool]:
        return [True for _ in finishes]

    async def record_skips(self, skips: Sequence[Skip]) -> None: ...

    async def history(self, task: str, limit: int) -> Sequence[Run]:
        return []

    async def skips(self, task: str, limit: int) -> Sequence[Skip]:
        return []

    async def task_names(self) -> Sequence[str]:
        return []


class _Claims(_Common):
    async def claim(self, claims: Sequence[Claim[None]]) -> Sequence[ClaimOutcome]:
        return [LOST for _ in claims]


class _Leases(_Common):
    async def claim(self, claims: Sequence[Claim[LeaseTerms]]) -> Sequence[LeaseOutcome]:
        return [LOST for _ in claims]

    async def take_up(self, asks: Sequence[TakeUp]) -> Sequence[TakeUpOutcome]:
        return [LOST for _ in asks]

    async def renew(self, leases: Sequence[Lease], lease_ms: int) -> Sequence[bool]:
        return [False for _ in leases]

    async def hand_over(self, asks: Sequence[HandOver]) -> Sequence[bool]:
        return [False for _ in asks]

    async def open_to_act(self, namespace: str) -> StoreInfo:
        return await self.open(namespace, None)

    async def save_checkpoints(self, asks: Sequence[Checkpoint]) -> Sequence[bool]:
        return [False for _ in asks]

    async def run_now(self, ask: Manual) -> LeaseOutcome:
        return LOST

    async def pause(self, task: str, by: str) -> PauseOutcome:
        return PauseOutcome(known=False, changed=False)

    async def resume(self, task: str, by: str) -> PauseOutcome:
        return PauseOutcome(known=False, changed=False)

    async def free(self, task: str, by: str) -> Sequence[Run]:
        return []

    async def survey(self, instance_id: str, lease_ms: int, page: str | None = None) -> SurveyAnswer:
        return SurveyAnswer(
            store_now_ms=0,
            owed=(),
            next_page=None,
            earliest_lease_end_ms=None,
            shortest_other_lease_ms=None,
            sweep=False,
        )

    async def sweep(self) -> int:
        return 0


class MongoBackend(_Leases, LeaseBackend):
    """A lease backend."""


class KafkaBackend(_Claims, ClaimBackend):
    """A claim-only backend that trims history by count."""


class MemcachedBackend(_Claims, ClaimBackend):
    """A claim-only backend that can drop runs by age."""

    @property
    def capabilities(self) -> ClaimTtlCapabilities:
        return CLAIM_TTL


class _EtcdBase(_Common):
    # __init__ lives in a base of EtcdBackend: where one class defines both, mypy prefers __init__ to __new__.
    def __init__(self, url: str, *, strategy: Literal["lease", "claim"] = "lease") -> None:
        self.url: Final = url
        self.strategy: Final = strategy

    @property
    def capabilities(self) -> ClaimTtlCapabilities:
        return CLAIM_TTL


class EtcdBackend(_EtcdBase):
    """One name for two kinds, as pathlib.Path does: `strategy` says which one is made."""

    @overload
    def __new__(cls, url: str, *, strategy: Literal["lease"] = "lease") -> EtcdLeaseBackend: ...
    @overload
    def __new__(cls, url: str, *, strategy: Literal["claim"]) -> EtcdClaimBackend: ...
    @overload
    def __new__(cls, url: str, *, strategy: Literal["lease", "claim"]) -> EtcdBackend: ...
    def __new__(cls, url: str, *, strategy: Literal["lease", "claim"] = "lease") -> EtcdBackend:
        return object.__new__(EtcdLeaseBackend if strategy == "lease" else EtcdClaimBackend)


class EtcdLeaseBackend(_Leases, LeaseBackend, EtcdBackend):
    pass


class EtcdClaimBackend(_Claims, EtcdBackend, ClaimBackend):
    pass
