"""Processing all messages of a queue in a test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tenacity

import pgqueue
from pgqueue.model.calls import must_finish


def drain(queue: pgqueue.Queue, handler: Callable[..., Any]) -> list[Any]:
    """Processes every message that can be received now, and returns the handler's result for each.

    ``handler(message, tx)``, or ``handler(tx)``, runs in the transaction that completes its message, as in
    :func:`pgqueue.process`, but is called only once: its first error abandons the message and is raised.

    Raises:
        InvalidArgumentError: the handler is a coroutine function or a generator function; nothing was received.
    """
    must_finish(handler, "the handler", asynchronous=False, remedy="run it with pgqueue.aio.process")
    once = tenacity.Retrying(stop=tenacity.stop_after_attempt(1))
    answers = []
    while received := queue.receive():
        answers += [pgqueue.process(message, handler, retry=once) for message in received]
    return answers
