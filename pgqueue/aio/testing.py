"""Processing all messages of a queue in an asynchronous test. The fixtures are in :mod:`pgqueue.testing`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tenacity

from pgqueue.aio.queue import Queue
from pgqueue.aio.received import ReceivedMessage, process
from pgqueue.errors import InvalidArgumentError, NoHandlerError
from pgqueue.model.arguments import shown
from pgqueue.model.message import BodyT
from pgqueue.worker.handlers import Handlers, routes_in


async def drain(
    queue: Queue[BodyT],
    handler: Callable[[ReceivedMessage[BodyT]], object] | Callable[[ReceivedMessage[BodyT], Any], object] | Handlers,
    *,
    source: Any = None,
) -> list[Any]:
    """Processes every message that can be received now, and returns the handler's result for each.

    ``handler(message, tx)`` runs in the transaction that completes its message, ``handler(message)`` without one, as in
    :func:`pgqueue.aio.process` and in a worker, but is called only once: its first error abandons the message and is
    raised. Of :class:`pgqueue.Handlers`, and so of tasks, those for the queue are called; for a task, which stores its
    result, the list has None. ``source`` is where the
    transactions begin, as for :func:`pgqueue.aio.process`: a session maker, for example.

    Raises:
        NoHandlerError: none of the handlers takes a message.
        InvalidArgumentError: the handler takes other arguments or is a generator function, or the queue belongs to
            :mod:`pgqueue`; nothing was received.
    """
    if not isinstance(queue, Queue):
        raise InvalidArgumentError(
            f"drain() takes a queue of pgqueue.aio, not {shown(queue)}: for others, pgqueue.testing"
        )
    routes = routes_in(queue.name, handler, ReceivedMessage, asynchronous=True)
    once = tenacity.Retrying(stop=tenacity.stop_after_attempt(1))
    answers = []
    while received := await queue.receive():
        for message in received:
            try:
                work: Any = routes.find(message).function
            except NoHandlerError:
                await message.abandon()
                raise
            answers.append(await process(message, work, source, retry=once))
    return answers
