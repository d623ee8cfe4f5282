"""One program in both faces: sends so many messages through a sender, and answers with their numbers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pgqueue
import pgqueue.aio
from pgqueue import Message
from pgqueue.testing import Database

Send = Callable[[str, str, int, int], list[int]]


def send(dsn: str, queue: str, count: int, max_in_flight: int) -> list[int]:
    with (
        pgqueue.QueueClient(dsn) as client,
        client.queue(queue).sender(max_in_flight=max_in_flight) as sender,
    ):
        pending = [sender.send(Message(body)) for body in range(count)]
        return [each.result() for each in pending]


def asend(dsn: str, queue: str, count: int, max_in_flight: int) -> list[int]:
    async def main() -> list[int]:
        async with (
            pgqueue.aio.QueueClient(dsn) as client,
            client.queue(queue).sender(max_in_flight=max_in_flight) as sender,
        ):
            pending = [await sender.send(Message(body)) for body in range(count)]
            return [await each.result() for each in pending]

    return asyncio.run(main())


FACES: dict[str, Send] = {"sync": send, "async": asend}


def stored(database: Database) -> list[tuple[int, int]]:
    """The bodies and the numbers of all messages there are, as they were stored."""
    with database.connect() as connection:
        return connection.execute(
            "select body::integer, sequence_number from pgqueue.message order by sequence_number"
        ).fetchall()
