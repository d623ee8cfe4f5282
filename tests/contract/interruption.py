"""Interrupts what the library does at one of its steps, before it is taken or before its result is known."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from pgqueue.flows import Step
from pgqueue.transports import driving

BEFORE, AFTER = "before the step", "after the step"

#: Steps of which every call has fewer; a loop over all of them ends by itself.
MANY = 60


class AnyError(Exception):
    """An exception of any class, as another thread may set it in this one."""


#: The interruptions that may come: from the keyboard or from an event loop; and from another thread, of any class.
INTERRUPTIONS: dict[str, dict[str, type[BaseException]]] = {
    "sync": {"cancelled": KeyboardInterrupt, "set": AnyError},
    "async": {"cancelled": asyncio.CancelledError, "set": AnyError},
}


#: An interruption between a pool and the first use of its connection loses that connection, and nothing else: the next
#: step is interrupted in its place.
WOULD_LOSE_A_CONNECTION = {
    BEFORE: ("putconn", "release", "close"),
    AFTER: ("getconn", "acquire", "_connect", "connect"),
}


class Interruption:
    """Raises an error at one step, and records whether the step was reached."""

    def __init__(self, error: type[BaseException], when: str, at: int) -> None:
        self._error = error
        self._when = when
        self._left = at
        self.has_come = False

    @contextmanager
    def coming(self) -> Iterator[None]:
        take, await_ = driving._take, driving._await

        def taken(step: Step) -> Any:
            with self._interrupted(step):
                return take(step)

        async def awaited(step: Step) -> Any:
            with self._interrupted(step):
                return await await_(step)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(driving, "_take", taken)
            patch.setattr(driving, "_await", awaited)
            try:
                yield
            except BaseException:
                if not self.has_come:
                    raise

    @contextmanager
    def _interrupted(self, step: Step) -> Iterator[None]:
        self._left -= 1
        is_now = self._left < 0 and not self.has_come and _name(step) not in WOULD_LOSE_A_CONNECTION[self._when]
        if is_now and self._when == BEFORE:
            self._raise()
        yield
        if is_now:
            self._raise()

    def _raise(self) -> None:
        self.has_come = True
        raise self._error


def _name(step: Step) -> str:
    function = step.func if isinstance(step, partial) else step
    return getattr(function, "__name__", "")


def interruptions(error: type[BaseException], when: str) -> Iterator[Interruption]:
    """One for each step of what is done with them; ends when one was not reached any more."""
    for at in range(MANY):
        interruption = Interruption(error, when, at)
        yield interruption
        if not interruption.has_come:
            return
    raise AssertionError("it takes more steps than anything does")
