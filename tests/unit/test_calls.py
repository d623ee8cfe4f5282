"""Callables that are refused at once, or found out later, because their work would never be done."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any
from unittest.mock import AsyncMock, MagicMock

import pytest

from pgqueue import AutoLockRenewer
from pgqueue.errors import InvalidArgumentError
from pgqueue.model.calls import UnfinishedError, checked_result, must_finish
from pgqueue.model.context import Event, Outcome, ReceiveContext, ReceiveState
from pgqueue.transports import adrive, drive


async def coroutine(*_: Any) -> int:
    return 7


def generator(*_: Any) -> Iterator[int]:
    yield 7


async def asynchronous_generator(*_: Any) -> AsyncIterator[int]:
    yield 7


class Awaited:
    async def __call__(self, *_: Any) -> int:
        return 7

    async def method(self, *_: Any) -> int:
        return 7

    def generating(self, *_: Any) -> Iterator[int]:
        yield 7


@functools.wraps(coroutine)
def runs_it(*arguments: Any) -> int:
    return asyncio.run(coroutine(*arguments))


COROUTINE_FUNCTIONS = {
    "a function": coroutine,
    "a partial": functools.partial(coroutine, 1),
    "a partial of a partial": functools.partial(functools.partial(coroutine, 1), 2),
    "a method": Awaited().method,
    "an object": Awaited(),
    "a partial of an object": functools.partial(Awaited(), 1),
    "a mock": AsyncMock(),
}
GENERATOR_FUNCTIONS = {
    "a generator": generator,
    "an asynchronous generator": asynchronous_generator,
    "a partial of a generator": functools.partial(generator, 1),
    "a generating method": Awaited().generating,
}
PLAIN = {"a builtin": print, "a class": dict, "a mock": MagicMock(), "a decorated one that runs it": runs_it}


@pytest.mark.parametrize("function", COROUTINE_FUNCTIONS.values(), ids=COROUTINE_FUNCTIONS)
def test_a_coroutine_function_is_refused_where_it_is_not_awaited(function: Callable[..., Any]) -> None:
    with pytest.raises(InvalidArgumentError, match=r"the work .* is a coroutine function.* use pgqueue\.aio"):
        must_finish(function, "the work", asynchronous=False)
    must_finish(function, "the work", asynchronous=True)


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("function", GENERATOR_FUNCTIONS.values(), ids=GENERATOR_FUNCTIONS)
def test_a_generator_function_is_refused_everywhere(function: Callable[..., Any], asynchronous: bool) -> None:
    with pytest.raises(InvalidArgumentError, match=r"the work .* is a generator function"):
        must_finish(function, "the work", asynchronous=asynchronous)


@pytest.mark.parametrize("function", PLAIN.values(), ids=PLAIN)
def test_any_other_function_is_taken(function: Callable[..., Any]) -> None:
    must_finish(function, "the work", asynchronous=False)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("make", [coroutine, generator, asynchronous_generator])
def test_a_result_that_is_work_not_done_is_refused_and_closed(make: Callable[[], Any]) -> None:
    with pytest.raises(UnfinishedError, match=r"return when the work is done, or use pgqueue\.aio"):
        checked_result(make())


@pytest.mark.parametrize("result", [None, 7, [1], iter([1]), MagicMock()])
def test_any_other_result_is_given_back(result: Any) -> None:
    assert checked_result(result) is result


REGISTER: dict[str, Callable[[ReceiveContext, Any], Any]] = {
    "on_complete": ReceiveContext.on_complete,
    "on_abandon": ReceiveContext.on_abandon,
    "on_fault": ReceiveContext.on_fault,
}


@pytest.mark.parametrize("register", REGISTER.values(), ids=REGISTER)
def test_a_callback_that_would_not_be_awaited_is_refused_when_it_is_registered(
    register: Callable[[ReceiveContext, Any], Any],
) -> None:
    for callback in (coroutine, generator):
        with pytest.raises(InvalidArgumentError, match=r"the callback .* function"):
            register(ReceiveContext(), callback)


@pytest.mark.parametrize(
    ("register", "event", "outcome"),
    [
        (ReceiveContext.on_complete, Event.COMPLETE, Outcome.COMPLETED),
        (ReceiveContext.on_abandon, Event.ABANDON, Outcome.ABANDONED),
    ],
)
async def test_a_callback_of_an_asynchronous_context_is_awaited_in_its_turn(
    register: Callable[[ReceiveContext, Any], Any], event: Event, outcome: Outcome
) -> None:
    context = ReceiveContext(asynchronous=True)
    seen: list[Any] = []

    async def first() -> None:
        await asyncio.sleep(0)
        seen.append(context.state)

    register(context, first)
    register(context, lambda: seen.append("then"))
    assert await adrive(context.enter(outcome)) is True
    assert seen == [context.state, "then"]


async def test_a_callback_that_raises_when_it_is_awaited_faults() -> None:
    context = ReceiveContext(asynchronous=True)

    @context.on_complete
    async def fail() -> None:
        await asyncio.sleep(0)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await adrive(context.enter(Outcome.COMPLETED))
    assert context.state is ReceiveState.FAULTED


async def test_on_fault_is_never_awaited_and_refuses_coroutine_functions_too() -> None:
    context = ReceiveContext(asynchronous=True)
    with pytest.raises(InvalidArgumentError, match="give a function that starts a task of yours"):
        context.on_fault(coroutine)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("event", [Event.COMPLETE, Event.FAULT])
def test_a_callback_that_turns_out_to_be_a_coroutine_faults(event: Event) -> None:
    context = ReceiveContext()
    (context.on_complete if event is Event.COMPLETE else context.on_fault)(lambda: coroutine())  # noqa: PLW0108 - hides that it is one
    happens = partial(drive, context.enter(Outcome.COMPLETED)) if event is Event.COMPLETE else context.fault
    with pytest.raises(InvalidArgumentError, match="was returned"):
        happens()
    assert context.state is ReceiveState.FAULTED


def test_a_renewer_refuses_a_coroutine_function() -> None:
    with pytest.raises(InvalidArgumentError, match=r"on_lock_renew_failure .* is a coroutine function"):
        AutoLockRenewer(on_lock_renew_failure=coroutine)
