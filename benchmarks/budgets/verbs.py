"""The verbs of the hot path, each with what has to be there before it is called."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import uuid4

import psycopg
from psycopg_pool import ConnectionPool

from pgqueue import Message, QueueClient, ReceivedMessage

BATCH = 10
MESSAGE = Message({"order": 17, "customer": "c-98765", "note": "x" * 120})

QUEUE, EMPTY, SESSIONS, TOPIC = "orders", "empty", "carts", "events"

Connection = psycopg.Connection[Any]
Call = Callable[[], object]


@dataclass(frozen=True)
class Place:
    """A client, and the pool whose only connection it uses."""

    client: QueueClient
    pool: ConnectionPool[Connection]

    def set_up(self) -> None:
        """Create what the verbs use."""
        self.client.create_queue(QUEUE)
        self.client.create_queue(EMPTY)
        self.client.create_queue(SESSIONS, requires_session=True)
        self.client.create_topic(TOPIC)
        self.client.create_subscription(TOPIC, "all")

    def received(self, messages: int) -> list[ReceivedMessage]:
        """New messages, received."""
        queue = self.client.queue(QUEUE)
        queue.send_batch([MESSAGE] * messages)
        return queue.receive(max_messages=messages)

    def transact(self, work: Callable[[Connection], object]) -> None:
        """Do it in a transaction."""
        with self.pool.connection() as connection:
            work(connection)


def _send(place: Place, calls: int) -> Iterator[Call]:
    yield from [partial(place.client.queue(QUEUE).send, MESSAGE)] * calls


def _send_batch(place: Place, calls: int) -> Iterator[Call]:
    yield from [partial(place.client.queue(QUEUE).send_batch, [MESSAGE] * BATCH)] * calls


def _publish_to_topic(place: Place, calls: int) -> Iterator[Call]:
    yield from [partial(place.client.topic(TOPIC).send, MESSAGE)] * calls


def _receive(place: Place, calls: int) -> Iterator[Call]:
    queue = place.client.queue(QUEUE)
    queue.send_batch([MESSAGE] * BATCH * calls)
    yield from [partial(queue.receive, max_messages=BATCH)] * calls


def _pin(place: Place, calls: int) -> Iterator[Call]:
    def pin(message: ReceivedMessage, connection: Connection) -> None:
        proof = [message.queue, message.sequence_number, message.lock_token]
        connection.execute("select pgqueue.pin(%s, %s, %s)", proof)

    for message in place.received(calls):
        yield partial(place.transact, partial(pin, message))


def _complete(place: Place, calls: int) -> Iterator[Call]:
    def complete(message: ReceivedMessage, connection: Connection) -> None:
        message.complete(transaction=connection)

    for message in place.received(calls):
        yield partial(place.transact, partial(complete, message))


def _complete_batch(place: Place, calls: int) -> Iterator[Call]:
    received = place.received(BATCH * calls)
    for first in range(0, len(received), BATCH):
        yield partial(place.client.queue(QUEUE).complete_batch, received[first : first + BATCH])


def _renew_lock(place: Place, calls: int) -> Iterator[Call]:
    longer = timedelta(hours=1)
    yield from (partial(message.renew_lock, lock_duration=longer) for message in place.received(calls))


def _abandon(place: Place, calls: int) -> Iterator[Call]:
    yield from (message.abandon for message in place.received(calls))


def _accept_session(place: Place, calls: int) -> Iterator[Call]:
    queue = place.client.queue(SESSIONS)
    queue.send_batch([Message(MESSAGE.body, session_id=f"s-{number}") for number in range(calls)])
    yield from [queue.accept_session] * calls


def _receive_from_session(place: Place, calls: int) -> Iterator[Call]:
    queue = place.client.queue(SESSIONS)
    session_id = str(uuid4())
    queue.send_batch([Message(MESSAGE.body, session_id=session_id)] * calls)
    yield from [queue.accept_session(session_id).receive] * calls


def _one_turn(place: Place, calls: int) -> Iterator[Call]:
    def turn(connection: Connection) -> None:
        connection.execute("select pgqueue.take_turn(%s)", [EMPTY])

    yield from [partial(place.transact, turn)] * calls


def _one_idle_poll(place: Place, calls: int) -> Iterator[Call]:
    yield from [place.client.queue(EMPTY).receive] * calls


#: For each verb a function that prepares some calls, and yields them.
VERBS: dict[str, Callable[[Place, int], Iterator[Call]]] = {
    "send": _send,
    f"send_batch of {BATCH}": _send_batch,
    "publish_to_topic": _publish_to_topic,
    f"receive of {BATCH}": _receive,
    "pin": _pin,
    "complete": _complete,
    f"complete_batch of {BATCH}": _complete_batch,
    "renew_lock": _renew_lock,
    "abandon": _abandon,
    "accept_session": _accept_session,
    "receive_from_session": _receive_from_session,
    "one turn": _one_turn,
    "one idle poll": _one_idle_poll,
}
