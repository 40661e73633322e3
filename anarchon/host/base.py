"""The small interface between the engine and whatever executes handlers."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

EndedHow: TypeAlias = Literal["returned", "raised", "cancelled", "never-began"]


@dataclass(frozen=True, slots=True)
class Ended:
    """How a handler ended, said by its own task or thread. `error` is what it raised.

    'cancelled' has an error only where the handler raised CancelledError and nobody had cancelled it.
    """

    how: EndedHow
    error: BaseException | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One handler to start. `args` is the context, or nothing where the handler takes none."""

    name: str
    fn: Callable[..., object]
    args: tuple[Any, ...] = ()
    is_async: bool
    """Whether `fn` is a coroutine function. A plain function that returns an awaitable has it awaited, too."""


@dataclass(slots=True, eq=False)
class Call:
    """A handler in flight, as the engine sees it. Read and used on the engine's loop only.

    `ended` is set when the handler's own task or thread says so and never by a timer. `began` is set, on the
    engine's loop, once the handler's first line is about to run, and `on_began` is called then: set it before
    the first await after `start_calls`.
    """

    work: Work
    ended: asyncio.Future[Ended]
    cancel: Callable[[], None]
    """Ask the handler to stop: cancels an async handler; drops one that has not begun; a thread goes on."""
    on_began: Callable[[], None] | None = None
    began: bool = False
    extra: dict[str, Any] = field(default_factory=dict[str, Any])


class Host(ABC):
    """Runs handlers and says when they have ended. Every method is called on the engine's loop."""

    @abstractmethod
    def start_calls(self, works: Sequence[Work]) -> Sequence[Call]:
        """Start the handlers, with one wake-up of the application's loop for the whole batch.

        Each runs in a copy of the context variables that were current at the scheduler's start.
        """

    @abstractmethod
    def lag_ms(self) -> float:
        """For how long the application's loop has owed an answer, ms; 0 when it is idle or prompt."""

    @abstractmethod
    def probe(self) -> None:
        """Ask the application's loop for a sign of life, so that `lag_ms` is fresh; cheap, at most one in flight."""

    @abstractmethod
    def post(self, callback: Callable[[], object]) -> bool:
        """Call `callback` on the application's loop soon; False when that loop is closed."""

    @property
    @abstractmethod
    def alive(self) -> bool:
        """False once the application's loop is closed: no `async def` handler can run any more."""

    @abstractmethod
    def threads_alive(self) -> int:
        """How many `def` handlers are still on a thread."""
