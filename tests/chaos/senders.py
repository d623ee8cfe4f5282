"""One program in both faces: sends so many messages through a sender, and answers with their numbers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pgqueue
import pgqueue.aio
from pgqueue import Message
from pgqueue.testing import Database

#: Long enough for the first flush to be on its way alone, so that its COMMIT has company.
A_MOMENT = 0.001

Send = Callable[[str, str, int, int], list[int]]


def send(dsn: str, queue: str, count: int, max_in_flight: int) -> list[int]:
    with (
        pgqueue.QueueClient(dsn) as client,
        client.queue(queue).sender(max_in_flight=max_in_flight) as sender,
    ):
        pending = [sender.send(Message(0))]
        time.sleep(A_MOMENT)
        pending += [sender.send(Message(body)) for body in range(1, count)]
        return [each.result() for each in pending]


def asend(dsn: str, queue: str, count: int, max_in_flight: int) -> list[int]:
    async def main() -> list[int]:
        async with (
            pgqueue.aio.QueueClient(dsn) as client,
            client.queue(queue).sender(max_in_flight=max_in_flight) as sender,
        ):
            pending = [await sender.send(Message(0))]
            await asyncio.sleep(A_MOMENT)
            pending += [await sender.send(Message(body)) for body in range(1, count)]
            return [await each.result() for each in pending]

    return asyncio.run(main())


FACES: dict[str, Send] = {"sync": send, "async": asend}


def stored(database: Database) -> list[tuple[int, int]]:
    """The bodies and the numbers of all messages there are, as they were stored."""
    with database.connect() as connection:
        return connection.execute(
            "select body::integer, sequence_number from pgqueue.message order by sequence_number"
        ).fetchall()
