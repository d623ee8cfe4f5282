"""Ways to store messages of some 200 bytes: this library's, and raw psycopg into a table of the same shape."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import psycopg

import pgqueue.aio
from pgqueue import Message, Queue

BODY = {"id": 12345, "kind": "order.created", "customer": "c-98765", "note": "x" * 120, "at": "2013-01-01"}

TABLE = """
create table if not exists floor (like pgqueue.message including all);
create sequence if not exists floor_number"""

ROW = "(sequence_number, position, enqueued_time, queue_id, lane, body)"
VALUES = "(nextval('floor_number'), currval('floor_number'), clock_timestamp(), 1, 1, %s::text::jsonb)"
INSERT = f"insert into floor {ROW} values {VALUES}"
COPY = f"copy floor {ROW} from stdin"


@dataclass(frozen=True)
class Way:
    """A way to store messages; ``share`` of the messages of a run, for the slow ones."""

    title: str
    run: Callable[[Sequence[Any]], object]
    share: float = 1.0


def ways(queue: Queue, dsn: str, connection: psycopg.Connection[Any], text: str) -> list[Way]:
    """Bodies are Python objects for all of them, and what they need of JSON text is part of the bargain."""
    return [
        Way("send, one by one", partial(send, queue), 0.1),
        Way("raw: insert, one by one", partial(insert, connection, text), 0.1),
        *(Way(f"sender, {n} in flight", partial(overlap, queue, n)) for n in (10, 100, 1000)),
        Way("sender, 1000 in flight, asyncio", partial(aoverlap, dsn, queue.name, 1000)),
        Way("send_batch of 1000", partial(batch, queue, 1000)),
        Way("raw: executemany of 1000", partial(executemany, connection, text, 1000)),
        Way("raw: COPY of 1000", partial(copy, connection, text, 1000)),
    ]


def send(queue: Queue, bodies: Sequence[Any]) -> None:
    for body in bodies:
        queue.send(Message(body))


def overlap(queue: Queue, max_in_flight: int, bodies: Sequence[Any]) -> None:
    with queue.sender(max_in_flight=max_in_flight) as sender:
        for body in bodies:
            sender.send(Message(body))


def aoverlap(dsn: str, name: str, max_in_flight: int, bodies: Sequence[Any]) -> None:
    async def main() -> None:
        async with (
            pgqueue.aio.QueueClient(dsn) as client,
            client.queue(name).sender(max_in_flight=max_in_flight) as sender,
        ):
            for body in bodies:
                await sender.send(Message(body))

    asyncio.run(main())


def batch(queue: Queue, size: int, bodies: Sequence[Any]) -> None:
    for start in range(0, len(bodies), size):
        queue.send_batch(Message(body) for body in bodies[start : start + size])


def insert(connection: psycopg.Connection[Any], text: str, bodies: Sequence[Any]) -> None:
    for _ in bodies:
        connection.execute(INSERT, [text])


def executemany(connection: psycopg.Connection[Any], text: str, size: int, bodies: Sequence[Any]) -> None:
    for start in range(0, len(bodies), size):
        with connection.transaction(), connection.cursor() as cursor:
            cursor.executemany(INSERT, [(text,)] * len(bodies[start : start + size]))


def copy(connection: psycopg.Connection[Any], text: str, size: int, bodies: Sequence[Any]) -> None:
    for start in range(0, len(bodies), size):
        numbers = range(start, start + len(bodies[start : start + size]))
        with connection.transaction(), connection.cursor() as cursor, cursor.copy(COPY) as stream:
            for number in numbers:
                stream.write_row((number, number, "2013-01-01", 1, 1, text))
