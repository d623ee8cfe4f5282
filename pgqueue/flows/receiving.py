"""Receiving with patience: look, pause, look again. No transaction and no connection is held in a pause."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from math import inf
from typing import TypeVar

from pgqueue.errors import PGQueueError, logger
from pgqueue.flows.flow import Executor, Flow, Pause, Told
from pgqueue.model.names import is_dead_letter_queue
from pgqueue.statements import Statement, receiving
from pgqueue.statements.arguments import duration

T = TypeVar("T")

NO_WAIT = timedelta(0)

#: In seconds, as in SQL.
TURN_EVERY = 1.0

#: Who is told when messages come looks once a second all the same: locks that run out, and what was scheduled, ring no
#: bell. Who is not told looks at once, then less and less often.
LONGEST_PAUSE = timedelta(seconds=1)
LONGEST_PAUSE_UNTOLD = timedelta(milliseconds=250)
FIRST_PAUSE = timedelta(milliseconds=5)


def wait_for(queue: str, statement: Statement[list[T]], source: Told, wait: timedelta | None) -> Flow[list[T]]:
    """Runs a statement until it brings something or ``wait`` is over."""
    return _look(lambda: source.execute(statement), queue, source, wait)


@dataclass
class Turns:
    """Turns in keeping a queue going, for who deletes what it receives: never in the caller's transaction, which may
    stay open. One a second, as of those who receive under lock, and whenever nothing came."""

    queue: str
    source: Executor
    due: float = -inf

    def take_when_due(self) -> Flow[None]:
        """No turn is worth a failure: the caller's transaction may have a connection when nobody else gets one."""
        now = yield time.monotonic
        if now < self.due:
            return
        self.due = now + TURN_EVERY
        try:
            yield from self.take()
        except PGQueueError as failure:
            if not failure.is_transient:
                raise
            logger.debug("no turn was taken in %s: %s", self.queue, failure)

    def take(self) -> Flow[None]:
        if not is_dead_letter_queue(self.queue):  # dead letters wait for nothing
            yield from self.source.execute(receiving.take_turn(self.queue))


def receive_and_delete(
    statement: Statement[list[T]], turns: Turns, source: Told, transaction: Executor | None, wait: timedelta | None
) -> Flow[list[T]]:
    """Receives and deletes at once, and keeps the queue going beside it."""

    def look_again() -> Flow[list[T]]:
        yield from turns.take()
        return (yield from (transaction or source).execute(statement))

    patience = duration("wait", wait)
    yield from turns.take_when_due()
    rows = yield from (transaction or source).execute(statement)
    return rows or (yield from _look(look_again, turns.queue, source, patience))


def _look(look: Callable[[], Flow[list[T]]], queue: str, source: Told, wait: timedelta | None) -> Flow[list[T]]:
    """Looks until something is there or ``wait`` is over; once in any case."""
    patience = duration("wait", wait) or NO_WAIT
    bell = source.bell(queue) if patience else None
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
