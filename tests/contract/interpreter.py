"""Speaks to the asynchronous face in the synchronous tongue, so that one test serves both faces.

A test is written once, as if everything blocked. Asynchronous calls run on an event loop, in a thread of its own; the
interpreter waits there for all that has to be awaited.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
import typing
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

from sqlalchemy import Row

import pgqueue.aio
from pgqueue import ReceivedMessage
from pgqueue.model.calls import annotation_of
from tests.patience import PATIENCE

#: Objects of these packages have methods to be awaited, or make objects that have.
ASYNCHRONOUS = ("pgqueue.aio", "psycopg", "asyncpg", "sqlalchemy", "contextlib")


class Interpreter:
    """An event loop, and the way to it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="interpreter", daemon=True)
        self._thread.start()

    def call(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Calls on the loop, and waits for the result if it is to be awaited."""

        async def run() -> Any:
            result = function(*map(meant, arguments), **{name: meant(value) for name, value in options.items()})
            return await result if inspect.isawaitable(result) else result

        future = asyncio.run_coroutine_threadsafe(run(), self._loop)
        return self.spoken(future.result(PATIENCE))

    def spoken(self, value: Any) -> Any:
        """A value of the other side, in the form that the synchronous side can use."""
        if isinstance(value, list):
            return [self.spoken(each) for each in value]
        if not isinstance(value, tuple | Row | BaseException) and type(value).__module__.startswith(ASYNCHRONOUS):
            return Spoken(value, self)
        return value

    def work(self, work: Callable[..., Any]) -> Callable[..., Any]:
        """Synchronous work as asynchronous work; it runs in a thread, for it speaks through the interpreter too."""

        @functools.wraps(work)
        async def asynchronous(*given: Any) -> Any:
            return await asyncio.to_thread(work, *map(self.spoken, given))

        asynchronous.__signature__ = _of_the_other_face(work)  # type: ignore[attr-defined]  # inspect reads it
        return asynchronous

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def _of_the_other_face(work: Callable[..., Any]) -> inspect.Signature:
    """The signature of synchronous work, with the asynchronous message in place of the synchronous one."""
    signature = inspect.signature(work)
    parameters = list(signature.parameters.values())
    annotation: Any = annotation_of(work, 0)
    face: Any = pgqueue.aio.ReceivedMessage
    if annotation is ReceivedMessage:
        parameters[0] = parameters[0].replace(annotation=face)
    elif typing.get_origin(annotation) is ReceivedMessage:
        parameters[0] = parameters[0].replace(annotation=face[typing.get_args(annotation)])
    return signature.replace(parameters=parameters)


class Spoken:
    """An asynchronous object, spoken to synchronously: methods, `with` and `for`."""

    def __init__(self, meaning: Any, interpreter: Interpreter) -> None:
        self._meaning = meaning
        self._interpreter = interpreter

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._meaning, name)
        if callable(value):
            return functools.partial(self._interpreter.call, value)
        return self._interpreter.spoken(value)

    def __enter__(self) -> Any:
        return self._interpreter.call(self._meaning.__aenter__)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> Any:
        return self._interpreter.call(self._meaning.__aexit__, kind, error, traceback)

    def __iter__(self) -> Iterator[Any]:
        messages, over = aiter(self._meaning), object()
        while (value := self._interpreter.call(anext, messages, over)) is not over:
            yield value


def meant(value: Any) -> Any:
    """The other way: what is meant by a spoken object, or by a list of them."""
    if isinstance(value, list):
        return [meant(each) for each in value]
    return value._meaning if isinstance(value, Spoken) else value
