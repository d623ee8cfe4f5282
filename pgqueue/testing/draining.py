# Written by `make generate` from pgqueue/aio/testing.py: change it there.
"""Processing all messages of a queue in a test. The fixtures are in :mod:`pgqueue.testing`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tenacity

from pgqueue.errors import InvalidArgumentError
from pgqueue.model.handler import Handler
from pgqueue.model.message import BodyT
from pgqueue.queue import Queue
from pgqueue.received import ReceivedMessage, process


def drain(
    queue: Queue[BodyT],
    handler: Callable[[ReceivedMessage[BodyT]], object] | Callable[[ReceivedMessage[BodyT], Any], object],
    *,
    source: Any = None,
) -> list[Any]:
    """Processes every message that can be received now, and returns the handler's result for each.

    ``handler(message, tx)`` runs in the transaction that completes its message, ``handler(message)`` without one, as in
    :func:`pgqueue.process` and in a worker, but is called only once: its first error abandons the message and is
    raised. ``source`` is where the transactions begin, as for :func:`pgqueue.process`: a session maker, for
    example.

    Raises:
        InvalidArgumentError: the handler takes other arguments, is a coroutine function or a generator function, or the
            queue belongs to :mod:`pgqueue.aio`; nothing was received.
    """
    if not isinstance(queue, Queue):
        raise InvalidArgumentError(f"drain() takes a queue of pgqueue, not {queue!r}: for others, pgqueue.aio.testing")
    Handler.of(handler, asynchronous=False).check_takes(ReceivedMessage)
    once = tenacity.Retrying(stop=tenacity.stop_after_attempt(1))
    work: Any = handler
    answers = []
    while received := queue.receive():
        answers += [process(message, work, source, retry=once) for message in received]
    return answers
