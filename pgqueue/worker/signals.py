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

#: Set in one of several processes. There the same signal may arrive twice: from the parent and, sent to the whole
#: group, from a terminal or a service manager. A second signal reaches the parent, which ends all processes.
has_parent = threading.Event()


def _nothing() -> None:
    pass


@contextmanager
def stopped_by_signals(stop: Callable[[], None], before_the_end: Callable[[], None] = _nothing) -> Iterator[None]:
    """Call ``stop`` at a signal. In any thread but the main one this does nothing, because only that gets signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    process = os.getpid()

    def receive(number: int, _: FrameType | None) -> None:
        if os.getpid() != process:  # a process forked by a handler is no worker
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


@contextmanager
def interrupts_held_back() -> Iterator[None]:
    """Block SIGINT in this thread, and in a process that it starts meanwhile."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
