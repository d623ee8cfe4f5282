"""The process that sends: a flight's row and its message are inserted in one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

import psycopg

from pgqueue import Message, Queue, QueueClient
from pgqueue.demo import business
from pgqueue.demo.flights import Flight, flights
from pgqueue.demo.plan import QUEUE, Plan
from pgqueue.demo.poison import POISON

T = TypeVar("T")

AT_ONCE = 100
POISON_EVERY = 3
ABORT_EVERY = 20


def send_departures(plan: Plan) -> None:
    """Send all flights and, among the first of them, the poison messages."""
    poison = iter(POISON)
    with QueueClient(plan.dsn) as client, psycopg.connect(plan.dsn, autocommit=True) as connection:
        departures = client.queue(QUEUE)
        for number, batch in enumerate(_batches(flights(plan.source, plan.flights), AT_ONCE), start=1):
            if number % ABORT_EVERY == 1:
                _send(batch, departures, connection, abort=True)
            _send(batch, departures, connection)
            if number % POISON_EVERY == 0:
                departures.send_batch(islice(poison, 1))
        departures.send_batch(poison)


def _send(batch: list[Flight], departures: Queue, connection: business.Connection, *, abort: bool = False) -> None:
    """Send a batch in one transaction; if it aborts, the rows and the messages are both undone."""
    with connection.transaction(force_rollback=abort):
        business.record(connection, batch)
        departures.send_batch([_message(flight) for flight in batch], transaction=connection)


def _message(flight: Flight) -> Message:
    return Message(flight.as_body(), message_id=f"flight-{flight.id}", subject="departure")


def _batches(sequence: Iterable[T], size: int) -> Iterator[list[T]]:
    rest = iter(sequence)
    while batch := list(islice(rest, size)):
        yield batch
