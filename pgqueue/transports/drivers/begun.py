"""A transaction that the library begins on a connection of psycopg2 or asyncpg."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from psycopg.pq import TransactionStatus

from pgqueue.errors import InvalidStateError, PGQueueError, logger
from pgqueue.flows import Begun, Flow
from pgqueue.statements import Statement
from pgqueue.statements.statement import nothing
from pgqueue.transports import handles
from pgqueue.transports.deadlines import Deadlines
from pgqueue.transports.drivers.driver import AnyConnection, Driver, OtherDriver

T = TypeVar("T")

#: Fails in a transaction that has failed.
PROBE: Statement[None] = Statement("select 1", {}, nothing)


class BegunOnDriver:
    """The application works with the connection, but only we end the transaction; the source gets it back afterwards.

    As :class:`~pgqueue.transports.connections.BegunConnection`, with a round trip for each step.
    """

    can_commit_and_begin = False

    def __init__(
        self,
        driver: OtherDriver,
        connection: AnyConnection,
        deadlines: Deadlines,
        give_back: Callable[[], Any] | None = None,
    ) -> None:
        self.handle = connection
        self._driver = driver
        self._deadlines = deadlines
        self._give_back = give_back
        self._transaction = driver.transaction(connection)

    def begin(self) -> Flow[Begun]:
        if self._driver.status(self.handle) not in (TransactionStatus.IDLE, TransactionStatus.UNKNOWN):
            raise InvalidStateError(
                "the connection is in a transaction already: end it first, or settle with transaction=connection"
            )
        until = self._deadlines.begin()
        try:
            with self._driver.limited(self._deadlines, self.handle, until):
                yield from self._transaction.begin()
        except BaseException:
            yield from self._undo_begin()
            raise
        return self

    def _undo_begin(self) -> Flow[None]:
        try:
            yield from self.rollback()
        except PGQueueError as failure:
            logger.debug("a transaction that was not begun was not rolled back either: %s", failure)

    def execute(self, statement: Statement[T]) -> Flow[T]:
        handles.require_free(self._driver, self.handle)
        with self._driver.limited(self._deadlines, self.handle, self._deadlines.begin(statement)):
            return (yield from self._driver.execute(self.handle, statement))

    def set_savepoint(self) -> Flow[None]:
        yield from self._run("savepoint pgqueue_mark")

    def roll_back_to_savepoint(self) -> Flow[None]:
        yield from self._run("rollback to savepoint pgqueue_mark")

    def _run(self, command: str) -> Flow[None]:
        with self._driver.limited(self._deadlines, self.handle, self._deadlines.begin()):
            yield from self._driver.run(self.handle, command)

    def commit(self, last: Statement[Any] | None = None) -> Flow[None]:
        handles.require_open(self._driver, self.handle)
        if last is not None:
            yield from self.execute(last)
        else:
            yield from require_success(self._driver, self.handle, self)
        with self._driver.limited(self._deadlines, self.handle, self._deadlines.begin()):
            yield from self._transaction.commit()

    @property
    def is_open(self) -> bool:
        return self._driver.status(self.handle) not in (TransactionStatus.IDLE, TransactionStatus.UNKNOWN)

    def commit_and_begin(self, last: Statement[Any], first: Statement[T]) -> Flow[T]:
        yield from self.commit(last)
        yield from self.begin()
        return (yield from self.execute(first))

    def rollback(self) -> Flow[None]:
        if self._driver.is_closed(self.handle):
            return
        with self._driver.limited(self._deadlines, self.handle, self._deadlines.last_step()):
            yield from self._transaction.rollback()

    def release(self) -> Flow[None]:
        if self._give_back is not None:
            yield self._give_back


def require_success(driver: Driver, connection: AnyConnection, where: Any) -> Flow[None]:
    """Refuse to commit a transaction that has failed: PostgreSQL would roll it back without an error.

    Raises:
        TransactionRequiredError: an error in it was ignored.
    """
    if driver.shows_failures:
        handles.require_success(driver, connection)
    else:
        yield from where.execute(PROBE)


def begin_on_pool(pool: Any, deadlines: Deadlines) -> Flow[Begun]:
    """Begin a transaction on a connection of a pool of asyncpg, which resets the connection afterwards."""
    from pgqueue.transports.drivers import over_asyncpg

    connection = yield from over_asyncpg.acquire(pool, deadlines.begin() - time.monotonic())
    begun = BegunOnDriver(over_asyncpg.DRIVER, connection, deadlines, partial(pool.release, connection))
    try:
        return (yield from begun.begin())
    except BaseException:
        yield from begun.release()
        raise
