# Written by `make generate` from pgqueue/aio/testing.py: change it there.
"""Processing all messages of a queue in a test. The fixtures are in :mod:`pgqueue.testing`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tenacity

from pgqueue.errors import InvalidArgumentError, NoHandlerError
from pgqueue.model.arguments import shown
from pgqueue.model.message import BodyT
from pgqueue.queue import Queue
from pgqueue.received import ReceivedMessage, process
from pgqueue.worker.handlers import Handlers, routes_in


def drain(
    queue: Queue[BodyT],
    handler: Callable[[ReceivedMessage[BodyT]], object] | Callable[[ReceivedMessage[BodyT], Any], object] | Handlers,
    *,
    source: Any = None,
) -> list[Any]:
    """Processes every message that can be received now, and returns the handler's result for each.

    ``handler(message, tx)`` runs in the transaction that completes its message, ``handler(message)`` without one, as in
    :func:`pgqueue.process` and in a worker, but is called only once: its first error abandons the message and is
    raised. Of :class:`pgqueue.Handlers`, and so of tasks, those for the queue are called; for a task, which stores its
    result, the list has None. ``source`` is where the
    transactions begin, as for :func:`pgqueue.process`: a session maker, for example.

    Raises:
        NoHandlerError: none of the handlers takes a message.
        InvalidArgumentError: the handler takes other arguments, is a coroutine function or a generator function, or the
            queue belongs to :mod:`pgqueue.aio`; nothing was received.
    """
    if not isinstance(queue, Queue):
        raise InvalidArgumentError(
            f"drain() takes a queue of pgqueue, not {shown(queue)}: for others, pgqueue.aio.testing"
        )
    routes = routes_in(queue.name, handler, ReceivedMessage, asynchronous=False)
    once = tenacity.Retrying(stop=tenacity.stop_after_attempt(1))
    answers = []
    while received := queue.receive():
        for message in received:
            try:
                work: Any = routes.find(message).function
            except NoHandlerError:
                message.abandon()
                raise
            answers.append(process(message, work, source, retry=once))
    return answers
