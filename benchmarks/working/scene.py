"""A queue, a table of the same shape for raw psycopg, and the table that handlers write to."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg

from pgqueue import Message, Queue

#: 200 bytes as JSON text.
BODY = {"id": 12345, "kind": "order.created", "customer": "c-98765", "note": "x" * 116, "at": "2013-01-01"}
AT_ONCE = 1_000

TABLES = """
create table floor (like pgqueue.message including all);
create table effect (id bigint, body jsonb);"""


@dataclass
class Scene:
    dsn: str
    queue: Queue
    connection: psycopg.Connection[Any]

    def clear(self) -> None:
        self.connection.execute("truncate pgqueue.message, floor, effect")

    def fill(self, count: int) -> None:
        """The same rows in the queue and on the floor."""
        self.clear()
        for start in range(0, count, AT_ONCE):
            self.queue.send_batch([Message(BODY)] * min(AT_ONCE, count - start))
        self.connection.execute("insert into floor select * from pgqueue.message order by position")
        self.connection.execute("vacuum analyze pgqueue.message, floor")
        self.connection.execute("checkpoint")


class Countdown:
    """Counts what handlers begin, calls ``over`` at the last, and remembers when the first was."""

    def __init__(self, count: int, over: Callable[[], object]) -> None:
        self._count = count
        self._over = over
        self._numbers = itertools.count(1)
        self.began = 0.0

    def one(self) -> None:
        number = next(self._numbers)
        if number == 1:
            self.began = time.perf_counter()
        if number == self._count:
            self._over()

    def rate(self) -> float:
        """Messages a second since the first; to be asked when all is settled."""
        return self._count / (time.perf_counter() - self.began)
