"""For tests: queues, handlers and tasks within the transaction of a ``TestCase``, which is never committed.

No other connection sees what is sent in that transaction, so everything here runs on Django's connection.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from django.db import DEFAULT_DB_ALIAS

from pgqueue import Queue, QueueClient, ReceivedMessage, testing
from pgqueue.django.connection import connection_source
from pgqueue.django.emptying import empty_queues
from pgqueue.django.following import ClientOfSource
from pgqueue.errors import InvalidArgumentError
from pgqueue.flows.flow import source_of
from pgqueue.model.message import BodyT, body_type_of

__all__ = ["client", "drain", "empty_queues", "run_tasks"]


def client(using: str = DEFAULT_DB_ALIAS) -> QueueClient:
    """Returns a client whose calls run on Django's connection: in a ``TestCase``, in the transaction of the test.

    So it sees what the test has sent, and what it does is rolled back with the test: ``create_queue``, too. Outside of
    a transaction each call has one of its own.
    """
    return ClientOfSource(connection_source(using))


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
    using = getattr(source_of(queue), "using", None)
    if using is None:
        raise InvalidArgumentError(f"drain() takes a queue of pgqueue.django.client(), not {queue!r} of another client")
    return testing.drain(Queue(queue.name, connection_source(using), body_type_of(queue)), handler)


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
