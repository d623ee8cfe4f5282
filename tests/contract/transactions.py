"""Transactions of a caller's, each kind an application may have, under one set of verbs."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from sqlalchemy import text

from tests.contract.interpreter import meant


class UndoneError(Exception):
    """Has the savepoint rolled back in whose block it is raised."""


class Transaction:
    """A transaction whose participants get `handle`; it begins by itself, and ends when its owner ends it."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle

    def begin(self) -> None:
        """For transactions with an explicit begin."""

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        return execute(self.handle, statement)

    def commit(self) -> None:
        self.handle.commit()

    def rollback(self) -> None:
        self.handle.rollback()

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """A part of the transaction that `undo`, called in the block, takes back."""
        with suppress(UndoneError), _savepoint(self.handle):
            yield

    def undo(self) -> None:
        raise UndoneError

    def close(self) -> None:
        self.handle.close()


class Block(Transaction):
    """A psycopg connection in autocommit mode, and a block `with connection.transaction()`."""

    def begin(self) -> None:
        self._block = self.handle.transaction()
        self._block.__enter__()

    def commit(self) -> None:
        self._block.__exit__(None, None, None)

    def rollback(self) -> None:
        undone = psycopg.Rollback()
        self._block.__exit__(type(undone), undone, None)


class OfPsycopg2(Transaction):
    """A connection of psycopg2."""


class OfAsyncpg(Transaction):
    """A connection of asyncpg, and its transaction, which is begun and ended by methods of an object of its own."""

    def begin(self) -> None:
        self._transaction = self.handle.transaction()
        self._transaction.start()

    def commit(self) -> None:
        self._transaction.commit()

    def rollback(self) -> None:
        self._transaction.rollback()


class Scoped(Transaction):
    """A session of a registry, that is found again by everybody in the same scope."""

    def close(self) -> None:
        self.handle.remove()


class TwoPhase(Transaction):
    """A transaction that is to be prepared; once it is, its name suffices to end it, from any connection."""

    def begin(self) -> None:
        self.handle.tpc_begin(self.handle.xid(1, uuid.uuid4().hex, "pgqueue"))

    def prepare(self) -> None:
        self.handle.tpc_prepare()

    def commit(self) -> None:
        self.handle.tpc_commit()

    def rollback(self) -> None:
        self.handle.tpc_rollback()

    def discard(self) -> None:
        """Keep the connection out of its pool: psycopg still regards it as in a two-phase transaction."""
        self.handle.close()

    def in_another_transaction(self, statement: str) -> None:
        """On the same connection, after the end of this one."""
        self.handle.execute(statement)
        self.handle.commit()


class TwoPhaseOfSQLAlchemy(TwoPhase):
    """The same, begun by a Connection; an asynchronous one lacks two-phase methods, so it uses run_sync."""

    _transaction: Any

    def begin(self) -> None:
        self._run(lambda connection: setattr(self, "_transaction", connection.begin_twophase()))

    def prepare(self) -> None:
        self._run(lambda _: self._transaction.prepare())

    def commit(self) -> None:
        self._run(lambda _: self._transaction.commit())

    def rollback(self) -> None:
        self._run(lambda _: self._transaction.rollback())

    def discard(self) -> None:
        self.handle.invalidate()

    def in_another_transaction(self, statement: str) -> None:
        self.handle.execute(text(statement))
        self.handle.commit()

    def _run(self, step: Callable[[Any], object]) -> None:
        run = getattr(meant(self.handle), "run_sync", None)
        if run is None:
            step(self.handle)
        else:
            self.handle.run_sync(step)


class TwoPhaseSession(TwoPhaseOfSQLAlchemy):
    """A session that was made with `twophase=True`."""

    def begin(self) -> None:
        """It begins by itself."""

    def prepare(self) -> None:
        self._run(lambda session: session.prepare())

    def commit(self) -> None:
        self.handle.commit()

    def rollback(self) -> None:
        self.handle.rollback()


class Own:
    """No transaction of the caller's: what is done has one of its own, and is final at once."""

    handle = None

    def begin(self) -> None:
        """There is nothing to begin,"""

    def commit(self) -> None:
        """nor to commit,"""

    def close(self) -> None:
        """nor to close."""


def execute(handle: Any, statement: str) -> list[tuple[Any, ...]]:
    """Runs SQL text on a connection or a session, whichever it is."""
    match _package(handle):
        case "psycopg":
            cursor = handle.execute(statement)
            return list(cursor.fetchall()) if cursor.description else []
        case "psycopg2":
            with handle.cursor() as cursor:
                cursor.execute(statement)
                return list(cursor.fetchall()) if cursor.description else []
        case "asyncpg":
            if not statement.startswith("select") or ";" in statement:
                handle.execute(statement)
                return []
            return [tuple(meant(row)) for row in handle.fetch(statement)]
    result = handle.execute(text(statement))
    return [tuple(row) for row in result.fetchall()] if result.returns_rows else []


@contextmanager
def _savepoint(handle: Any) -> Iterator[None]:
    match _package(handle):
        case "psycopg":
            handle.execute("select 1")  # else the block would be the transaction itself
            with handle.transaction():
                yield
            return
        case "asyncpg":
            with handle.transaction():
                yield
            return
        case "psycopg2":
            savepoint: Any = SavepointOfText(handle)
        case _:
            savepoint = handle.begin_nested()
    try:
        yield
    except BaseException:
        savepoint.rollback()
        raise
    savepoint.commit()


class SavepointOfText:
    """psycopg2 has no savepoints of its own."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self._name = f"s_{uuid.uuid4().hex}"
        execute(handle, f"savepoint {self._name}")

    def commit(self) -> None:
        execute(self._handle, f"release savepoint {self._name}")

    def rollback(self) -> None:
        execute(self._handle, f"rollback to savepoint {self._name}")


def _package(handle: Any) -> str:
    return type(meant(handle)).__module__.partition(".")[0]
