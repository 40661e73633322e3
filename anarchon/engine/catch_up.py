"""At a start, and only then: the latest slot that nobody ran, if it is young enough."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from anarchon.engine.task import EngineTask
from anarchon.model.slots import owes_catch_up
from anarchon.times.schedule import At


def slots_to_catch_up(
    tasks: Sequence[EngineTask], known_since: Mapping[str, int | None], start_ms: int
) -> tuple[list[tuple[EngineTask, int]], list[tuple[EngineTask, int]]]:
    """The latest slot of each task to ask for, and the one-shots that are too old and will not run."""
    wanted: list[tuple[EngineTask, int]] = []
    too_old: list[tuple[EngineTask, int]] = []
    for task in tasks:
        slot = task.schedule.prev(start_ms)
        if slot is None:
            continue
        one_shot = isinstance(task.schedule, At)
        if owes_catch_up(
            slot,
            start_ms=start_ms,
            catch_up_ms=task.settings.catch_up_ms,
            known_since_ms=known_since.get(task.name),
            one_shot=one_shot,
        ):
            wanted.append((task, slot))
        elif one_shot:
            too_old.append((task, slot))
    return wanted, too_old
