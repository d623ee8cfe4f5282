"""The sender: a flight's row and its message are inserted in one transaction. Among the flights is some poison."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import asdict
from itertools import count, islice
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from pgqueue import Message, Queue, QueueClient
from pgqueue.demo.flights import Flight, flights
from pgqueue.demo.plan import QUEUE, Connection, Plan

AT_ONCE = 100
POISON_EVERY = 3
ABORT_EVERY = 20

RECORD = """
insert into pgqueue_demo.flight (id, scheduled, carrier, number, origin, destination, delay)
select *
  from jsonb_to_recordset(%s) as flight (
       id integer, scheduled timestamp, carrier text, number integer, origin text, destination text, delay integer)
"""


def _departure(message_id: str, body: Any, content_type: str | None = None) -> Message:
    return Message(body, message_id=message_id, subject="departure", content_type=content_type)


FLIGHT = {"carrier": "UA", "number": 1545, "destination": "IAH", "scheduled": "2013-01-01 05:15"}

#: Each of these fails until it has reached the queue's maximum delivery count.
HOPELESS = (
    _departure("hopeless-1", "DEP 1545 UA EWR IAH 0517 +2", "text/x-teletype"),
    _departure("hopeless-2", {"flight": "UA 1545"}),
    _departure("hopeless-3", {**FLIGHT, "id": -1, "origin": "EWR", "delay": "eleven"}),
    _departure("hopeless-4", b"\x00\x01\x02", "application/octet-stream"),
)

#: This one is well-formed, but the worker dead-letters it, because a retry would not help.
REFUSED = _departure("refused", {**FLIGHT, "id": -2, "origin": "SFO", "delay": 0})


def send_departures(plan: Plan, stopping: threading.Event | None = None) -> None:
    """Send all flights and, among the first of them, the poison messages."""
    rest, poison = flights(plan.source, plan.flights), iter((*HOPELESS, REFUSED))
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


def _send(batch: Sequence[Flight], departures: Queue, connection: Connection, *, abort: bool = False) -> None:
    """Send a batch in one transaction; if it aborts, the rows and the messages are both undone."""
    with connection.transaction(force_rollback=abort):
        connection.execute(RECORD, [Jsonb([asdict(flight) for flight in batch])])
        messages = [_departure(f"flight-{flight.id}", asdict(flight)) for flight in batch]
        departures.send_batch(messages, transaction=connection)
