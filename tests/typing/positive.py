"""Right uses: both checkers must be silent, and the file must run."""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Literal, assert_type

from third_party import (
    EtcdBackend,
    EtcdClaimBackend,
    EtcdLeaseBackend,
    KafkaBackend,
    MemcachedBackend,
    MongoBackend,
)

from anarchon import (
    Backend,
    ClaimBackend,
    Event,
    Handler,
    LeaseBackend,
    LeaseScheduler,
    Run,
    RunContext,
    RunEvent,
    RunFailed,
    Scheduler,
    SchedulerStatus,
    StopSignal,
    Task,
    TaskStatus,
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


async def async_ctx(ctx: RunContext[Payload]) -> None:
    assert_type(ctx.data, Payload)
    assert_type(ctx.fence, int | None)
    assert_type(ctx.scheduled_at, datetime)
    assert_type(ctx.signal, StopSignal)


async def async_plain() -> int:
    return 1


def sync_ctx(ctx: RunContext) -> None:
    assert_type(ctx.data, None)


def sync_plain() -> str:
    return "ok"


async def two(n: int, ctx: RunContext) -> None: ...


class Service:
    async def method(self, ctx: RunContext[Payload]) -> None: ...
    async def method_plain(self) -> None: ...
    async def __call__(self, ctx: RunContext[Payload]) -> None: ...


FILE = Path(mkdtemp()) / "app.db"
WHEN = datetime(2027, 1, 1, tzinfo=UTC)

lite = Scheduler(SQLiteBackend(f"sqlite:///{FILE}"), jitter_ms=100, timezone="Europe/Athens")
memory = Scheduler(backend=MemoryBackend())
claims = Scheduler(MemoryClaimBackend(), namespace="billing", instance_id="web-1", lease_ttl_ms=ms("20s"))
etcd = Scheduler(EtcdBackend("u"))
etcd_lease = Scheduler(EtcdBackend("u", strategy="lease"))
etcd_claim = Scheduler(EtcdBackend("u", strategy="claim"), history_ttl_ms=ms(timedelta(days=7)))

assert_type(lite, Scheduler[SQLiteBackend])
assert_type(memory, Scheduler[MemoryBackend])
assert_type(claims, Scheduler[MemoryClaimBackend])
assert_type(etcd, Scheduler[EtcdLeaseBackend])
assert_type(etcd_lease, Scheduler[EtcdLeaseBackend])
assert_type(etcd_claim, Scheduler[EtcdClaimBackend])

# every option, on backends with leases
lite.every(
    "every",
    "5m",
    async_plain,
    offset_ms=1,
    jitter_ms=1,
    max_late_ms=2,
    timeout_ms=1,
    history_size=1,
    history_ttl_ms=1,
    overlap="allow",
    max_attempts=1,
    catch_up_ms=0,
)
lite.every("baseline", "6h", async_plain, baseline="02:00", timezone="Europe/Athens", overlap="skip", timeout_ms=1)
lite.cron(
    "cron",
    "0 2 * * *",
    sync_ctx,
    timezone="Europe/Athens",
    jitter_ms=1,
    max_late_ms=2,
    timeout_ms=ms("1m"),
    history_size=1,
    history_ttl_ms=1,
    overlap="skip",
    max_attempts=1,
    catch_up_ms=0,
)
lite.at(
    "at",
    WHEN,
    async_ctx,
    data=Payload(1),
    jitter_ms=1,
    max_late_ms=2,
    timeout_ms=1,
    history_size=1,
    history_ttl_ms=1,
    max_attempts=1,
    catch_up_ms=0,
)
memory.every("int", 300_000, sync_plain, overlap="allow")
memory.every("timedelta", timedelta(minutes=5), sync_plain)
memory.at("text", "2027-01-01T00:00:00Z", sync_plain)
memory.at("epoch", 1_798_761_600_000, sync_plain)
etcd.at("lease", WHEN, async_ctx, data=Payload(1), max_attempts=1, catch_up_ms=0, history_ttl_ms=1)
etcd_lease.every("lease", "5m", sync_plain, overlap="allow")

# every option, on backends without
claims.every("every", "5m", async_plain, timeout_ms=1, jitter_ms=1, max_late_ms=2, history_size=1, offset_ms=1)
claims.every("baseline", "6h", async_plain, baseline="02:00", timezone="UTC")
claims.cron("cron", "0 2 * * *", sync_ctx, timezone="UTC", timeout_ms=1, jitter_ms=1, max_late_ms=2, history_size=1)
claims.at("at", WHEN, async_ctx, data=Payload(1), timeout_ms=1, jitter_ms=1, max_late_ms=2, history_size=1)
etcd_claim.every("ttl", "5m", sync_plain, history_ttl_ms=1)

# what the calls give back, and data
assert_type(memory.every("t1", "5m", async_plain), Task[None])
assert_type(memory.every("t2", "5m", async_ctx, data=Payload(1)), Task[Payload])
assert_type(memory.every("t2b", "5m", async_ctx, data=Payload(1)).data, Payload)
assert_type(memory.every("t2c", "5m", data=5), Task[int])
memory.every("t3", "5m", async_ctx, data=BigPayload(1))
memory.every("t4", "5m", async_plain, data=Payload(1))
memory.every("t5", "5m", Service().method, data=Payload(1))
memory.every("t6", "5m", Service().method_plain)
memory.every("t7", "5m", lambda: None)
memory.every("t8", "5m", lambda ctx: print(ctx.data.n), data=Payload(1))
memory.every("t9", "5m", functools.partial(two, 1))
memory.every("t10", "5m", Service(), data=Payload(1))
memory.every("t11", "5m", print)
assert_type(memory.task("t1"), Task[Any])
memory.task("t2c")(async_plain)
handler: Handler[Payload] = async_ctx
memory.every("t12", "5m", handler, data=Payload(1))


# decorators keep the function's type
@memory.every("d1", "5m", overlap="allow", data=Payload(1))
async def d1(ctx: RunContext[Payload]) -> int:
    return ctx.data.n


@claims.cron("d2", "0 2 * * *", timeout_ms=5)
def d2() -> str:
    return ""


@memory.at("d3", WHEN)
async def d3(ctx: RunContext) -> None:
    assert_type(ctx.data, None)


@memory.every("d4", "5m")
@memory.cron("d5", "0 2 * * *")
async def d4() -> None: ...


async def use_decorated(ctx: RunContext[Payload]) -> None:
    assert_type(await d1(ctx), int)
    assert_type(d2(), str)


as_d1: Callable[[RunContext[Payload]], Coroutine[Any, Any, int]] = d1


# chosen at run time: the weakest
def chosen() -> LeaseBackend | ClaimBackend:
    return MemoryBackend() if os.environ.get("X") else MemoryClaimBackend()


def from_url(url: str) -> Backend:
    backend = open_backend(url)
    assert_type(backend, Backend)
    return backend


Scheduler(chosen()).every("a", "5m", async_ctx, data=Payload(1), timeout_ms=5)
Scheduler(from_url("memory://")).every("a", "5m", async_plain, timeout_ms=5)
either = MemoryBackend() if os.environ.get("X") else MemoryClaimBackend()
Scheduler(either).cron("a", "0 2 * * *", async_plain, timeout_ms=5)
strategy: Literal["lease", "claim"] = "claim" if os.environ.get("X") else "lease"
Scheduler(EtcdBackend("u", strategy=strategy)).every("a", "5m", async_plain, history_ttl_ms=5)
Scheduler(open_lease_backend("memory://")).every("a", "5m", async_plain, overlap="allow", max_attempts=1)


# a scheduler on anything / on a lease backend
def on_any(scheduler: Scheduler) -> None:
    scheduler.every("any", "5m", async_plain, timeout_ms=5)


def on_lease(scheduler: LeaseScheduler) -> None:
    scheduler.every("leased", "5m", async_plain, overlap="allow")


for any_one in (lite, claims, etcd_claim):
    on_any(any_one)
on_lease(memory)
on_lease(lite)
on_lease(etcd)
several: Sequence[Scheduler] = [memory, claims]

# third parties
Scheduler(MongoBackend()).every("a", "5m", async_plain, overlap="allow", history_ttl_ms=1)
Scheduler(KafkaBackend()).every("a", "5m", async_plain, timeout_ms=1)
Scheduler(MemcachedBackend()).every("a", "5m", async_plain, history_ttl_ms=1)


# subclasses
class MyScheduler(Scheduler[SQLiteBackend]):
    def setup(self) -> None:
        self.every("a", "5m", async_plain, overlap="allow")


my = MyScheduler(SQLiteBackend(FILE))
my.setup()
my.every("b", "5m", async_plain, overlap="allow")
assert_type(my, MyScheduler)


# events
def on_failure(event: RunFailed) -> None:
    assert_type(event.error, str)


async def on_anything(event: Event) -> None:
    assert_type(event.at_ms, int)


def on_run(event: RunEvent) -> None:
    assert_type(event.task, str)


end = claims.events.on(RunFailed, on_failure)
assert_type(end, Callable[[], None])
end()
claims.events.on(RunFailed, on_anything)
claims.events.on(RunFailed, on_run)
claims.events.on(RunFailed, lambda event: print(event.error))
claims.events.off(RunFailed, on_run)


# into a loop and out of it
async def with_a_loop() -> None:
    async with my as entered:
        assert_type(entered, MyScheduler)
        assert_type(await my.history("a", limit=5), Sequence[Run])
        assert_type(await my.last_run("a"), Run | None)
        assert_type(my.status(), SchedulerStatus)
        assert_type(my.list(), Sequence[TaskStatus])
    await my.start()
    await my.stop(0)


def without_a_loop() -> None:
    with claims as entered:
        assert_type(entered, Scheduler[MemoryClaimBackend])
    claims.start_background()
    assert_type(claims.sync.history("every"), Sequence[Run])
    assert_type(claims.sync.last_run("every"), Run | None)
    claims.shutdown(0)


if __name__ == "__main__":
    asyncio.run(with_a_loop())
    without_a_loop()
    print("positive: ok")
