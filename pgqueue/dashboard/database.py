"""Transactions of users: each with the rights of the user's database role."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, LiteralString

import psycopg
from psycopg.rows import DictRow, dict_row
from psycopg.types.string import TextLoader
from psycopg_pool import ConnectionPool

from pgqueue.errors import AccessDeniedError
from pgqueue.model.json_text import DIGITS_OF_A_FLOAT
from pgqueue.model.schemas import DEFAULT
from pgqueue.transports import dsn as dsns
from pgqueue.transports.readable import ENCODING, READABLE, renaming
from pgqueue.transports.translation import translate

CONNECTIONS = 8
#: A page that takes longer is given up.
PATIENCE = "20s"

#: A role that does not exist would be refused anyway, but "none" means the role of the connection.
BECOME = "select set_config('role', rolname, true) from pg_roles where rolname = %(role)s"


class Rows:
    """Statements in a transaction; rows are dictionaries, and JSON stays text."""

    def __init__(self, connection: psycopg.Connection[DictRow]) -> None:
        self._connection = connection

    def all(self, query: LiteralString, **parameters: Any) -> list[dict[str, Any]]:
        """All rows."""
        return self._connection.execute(query, parameters).fetchall()

    def one(self, query: LiteralString, **parameters: Any) -> dict[str, Any] | None:
        """The first row, or None."""
        return self._connection.execute(query, parameters).fetchone()

    def column(self, query: LiteralString, **parameters: Any) -> list[Any]:
        """The first value of each row."""
        return [next(iter(row.values())) for row in self.all(query, **parameters)]

    def value(self, query: LiteralString, **parameters: Any) -> Any:
        """The first value of the first row."""
        return self.column(query, **parameters)[0]


class Database:
    """The database of a dashboard."""

    def __init__(self, dsn: str, schema: str = DEFAULT) -> None:
        self.pool = ConnectionPool(
            dsns.for_libpq(dsn),
            connection_class=psycopg.Connection[DictRow],
            kwargs={
                "row_factory": dict_row,
                "application_name": "pgqueue dashboard",
                "autocommit": True,
                "client_encoding": ENCODING,
            },
            configure=partial(_configure, schema=schema),
            min_size=0,
            max_size=CONNECTIONS,
            open=False,
        )

    @contextmanager
    def transaction(self, role: str | None, *, writes: bool = False) -> Iterator[Rows]:
        """A transaction with the rights of a role; None is the one that the dashboard is connected as.

        Raises the errors of :mod:`pgqueue.errors`: :class:`AccessDeniedError` when there is no such role here.
        """
        try:
            with self.pool.connection() as connection, connection.transaction():
                rows = Rows(connection)
                _prepare(connection, writes=writes)
                if role is not None and rows.one(BECOME, role=role) is None:
                    raise AccessDeniedError(f"no role {role} is in this database: an administrator creates it")
                yield rows
        except psycopg.Error as error:
            raise translate(error) from error


def _prepare(connection: psycopg.Connection[DictRow], *, writes: bool) -> None:
    kind: LiteralString = "read write" if writes else "read only"
    connection.execute(f"{READABLE}set transaction {kind}")
    connection.execute("select set_config('statement_timeout', %s, true)", [PATIENCE])


def _configure(connection: psycopg.Connection[DictRow], schema: str) -> None:
    renaming(connection, schema)
    connection.adapters.register_loader("jsonb", TextLoader)


def document(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row as a JSON document: durations in seconds."""
    return {name: value.total_seconds() if hasattr(value, "total_seconds") else value for name, value in row.items()}


def read_json(text: str) -> Any:
    """JSON for a page or the API, in which a number that is too long for Python stays text."""
    return json.loads(text, parse_int=_unless_long(int), parse_float=_unless_long(float))


def _unless_long(read: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda text: read(text) if len(text) <= DIGITS_OF_A_FLOAT else text
