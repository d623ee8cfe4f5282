"""Cursors of our own on the application's connections.

What an application registers with its connections, adapters, row and cursor factories, is for its own statements:
Django has JSON read as text, others have times of another kind. Ours are written and read as psycopg does by itself.
Results are binary where they can be, so that the DateStyle and IntervalStyle of the session do not matter, either.
"""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import generators
from psycopg.abc import PQGen
from psycopg.adapt import AdaptersMap, Transformer
from psycopg.errors import error_from_result
from psycopg.postgres import register_default_adapters
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGresult
from psycopg.rows import tuple_row
from psycopg.types.array import register_all_arrays
from psycopg.types.string import TextBinaryLoader, TextLoader

#: A psycopg Connection or AsyncConnection: the cursors of both have methods of the same names.
AnyConnection = Any
AnyCursor = Any


def _original_adapters() -> AdaptersMap:
    """Those that psycopg begins with, but that JSON stays text: whoever asks for it decodes it."""
    adapters = AdaptersMap(types=psycopg.adapters.types)
    register_default_adapters(adapters)
    register_all_arrays(adapters)
    adapters.register_loader("jsonb", TextLoader)
    adapters.register_loader("jsonb", TextBinaryLoader)
    return adapters


ADAPTERS = _original_adapters()

#: What psycopg's dumpers and loaders read of the session when they are made, and never again.
READ_ONCE = (b"client_encoding", b"TimeZone", b"IntervalStyle")

#: Cursors by statement, each with what it has read of the session.
Kept = dict[str, tuple[tuple[bytes | None, ...], AnyCursor]]

#: The attribute of an idle connection that has its cursors.
KEPT = "_pgqueue_cursors"


class _Unaffected:
    """Before the cursor's class: its adapters are not copied from the connection."""

    @property
    def adapters(self) -> AdaptersMap:
        return ADAPTERS


class _Cursor(_Unaffected, psycopg.Cursor[Any]):
    def fetchall(self) -> list[Any]:
        """The rows, once: a cursor that is kept does not keep its result."""
        rows = super().fetchall()
        self._reset()
        return rows


class _AsyncCursor(_Unaffected, psycopg.AsyncCursor[Any]):
    async def fetchall(self) -> list[Any]:
        rows = await super().fetchall()
        self._reset()
        return rows


class _ClientCursor(_Unaffected, psycopg.ClientCursor[Any]):
    pass


class _AsyncClientCursor(_Unaffected, psycopg.AsyncClientCursor[Any]):
    pass


def cursor(connection: AnyConnection) -> AnyCursor:
    """For one statement; to be executed with ``binary=True``."""
    kind: Any = _AsyncCursor if isinstance(connection, psycopg.AsyncConnection) else _Cursor
    return kind(connection, row_factory=tuple_row)


def kept_cursor(connection: AnyConnection, sql: str, kept: Kept) -> AnyCursor:
    """For this statement again: a cursor remembers how the parameters and rows of its last statement are converted."""
    session = tuple(map(connection.pgconn.parameter_status, READ_ONCE))
    if sql not in kept or kept[sql][0] != session:
        kept[sql] = session, cursor(connection)
    return kept[sql][1]


def take_kept(connection: AnyConnection) -> Kept:
    """The cursors that are kept on a connection, which is closed as soon as nobody refers to it again."""
    kept: Kept = connection.__dict__.pop(KEPT, {})
    return kept


def keep(connection: AnyConnection, kept: Kept) -> None:
    """On a connection that goes back to a pool of ours, which will close it. Cursors refer to their connection."""
    connection.__dict__[KEPT] = kept


def run(connection: AnyConnection, text: str) -> Any:
    """Runs several statements in one round trip, none of which is prepared; the rows of the last, or an awaitable.

    Raises what psycopg raises for the first that fails, which is the last that runs.
    """
    send = _run_async if isinstance(connection, psycopg.AsyncConnection) else _run
    return send(connection, text.encode(connection.info.encoding))


def _run(connection: AnyConnection, text: bytes) -> list[Any]:
    with connection.lock:
        return _rows(connection, connection.wait(_results(connection, text)))


async def _run_async(connection: AnyConnection, text: bytes) -> list[Any]:
    async with connection.lock:
        return _rows(connection, await connection.wait(_results(connection, text)))


def _results(connection: AnyConnection, text: bytes) -> PQGen[list[PGresult]]:
    connection.pgconn.send_query(text)
    results: list[PGresult] = yield from generators.execute(connection.pgconn)
    return results


def _rows(connection: AnyConnection, results: list[PGresult]) -> list[Any]:
    if results[-1].status == ExecStatus.FATAL_ERROR:
        raise error_from_result(results[-1], encoding=connection.info.encoding)
    last = next(result for result in reversed(results) if result.status == ExecStatus.TUPLES_OK)
    transformer = Transformer.from_context(_Context(connection))
    transformer.set_pgresult(last)
    return transformer.load_rows(0, last.ntuples, tuple)


class _Context(_Unaffected):
    """What rows are read by: our adapters, and the session's settings."""

    def __init__(self, connection: AnyConnection) -> None:
        self.connection = connection


def client_cursor(connection: AnyConnection) -> AnyCursor:
    """For several statements in one round trip; their results are text."""
    kind: Any = _AsyncClientCursor if isinstance(connection, psycopg.AsyncConnection) else _ClientCursor
    return kind(connection, row_factory=tuple_row)
