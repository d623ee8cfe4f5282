"""SIGTERM and SIGINT ask a worker to stop; a second one ends the process at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from pgqueue.errors import logger

SIGNALS = (signal.SIGTERM, signal.SIGINT)

#: Set in one of several processes. The same signal may reach it twice there, from its parent and, sent to the whole
#: group, from a terminal or a service manager; a second one reaches the parent, which ends them all.
has_parent = threading.Event()


def _nothing() -> None:
    pass


@contextmanager
def stopped_by_signals(stop: Callable[[], None], before_the_end: Callable[[], None] = _nothing) -> Iterator[None]:
    """Only the main thread can be told of signals; in any other this does nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    process = os.getpid()

    def receive(number: int, _: FrameType | None) -> None:
        if os.getpid() != process:  # what a handler has forked is no worker
            signal.signal(number, before[signal.Signals(number)])
            signal.raise_signal(number)
            return
        if received and has_parent.is_set():
            return
        if received:
            before_the_end()
            os._exit(128 + number)
        received.append(number)
        logger.info("%s: stopping", signal.Signals(number).name)
        stop()

    before = {number: signal.signal(number, receive) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
