"""Bounds how many connections the tasks of a writer have at a time: the option ``maxConnections``.

A task takes one of so many places, each an advisory lock, in the transaction in which it works. Its end frees the
place, however the task ends. A task that finds no place closes its connection, waits, and asks again: it holds nothing
meanwhile, so tasks cannot block each other.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from random import SystemRandom
from typing import Any

import psycopg
from psycopg.rows import TupleRow

from pgqueue.spark.connections import Instance, connect

#: Between two questions, in seconds. All waiting tasks have the same chance, however long they have waited.
PAUSE = (0.1, 1.0)

TAKE = """
select place
  from generate_series(1, %s) place
 where pg_try_advisory_xact_lock(pg_catalog.hashtextextended('pgqueue connection ' || %s || ' ' || place, 0))
 limit 1
"""

#: Errors of PostgreSQL when a role, a database or the server has no connection left; libpq gives no SQLSTATE for it.
FULL = ("too many connections", "too many clients", "connection slots are reserved")


@dataclass(frozen=True)
class Limit:
    """At most so many connections of a job; any number if ``most`` is None."""

    job: str
    most: int | None

    def connect(self, instance: Instance, **settings: Any) -> psycopg.Connection[TupleRow]:
        """A connection, in a transaction that has a place if there is a limit; waits as long as all are taken.

        Raises:
            psycopg.OperationalError: the connection was refused for a minute, not because there were too many.
        """
        while True:
            try:
                connection = connect(instance, **settings)
            except psycopg.OperationalError as error:
                if self.most is None or not any(words in str(error) for words in FULL):
                    raise
            else:
                if self.most is None or connection.execute(TAKE, [self.most, self.job]).fetchone():
                    return connection
                connection.close()
            time.sleep(SystemRandom().uniform(*PAUSE))
