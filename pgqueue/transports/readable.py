"""Connections of tools, which read every value whatever settings a role or a database has."""

from __future__ import annotations

from typing import Any, Final, LiteralString

import psycopg

from pgqueue.transports.dsn import parsed

#: Output formats that psycopg reads, for a transaction that gets its rows as text.
READABLE: Final[LiteralString] = (
    "set local datestyle = iso; set local intervalstyle = postgres; set local bytea_output = hex; "
)

#: In a database without an encoding, psycopg would read bytes instead of text.
ENCODING: Final = "UTF8"


def connect(conninfo: str, **options: Any) -> psycopg.Connection[Any]:
    """Connect for a few statements that run once each.

    Raises:
        InvalidArgumentError: the DSN is none that libpq understands.
    """
    parsed(conninfo)
    return psycopg.connect(conninfo, prepare_threshold=None, client_encoding=ENCODING, **options)
