"""A movable clock in the database, so that every process of a test sees the same time."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import psycopg

from pgqueue.errors import InvalidArgumentError
from pgqueue.model.arguments import shown
from pgqueue.model.schemas import DEFAULT
from pgqueue.transports.readable import connect

# A sequence, because every transaction sees its new value at once, whatever its snapshot.
INSTALL = """
create schema pgqueue_testing;
create sequence pgqueue_testing.clock_shift minvalue -9223372036854775807 start 0;
grant usage on schema pgqueue_testing to public;
grant select on sequence pgqueue_testing.clock_shift to public;

create or replace function pgqueue.clock()
returns timestamptz
language sql volatile parallel safe
set search_path = pg_catalog, pg_temp
as 'select clock_timestamp() + last_value * interval ''1 microsecond'' from pgqueue_testing.clock_shift';
"""

MOVE = "select pg_catalog.setval('pgqueue_testing.clock_shift', last_value + %s) from pgqueue_testing.clock_shift"


class Clock:
    """The time that pgqueue uses in one test database."""

    def __init__(self, dsn: str, schema: str = DEFAULT) -> None:
        self._dsn = dsn
        self._schema = schema

    def move(self, by: timedelta) -> None:
        """Move the time of every process, now: forward, or backward with a negative ``by``.

        Raises:
            InvalidArgumentError: ``by`` is no timedelta.
        """
        if not isinstance(by, timedelta):
            raise InvalidArgumentError(f"the clock moves by a timedelta, not by {shown(by)}")
        with connect(self._dsn, schema=self._schema, autocommit=True) as connection:
            connection.execute(MOVE, [by // timedelta(microseconds=1)])

    def now(self) -> datetime:
        """The current time that pgqueue uses."""
        with connect(self._dsn, schema=self._schema, autocommit=True) as connection:
            row = connection.execute("select pgqueue.clock()").fetchone()
            assert row is not None
            now: datetime = row[0]
            return now


def install(connection: psycopg.Connection[Any]) -> None:
    """Make the clock of a migrated database movable."""
    connection.execute(INSTALL)
