"""Starting, stopping and looking, from the outside: real threads, real loops, the memory backend."""

from __future__ import annotations

import asyncio
import gc
import json
import signal
import threading
import weakref
from concurrent.futures import Future
from typing import Any

import pytest

from anarchon import (
    BackendMisconfiguredError,
    BackendUnavailableError,
    ConfigurationError,
    RunContext,
    RunHandedOver,
    RunStarted,
    RunSucceeded,
    Scheduler,
    SchedulerStarted,
    SchedulerStopped,
    StateError,
)
from anarchon.host.thread import ThreadHost
from anarchon.model.asks import InstanceRecord, StoreInfo
from anarchon.session import Session
from anarchon.testing import MemoryBackend
from tests.support.heard import SOON_S, Heard


def make(**options: Any) -> Scheduler[MemoryBackend]:
    return Scheduler(MemoryBackend(), **options)


def session_of(scheduler: Scheduler[Any]) -> Session:
    session = scheduler._session
    assert session is not None
    return session


async def noop() -> None: ...


# ------------------------------------------------------------------ in a loop


def test_a_task_runs_between_start_and_stop() -> None:
    scheduler = make()
    heard = Heard(scheduler)
    seen: list[RunContext] = []

    @scheduler.every("fast", "100ms", jitter_ms=0)
    async def fast(ctx: RunContext) -> None:
        seen.append(ctx)

    async def story() -> None:
        async with scheduler as entered:
            assert entered is scheduler
            assert scheduler.status().state == "running"
            await heard.until(RunSucceeded)

    asyncio.run(story())
    assert scheduler.status().state == "stopped"
    assert seen[0].instance_id == heard.told(SchedulerStarted)[0].instance_id
    # The last event came before stop() returned.
    assert heard.events[-1] == heard.told(SchedulerStopped)[0]


def test_a_second_start_is_refused_and_changes_nothing() -> None:
    scheduler = make()

    async def story() -> None:
        async with scheduler:
            first = scheduler.instance_id
            with pytest.raises(StateError, match="has started already"):
                await scheduler.start()
            with pytest.raises(StateError, match="has started already"):
                scheduler.start_background()
            assert scheduler.instance_id == first

    asyncio.run(story())


def test_a_backend_that_serves_a_scheduler_is_refused_to_another_and_stays_open() -> None:
    backend = MemoryBackend()
    first, second = Scheduler(backend), Scheduler(backend, namespace="other")
    heard = Heard(first)
    first.every("fast", "100ms", noop, jitter_ms=0)

    async def story() -> None:
        async with first:
            for _ in range(2):
                with pytest.raises(StateError, match="one backend object serves one scheduler at a time"):
                    await second.start()
                assert second.status().state == "stopped"
            heard.events.clear()
            await heard.until(RunSucceeded)
            assert first.status().backend_away is False
        async with second:
            assert second.status().backend_away is False

    asyncio.run(story())


def test_shutdown_is_refused_on_the_schedulers_own_loop() -> None:
    scheduler = make()
    heard = Heard(scheduler)
    refused: list[str] = []

    def listener(event: SchedulerStarted) -> None:
        try:
            scheduler.shutdown()
        except StateError as error:
            refused.append(str(error))

    scheduler.events.on(SchedulerStarted, listener)
    with scheduler:
        heard.wait(SchedulerStarted)

    assert ["would block the loop" in words for words in refused] == [True]


def test_stop_without_a_start_returns() -> None:
    scheduler = make()

    asyncio.run(scheduler.stop())
    scheduler.shutdown()

    assert scheduler.status().state == "stopped"


def test_stop_may_be_called_twice_at_once_and_again() -> None:
    scheduler = make()

    async def story() -> None:
        await scheduler.start()
        await asyncio.gather(scheduler.stop(), scheduler.stop(0))
        await scheduler.stop()

    asyncio.run(story())
    assert scheduler.status().started is False


def test_each_start_has_an_id_of_its_own() -> None:
    scheduler = make()
    ids: set[str | None] = {scheduler.instance_id}

    async def story() -> None:
        for _ in range(2):
            async with scheduler:
                ids.add(scheduler.instance_id)

    asyncio.run(story())
    assert len(ids) == 3
    assert None in ids


def test_an_id_that_was_given_stays() -> None:
    scheduler = make(instance_id="web-1")

    async def story() -> None:
        async with scheduler:
            assert scheduler.status().instance_id == "web-1"

    asyncio.run(story())
    assert scheduler.instance_id == "web-1"


def test_cancelling_stop_stops_only_the_waiting() -> None:
    scheduler = make()
    heard = Heard(scheduler)
    began, go_on = threading.Event(), threading.Event()

    @scheduler.every("slow", "100ms", jitter_ms=0)
    def slow() -> None:
        began.set()
        go_on.wait(SOON_S)

    async def story() -> None:
        await scheduler.start()
        await asyncio.to_thread(began.wait, SOON_S)
        stopping = asyncio.ensure_future(scheduler.stop())
        await asyncio.sleep(0)
        stopping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stopping
        assert scheduler.status().state == "stopping"
        go_on.set()
        await scheduler.stop()

    asyncio.run(story())
    assert heard.told(SchedulerStopped)[0].left_running == 0
    assert len(heard.told(RunSucceeded)) == 1


def test_start_again_while_stopping_is_refused() -> None:
    scheduler = make()
    began, go_on = threading.Event(), threading.Event()

    @scheduler.every("slow", "100ms", jitter_ms=0)
    def slow() -> None:
        began.set()
        go_on.wait(SOON_S)

    async def story() -> None:
        await scheduler.start()
        await asyncio.to_thread(began.wait, SOON_S)
        stopping = asyncio.ensure_future(scheduler.stop())
        await asyncio.sleep(0)
        with pytest.raises(StateError, match="is stopping"):
            await scheduler.start()
        go_on.set()
        await stopping

    asyncio.run(story())


def test_a_handler_that_will_not_end_lingers_behind_stop_and_bars_a_new_start() -> None:
    scheduler = make()
    heard = Heard(scheduler)
    began, go_on = threading.Event(), threading.Event()

    @scheduler.every("stuck", "100ms", jitter_ms=0)
    def stuck() -> None:
        began.set()
        go_on.wait(SOON_S)

    async def story() -> None:
        await scheduler.start()
        await asyncio.to_thread(began.wait, SOON_S)
        session = session_of(scheduler)
        await scheduler.stop(0)
        assert heard.told(SchedulerStopped)[0].left_running == 1
        status = scheduler.status()
        assert (status.state, [run.task for run in status.running]) == ("lingering", ["stuck"])
        with pytest.raises(StateError, match="handlers of the last start are still running"):
            await scheduler.start()
        go_on.set()
        await asyncio.wrap_future(session.ended)
        async with scheduler:
            assert scheduler.status().state == "running"

    asyncio.run(story())


def test_a_loop_that_is_closed_without_stop_ends_the_scheduler() -> None:
    scheduler = make()

    @scheduler.every("fast", "100ms", jitter_ms=0)
    async def fast() -> None: ...

    loop = asyncio.new_event_loop()
    loop.run_until_complete(scheduler.start())
    session = session_of(scheduler)
    loop.close()

    session.ended.result(SOON_S)
    assert scheduler.status().state == "stopped"
    scheduler.shutdown()


# ------------------------------------------------------------------ backends that do not come up


class Refusing(MemoryBackend):
    async def open(self, namespace: str, instance: InstanceRecord | None) -> StoreInfo:
        raise BackendMisconfiguredError("the password is wrong")


class Away(MemoryBackend):
    async def open(self, namespace: str, instance: InstanceRecord | None) -> StoreInfo:
        raise BackendUnavailableError("nobody answers")


class Hanging(MemoryBackend):
    def __init__(self) -> None:
        super().__init__()
        self.asked: Future[None] = Future()

    async def open(self, namespace: str, instance: InstanceRecord | None) -> StoreInfo:
        if not self.asked.done():
            self.asked.set_result(None)
        await asyncio.get_running_loop().create_future()
        raise AssertionError("unreachable")


def test_a_backend_that_refuses_fails_start_and_leaves_nothing_behind() -> None:
    scheduler = Scheduler(Refusing())

    async def story() -> None:
        for _ in range(2):
            with pytest.raises(BackendMisconfiguredError, match="the password is wrong"):
                await scheduler.start()

    asyncio.run(story())
    with pytest.raises(BackendMisconfiguredError):
        scheduler.start_background()
    with pytest.raises(BackendMisconfiguredError):
        scheduler.run()
    assert scheduler.status().started is False
    for thread in threading.enumerate():
        if thread.name.startswith("anarchon"):
            thread.join(SOON_S)
            assert not thread.is_alive()


def test_start_returns_while_the_backend_is_away_and_stop_ends() -> None:
    scheduler = Scheduler(Away())

    async def story() -> None:
        async with scheduler:
            assert scheduler.status().backend_away is True
            with pytest.raises(StateError):
                await scheduler.history("sync")

    asyncio.run(story())


def test_a_process_that_has_no_thread_left_fails_start_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = make()

    def no_thread(host: ThreadHost) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(ThreadHost, "start", no_thread)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            asyncio.run(scheduler.start())
        with pytest.raises(RuntimeError, match="can't start new thread"):
            scheduler.start_background()
        with pytest.raises(RuntimeError, match="can't start new thread"):
            scheduler.run()
    assert scheduler.status().started is False

    with scheduler:
        assert scheduler.status().state == "running"


def test_stop_during_start_ends_both() -> None:
    backend = Hanging()
    scheduler = Scheduler(backend)

    async def story() -> None:
        starting = asyncio.ensure_future(scheduler.start())
        await asyncio.wrap_future(backend.asked)
        await scheduler.stop(0)
        await starting

    asyncio.run(story())
    assert scheduler.status().started is False


def test_cancelling_start_stops_the_scheduler() -> None:
    backend = Hanging()
    scheduler = Scheduler(backend)

    async def story() -> None:
        starting = asyncio.ensure_future(scheduler.start())
        await asyncio.wrap_future(backend.asked)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting

    asyncio.run(story())
    assert scheduler.status().started is False


# ------------------------------------------------------------------ without a loop


def test_an_application_without_a_loop_uses_with() -> None:
    scheduler = make()
    heard = Heard(scheduler)
    threads: set[str] = set()

    @scheduler.every("async", "100ms", jitter_ms=0)
    async def on_loop() -> None:
        threads.add(threading.current_thread().name)

    @scheduler.every("sync", "100ms", jitter_ms=0)
    def on_thread() -> None:
        threads.add(threading.current_thread().name)

    with scheduler as entered:
        assert entered is scheduler
        heard.wait(RunSucceeded)

    assert threading.current_thread().name not in threads
    assert scheduler.status().started is False


def test_start_background_and_shutdown_by_hand() -> None:
    scheduler = make()

    scheduler.start_background()
    assert scheduler.status().state == "running"
    scheduler.shutdown(0)

    assert scheduler.status().state == "stopped"


def test_shutdown_from_another_thread_stops_a_scheduler_of_a_loop() -> None:
    scheduler = make()

    async def story() -> None:
        await scheduler.start()
        await asyncio.to_thread(scheduler.shutdown)
        assert scheduler.status().started is False

    asyncio.run(story())


def test_shutdown_on_the_loop_of_the_handlers_is_refused() -> None:
    scheduler = make()

    async def story() -> None:
        async with scheduler:
            with pytest.raises(StateError, match="would block the loop on which the handlers run; await stop"):
                scheduler.shutdown()

    asyncio.run(story())


@pytest.mark.parametrize("value", [True, -1, 1.5, "5s"])
def test_a_grace_is_an_int_from_zero(value: Any) -> None:
    scheduler = make()

    with pytest.raises(ConfigurationError, match=r"shutdown\(\): grace_ms="):
        scheduler.shutdown(value)
    with pytest.raises(ConfigurationError, match=r"stop\(\): grace_ms="):
        asyncio.run(scheduler.stop(value))


# ------------------------------------------------------------------ run and serve


def test_run_inside_a_loop_is_refused() -> None:
    scheduler = make()

    async def story() -> None:
        with pytest.raises(StateError, match=r"run\(\) blocks.*await serve\(\) or start\(\) instead"):
            scheduler.run()

    asyncio.run(story())
    assert scheduler.status().started is False


def test_serve_ends_when_somebody_stops() -> None:
    scheduler = make()
    heard = Heard(scheduler)

    async def story() -> None:
        serving = asyncio.ensure_future(scheduler.serve())
        await heard.until(SchedulerStarted)
        await scheduler.stop()
        await serving

    asyncio.run(story())
    assert scheduler.status().started is False


def test_cancelling_serve_stops_the_scheduler() -> None:
    scheduler = make()
    heard = Heard(scheduler)

    async def story() -> None:
        serving = asyncio.ensure_future(scheduler.serve())
        await heard.until(SchedulerStarted)
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving
        assert scheduler.status().started is False

    asyncio.run(story())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_run_and_the_handlers_from_before_are_back(number: signal.Signals) -> None:
    scheduler = make()
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    inside: list[object] = []

    @scheduler.every("fast", "100ms", jitter_ms=0)
    async def fast() -> None:
        inside.append(signal.getsignal(number))
        signal.raise_signal(number)

    scheduler.run()

    assert inside[0] != before[number]
    assert {each: signal.getsignal(each) for each in before} == before
    assert scheduler.status().started is False


def test_a_second_signal_ends_the_grace() -> None:
    scheduler = make(shutdown_grace_ms=60_000)
    heard = Heard(scheduler)

    @scheduler.every("long", "100ms", jitter_ms=0)
    async def long() -> None:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        await asyncio.get_running_loop().create_future()

    scheduler.run()

    assert [event.began for event in heard.told(RunHandedOver)] == [True]


def test_run_in_another_thread_is_stopped_by_shutdown() -> None:
    scheduler = make()
    heard = Heard(scheduler)
    thread = threading.Thread(target=scheduler.run)

    thread.start()
    heard.wait(SchedulerStarted)
    scheduler.shutdown()

    thread.join(SOON_S)
    assert not thread.is_alive()


def test_run_ends_beside_a_task_that_will_not_be_cancelled() -> None:
    scheduler = make()
    heard = Heard(scheduler)
    left: list[asyncio.Task[None]] = []

    async def stubborn() -> None:
        while not scheduler.status().started or scheduler.status().started:
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                continue

    @scheduler.every("fast", "100ms", jitter_ms=0)
    async def fast() -> None:
        if not left:
            left.append(asyncio.get_running_loop().create_task(stubborn()))
            signal.raise_signal(signal.SIGTERM)

    scheduler.run()

    assert heard.told(SchedulerStopped)
    # Quiet: nobody is left to be told.
    left[0]._log_destroy_pending = False  # type: ignore[attr-defined]


# ------------------------------------------------------------------ a handler ends the process


def leaves(scheduler: Scheduler[Any], how: BaseException, *, on_thread: bool) -> None:
    async def of_loop() -> None:
        raise how

    def of_thread() -> None:
        raise how

    scheduler.every("leaver", "100ms", of_thread if on_thread else of_loop, jitter_ms=0)


@pytest.mark.parametrize("on_thread", [False, True])
@pytest.mark.parametrize("how", [SystemExit(7), KeyboardInterrupt()])
def test_what_a_handler_raises_to_end_the_process_comes_out_of_run(how: BaseException, on_thread: bool) -> None:
    scheduler = make()
    leaves(scheduler, how, on_thread=on_thread)

    with pytest.raises(type(how)) as caught:
        scheduler.run()

    assert caught.value is how
    assert scheduler.status().started is False


@pytest.mark.parametrize("on_thread", [False, True])
def test_it_comes_out_of_the_applications_loop(on_thread: bool) -> None:
    scheduler = make()
    leaves(scheduler, SystemExit(7), on_thread=on_thread)
    loop = asyncio.new_event_loop()
    loop.run_until_complete(scheduler.start())

    with pytest.raises(SystemExit, match="7"):
        loop.run_forever()

    loop.run_until_complete(scheduler.stop())
    loop.close()
    assert scheduler.status().started is False


def test_without_a_loop_it_comes_out_of_shutdown() -> None:
    scheduler = make()
    leaves(scheduler, SystemExit(7), on_thread=True)

    scheduler.start_background()
    session = session_of(scheduler)
    session.ended.result(SOON_S)

    with pytest.raises(SystemExit, match="7"):
        scheduler.shutdown()
    scheduler.shutdown()


# ------------------------------------------------------------------ looking


def test_status_is_json_before_during_and_after() -> None:
    scheduler = make(namespace="billing", timezone="Europe/Berlin")
    scheduler.cron("nightly", "0 2 * * *", noop)
    scheduler.every("pending", "5m")
    found = json.loads(json.dumps(scheduler.status().to_dict()))
    assert (found["state"], found["started"], found["instance_id"]) == ("stopped", False, None)
    assert (found["namespace"], found["backend"]) == ("billing", "memory")
    assert [task["schedule"] for task in found["tasks"]] == ["every day at 02:00 Europe/Berlin", "every 5 minutes"]
    assert [task["timezone"] for task in found["tasks"]] == ["Europe/Berlin", None]
    assert [task["has_handler"] for task in found["tasks"]] == [True, False]
    assert found["tasks"][1]["next_slot_ms"] % 300_000 == 0
    scheduler.task("pending")(noop)

    with scheduler:
        during = json.loads(json.dumps(scheduler.status().to_dict()))

    assert (during["state"], during["answering"], during["backend_away"]) == ("running", True, False)
    assert during["started_at_ms"] > 1_700_000_000_000
    assert during["counters"]["fires"] == 0
    assert during["running"] == during["outlived"] == []


def test_list_is_every_task_in_order() -> None:
    scheduler = make()
    scheduler.every("b", "5m", noop)
    scheduler.at("a", 5, noop)

    listed = scheduler.list()

    assert [task.name for task in listed] == ["b", "a"]
    assert listed[1].next_slot_ms is None
    assert listed[0].to_dict()["jitter_ms"] == 2_000


def test_a_running_handler_is_shown() -> None:
    scheduler = make()
    heard = Heard(scheduler)
    go_on = threading.Event()
    scheduler.every("slow", "100ms", lambda: go_on.wait(SOON_S), jitter_ms=0)

    with scheduler:
        heard.wait(RunStarted)
        status = scheduler.status()
        assert [run.task for run in status.running] == ["slow"]
        assert status.tasks[0].running == 1
        json.dumps(status.to_dict())
        go_on.set()


def test_history_and_the_last_run_come_from_the_store() -> None:
    scheduler = make()
    heard = Heard(scheduler)
    scheduler.every("fast", "100ms", noop, jitter_ms=0)

    async def story() -> None:
        async with scheduler:
            await heard.until(RunSucceeded)
            (run,) = await scheduler.history("fast", limit=1)
            last = await scheduler.last_run("fast")
            assert last is not None
            assert run.task == last.task == "fast"
            assert await scheduler.last_run("never") is None
            for limit in (0, 10_001, True, 1.5):
                with pytest.raises(ConfigurationError, match="history of task 'fast': limit="):
                    await scheduler.history("fast", limit=limit)  # type: ignore[arg-type]

    asyncio.run(story())
    with pytest.raises(StateError, match="needs a started scheduler"):
        asyncio.run(scheduler.history("fast"))


def test_history_for_code_without_a_loop() -> None:
    scheduler = make()
    heard = Heard(scheduler)
    scheduler.every("fast", "100ms", noop, jitter_ms=0)
    with pytest.raises(StateError, match="needs a started scheduler"):
        scheduler.sync.history("fast")

    with scheduler:
        heard.wait(RunSucceeded)
        (run,) = scheduler.sync.history("fast", limit=1)
        last = scheduler.sync.last_run("fast")
        assert last is not None
        assert run.task == last.task == "fast"
        assert scheduler.sync.last_run("never") is None


def test_a_scheduler_that_is_not_running_can_be_collected() -> None:
    scheduler = make()
    scheduler.every("fast", "100ms", noop)
    with scheduler:
        pass
    gone = weakref.ref(scheduler)

    del scheduler
    gc.collect()

    assert gone() is None
