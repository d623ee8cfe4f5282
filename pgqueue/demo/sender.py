"""The sender: a flight's row and its message are inserted in one transaction."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import count, islice

import psycopg

from pgqueue import Message, Queue, QueueClient
from pgqueue.demo import business
from pgqueue.demo.flights import Flight, flights
from pgqueue.demo.plan import QUEUE, Plan
from pgqueue.demo.poison import POISON

AT_ONCE = 100
POISON_EVERY = 3
ABORT_EVERY = 20


def send_departures(plan: Plan, stopping: threading.Event | None = None) -> None:
    """Send all flights and, among the first of them, the poison messages."""
    rest, poison = flights(plan.source, plan.flights), iter(POISON)
    with QueueClient(plan.dsn) as client, psycopg.connect(plan.dsn, autocommit=True) as connection:
        departures = client.queue(QUEUE)
        for number in count(1):
            batch = list(islice(rest, AT_ONCE))
            if not batch or (stopping is not None and stopping.is_set()):
                break
            if number % ABORT_EVERY == 1:
                _send(batch, departures, connection, abort=True)
            _send(batch, departures, connection)
            if number % POISON_EVERY == 0:
                departures.send_batch(islice(poison, 1))
        departures.send_batch(poison)


def _send(batch: Sequence[Flight], departures: Queue, connection: business.Connection, *, abort: bool = False) -> None:
    """Send a batch in one transaction; if it aborts, the rows and the messages are both undone."""
    messages = [Message(flight.as_body(), message_id=f"flight-{flight.id}", subject="departure") for flight in batch]
    with connection.transaction(force_rollback=abort):
        business.record(connection, batch)
        departures.send_batch(messages, transaction=connection)
