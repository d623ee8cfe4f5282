"""What an application gives us to call has done its work when the call is over: or it is refused, not forgotten."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Any

from pgqueue.errors import InvalidArgumentError


class UnfinishedError(InvalidArgumentError):
    """A call has returned what somebody would have to await or to iterate before its work is done. Nobody does."""


def is_coroutine_function(function: Any) -> bool:
    """Whether a call makes a coroutine, as far as can be told: of a partial, and of an object's __call__, too."""
    return _is(inspect.iscoroutinefunction, function)


def must_finish(
    function: Any, name: str, *, asynchronous: bool, remedy: str = "use pgqueue.aio, which awaits it"
) -> None:
    """Refuses a generator function; and where nobody awaits, a coroutine function.

    Raises:
        InvalidArgumentError: it is one.
    """
    if not asynchronous and is_coroutine_function(function):
        raise InvalidArgumentError(f"{name} {function!r} is a coroutine function, which nobody awaits here: {remedy}")
    if _is(inspect.isgeneratorfunction, function) or _is(inspect.isasyncgenfunction, function):
        raise InvalidArgumentError(
            f"{name} {function!r} is a generator function; calling it runs nothing: give a plain function"
        )


def checked_result(result: Any) -> Any:
    """What a call has answered.

    Raises:
        UnfinishedError: it is a coroutine, another awaitable or a generator. It is closed.
    """
    if not hasattr(result, "__await__") and not isinstance(result, GeneratorType | AsyncGeneratorType):
        return result
    if isinstance(result, CoroutineType | GeneratorType):
        result.close()
    raise UnfinishedError(
        f"{result!r} was returned, and nobody awaits or iterates it here: return when the work is done, or use"
        " pgqueue.aio, which awaits it"
    )


def _is(test: Callable[[Any], bool], function: Any) -> bool:
    while isinstance(function, partial):
        function = function.func
    return test(function) or test(type(function).__call__)
