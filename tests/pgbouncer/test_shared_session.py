"""Clients that take turns in one session of the server share what it remembers of a queue."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, islice
from typing import Any

import psycopg
import pytest

from pgqueue import Message, QueueClient
from pgqueue.testing import Database
from tests.pgbouncer.conftest import Through

#: More than a cursor waits for before it moves, many times over.
MANY = 600


class Pair:
    """Two clients of one queue, and connections, through a PgBouncer that has one session for them all."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.ann, self.bob = QueueClient(dsn), QueueClient(dsn)
        self.ann.create_queue("q")
        self.queues = [client.queue("q") for client in (self.ann, self.bob)]

    def send(self, *bodies: Any, priority: int = 0) -> None:
        self.queues[0].send_batch([Message(body, priority=priority) for body in bodies])

    def take(self, count: int, at_once: int = 20) -> list[Any]:
        """Receives and completes, one client after the other, and answers with the bodies as they came."""
        bodies: list[Any] = []
        for queue in islice(cycle(self.queues), count // at_once):
            received = queue.receive(max_messages=at_once)
            queue.complete_batch(received)
            bodies += [message.body for message in received]
        return bodies

    def session(self) -> tuple[int, str]:
        """The process of the server's session, and all that it remembers."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            queue = "select id from pgqueue.queue where name = 'q'"
            remembered = f"select pg_backend_pid(), current_setting('pgqueue.scan_' || ({queue}), true)"
            ((process, scan),) = connection.execute(remembered.encode()).fetchall()
            return process, scan


@pytest.fixture
def pair(database: Database, through: Through) -> Iterator[Pair]:
    pair = Pair(through(database.name, default_pool_size=1))
    process, _ = pair.session()
    yield pair
    assert pair.session()[0] == process, "it was not the same session throughout"
    pair.ann.close()
    pair.bob.close()


def test_the_cursor_that_one_client_moved_is_the_others(pair: Pair) -> None:
    pair.send(*range(MANY))
    _, before = pair.session()
    assert pair.take(MANY) == list(range(MANY))
    _, after = pair.session()
    assert before != after
    assert after is not None


def test_messages_come_by_priority_to_either_client(pair: Pair) -> None:
    for priority in (5, 0, -5):
        pair.send(*((priority, number) for number in range(MANY)), priority=priority)
    expected = [[priority, number] for priority in (-5, 0, 5) for number in range(MANY)]
    assert pair.take(2 * MANY) == expected[: 2 * MANY]
    pair.send("more urgent", priority=-5)
    pair.send("most urgent", priority=-9)
    assert pair.take(2, at_once=1) == ["most urgent", "more urgent"]
    assert pair.take(MANY) == expected[2 * MANY :]


def test_a_message_that_one_client_abandons_comes_first_to_the_other(pair: Pair) -> None:
    pair.send(*range(MANY))
    (first,) = pair.queues[0].receive()
    assert pair.take(MANY // 2) == list(range(1, MANY // 2 + 1))
    first.abandon()
    (again,) = pair.queues[1].receive()
    assert (again.body, again.delivery_count) == (0, 2)


def test_a_cursor_moves_back_with_the_transaction_that_moved_it(pair: Pair) -> None:
    pair.send(*range(MANY))
    with psycopg.connect(pair.dsn) as connection:
        for queue in pair.queues:
            queue.receive_and_delete(max_messages=MANY // 3, transaction=connection)
        connection.rollback()
    assert pair.take(MANY) == list(range(MANY))


def test_a_client_with_another_isolation_level_spoils_nothing(pair: Pair) -> None:
    pair.send(*range(MANY))
    with psycopg.connect(pair.dsn) as connection:
        connection.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)
        taken = pair.queues[0].receive_and_delete(max_messages=MANY // 2, transaction=connection)
        connection.commit()
    assert [message.body for message in taken] + pair.take(MANY // 2) == list(range(MANY))


def test_a_queue_that_is_dropped_and_created_again_starts_empty(pair: Pair) -> None:
    for _ in range(2):
        pair.send(*range(MANY))
        pair.take(MANY // 2)
        pair.ann.delete_queue("q")
        pair.bob.create_queue("q")
    pair.send(*range(MANY))
    assert pair.take(MANY) == list(range(MANY))


def test_a_queue_with_other_priorities_than_the_one_before_is_scanned_as_a_whole(pair: Pair) -> None:
    pair.send(*range(MANY))
    pair.take(MANY)
    for priority in (1, -1):
        pair.send(*range(MANY), priority=priority)
    assert pair.take(2 * MANY) == [*range(MANY)] * 2
