"""Connections of tools, which read every value whatever settings a role or a database has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, LiteralString, Self, cast

import psycopg
from psycopg import Copy
from psycopg.abc import Params, Query
from psycopg.rows import Row
from psycopg.sql import Composable

from pgqueue.model.schemas import DEFAULT, in_schema
from pgqueue.transports.dsn import parsed

#: Output formats that psycopg reads, for a transaction that gets its rows as text.
READABLE: Final[LiteralString] = (
    "set local datestyle = iso; set local intervalstyle = postgres; set local bytea_output = hex; "
)

#: In a database without an encoding, psycopg would read bytes instead of text.
ENCODING: Final = "UTF8"


def connect(conninfo: str, *, schema: str = DEFAULT, **options: Any) -> psycopg.Connection[Any]:
    """Connect for a few statements that run once each, on an instance in this schema.

    Raises:
        InvalidArgumentError: the DSN is none that libpq understands.
    """
    parsed(conninfo)
    connection = psycopg.connect(conninfo, prepare_threshold=None, client_encoding=ENCODING, **options)
    return renaming(connection, schema)


def renaming(connection: psycopg.Connection[Row], schema: str) -> psycopg.Connection[Row]:
    """Have the statements of a connection executed with the names of this schema."""
    if schema != DEFAULT:
        connection.cursor_factory = type("Cursor", (_Renaming,), {"schema": schema})
    return connection


class _Renaming(psycopg.Cursor[Any]):
    schema = DEFAULT

    def execute(self, query: Query, params: Params | None = None, **options: Any) -> Self:
        """Execute a statement with the names of the schema."""
        return super().execute(self._renamed(query), params, **options)

    @contextmanager
    def copy(self, statement: Query, params: Params | None = None, **options: Any) -> Iterator[Copy]:
        """Copy with the names of the schema."""
        with super().copy(self._renamed(statement), params, **options) as copying:
            yield copying

    def _renamed(self, query: Query) -> LiteralString:
        text = query.as_string(self) if isinstance(query, Composable) else query
        text = text.decode() if isinstance(text, bytes) else text
        return in_schema(cast(LiteralString, text), self.schema)
