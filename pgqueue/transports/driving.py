"""The two drivers of a flow: one that blocks, one that awaits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar, cast

from pgqueue.flows import Flow, Pause, Step
from pgqueue.transports import deadlines

T = TypeVar("T")

Resume = Callable[[Any], Step]


def drive(flow: Flow[T]) -> T:
    """Run a flow to its end, blocking at each step.

    Any exception is thrown into the flow, which decides what to do about it; an exception that another thread sets may
    also arrive between two steps.
    """
    resume: Resume = flow.send
    given: Any = None
    try:
        while True:
            try:
                given = _take(resume(given))
                resume = flow.send
            except BaseException as error:  # noqa: BLE001
                if _is_over(flow):
                    return cast(T, _result(error))
                resume, given = flow.throw, error
    finally:
        given = None


async def adrive(flow: Flow[T]) -> T:
    """Run a flow to its end, awaiting each step.

    A closed coroutine cannot await: the remaining steps of the flow are then not run.
    """
    resume: Resume = flow.send
    given: Any = None
    try:
        while True:
            try:
                given = await _await(resume(given))
                resume = flow.send
            except GeneratorExit:
                _break_off(flow)
                raise
            except BaseException as error:  # noqa: BLE001
                if _is_over(flow):
                    return cast(T, _result(error))
                resume, given = flow.throw, error
    finally:
        given = None


def _break_off(flow: Flow[Any]) -> None:
    """End a flow whose steps cannot be run any more."""
    with suppress(asyncio.CancelledError, StopIteration):
        while True:
            flow.throw(asyncio.CancelledError())


def _is_over(flow: Flow[Any]) -> bool:
    return flow.gi_frame is None  # type: ignore[attr-defined]  # typing knows only of abstract generators


def _result(end: BaseException) -> Any:
    """The result of a finished flow."""
    if isinstance(end, StopIteration):
        return end.value
    raise end


def _take(step: Step) -> Any:
    if isinstance(step, Pause):
        seconds = deadlines.time_left(step.duration.total_seconds())
        return time.sleep(seconds) if step.wake_signal is None else step.wake_signal.wait(seconds, step.since)
    return step()


async def _await(step: Step) -> Any:
    if isinstance(step, Pause):
        seconds = deadlines.time_left(step.duration.total_seconds())
        return await (
            asyncio.sleep(seconds) if step.wake_signal is None else step.wake_signal.arrives(seconds, step.since)
        )
    result = step()
    if not hasattr(result, "__await__"):
        return result
    task = asyncio.current_task()
    assert task is not None
    requests = task.cancelling()
    given = await result
    if task.cancelling() > requests:
        # asyncio.wait_for of Python 3.11, by which psycopg's pool waits, may return its result instead
        task.uncancel()
        task.cancel()
    return given
