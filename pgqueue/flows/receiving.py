"""Receiving with patience: look, pause, look again. No transaction and no connection is held in a pause."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

from pgqueue.flows.flow import Executor, Flow, Pause, Told
from pgqueue.statements import Statement, receiving
from pgqueue.statements.arguments import duration

T = TypeVar("T")

NO_WAIT = timedelta(0)

#: Who is told when messages come looks once a second all the same: locks that run out, and what was scheduled, ring no
#: bell. Who is not told looks at once, then less and less often.
LONGEST_PAUSE = timedelta(seconds=1)
LONGEST_PAUSE_UNTOLD = timedelta(milliseconds=250)
FIRST_PAUSE = timedelta(milliseconds=5)


def wait_for(queue: str, statement: Statement[list[T]], own: Told, wait: timedelta | None) -> Flow[list[T]]:
    """Runs a statement until it brings something or ``wait`` is over."""
    return _look(lambda: own.execute(statement), queue, own, wait)


def receive_and_delete(
    queue: str, statement: Statement[list[T]], own: Told, transaction: Executor | None, wait: timedelta | None
) -> Flow[list[T]]:
    """Receives and deletes at once. Where nothing comes, it takes a turn in keeping the queue going, never in the
    caller's transaction, which may stay open."""

    def look_again() -> Flow[list[T]]:
        yield from own.execute(receiving.take_turn(queue))
        return (yield from (transaction or own).execute(statement))

    patience = duration("wait", wait)
    rows = yield from (transaction or own).execute(statement)
    return rows or (yield from _look(look_again, queue, own, patience))


def _look(look: Callable[[], Flow[list[T]]], queue: str, own: Told, wait: timedelta | None) -> Flow[list[T]]:
    """Looks until something is there or ``wait`` is over; once in any case."""
    patience = duration("wait", wait) or NO_WAIT
    bell = own.bell(queue) if patience else None
    began = yield time.monotonic
    pause = FIRST_PAUSE
    while True:
        since = bell.rings if bell else 0
        rows = yield from look()
        left = patience - timedelta(seconds=(yield time.monotonic) - began)
        if rows or left <= NO_WAIT:
            return rows
        yield Pause(min(LONGEST_PAUSE if bell and bell.is_live else pause, left), bell, since)
        pause = min(pause * 2, LONGEST_PAUSE_UNTOLD)
