"""Receiving with patience: ask, pause, ask again. No transaction and no connection is held in a pause."""

from __future__ import annotations

from datetime import timedelta
from itertools import chain
from typing import TypeVar

from pgqueue.flows.flow import Executor, Flow, Pause
from pgqueue.model.policy import pauses
from pgqueue.statements import Statement, receiving
from pgqueue.statements.arguments import duration

T = TypeVar("T")

NO_WAIT = timedelta(0)


def wait_for(statement: Statement[list[T]], own: Executor, wait: timedelta | None) -> Flow[list[T]]:
    """Runs a statement until it brings something or ``wait`` is over."""
    patience = duration("wait", wait) or NO_WAIT
    rows = yield from own.execute(statement)
    for pause in pauses(patience):
        if rows:
            break
        yield Pause(pause)
        rows = yield from own.execute(statement)
    return rows


def receive_and_delete(
    queue: str, statement: Statement[list[T]], own: Executor, transaction: Executor | None, wait: timedelta | None
) -> Flow[list[T]]:
    """Receives and deletes at once. Where nothing comes, it takes a turn in keeping the queue going, never in the
    caller's transaction, which may stay open."""
    where = transaction or own
    patience = duration("wait", wait) or NO_WAIT
    rows = yield from where.execute(statement)
    for pause in chain((NO_WAIT,), pauses(patience)):
        if rows:
            break
        yield Pause(pause)
        yield from own.execute(receiving.take_turn(queue))
        rows = yield from where.execute(statement)
    return rows
