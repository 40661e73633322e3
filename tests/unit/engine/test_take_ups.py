"""Which owed runs an instance takes up, and when."""

from __future__ import annotations

from anarchon.engine import EngineTask
from anarchon.model.events import RunRecovered, RunStarted
from anarchon.model.trimming import SURVEY_PAGE
from anarchon.times.schedule import at, every
from tests.support.cluster import START_MS, Cluster, holding, in_virtual_time, make_task

SECOND = 1_000
MINUTE = 60 * SECOND
SLOT = START_MS + 1_000
LEASE_MS = 15_000


async def killed_at_work(cluster: Cluster, *tasks: EngineTask) -> None:
    """An instance that starts what these tasks have at `SLOT`, and dies."""
    (victim,) = await cluster.start(1, *tasks)
    await cluster.until(RunStarted, count=len(tasks))
    victim.kill()


def long(cluster: Cluster, name: str) -> EngineTask:
    """A task that is due at `SLOT` and works for longer than any test lasts."""
    return make_task(name, at(SLOT), holding([], 10 * MINUTE, cluster.clock))


def test_a_run_left_for_want_of_room_is_taken_up_at_once_when_a_run_ends_here() -> None:
    async def story() -> None:
        cluster = Cluster()
        owed = long(cluster, "owed")
        await killed_at_work(cluster, owed)
        busy = make_task("busy", at(SLOT + SECOND), holding([], 31 * SECOND, cluster.clock))
        one = cluster.make([owed, busy], max_concurrent_runs=1)
        await one.engine.start()
        await cluster.advance_to(SLOT + SECOND + 31 * SECOND - 1)
        assert one.told(RunRecovered) == []
        await cluster.advance(100)
        assert [event.task for event in one.told(RunRecovered)] == ["owed"]
        await cluster.stop()

    in_virtual_time(story)


def test_no_more_owed_runs_are_taken_up_than_there_is_room_for() -> None:
    async def story() -> None:
        cluster = Cluster()
        tasks = [long(cluster, name) for name in ("a", "b", "c")]
        await killed_at_work(cluster, *tasks)
        one = cluster.make(tasks, max_concurrent_runs=2)
        await one.engine.start()
        await cluster.advance(3 * LEASE_MS)
        assert len(one.told(RunRecovered)) == 2
        await cluster.stop()

    in_virtual_time(story)


def test_while_the_application_lags_only_runs_of_plain_functions_are_taken_up() -> None:
    async def story() -> None:
        cluster = Cluster()
        names = ("coroutine", "plain")
        await killed_at_work(cluster, *(long(cluster, name) for name in names))
        here = [long(cluster, "coroutine"), make_task("plain", at(SLOT), lambda: None)]
        (one,) = await cluster.start(1, *here)
        one.host.lag = 2_000
        await cluster.advance(3 * LEASE_MS)
        assert [event.task for event in one.told(RunRecovered)] == ["plain"]
        one.host.lag = 0
        await cluster.advance(LEASE_MS)
        assert [event.task for event in one.told(RunRecovered)] == ["plain", "coroutine"]
        await cluster.stop()

    in_virtual_time(story)


def test_runs_of_coroutines_are_not_taken_up_once_the_application_is_gone() -> None:
    async def story() -> None:
        cluster = Cluster()
        owed = long(cluster, "owed")
        await killed_at_work(cluster, owed)
        (one,) = await cluster.start(1, owed)
        await cluster.advance(LEASE_MS - 3 * SECOND)
        one.host.close_app()
        await cluster.advance(2 * LEASE_MS)
        assert one.told(RunRecovered) == []

    in_virtual_time(story)


def test_more_owed_runs_than_one_answer_shows_are_all_taken_up_within_a_second() -> None:
    async def story() -> None:
        cluster = Cluster()
        tasks = [long(cluster, f"t{number}") for number in range(SURVEY_PAGE + 1)]
        await killed_at_work(cluster, *tasks)
        (one,) = await cluster.start(1, *tasks)
        await cluster.advance_to(SLOT + LEASE_MS + SECOND)
        assert {event.task for event in one.told(RunRecovered)} == {task.name for task in tasks}
        await cluster.stop()

    in_virtual_time(story)


def test_an_owed_run_of_a_task_that_is_not_registered_here_is_left_to_others() -> None:
    async def story() -> None:
        cluster = Cluster()
        owed = long(cluster, "owed")
        await killed_at_work(cluster, owed)
        (stranger,) = await cluster.start(1, make_task("other", every("1m")))
        await cluster.advance(3 * LEASE_MS)
        assert stranger.told(RunRecovered) == []
        knows = (await cluster.start(1, owed))[0]
        await cluster.until(RunRecovered)
        assert len(knows.told(RunRecovered)) == 1
        await cluster.stop()

    in_virtual_time(story)


def test_surveys_are_counted() -> None:
    async def story() -> None:
        cluster = Cluster()
        (one,) = await cluster.start(1, make_task("t", at(SLOT)))
        await cluster.advance(MINUTE)
        # One at the start, and one every seven and a half seconds.
        counted = one.engine.snapshot().counters["surveys"]
        assert 7 <= counted <= 10
        await cluster.stop()

    in_virtual_time(story)
