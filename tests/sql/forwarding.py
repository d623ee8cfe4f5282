"""Shared parts of the tests of queues that forward to others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pgqueue.testing import Database
from tests.sql.stage import (
    Received,
    Session,
    Stage,
)


@contextmanager
def chain(database: Database, *names: str, **settings: Any) -> Iterator[tuple[Stage, Session]]:
    """Queues of these names, each of which forwards to the one before it, the first of them to q."""
    with Stage(database, **settings) as stage:
        ann = stage.session("ann")
        for name, target in zip(names, ("q", *names), strict=False):
            ann.call("create_queue", queue=name, forward_to=target)
        yield stage, ann


def bodies(session: Session, queue: str = "q") -> list[Any]:
    return session.values("select body from pgqueue.peek(%(queue)s, 10000)", queue=queue)


def dead(session: Session, queue: str) -> list[tuple[Any, ...]]:
    return session.rows(
        "select body, dead_letter_reason from pgqueue.peek_dead_letters(%(queue)s, 100)",
        queue=queue,
    )


def forward(session: Session, queue: str, target: str = "q") -> None:
    session.call("alter_queue", queue=queue, forward_to=target)


def one(session: Session, queue: str) -> Received:
    (received,) = session.receive(queue=queue)
    return received
