"""A psycopg connection that is kept for several transactions, one directly after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar

from psycopg.pq import TransactionStatus

from pgqueue.errors import PGQueueError, logger
from pgqueue.flows import Flow
from pgqueue.statements import Statement
from pgqueue.transports.cursors import end_transaction, execute_after, execute_pipelined, is_in_a_pipeline
from pgqueue.transports.deadlines import Deadlines
from pgqueue.transports.ending import end_pipeline
from pgqueue.transports.translation import translated

T = TypeVar("T")

#: A psycopg Connection or AsyncConnection: the methods used here have the same names in both.
AnyConnection = Any


class ConnectionLine:
    """The connection is in autocommit mode, so we write BEGIN and COMMIT ourselves.

    ``until`` is the deadline of the call that has taken it, for a pipeline.
    """

    def __init__(
        self,
        connection: AnyConnection,
        give_back: Callable[[], Any],
        deadlines: Deadlines,
        until: float,
        *,
        restore: bool = False,
    ) -> None:
        self._connection = connection
        self._deadlines = deadlines
        self._give_back = give_back
        self._until = until
        self._restore = restore

    def exchange(self, statement: Statement[T] | None, *, commit: bool) -> Flow[T | None]:
        with self._deadlines.limited(self._connection, self._deadlines.begin(statement)):
            if statement is None:
                yield from end_transaction(self._connection, ["commit"])
                return None
            before = ["commit", "begin"] if commit else ["begin"]
            return (yield from execute_after(self._connection, before, statement))

    def pipeline(self, statements: Iterable[Statement[T]]) -> Flow[list[T]]:
        try:
            with self._deadlines.limited(self._connection, self._until):
                return (yield from execute_pipelined(self._connection, statements))
        except BaseException:
            if is_in_a_pipeline(self._connection):
                yield from end_pipeline(self._connection)
            raise

    def release(self) -> Flow[None]:
        try:
            yield from self._leave_idle()
        finally:
            yield self._give_back

    def _leave_idle(self) -> Flow[None]:
        connection = self._connection
        try:
            with translated(), self._deadlines.ending(connection):
                if not connection.closed and connection.info.transaction_status != TransactionStatus.IDLE:
                    yield connection.rollback
                if self._restore and not connection.closed:
                    yield partial(connection.set_autocommit, False)
        except PGQueueError as failure:
            logger.debug("the rollback failed; the database rolls back when the connection ends: %s", failure)
        finally:
            if self._restore and connection.autocommit:
                connection.pgconn.finish()  # its next user would work without transactions
