"""Django's connection as a source: what runs there sees what its transaction has done, and is rolled back with it."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any, TypeVar

from django.db import connections
from django.db.transaction import atomic

from pgqueue.django import driver_connection, dsn
from pgqueue.django.placing import schema
from pgqueue.errors import InvalidStateError
from pgqueue.flows import Begun, Flow, Interceptors, Line, Source
from pgqueue.statements import Statement
from pgqueue.transports.connections import BegunConnection
from pgqueue.transports.cursors import execute
from pgqueue.transports.deadlines import DEFAULT, Deadlines
from pgqueue.transports.in_schema import source_in
from pgqueue.transports.waiters import Waiters

T = TypeVar("T")


def connection_source(using: str) -> Source:
    """Django's connection, for the instance in the schema of the project."""
    source = ConnectionSource(using)
    return source_in(source, source.schema)


class ConnectionSource:
    """Django's connection: each statement runs in an ``atomic()`` block, whose error ends that block only."""

    timeout = DEFAULT
    is_one_connection = True
    pipelines = False
    interceptors: Interceptors | None = None

    def __init__(self, using: str) -> None:
        self.using = using
        self.schema = schema()

    @property
    def conninfo(self) -> str:
        """The DSN of the database."""
        return dsn(self.using)

    def execute(self, statement: Statement[T]) -> Flow[T]:
        """Run a statement."""
        with atomic(using=self.using):
            return (yield from execute(driver_connection(self.using), statement))

    def begin(self) -> Flow[Begun]:
        """Begin an ``atomic()`` block."""
        block = ExitStack()
        block.enter_context(atomic(using=self.using))
        yield from ()
        return AtomicBlock(self.using, block)

    def line(self) -> Flow[Line]:
        """Refuse it.

        Raises:
            InvalidStateError: always.
        """
        raise InvalidStateError("a sender works in a thread, which has another connection: use send_batch() in tests")

    def wake_signal(self, queue: str) -> None:
        """None: the connection does not listen."""

    def loss_signal(self, queue: str) -> None:
        """None: the connection does not listen."""

    def waiters(self, queue: str) -> Waiters:
        """A list of its own for each caller that waits for an outcome."""
        return Waiters(queue, lambda: None)

    def close(self) -> Flow[None]:
        """Leave the connection to Django."""
        yield from ()


class AtomicBlock(BegunConnection):
    """An ``atomic()`` block as a transaction of ours: a savepoint where a transaction is open."""

    def __init__(self, using: str, block: ExitStack) -> None:
        super().__init__(driver_connection(using), Deadlines())
        self._using = using
        self._block = block

    def commit(self, last: Statement[Any] | None = None) -> Flow[None]:
        """End the block.

        Raises:
            TransactionManagementError: the block has to be rolled back.
        """
        connections[self._using].validate_no_broken_transaction()
        if last is not None:
            yield from self.execute(last)
        yield self._block.close

    def rollback(self) -> Flow[None]:
        """Roll the block back, if it has not ended."""
        undone = InvalidStateError("the work is rolled back")
        self._block.__exit__(type(undone), undone, None)
        yield from ()
