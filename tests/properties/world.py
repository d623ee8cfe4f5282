"""PostgreSQL as the machine plays on it: sessions that receive, callers' transactions, a clock that stands still."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
from psycopg_pool import ConnectionPool

from pgqueue import QueueClient
from pgqueue.testing import Database

EPOCH = datetime(2030, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
HOUR = timedelta(hours=1) // MILLISECOND
STAND_STILL = """
create or replace function pgqueue.clock() returns timestamptz language sql volatile parallel safe
as 'select timestamptz ''2030-01-01Z'' + last_value * interval ''1 ms'' from pgqueue_testing.clock_shift'"""
PASS_TIME = "select setval('pgqueue_testing.clock_shift', last_value + %s) from pgqueue_testing.clock_shift"
BUSY_ELSEWHERE = "select count(nextval('pgqueue.sequence_number')) from generate_series(1, %s)"

#: One session each. At repeatable read it is unknown what may still appear, so those sessions take no turns.
ISOLATION_LEVELS = ["read committed", "read committed", "repeatable read"]


@dataclass
class Session:
    """A session that receives, all that its client has, and another one for the transactions of a caller."""

    client: QueueClient
    receiving: psycopg.Connection[Any]
    calling: psycopg.Connection[Any]
    takes_turns: bool


@dataclass
class World:
    """Used by one example after the other; each has a queue of its own, and begins at a full hour."""

    sessions: list[Session]
    control: psycopg.Connection[Any]
    queues: int = 0

    def new_queue(self, lock_duration: timedelta, max_delivery_count: int, **more: Any) -> str:
        self.queues += 1
        self.control.execute("alter sequence pgqueue.sequence_number restart")
        self.pass_time(HOUR - self.now % HOUR)
        name = f"queue-{self.queues}"
        self.sessions[0].client.create_queue(
            name, lock_duration=lock_duration, max_delivery_count=max_delivery_count, **more
        )
        return name

    def drop_queue(self, name: str) -> None:
        for session in self.sessions:
            session.calling.rollback()
        self.sessions[0].client.delete_queue(name)

    @property
    def now(self) -> int:
        return self._number("select last_value from pgqueue_testing.clock_shift")

    @property
    def last_number(self) -> int:
        return self._number("select last_value from pgqueue.sequence_number")

    def pass_time(self, milliseconds: int) -> None:
        self.control.execute(PASS_TIME, [milliseconds])

    def draw_numbers(self, count: int) -> None:
        """As those do who send to other queues."""
        self.control.execute(BUSY_ELSEWHERE, [count])

    def broken_invariants(self) -> list[str]:
        return [sentence for (sentence,) in self.control.execute("select pgqueue.broken_invariants()")]

    def _number(self, query: str) -> int:
        [(number,)] = self.control.execute(query.encode())
        return int(number)


@contextmanager
def created(database: Database, isolation_levels: Sequence[str] = ISOLATION_LEVELS) -> Iterator[World]:
    with database.connect(autocommit=True) as control, ExitStack() as stack:
        control.execute(STAND_STILL)
        yield World([stack.enter_context(_session(database, level)) for level in isolation_levels], control)


@contextmanager
def _session(database: Database, isolation: str) -> Iterator[Session]:
    options = f"-c default_transaction_isolation={isolation.replace(' ', chr(92) + ' ')}"
    pool: ConnectionPool[Any] = ConnectionPool(
        database.dsn, min_size=1, max_size=1, open=False, kwargs={"autocommit": True, "options": options}
    )
    with pool, database.connect() as calling:
        with pool.connection() as receiving:
            remembered = receiving
        yield Session(QueueClient(pool), remembered, calling, takes_turns=isolation == "read committed")


def milliseconds(time: datetime | None) -> int | None:
    return None if time is None else (time - EPOCH) // MILLISECOND
