"""For tests: queues, handlers and tasks within the transaction of a ``TestCase``, which is never committed.

No other connection sees what is sent in that transaction, so everything here runs on Django's connection.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import ExitStack
from typing import Any, TypeVar

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.transaction import atomic

from pgqueue import Queue, QueueClient, ReceivedMessage, testing
from pgqueue.django import driver_connection, dsn
from pgqueue.django.emptying import empty_queues
from pgqueue.django.following import ClientOfSource, FollowingSource
from pgqueue.errors import InvalidArgumentError, InvalidStateError
from pgqueue.flows import Begun, Flow, Line
from pgqueue.flows.flow import source_of
from pgqueue.model.message import BodyT, body_type_of
from pgqueue.statements import Statement
from pgqueue.transports.connections import BegunConnection
from pgqueue.transports.cursors import execute
from pgqueue.transports.deadlines import DEFAULT, Deadlines

__all__ = ["client", "drain", "empty_queues", "run_tasks"]

T = TypeVar("T")


def client(using: str = DEFAULT_DB_ALIAS) -> QueueClient:
    """Returns a client whose calls run on Django's connection: in a ``TestCase``, in the transaction of the test.

    So it sees what the test has sent, and what it does is rolled back with the test: ``create_queue``, too. Outside of
    a transaction each call has one of its own.
    """
    return ClientOfSource(ConnectionSource(using))


def drain(
    queue: Queue[BodyT],
    handler: Callable[[ReceivedMessage[BodyT]], object] | Callable[[ReceivedMessage[BodyT], Any], object],
) -> list[Any]:
    """Processes every message that can be received now, and returns the handler's result for each.

    As :func:`pgqueue.testing.drain`, on Django's connection: what a ``TestCase`` has sent is processed, and each
    handler runs in an ``atomic()`` block that completes its message. Its first error rolls the block back, abandons the
    message and is raised.

    Raises:
        InvalidArgumentError: the queue is not of ``pgqueue.django.client()`` or of a client of this module, or the
            handler is refused by :func:`pgqueue.testing.drain`; nothing was received.
    """
    source = source_of(queue)
    if not isinstance(source, FollowingSource | ConnectionSource):
        raise InvalidArgumentError(f"drain() takes a queue of pgqueue.django.client(), not {queue!r} of another client")
    return testing.drain(Queue(queue.name, ConnectionSource(source.using), body_type_of(queue)), handler)


def run_tasks(backend: str = "default", *, queues: Collection[str] | None = None) -> list[Any]:
    """Runs the tasks that are due, also those that they enqueue, and returns their results in the order they ended.

    ``backend`` is the name of a ``PGQueueBackend`` in ``TASKS``. ``queues`` are all of its ``QUEUES`` by default. Each
    task runs once, on Django's connection, in an ``atomic()`` block. The first error abandons the message of its task
    and is raised.

    Raises:
        InvalidArgumentError: ``TASKS`` has no such backend, or it names no queues.
    """
    from pgqueue.django.framework import task_finished
    from pgqueue.django.tasks import backend_named, run_task

    found = backend_named(backend)
    if found is None:
        raise InvalidArgumentError(f"TASKS has no backend {backend!r} of pgqueue.django.tasks.PGQueueBackend")
    served = sorted(found.queues if queues is None else queues)
    if not served:
        raise InvalidArgumentError(f"QUEUES of the backend {backend!r} is empty: name the queues by queues=")
    results: list[Any] = []

    def keep(task_result: Any, **_: object) -> None:
        results.append(task_result)

    task_finished.connect(keep)
    try:
        while any(drain(client(found.database).queue(name), run_task) for name in served):
            continue
    finally:
        task_finished.disconnect(keep)
    return results


class ConnectionSource:
    """Django's connection: each statement runs in an ``atomic()`` block, whose error ends that block only."""

    timeout = DEFAULT
    is_one_connection = True

    def __init__(self, using: str) -> None:
        self.using = using

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
