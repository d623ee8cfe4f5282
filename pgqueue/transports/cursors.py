"""Statements of ours on the application's connections, on cursors of our own.

Adapters, row factories and cursor factories that an application registers on its connections are for its own
statements: Django reads JSON as text, others convert times to other types. Our statements use psycopg's defaults.
Results are binary where possible, so the DateStyle and IntervalStyle of the session do not matter.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

import psycopg
from psycopg import generators
from psycopg.abc import PQGen
from psycopg.adapt import AdaptersMap, PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.postgres import register_default_adapters
from psycopg.pq import ExecStatus, PipelineStatus
from psycopg.pq.abc import PGresult
from psycopg.rows import tuple_row
from psycopg.types.array import register_all_arrays
from psycopg.types.string import TextBinaryLoader, TextLoader

from pgqueue.errors import PGQueueError, logger
from pgqueue.flows import Flow
from pgqueue.model.row import Row
from pgqueue.statements import Statement
from pgqueue.statements.statement import numbered
from pgqueue.transports.translation import translated

T = TypeVar("T")

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

Read = Callable[[Sequence[Row]], Any]

#: How to send a command of a pipeline, and how to read its rows if anybody does.
Command = tuple[Callable[[], None], Read | None]

#: Whether libpq has pipelines: that of the system may be too old.
PIPELINES = psycopg.Pipeline.is_supported()

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


def execute_after(connection: AnyConnection, commands: Sequence[str], statement: Statement[T]) -> Flow[T]:
    """Run a statement after these commands, in one round trip; the first that fails is the last to run."""
    with translated(connection):
        rows = yield partial(run, connection, [*commands, statement.text()])
    return statement.read(rows)


def execute_pipelined(connection: AnyConnection, statements: Iterable[Statement[T]]) -> Flow[list[T]]:
    """Run statements in one transaction and one round trip, each made while the server runs the one before.

    If one cannot be made, or is refused, the transaction is left open, to be rolled back. After any other error the
    connection is left in the pipeline.
    """
    with translated(connection):
        answers = yield partial(
            _waited(connection), connection, _pipelined(connection, _commands(connection, statements))
        )
    return [read(rows) for read, rows in answers if read is not None]


def _commands(connection: AnyConnection, statements: Iterable[Statement[Any]]) -> Iterator[Command]:
    pgconn = connection.pgconn
    transformer = Transformer.from_context(_Context(connection))
    prepared = None
    yield partial(pgconn.send_query_params, b"begin", None), None
    for statement in statements:
        sql, names = numbered(statement.sql)
        given = [statement.parameters[name] for name in names]
        values = transformer.dump_sequence(given, [PyFormat.BINARY] * len(given))
        if prepared != (sql, transformer.types):
            prepared = sql, transformer.types
            yield partial(pgconn.send_prepare, b"", sql.encode(), transformer.types), None
        yield partial(pgconn.send_query_prepared, b"", values, transformer.formats), statement.read
    yield partial(pgconn.send_query_params, b"commit", None), None


def is_in_a_pipeline(connection: AnyConnection) -> bool:
    return bool(connection.pgconn.pipeline_status != PipelineStatus.OFF)


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
    return _waited(connection)(connection, _run(connection, text, needed))


def _waited(connection: AnyConnection) -> Callable[[AnyConnection, PQGen[Any]], Any]:
    """How to wait for the server: a function, or a coroutine function."""
    return _wait_async if isinstance(connection, psycopg.AsyncConnection) else _wait


def _wait(connection: AnyConnection, generator: PQGen[T]) -> T:
    with connection.lock:
        result: T = connection.wait(generator)
        return result


async def _wait_async(connection: AnyConnection, generator: PQGen[T]) -> T:
    async with connection.lock:
        result: T = await connection.wait(generator)
        return result


def _run(connection: AnyConnection, text: bytes, needed: int) -> PQGen[list[Any]]:
    """Return the rows of the last command needed.

    A failure ends them, and the first counts: a connection that ends may add another. PgBouncer does.
    """
    connection.pgconn.send_query(text)
    results = yield from generators.execute(connection.pgconn)
    failed = len(results)
    if _has_failed(results[-1]):
        failed = next(n for n, result in enumerate(results) if _has_failed(result))
    if failed < needed:
        raise error_from_result(results[failed], encoding=connection.info.encoding)
    [rows] = _rows(connection, [results[needed - 1]])
    if failed < len(results):
        logger.debug("a connection is closed: what followed the last command that counts has failed")
        connection.pgconn.finish()
    return rows


def _pipelined(connection: AnyConnection, commands: Iterable[Command]) -> PQGen[list[tuple[Read | None, list[Any]]]]:
    """Return the rows of each command, all in one round trip. Those after one that cannot be made are not sent."""
    pgconn = connection.pgconn
    pgconn.enter_pipeline_mode()
    reads: list[Read | None] = []
    answers: list[Sequence[PGresult]] = []
    unmade: Exception | None = None
    try:
        try:
            for send, read in commands:
                answered = yield from generators.pipeline_communicate(pgconn, deque([send]))
                answers += answered
                reads.append(read)
                if any(_has_failed(answer[-1]) for answer in answered):
                    break
        except (PGQueueError, UnicodeEncodeError) as error:
            unmade = error
        answers += yield from generators.pipeline_communicate(pgconn, deque([pgconn.pipeline_sync]))
        yield from generators.send(pgconn)
        while len(answers) <= len(reads):
            answers.append((yield from generators.fetch_many(pgconn)))
    except psycopg.Error:
        _raise_refusal(connection, answers)  # the answer before the end of a connection has its reason
        raise
    pgconn.exit_pipeline_mode()
    _raise_refusal(connection, answers)
    if unmade is not None:
        raise unmade
    return list(zip(reads, _rows(connection, [answer[-1] for answer in answers[:-1]]), strict=True))


def _raise_refusal(connection: AnyConnection, answers: Iterable[Sequence[PGresult]]) -> None:
    for answer in answers:
        if _has_failed(answer[-1]):
            raise error_from_result(answer[-1], encoding=connection.info.encoding)


def _rows(connection: AnyConnection, results: Iterable[PGresult]) -> Iterator[list[Any]]:
    transformer = Transformer.from_context(_Context(connection))
    for result in results:
        transformer.set_pgresult(result)
        yield transformer.load_rows(0, result.ntuples, tuple)


def _has_failed(result: PGresult) -> bool:
    return result.status == ExecStatus.FATAL_ERROR


class _Context(_Unaffected):
    """Converts rows, by our adapters and the session's settings."""

    def __init__(self, connection: AnyConnection) -> None:
        self.connection = connection
