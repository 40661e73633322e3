"""Wrong uses: each line marked `# E: mypy-code / pyright-rule [/ text]` must be an error, and no other line may be one.

With `text`, both messages must hold it: that is how they stay readable. `-` stands for no error.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from third_party import EtcdBackend, KafkaBackend, MemcachedBackend, MongoBackend

from anarchon import (
    Backend,
    ClaimBackend,
    LeaseBackend,
    LeaseScheduler,
    RunContext,
    RunFailed,
    RunStarted,
    Scheduler,
    Task,
    ms,
    open_backend,
    open_lease_backend,
)
from anarchon.testing import MemoryBackend, MemoryClaimBackend
from anarchon_sqlite import SQLiteBackend


@dataclass
class Payload:
    n: int


class BigPayload(Payload): ...


async def plain() -> None: ...
async def with_data(ctx: RunContext[Payload]) -> None: ...
async def with_big_data(ctx: RunContext[BigPayload]) -> None: ...
async def two_arguments(ctx: RunContext, other: int) -> None: ...
async def wants_number(n: int) -> None: ...
def chosen() -> LeaseBackend | ClaimBackend:
    return KafkaBackend()


def on_lease(scheduler: LeaseScheduler) -> None: ...
def on_started(event: RunStarted) -> None: ...


when = datetime(2027, 1, 1, tzinfo=UTC)
lite = Scheduler(SQLiteBackend("x.db"))
memory = Scheduler(MemoryBackend())
claims = Scheduler(MemoryClaimBackend())
kafka = Scheduler(KafkaBackend())
memcached = Scheduler(MemcachedBackend())
mongo = Scheduler(MongoBackend())
etcd_claim = Scheduler(EtcdBackend("u", strategy="claim"))
dynamic = Scheduler(chosen())
by_url = Scheduler(open_backend("u"))

# lease-only options on claim-only backends
claims.every("a", "5m", plain, overlap="allow")  # E: arg-type / reportArgumentType / NeedsLeaseBackend
claims.every("a", "5m", plain, overlap="skip")  # E: arg-type / reportArgumentType / NeedsLeaseBackend
claims.every("a", "5m", plain, max_attempts=1)  # E: arg-type / reportArgumentType / NeedsLeaseBackend
claims.every("a", "5m", plain, catch_up_ms=0)  # E: arg-type / reportArgumentType / NeedsLeaseBackend
claims.cron("a", "0 2 * * *", plain, overlap="skip")  # E: arg-type / reportArgumentType / NeedsLeaseBackend
claims.cron("a", "0 2 * * *", plain, max_attempts=1)  # E: arg-type / reportArgumentType / NeedsLeaseBackend
claims.cron("a", "0 2 * * *", plain, catch_up_ms=0)  # E: arg-type / reportArgumentType / NeedsLeaseBackend
claims.at("a", when, plain, max_attempts=1)  # E: arg-type / reportArgumentType / NeedsLeaseBackend
claims.at("a", when, plain, catch_up_ms=0)  # E: arg-type / reportArgumentType / NeedsLeaseBackend
kafka.every("a", "5m", plain, overlap="allow")  # E: arg-type / reportArgumentType / NeedsLeaseBackend
kafka.at("a", when, plain, max_attempts=1)  # E: arg-type / reportArgumentType / NeedsLeaseBackend
memcached.every("a", "5m", plain, catch_up_ms=0)  # E: arg-type / reportArgumentType / NeedsLeaseBackend
etcd_claim.every("a", "5m", plain, overlap="allow")  # E: arg-type / reportArgumentType / NeedsLeaseBackend
etcd_claim.cron("a", "0 2 * * *", plain, catch_up_ms=0)  # E: arg-type / reportArgumentType / NeedsLeaseBackend
claims.every(
    "a",
    "5m",
    with_data,
    data=Payload(1),
    overlap="allow",  # E: arg-type / reportArgumentType / NeedsLeaseBackend
)

# history_ttl_ms on backends that trim by count only
claims.every("a", "5m", plain, history_ttl_ms=1)  # E: arg-type / reportArgumentType / NeedsHistoryTtl
claims.cron("a", "0 2 * * *", plain, history_ttl_ms=1)  # E: arg-type / reportArgumentType / NeedsHistoryTtl
claims.at("a", when, plain, history_ttl_ms=1)  # E: arg-type / reportArgumentType / NeedsHistoryTtl
kafka.every("a", "5m", plain, history_ttl_ms=1)  # E: arg-type / reportArgumentType / NeedsHistoryTtl

# a backend chosen at run time is the weakest
dynamic.every("a", "5m", plain, max_attempts=2)  # E: arg-type / reportArgumentType / NeedsLeaseBackend
dynamic.every("a", "5m", plain, history_ttl_ms=2)  # E: arg-type / reportArgumentType / NeedsHistoryTtl
by_url.cron("a", "0 2 * * *", plain, overlap="allow")  # E: arg-type / reportArgumentType / NeedsLeaseBackend
by_url.at("a", when, plain, history_ttl_ms=2)  # E: arg-type / reportArgumentType / NeedsHistoryTtl


def on_any(scheduler: Scheduler) -> None:
    scheduler.every("a", "5m", plain, catch_up_ms=0)  # E: arg-type / reportArgumentType / NeedsLeaseBackend


class MyScheduler(Scheduler[KafkaBackend]):
    def setup(self) -> None:
        self.every("a", "5m", plain, overlap="allow")  # E: arg-type / reportArgumentType / NeedsLeaseBackend


on_lease(claims)  # E: arg-type / reportArgumentType
on_lease(by_url)  # E: arg-type / reportArgumentType
on_lease(dynamic)  # E: arg-type / reportArgumentType
lease: LeaseBackend = open_backend("u")  # E: assignment / reportAssignmentType
as_kafka: Scheduler[KafkaBackend] = memory  # E: assignment / reportAssignmentType


# decorators
@claims.every("a", "5m", overlap="allow")  # E: arg-type / reportArgumentType / NeedsLeaseBackend
async def d1() -> None: ...
@memory.every("a", "5m", timout_ms=1)  # E: call-arg / reportCallIssue
async def d2() -> None: ...
@memory.every("a", "5m")  # E: arg-type / reportArgumentType
async def d3(ctx: RunContext[Payload]) -> None: ...
@memory.every("a", "5m", data="x")  # E: arg-type / reportArgumentType
async def d4(ctx: RunContext[Payload]) -> None: ...
@memory.cron("a", "0 2 * * *", data=Payload(1))  # E: arg-type / reportArgumentType
async def d5(ctx: RunContext[BigPayload]) -> None: ...
@memory.at("a", when)  # E: arg-type / reportArgumentType
async def d6(ctx: RunContext, other: int) -> None: ...


# options of another method
memory.at("a", when, plain, overlap="allow")  # E: call-arg / reportCallIssue
memory.at("a", when, plain, offset_ms=5)  # E: call-arg / reportCallIssue
memory.at("a", when, plain, baseline="02:00")  # E: call-arg / reportCallIssue
memory.at("a", when, plain, timezone="UTC")  # E: call-arg / reportCallIssue
memory.cron("a", "0 2 * * *", plain, offset_ms=5)  # E: call-arg / reportCallIssue
memory.cron("a", "0 2 * * *", plain, baseline="02:00")  # E: call-arg / reportCallIssue

# options that do not exist
memory.every("a", "5m", plain, timout_ms=5)  # E: call-arg / reportCallIssue
memory.every("a", "5m", plain, tz="UTC")  # E: call-arg / reportCallIssue
memory.every("a", "5m", plain, job="a")  # E: call-arg / reportCallIssue
memory.cron("a", "0 2 * * *", plain, retries=5)  # E: call-arg / reportCallIssue
Scheduler(MemoryBackend(), lease_ms=5_000)  # E: call-arg / reportCallIssue
Scheduler(MemoryBackend(), leader_gate=True)  # E: call-arg / reportCallIssue
Scheduler(MemoryBackend(), max_attempts=1)  # E: call-arg / reportCallIssue

# arguments by position
memory.every("a", "5m", plain, None)  # E: call-arg / reportCallIssue
Scheduler(MemoryBackend(), "billing")  # E: call-arg / reportCallIssue
memory.every("a")  # E: call-arg / reportCallIssue

# wrong values
memory.every("a", "5m", plain, overlap="maybe")  # E: arg-type / reportArgumentType
memory.every("a", "5m", plain, overlap=True)  # E: arg-type / reportArgumentType
memory.every("a", "5m", plain, max_attempts="3")  # E: arg-type / reportArgumentType
memory.every("a", "5m", plain, catch_up_ms=None)  # E: arg-type / reportArgumentType
memory.every("a", "5m", plain, history_ttl_ms="7d")  # E: arg-type / reportArgumentType
claims.every("a", "5m", plain, timeout_ms="60s")  # E: arg-type / reportArgumentType
claims.every("a", "5m", plain, timeout_ms=timedelta(seconds=60))  # E: arg-type / reportArgumentType
claims.every("a", "5m", plain, jitter_ms=0.5)  # E: arg-type / reportArgumentType
memory.every("a", 1.5, plain)  # E: arg-type / reportArgumentType
memory.every(5, "5m", plain)  # E: arg-type / reportArgumentType
memory.every("a", "5m", plain, baseline=120)  # E: arg-type / reportArgumentType
memory.every("a", "5m", plain, offset_ms=None)  # E: arg-type / reportArgumentType
memory.cron("a", 5, plain)  # E: arg-type / reportArgumentType
memory.cron("a", "0 2 * * *", plain, timezone=UTC)  # E: arg-type / reportArgumentType
memory.at("a", 1.5, plain)  # E: arg-type / reportArgumentType
memory.at("a", timedelta(hours=1), plain)  # E: arg-type / reportArgumentType
Scheduler(MemoryBackend(), jitter_ms="2s")  # E: arg-type / reportArgumentType
Scheduler(MemoryBackend(), namespace=None)  # E: arg-type / reportArgumentType
Scheduler("postgresql://")  # E: type-var / reportArgumentType
Scheduler(MemoryBackend)  # E: type-var / reportArgumentType
EtcdBackend("u", strategy="leases")  # E: call-overload / reportCallIssue
SQLiteBackend("x.db", synchronous="OFF")  # E: arg-type / reportArgumentType
ms(1.5)  # E: arg-type / reportArgumentType
open_backend(None)  # E: arg-type / reportArgumentType
open_lease_backend(5)  # E: arg-type / reportArgumentType

# handlers
memory.every("a", "5m", two_arguments)  # E: arg-type / reportArgumentType
memory.every("a", "5m", wants_number)  # E: arg-type / reportArgumentType
memory.every("a", "5m", plain())  # E: arg-type / reportArgumentType
memory.every("a", "5m", "plain")  # E: arg-type / reportArgumentType
memory.every("a", "5m", with_data, data="x")  # E: arg-type / reportArgumentType
memory.every("a", "5m", with_big_data, data=Payload(1))  # E: arg-type / reportArgumentType
as_text: Task[str] = memory.every("a", "5m", plain, data=5)  # E: arg-type / reportAssignmentType

# known gap: in call style, a handler that wants data without data= is seen by pyright alone (and refused at run time)
memory.every("a", "5m", with_data)  # E: - / reportArgumentType


# the context is read-only
async def writes(ctx: RunContext) -> None:
    ctx.attempt = 2  # E: misc / reportAttributeAccessIssue
    ctx.data = None  # E: misc / reportAttributeAccessIssue
    ctx.signal.is_set = 5  # E: method-assign / reportAttributeAccessIssue


# events
memory.events.on(RunFailed, on_started)  # E: arg-type / reportArgumentType
memory.events.on(int, print)  # E: type-var / reportArgumentType
memory.events.on(RunFailed, 5)  # E: arg-type / reportArgumentType


# calls of a scheduler
async def calls() -> None:
    await memory.stop("5s")  # E: arg-type / reportArgumentType
    await memory.history("a", 5)  # E: call-arg / reportCallIssue
    memory.shutdown(0.5)  # E: arg-type / reportArgumentType
    memory.instance_id = "a"  # E: misc / reportAttributeAccessIssue
    abstract = Backend()  # E: abstract / reportAbstractUsage
    Scheduler(abstract)
