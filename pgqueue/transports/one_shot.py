"""A single query to a database that may be unreachable."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, TypeVar

import psycopg

from pgqueue.model.schemas import DEFAULT, in_schema
from pgqueue.statements import Statement
from pgqueue.transports.connections import with_timeouts
from pgqueue.transports.cursors import execute
from pgqueue.transports.deadlines import Deadlines
from pgqueue.transports.driving import drive
from pgqueue.transports.translation import translated

T = TypeVar("T")


def ask_once(dsn: str, statement: Statement[T], patience: timedelta, schema: str = DEFAULT) -> T:
    """Run a query on a temporary connection. The timeout applies to connecting, and again to the answer."""
    statement = statement._replace(sql=in_schema(statement.sql, schema))
    milliseconds = round(patience.total_seconds() * 1_000)
    sockets: dict[str, Any] = {
        "connect_timeout": max(round(patience.total_seconds()), 2),  # libpq takes no less
        "tcp_user_timeout": milliseconds,
    }
    deadlines = Deadlines(patience.total_seconds())
    with translated(), psycopg.connect(with_timeouts(dsn), **sockets) as connection:
        with deadlines.limited(connection, deadlines.begin()):
            connection.execute("select set_config('statement_timeout', %s, true)", [str(milliseconds)])
            result = drive(execute(connection, statement))
            connection.commit()
        return result
