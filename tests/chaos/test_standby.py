"""Verbs on a standby: what reads works, and what writes is refused by an error that a promotion would end."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
import pytest

import pgqueue
from benchmarks.chaos.pair import Pair
from pgqueue import Message, Queue, QueueClient
from pgqueue.errors import ReadOnlyError
from pgqueue.testing.hosts import binaries
from tests.patience import eventually

WRITES: dict[str, Callable[[Queue], object]] = {
    "send": lambda queue: queue.send(Message(1)),
    "send_batch": lambda queue: queue.send_batch([Message(1), Message(2)]),
    "receive": lambda queue: queue.receive(),
    "receive_and_delete": lambda queue: queue.receive_and_delete(),
    "receive of dead letters": lambda queue: queue.dead_letters.receive(),
    "resubmit": lambda queue: queue.dead_letters.resubmit(),
    "purge": lambda queue: queue.dead_letters.purge(),
}
READS: dict[str, Callable[[Queue], object]] = {
    "peek": lambda queue: queue.peek(),
    "peek of dead letters": lambda queue: queue.dead_letters.peek(),
}


@pytest.fixture(scope="module")
def standby() -> Iterator[str]:
    """The DSN of a standby, whose primary has a queue with a message."""
    pair = Pair(binaries())
    try:
        pair.create()
        with QueueClient(pair.primary.dsn()) as client:
            client.migrate()
            client.create_queue("q")
            client.queue("q").send(Message(1))
        pair.follow(synchronous=False)

        def has_replayed() -> bool:
            with psycopg.connect(pair.standby.dsn()) as connection:
                row = connection.execute("select to_regclass('pgqueue.message') is not null").fetchone()
            return row == (True,)

        eventually(has_replayed)
        yield pair.standby.dsn()
    finally:
        pair.remove()


@pytest.mark.parametrize("verb", WRITES)
def test_a_verb_that_writes_is_refused_until_the_standby_is_promoted(standby: str, verb: str) -> None:
    with pgqueue.QueueClient(standby) as client:
        with pytest.raises(ReadOnlyError) as refusal:
            WRITES[verb](client.queue("q"))
        assert refusal.value.is_transient


@pytest.mark.parametrize("verb", READS)
def test_a_verb_that_reads_works_on_a_standby(standby: str, verb: str) -> None:
    with pgqueue.QueueClient(standby) as client:
        READS[verb](client.queue("q"))
        client.list_queues()
        client.list_queues_runtime_properties()
