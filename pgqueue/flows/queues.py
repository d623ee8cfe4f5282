"""Purging and dropping queues, in several steps."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from pgqueue.errors import AccessDeniedError, InvalidArgumentError, QueueAlreadyExistsError
from pgqueue.flows import flow
from pgqueue.flows.flow import Executor, Flow
from pgqueue.model.arguments import queue_name
from pgqueue.model.names import is_dead_letter_queue
from pgqueue.model.settings import QueueProperties
from pgqueue.statements import Statement, queues

PURGE_AT_ONCE = 10_000


def create(statement: Statement[None], name: str, source: Executor, *, exist_ok: bool) -> Flow[QueueProperties]:
    yield from flow.create(statement, source, QueueAlreadyExistsError, exist_ok=exist_ok)
    return (yield from source.execute(queues.get_queue(name)))


def alter(statement: Statement[None], name: str, source: Executor) -> Flow[QueueProperties]:
    yield from source.execute(statement)
    return (yield from source.execute(queues.get_queue(name)))


def purge(name: str, source: Executor) -> Flow[int]:
    """Delete the messages in bounded transactions, so that no other session waits long."""
    purged = 0
    while True:
        deleted = yield from source.execute(queues.purge_queue(name, max_messages=PURGE_AT_ONCE))
        purged += deleted
        if deleted < PURGE_AT_ONCE:
            return purged


def empty(names: Sequence[str], source: Executor) -> Flow[None]:
    """Purge queues that are dropped next, unless that would be refused: their messages must stay then."""
    if names:
        with suppress(AccessDeniedError):  # a purge is refused by the name of the queue
            yield from source.execute(queues.check_droppable(names))
    for name in names:
        yield from purge(name, source)


def drop(name: str, source: Executor) -> Flow[None]:
    """Empty the queue in bounded transactions, then drop it."""
    if is_dead_letter_queue(queue_name(name)):
        raise InvalidArgumentError(f"dead letters cannot be dropped: purge {name}, or drop its queue")
    yield from empty([name], source)
    yield from source.execute(queues.drop_queue(name))
