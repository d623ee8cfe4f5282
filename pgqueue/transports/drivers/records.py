"""Statements on drivers other than psycopg: parameters go in as text, and each row comes out as one value.

Applications register codecs, adapters and typecasters on their connections, and choose a DateStyle and an encoding. So
the driver converts nothing here. A parameter is text that PostgreSQL reads in any session. A row is what
``record_send`` makes of it: the type and the binary form of each column, whatever the settings of the session.
psycopg's loaders read that, to the values that they read on a connection of psycopg. Both travel as the pseudo-type
``cstring``, for which no application has a codec; a row in base64, which is the same in every encoding.
"""

from __future__ import annotations

from binascii import a2b_base64
from collections.abc import Iterable, Sequence
from functools import cache
from typing import TypeVar

from psycopg import DataError
from psycopg._encodings import pg2pyenc  # it has no public name
from psycopg.abc import Buffer
from psycopg.adapt import AdaptersMap, Loader
from psycopg.pq import Format
from psycopg.types.composite import RecordBinaryLoader

from pgqueue.statements import Statement
from pgqueue.statements.statement import as_text, ascii_literal, numbered
from pgqueue.transports import cursors
from pgqueue.transports.translation import translated

T = TypeVar("T")

PACKED = "select pg_catalog.textout(pg_catalog.encode(pg_catalog.record_send(found), 'base64')) from ({}) as found"

#: The types that psycopg reads as text.
TEXTS = ("text", "varchar", "name", "bpchar", "json", "jsonb")


def with_literals(statement: Statement[T]) -> bytes:
    """The SQL with its parameters in it. All of it is ASCII, which every encoding of a client contains."""
    with translated():
        return PACKED.format(_checked(statement.text(ascii_literal))).encode("ascii")


def with_numbers(statement: Statement[T]) -> tuple[str, list[str | None]]:
    """The SQL with placeholders ``$1``, ``$2`` and so on, and the text of each parameter."""
    sql, names = _numbered(statement.sql)
    values = [statement.parameters[name] for name in names]
    with translated():
        return sql, [None if value is None else _checked(as_text(value)) for value in values]


@cache
def _numbered(sql: str) -> tuple[str, Sequence[str]]:
    text, names = numbered(sql, "pg_catalog.textin(${})")
    return PACKED.format(text), names


def _checked(text: str) -> str:
    """Refuse what a driver would cut off, or the server refuse after it has aborted the transaction."""
    if "\0" in text:
        raise DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes")
    return text


def read(statement: Statement[T], packed: Iterable[str], encoding: str) -> T:
    """The result of rows that came from a client of this encoding."""
    with translated():
        load = RecordBinaryLoader(0, _Context(_adapters(encoding))).load
        return statement.read([load(a2b_base64(row)) for row in packed])


class _Context:
    connection = None

    def __init__(self, adapters: AdaptersMap) -> None:
        self.adapters = adapters


@cache
def _adapters(encoding: str) -> AdaptersMap:
    """Those of our cursors, for an encoding as PostgreSQL calls it."""
    codec = pg2pyenc(encoding.encode())
    if codec in ("utf-8", "ascii"):
        return cursors.ADAPTERS

    class Text(Loader):
        format = Format.BINARY

        def load(self, data: Buffer) -> str:
            return str(data, codec)

    adapters = AdaptersMap(cursors.ADAPTERS)
    for kind in TEXTS:
        adapters.register_loader(kind, Text)
    return adapters
