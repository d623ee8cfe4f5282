"""Output formats that psycopg reads, for transactions of tools that get their rows as text."""

from __future__ import annotations

from typing import Final, LiteralString

#: A role or a database may have others: psycopg reads times and intervals in no other style.
READABLE: Final[LiteralString] = (
    "set local datestyle = iso; set local intervalstyle = postgres; set local bytea_output = hex; "
)
