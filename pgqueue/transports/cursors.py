"""Statements of ours on the application's connections, on cursors of our own.

Adapters, row factories and cursor factories that an application registers on its connections are for its own
statements: Django reads JSON as text, others convert times to other types. Our statements use psycopg's defaults.
Results are binary where possible, so the DateStyle and IntervalStyle of the session do not matter.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import psycopg
from psycopg import generators
from psycopg.abc import PQGen
from psycopg.adapt import AdaptersMap, PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.postgres import register_default_adapters
from psycopg.pq import ExecStatus, Format
from psycopg.pq.abc import PGresult
from psycopg.rows import tuple_row
from psycopg.types.array import register_all_arrays
from psycopg.types.string import TextBinaryLoader, TextLoader

from pgqueue.errors import logger
from pgqueue.flows import Flow
from pgqueue.statements import Statement
from pgqueue.transports.translation import translated

T = TypeVar("T")
R = TypeVar("R")

#: A psycopg Connection or AsyncConnection: the cursors of both have methods of the same names.
AnyConnection = Any
AnyCursor = Any


def _original_adapters() -> AdaptersMap:
    """Return the default adapters of psycopg, except that JSON stays text: it is decoded on first access."""
    adapters = AdaptersMap(types=psycopg.adapters.types)
    register_default_adapters(adapters)
    register_all_arrays(adapters)
    adapters.register_loader("jsonb", TextLoader)
    adapters.register_loader("jsonb", TextBinaryLoader)
    return adapters


ADAPTERS = _original_adapters()

#: The session settings that psycopg's dumpers and loaders read only once, when they are made.
READ_ONCE = (b"client_encoding", b"TimeZone", b"IntervalStyle")

#: Cursors by statement, each with the session settings it has read.
Kept = dict[str, tuple[tuple[bytes | None, ...], AnyCursor]]

#: The attribute of an idle connection that holds its cursors.
KEPT = "_pgqueue_cursors"


class _Unaffected:
    """A mixin before the cursor class: it does not copy the adapters of the connection."""

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


def execute(connection: AnyConnection, statement: Statement[T], kept: Kept | None = None) -> Flow[T]:
    """One round trip, on a kept cursor or a new one."""
    with translated(connection):
        sql = statement.sql
        ours = cursor(connection) if kept is None else kept_cursor(connection, sql, kept)
        yield partial(ours.execute, sql, statement.parameters, binary=True)
        rows = yield ours.fetchall
    return statement.read(rows)


def execute_parts(connection: AnyConnection, statement: Statement[T], _: Kept | None = None) -> Flow[T]:
    """Run a statement for each of its parts, in one transaction; each is sent before the next is made."""
    with translated(connection):
        rows = yield partial(_in_session, connection, _sent(connection, statement), _rows_of_all)
    return statement.read(rows)


def execute_after(connection: AnyConnection, commands: Sequence[str], statement: Statement[T]) -> Flow[T]:
    """Run a statement after these commands, in one round trip; the first that fails is the last to run."""
    with translated(connection):
        rows = yield partial(run, connection, [*commands, statement.text()])
    return statement.read(rows)


def end_transaction(connection: AnyConnection, commands: Sequence[str], reset: Sequence[str] = ()) -> Flow[None]:
    """Run commands that end a transaction, and reset the session in the same round trip.

    If only the reset fails, the connection is closed instead: the transaction has ended.
    """
    with translated(connection):
        yield partial(run, connection, [*commands, *reset], len(commands))


def cursor(connection: AnyConnection) -> AnyCursor:
    """Make a cursor for one statement, to be executed with ``binary=True``."""
    kind: Any = _AsyncCursor if isinstance(connection, psycopg.AsyncConnection) else _Cursor
    return kind(connection, row_factory=tuple_row)


def kept_cursor(connection: AnyConnection, sql: str, kept: Kept) -> AnyCursor:
    """Return the cursor kept for this statement: it remembers how to convert the parameters and rows."""
    session = tuple(map(connection.pgconn.parameter_status, READ_ONCE))
    if sql not in kept or kept[sql][0] != session:
        kept[sql] = session, cursor(connection)
    return kept[sql][1]


def take_kept(connection: AnyConnection) -> Kept:
    """Take the kept cursors off a connection: they refer to it, and it is closed once nothing does."""
    kept: Kept = connection.__dict__.pop(KEPT, {})
    return kept


def keep(connection: AnyConnection, kept: Kept) -> None:
    """Keep cursors on a connection that returns to our pool, which will close it. Cursors refer to their connection."""
    connection.__dict__[KEPT] = kept


def run(connection: AnyConnection, commands: Sequence[str], needed: int | None = None) -> Any:
    """Run unprepared commands in one round trip; return the rows of the last, or an awaitable.

    Raises what psycopg raises for the first that fails; those after it do not run. If only so many are ``needed``, a
    later one that fails closes the connection instead.
    """
    needed = len(commands) if needed is None else needed
    text = "; ".join(commands).encode(connection.info.encoding)
    return _in_session(connection, _results(connection, text), partial(_rows, needed=needed))


def _in_session(connection: AnyConnection, results: PQGen[R], read: Callable[[AnyConnection, R], Any]) -> Any:
    """Return what is read of the results on a connection, or an awaitable."""
    wait = _wait_async if isinstance(connection, psycopg.AsyncConnection) else _wait
    return wait(connection, results, read)


def _wait(connection: AnyConnection, results: PQGen[R], read: Callable[[AnyConnection, R], Any]) -> Any:
    with connection.lock:
        return read(connection, connection.wait(results))


async def _wait_async(connection: AnyConnection, results: PQGen[R], read: Callable[[AnyConnection, R], Any]) -> Any:
    async with connection.lock:
        return read(connection, await connection.wait(results))


def _results(connection: AnyConnection, text: bytes) -> PQGen[list[PGresult]]:
    connection.pgconn.send_query(text)
    results: list[PGresult] = yield from generators.execute(connection.pgconn)
    return results


def _sent(connection: AnyConnection, statement: Statement[Any]) -> PQGen[list[PGresult]]:
    """Send a statement for each of its parts. They are one implicit transaction, which Sync commits."""
    pgconn, transformer = connection.pgconn, Transformer.from_context(_Context(connection))

    def send(part: Callable[[], Sequence[Any]]) -> None:
        values = part()
        buffers = transformer.dump_sequence(values, [PyFormat.BINARY] * len(values))
        pgconn.send_query_prepared(b"", buffers, transformer.formats, Format.BINARY)

    prepare = partial(pgconn.send_prepare, b"", statement.sql.encode(connection.info.encoding))
    try:
        pgconn.enter_pipeline_mode()
        commands = deque([prepare, *(partial(send, part) for part in statement.parts), pgconn.pipeline_sync])
        results = yield from generators.pipeline_communicate(pgconn, commands)
        while not results or results[-1][0].status != ExecStatus.PIPELINE_SYNC:
            results.append((yield from generators.fetch_many(pgconn)))
        pgconn.exit_pipeline_mode()
    except BaseException:
        pgconn.finish()  # before Sync, so nothing is stored
        raise
    return [result for found in results[:-1] for result in found]


def _rows(connection: AnyConnection, results: list[PGresult], needed: int) -> list[Any]:
    """The rows of the last command needed.

    The first failure counts: a connection that ends may add another. PgBouncer does.
    """
    _raise_first_failure(connection, results[:needed])
    rows = _load(connection, results[needed - 1 : needed])
    if any(result.status == ExecStatus.FATAL_ERROR for result in results):
        logger.debug("a connection is closed: what followed the last command that counts has failed")
        connection.pgconn.finish()
    return rows


def _rows_of_all(connection: AnyConnection, results: list[PGresult]) -> list[Any]:
    _raise_first_failure(connection, results)
    return _load(connection, results)


def _raise_first_failure(connection: AnyConnection, results: list[PGresult]) -> None:
    for result in results:
        if result.status == ExecStatus.FATAL_ERROR:
            raise error_from_result(result, encoding=connection.info.encoding)


def _load(connection: AnyConnection, results: list[PGresult]) -> list[Any]:
    transformer = Transformer.from_context(_Context(connection))
    rows: list[Any] = []
    for result in results:
        transformer.set_pgresult(result)
        rows += transformer.load_rows(0, result.ntuples, tuple)
    return rows


class _Context(_Unaffected):
    """Converts rows, by our adapters and the session's settings."""

    def __init__(self, connection: AnyConnection) -> None:
        self.connection = connection
