"""Several consumers in one event loop. Conflicts are retried on the same lock; invalid messages are dead-lettered."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import psycopg

from pgqueue import DeadLetter, embedded
from pgqueue.aio import Message, Queue, QueueClient, ReceivedMessage, process


async def count(message: ReceivedMessage, tx: Any) -> None:
    """The work: it may run more than once, but its effects are committed once."""
    match message.body:
        case {"vote": str(candidate)}:
            await tx.execute("update example_tally set votes = votes + 1 where candidate = %s", [candidate])
        case _:
            raise DeadLetter("NotAVote", "a vote names a candidate")


async def consume(votes: Queue) -> None:
    while received := await votes.receive(max_messages=5):
        for message in received:
            await process(message, count)


async def main() -> None:
    dsn = os.environ.get("PGQUEUE_DSN") or embedded.start()
    async with QueueClient(dsn) as client, await psycopg.AsyncConnection.connect(dsn, autocommit=True) as conn:
        await client.migrate()
        await client.create_queue("example-votes")
        await conn.execute("create table example_tally as select 'Ada' as candidate, 0 as votes")
        votes = client.queue("example-votes")
        await votes.send_batch([*(Message({"vote": "Ada"}) for _ in range(20)), Message("a smudge")])

        await asyncio.gather(*(consume(votes) for _ in range(4)))

        tally = await (await conn.execute("table example_tally")).fetchall()
        (smudge,) = await votes.dead_letters.peek()
        print(f"counted: {tally}; set aside: {smudge.body!r}, because {smudge.dead_letter_reason}")

        await conn.execute("drop table example_tally")
        await client.delete_queue("example-votes")


if __name__ == "__main__":
    asyncio.run(main())
