"""The two drivers of a flow: one that blocks, one that awaits."""

from __future__ import annotations

import asyncio
import time
from typing import Any, TypeVar

from pgqueue.flows import Flow, Pause, Step

T = TypeVar("T")


def drive(flow: Flow[T]) -> T:
    """Runs a flow to its end, blocking at each step."""
    try:
        step = next(flow)
        while True:
            try:
                result = _take(step)
            except BaseException as error:  # noqa: BLE001 - the flow decides what to do about it
                step = flow.throw(error)
            else:
                step = flow.send(result)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]  # a generator's value has no type of its own


async def adrive(flow: Flow[T]) -> T:
    """Runs a flow to its end, awaiting each step."""
    try:
        step = next(flow)
        while True:
            try:
                result = await _await(step)
            except BaseException as error:  # noqa: BLE001 - the flow decides what to do about it
                step = flow.throw(error)
            else:
                step = flow.send(result)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]  # a generator's value has no type of its own


def _take(step: Step) -> Any:
    if isinstance(step, Pause):
        seconds = step.duration.total_seconds()
        return time.sleep(seconds) if step.bell is None else step.bell.wait(seconds, step.since)
    return step()


async def _await(step: Step) -> Any:
    if isinstance(step, Pause):
        seconds = step.duration.total_seconds()
        return await (asyncio.sleep(seconds) if step.bell is None else step.bell.arrives(seconds, step.since))
    result = step()
    return await result if hasattr(result, "__await__") else result
