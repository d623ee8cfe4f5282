"""When it is calm: each queue has one receiver left, with the sessions it had, and has to be emptied by it."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

import psycopg
from psycopg import sql

from benchmarks.chaos.evidence import Stuck
from benchmarks.chaos.plan import LOCK_SECONDS
from benchmarks.chaos.processes import PULSE
from pgqueue.testing import Database

TICK = 0.2
#: For how many seconds of its own running a receiver may get nothing, of what is there, before it counts as stuck.
PATIENCE = 20.0
#: A transaction is decided within a moment after it is prepared; an older one was left behind.
LEFT_BEHIND = "3 seconds"

WAITING = """
select queue.name, count(*)
  from (select queue_id from pgqueue.message union all select queue_id from pgqueue.scheduled_message) as message
  join pgqueue.queue on queue.id = queue_id
 group by queue.name"""

#: How far ahead of the queue's clock the last lock or due time lies, in seconds.
AHEAD = """
select coalesce(extract(epoch from max(until) - pgqueue.clock()), 0)::float
  from (select locked_until as until from pgqueue.message
         union all select scheduled_enqueue_time from pgqueue.scheduled_message) as message"""

PREPARED = f"""
select gid from pg_prepared_xacts
 where database = current_database() and prepared < clock_timestamp() - interval '{LEFT_BEHIND}'"""

#: Messages that such a transaction sends are seen when it is decided.
IS_PREPARED = "select exists (select from pg_prepared_xacts where database = current_database())"

RECEIVE = "select pgqueue.receive(%s, 1000)"
ACCEPT = """
select pgqueue.receive_from_session(queue, session_id, lock_token, 1000)
  from (select %s::text as queue) as asked cross join lateral pgqueue.accept_session(queue)"""
REQUIRES_SESSION = "select requires_session from pgqueue.queue where name = %s"

IDS = """
select body->>'id' from pgqueue.message join pgqueue.queue on queue.id = queue_id where name = %s
 order by sequence_number"""


class Home(Protocol):
    """The process in which a receiver lives, which ages as it runs."""

    @property
    def pulses(self) -> int: ...


@dataclass
class Drain:
    """``homes`` are the homes of receivers by queue. ``sweeps`` where it takes a sweep to repair the round's damage."""

    database: Database
    homes: Mapping[str, Home]
    tick: Callable[[], None]
    patience: float = PATIENCE
    sweeps: bool = False

    def run(self) -> tuple[Stuck, ...]:
        """Until all queues are empty, but for those whose receivers are stuck, and no transaction is prepared.

        Returns those that are stuck.
        """
        stuck: dict[str, Stuck] = {}
        seen: dict[str, tuple[int, int]] = {}
        with self.database.connect(autocommit=True) as connection:
            while (left := self._waiting(connection, stuck)) or _is_prepared(connection):
                for queue, count in left.items():
                    if seen.get(queue, (None, 0))[0] != count:
                        seen[queue] = (count, self.homes[queue].pulses)
                    elif (self.homes[queue].pulses - seen[queue][1]) * PULSE > self.patience:
                        stuck[queue] = self._examine(connection, queue)
                self._let_time_pass(connection)
                if self.sweeps:
                    connection.execute("select pgqueue.sweep()")
                decide_what_was_left(connection)
                self.tick()
                time.sleep(TICK)
        return tuple(stuck.values())

    def _waiting(self, connection: psycopg.Connection[Any], stuck: Mapping[str, Stuck]) -> dict[str, int]:
        counts = dict(connection.execute(WAITING).fetchall())
        return {queue: count for queue, count in counts.items() if queue in self.homes and queue not in stuck}

    def _let_time_pass(self, connection: psycopg.Connection[Any]) -> None:
        """After a step back of the clock, locks and due times may lie far ahead; their time comes now."""
        [ahead] = connection.execute(AHEAD).fetchone() or (0,)
        if ahead > 2 * LOCK_SECONDS:
            self.database.move_clock(timedelta(seconds=ahead - LOCK_SECONDS))

    def _examine(self, connection: psycopg.Connection[Any], queue: str) -> Stuck:
        messages = tuple(message for (message,) in connection.execute(IDS, [queue]))
        with self.database.connect() as another:
            [requires_session] = another.execute(REQUIRES_SESSION, [queue]).fetchone() or [False]
            given = another.execute(ACCEPT if requires_session else RECEIVE, [queue]).rowcount
            another.rollback()
        return Stuck(queue, messages, int(self.patience), given)


def _is_prepared(connection: psycopg.Connection[Any]) -> bool:
    return bool((connection.execute(IS_PREPARED).fetchone() or [False])[0])


def decide_what_was_left(connection: psycopg.Connection[Any]) -> None:
    """Transactions that were prepared, and whose processes are gone: some commit, some roll back."""
    for (name,) in connection.execute(PREPARED).fetchall():
        verb = sql.SQL("commit prepared {}" if zlib.crc32(name.encode()) % 2 else "rollback prepared {}")
        connection.execute(verb.format(sql.Literal(name)))
