"""How a handler's end becomes a value: nothing it raises reaches a loop or a thread."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable
from typing import Final

from anarchon.host.base import Ended, Work

RETURNED: Final = Ended("returned")
CANCELLED: Final = Ended("cancelled")
NEVER_BEGAN: Final = Ended("never-began")


def call_handler(work: Work) -> Ended | Awaitable[object]:
    """Call the handler: how it ended, or what is still to be awaited, be it declared `async` or not."""
    try:
        result = work.fn(*work.args)
    except asyncio.CancelledError as error:
        return Ended("cancelled", error)
    except BaseException as error:
        return Ended("raised", error)
    return result if inspect.isawaitable(result) else RETURNED


async def await_handler(awaitable: Awaitable[object]) -> Ended:
    """Await what the handler returned; cancelling this cancels the handler."""
    try:
        await awaitable
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        return CANCELLED if task is not None and task.cancelling() else Ended("cancelled", error)
    except BaseException as error:
        return Ended("raised", error)
    return RETURNED


def discard(awaitable: Awaitable[object]) -> None:
    """Let go of what will not be awaited, without a warning that it was not."""
    if inspect.iscoroutine(awaitable):
        awaitable.close()
