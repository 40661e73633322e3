"""What a handler may be, found out once when it is registered."""

from __future__ import annotations

import functools
import inspect
import types
import typing
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from typing_extensions import TypeVar

from anarchon.context import RunContext
from anarchon.errors import ConfigurationError

DataT = TypeVar("DataT", default=None)

Handler: TypeAlias = Callable[[RunContext[DataT]], object] | Callable[[], object]
"""`async def` or `def`, with the context or without. The result is ignored, and awaited where it can be."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How a handler is called."""

    is_async: bool
    takes_context: bool
    context: inspect.Parameter | None = None
    """The parameter that takes the context, where its annotation may say more than RunContext."""


class _RefusedError(Exception):
    """Why something cannot be a handler."""


_shapes: weakref.WeakKeyDictionary[types.FunctionType, Shape] = weakref.WeakKeyDictionary()

_EMPTY = inspect.Parameter.empty
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def shape_of(where: str, fn: object) -> Shape:
    """How `fn` is to be called, or a ConfigurationError that says why it cannot be a handler.

    It is called with the run's context where its first parameter needs a value, with nothing where it has none. A
    first parameter that has a default is left alone, unless it is named `ctx` or `context` or annotated RunContext:
    so `lambda i=i: ...` keeps its `i`.
    """
    if isinstance(fn, types.FunctionType):
        simple = _at_a_glance(fn)
        if simple is not None:
            return simple
    # Only a function is sure to be hashable and to stay what it is.
    known = _shapes.get(fn) if isinstance(fn, types.FunctionType) else None
    if known is not None:
        return known
    try:
        shape = _look_at(fn)
    except _RefusedError as why:
        raise ConfigurationError(f"{where}: the handler {_shown(fn)} {why}") from None
    if isinstance(fn, types.FunctionType):
        _shapes[fn] = shape
    return shape


_SIMPLE = {
    (is_async, takes_context): Shape(is_async=is_async, takes_context=takes_context)
    for is_async in (False, True)
    for takes_context in (False, True)
}
_NOT_SIMPLE = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS | inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR


def _at_a_glance(fn: types.FunctionType) -> Shape | None:
    """The shape of an ordinary function, which most are, without what `inspect` costs; None: look closer."""
    code = fn.__code__
    flags = code.co_flags
    if flags & _NOT_SIMPLE or code.co_kwonlyargcount or fn.__defaults__ or code.co_argcount > 1:
        return None
    # Any attribute may be what makes `inspect` see another function than the code says.
    if fn.__dict__:
        return None
    if code.co_argcount:
        name = code.co_varnames[0]
        annotation = fn.__annotations__.get(name)
        if name == "self" or not (annotation is None or annotation is RunContext or annotation == "RunContext"):
            return None
    return _SIMPLE[bool(flags & inspect.CO_COROUTINE), bool(code.co_argcount)]


def _shown(fn: object) -> str:
    name = getattr(fn, "__qualname__", None)
    return name if isinstance(name, str) else repr(fn)[:200]


def _look_at(fn: object) -> Shape:
    if isinstance(fn, type):
        raise _RefusedError("is a class; pass a function, or an instance of it that can be called")
    if inspect.isawaitable(fn):
        raise _RefusedError("is awaitable already; pass the function itself, without calling it")
    if not callable(fn):
        raise _RefusedError("cannot be called; pass an async def or def function")
    body = _body(fn)
    if inspect.isasyncgenfunction(body) or inspect.isgeneratorfunction(body):
        raise _RefusedError("is a generator function: calling it runs none of its code; take the yield out")
    takes_context, parameter = _takes_context(fn)
    return Shape(is_async=inspect.iscoroutinefunction(body), takes_context=takes_context, context=parameter)


def _body(fn: Callable[..., object]) -> Callable[..., object]:
    """The function that a call ends in: without partials, bindings, static methods and callable objects around it."""
    while True:
        if isinstance(fn, functools.partial):
            fn = fn.func
        elif isinstance(fn, types.MethodType | staticmethod):
            fn = fn.__func__
        elif isinstance(fn, types.FunctionType | types.BuiltinFunctionType) or inspect.iscoroutinefunction(fn):
            return fn
        else:
            # Its own method, where it is written in Python; what else can be called shows nothing of itself.
            method = inspect.getattr_static(type(fn), "__call__", None)
            return method if isinstance(method, types.FunctionType) else fn


def _takes_context(fn: Callable[..., object]) -> tuple[bool, inspect.Parameter | None]:
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        raise _RefusedError("does not show its parameters; put a function around it, such as a lambda") from None
    needed = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY and each.default is _EMPTY]
    if needed:
        raise _RefusedError(f"needs the keyword {needed[0]!r}, which nobody passes; use functools.partial or data=")
    positional = [each for each in parameters if each.kind in _POSITIONAL]
    needed = [each.name for each in positional if each.default is _EMPTY]
    if len(needed) > 1:
        hint = "; pass a bound method" if needed[0] == "self" else "; use functools.partial or data= for the rest"
        raise _RefusedError(f"needs {len(needed)} arguments ({', '.join(needed)}), and gets the context at most{hint}")
    if needed:
        if needed[0] == "self" and isinstance(fn, types.FunctionType):
            raise _RefusedError("takes self: it is a method that is bound to no object; pass a bound method")
        return True, positional[0]
    if positional:
        first = positional[0]
        meant = first.name in ("ctx", "context") or "RunContext" in str(first.annotation)
        return meant, first if meant else None
    return any(each.kind is each.VAR_POSITIONAL for each in parameters), None


def wants_data(shape: Shape, fn: Callable[..., object]) -> bool:
    """Whether the context is annotated `RunContext[X]` with an X that None is not. False where it cannot be told."""
    if shape.context is None or shape.context.annotation is _EMPTY:
        return False
    try:
        # The one annotation alone: another that cannot be resolved must not hide it.
        alone = types.SimpleNamespace(__annotations__={"context": shape.context.annotation})
        hint: object = typing.get_type_hints(alone, _globals_of(_body(fn)), {})["context"]
    except Exception:
        return False
    if typing.get_origin(hint) is not RunContext:
        return False
    (data,) = typing.get_args(hint)
    parts = typing.get_args(data) if typing.get_origin(data) in (typing.Union, types.UnionType) else (data,)
    return not any(part in (types.NoneType, None, Any, object) or isinstance(part, typing.TypeVar) for part in parts)


def _globals_of(body: Callable[..., object]) -> dict[str, Any]:
    function = inspect.unwrap(body)
    return function.__globals__ if isinstance(function, types.FunctionType) else {}
