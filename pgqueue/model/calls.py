"""Checks of callables that an application passes in: their work must be done when the call returns."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from functools import partial
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Any

from pgqueue.errors import InvalidArgumentError
from pgqueue.model.arguments import shown

GENERATORS = (GeneratorType, AsyncGeneratorType)


class UnfinishedError(InvalidArgumentError):
    """A call returned an awaitable or a generator, so its work is not done, and nothing here awaits or iterates it."""


def is_coroutine_function(function: Any) -> bool:
    """Whether a call makes a coroutine, as far as can be known; looks into partials and an object's ``__call__``."""
    return _is(inspect.iscoroutinefunction, function)


def must_finish(
    function: Any, name: str, *, asynchronous: bool, remedy: str = "use pgqueue.aio, which awaits it"
) -> None:
    """Refuses a generator function and, unless ``asynchronous``, a coroutine function.

    Raises:
        InvalidArgumentError: it is one.
    """
    if not asynchronous and is_coroutine_function(function):
        raise InvalidArgumentError(
            f"{name} {shown(function)} is a coroutine function, which is not awaited here: {remedy}"
        )
    if _is(inspect.isgeneratorfunction, function) or _is(inspect.isasyncgenfunction, function):
        raise InvalidArgumentError(
            f"{name} {shown(function)} is a generator function; calling it runs nothing: give a plain function"
        )


def checked_result(result: Any) -> Any:
    """Return what a call returned, if that needs no awaiting or iterating.

    Raises:
        UnfinishedError: it is a coroutine, another awaitable or a generator. It is closed.
    """
    if result is None or not (hasattr(result, "__await__") or isinstance(result, GENERATORS)):
        return result
    if isinstance(result, CoroutineType | GeneratorType):
        result.close()
    raise UnfinishedError(
        f"{shown(result)} was returned, which is not awaited or iterated here: return when the work is done, or use"
        " pgqueue.aio, which awaits it"
    )


def _is(test: Callable[[Any], bool], function: Any) -> bool:
    while isinstance(function, partial):
        function = function.func
    return test(function) or test(type(function).__call__)


def annotation_of(function: Callable[..., Any], place: int) -> Any:
    """The annotation of a parameter; a string if its names are not known at run time, None if there is none."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except ValueError:  # a function of C
        return None
    annotation = parameters[place].annotation if len(parameters) > place else inspect.Parameter.empty
    if annotation is inspect.Parameter.empty:
        return None
    if isinstance(annotation, str):
        try:
            return evaluated(annotation, function)
        except Exception:  # noqa: BLE001 - its names are imported for type checkers only
            return annotation
    return annotation


def evaluated(annotation: Any, function: Callable[..., Any]) -> Any:
    """The value of an annotation of a function: of text, and of text within a type."""
    holder = type("holder", (), {"__annotations__": {"it": annotation}})
    return typing.get_type_hints(holder, namespace_of(function), include_extras=True)["it"]


def namespace_of(function: Any) -> dict[str, Any]:
    """Where the names are defined that a function, or what it wraps, uses in its annotations."""
    while isinstance(function, partial) or hasattr(function, "__wrapped__"):
        function = function.func if isinstance(function, partial) else function.__wrapped__
    if not hasattr(function, "__globals__"):
        function = type(function).__call__
    namespace: dict[str, Any] = getattr(function, "__globals__", {})
    return namespace
