"""What a registration returns, and where registrations are kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Generic, overload

from typing_extensions import TypeVar

from anarchon.context import RunContext
from anarchon.engine import EngineTask
from anarchon.errors import ConfigurationError, StateError, TaskExistsError
from anarchon.handlers import DataT, Handler, Shape, shape_of, wants_data
from anarchon.model.options import Schedule
from anarchon.model.settings import TaskSettings

ResultT = TypeVar("ResultT")


class Task(Generic[DataT]):
    """A registered task. Made without a function, it is the decorator that takes one:

        @scheduler.every("ping", "30s")
        async def ping() -> None: ...

    The decorated function is returned as it is, so it can be called, tested and registered elsewhere as before.
    """

    __slots__ = ("_fn", "_registry", "_shape", "data", "name", "schedule", "settings")

    def __init__(
        self,
        registry: Registry,
        name: str,
        schedule: Schedule,
        settings: TaskSettings,
        data: DataT,
        fn: Handler[DataT] | None,
        shape: Shape | None,
    ) -> None:
        self._registry = registry
        self._fn = fn
        self._shape = shape
        self.name: Final = name
        """The name under which every instance registers this task."""
        self.schedule: Final = schedule
        """When its slots are."""
        self.settings: Final = settings
        """The options in force, every default filled in."""
        self.data: Final = data
        """What its handler reads as `ctx.data`."""

    @overload
    def __call__(self, fn: Callable[[RunContext[DataT]], ResultT], /) -> Callable[[RunContext[DataT]], ResultT]: ...
    @overload
    def __call__(self, fn: Callable[[], ResultT], /) -> Callable[[], ResultT]: ...
    def __call__(self, fn: Callable[..., ResultT], /) -> Callable[..., ResultT]:
        """Make `fn` the handler of this task, and return it unchanged.

        Raises ConfigurationError for a second function and for what cannot be a handler; the task is then not
        registered. Raises StateError once the scheduler has started.
        """
        self._registry.supply(self, fn)
        return fn

    def __repr__(self) -> str:
        return f"<Task {self.name!r}: {self.schedule.describe()}>"

    @property
    def fn(self) -> Handler[DataT] | None:
        """The handler; None while there is none."""
        return self._fn

    def _take(self, fn: Handler[DataT], shape: Shape) -> None:
        self._fn = fn
        self._shape = shape

    def _for_engine(self) -> EngineTask:
        if self._fn is None or self._shape is None:
            raise StateError(
                f"task {self.name!r} has no function: pass one to the registration, or use what it returned as the "
                "decorator of one, before the scheduler starts"
            )
        return EngineTask(
            name=self.name,
            schedule=self.schedule,
            settings=self.settings,
            fn=self._fn,
            is_async=self._shape.is_async,
            takes_context=self._shape.takes_context,
            data=self.data,
        )


class Registry:
    """The tasks of one scheduler on the backend of that name, in the order in which they were registered."""

    def __init__(self, backend: str) -> None:
        self._backend = backend
        self._tasks: dict[str, Task[Any]] = {}
        self._closed_because: str | None = None

    def close(self, because: str) -> None:
        """From now on no registration is taken."""
        self._closed_because = because

    def reopen(self) -> None:
        """Take registrations again."""
        self._closed_because = None

    def must_be_open(self, what: str) -> None:
        """Raise StateError where registration has ended."""
        if self._closed_because is not None:
            raise StateError(f"{what} cannot be registered now: {self._closed_because}")

    def must_take(self, where: str, name: str) -> None:
        """Raise StateError where registration has ended, TaskExistsError where the name is taken."""
        if self._closed_because is not None:
            self.must_be_open(where)
        if name in self._tasks:
            raise _exists(where, self._tasks[name])

    def add(self, task: Task[Any], where: str) -> None:
        """Register the task, after every other rule was checked."""
        known = self._tasks.setdefault(task.name, task)
        if known is not task:
            raise _exists(where, known)

    def supply(self, task: Task[Any], fn: Callable[..., object]) -> None:
        """Give a task its function; one whose function is refused is no longer registered."""
        where = f"task {task.name!r} on {self._backend}"
        self.must_be_open(f"a function for {where}")
        if task.fn is not None:
            raise ConfigurationError(f"{where} already has a function; register another task for another function")
        try:
            shape = checked_handler(where, fn, task.data)
        except BaseException:
            if self._tasks.get(task.name) is task:
                del self._tasks[task.name]
            raise
        self.add(task, where)
        task._take(fn, shape)  # pyright: ignore[reportPrivateUsage]

    def get(self, name: str) -> Task[Any]:
        """The task of that name, or a ConfigurationError with the names there are."""
        task = self._tasks.get(name)
        if task is None:
            known = ", ".join(repr(each) for each in list(self._tasks)[:10]) or "none"
            more = f" and {len(self._tasks) - 10} more" if len(self._tasks) > 10 else ""
            raise ConfigurationError(f"no task is registered as {name!r}; registered are: {known}{more}")
        return task

    def all(self) -> tuple[Task[Any], ...]:
        """Every task."""
        return tuple(self._tasks.values())

    def for_engine(self) -> list[EngineTask]:
        """Every task as the engine takes it; StateError where one has no function."""
        return [task._for_engine() for task in self._tasks.values()]  # pyright: ignore[reportPrivateUsage]


def checked_handler(where: str, fn: Callable[..., object], data: object) -> Shape:
    """How the handler is called, or a ConfigurationError: also where it wants data and there is none."""
    shape = shape_of(where, fn)
    if data is None and shape.context is not None and wants_data(shape, fn):
        raise ConfigurationError(
            f"{where}: the handler {getattr(fn, '__qualname__', fn)} wants data (its context is annotated with a type "
            "of data), and data= was left out; pass data=, or annotate it RunContext"
        )
    return shape


def _exists(where: str, known: Task[Any]) -> TaskExistsError:
    return TaskExistsError(
        f"{where}: a task of this name is registered already ({known.schedule.describe()}); give one of them "
        "another name"
    )
