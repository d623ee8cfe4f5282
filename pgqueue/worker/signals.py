"""SIGTERM and SIGINT ask a worker to stop; a second one ends the process at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

from pgqueue.errors import logger

SIGNALS = (signal.SIGTERM, signal.SIGINT)

#: Set in one of several processes. There the same signal may arrive twice: from the parent and, sent to the whole
#: group, from a terminal or a service manager. A second signal reaches the parent, which ends all processes.
has_parent = threading.Event()

Receive = Callable[[int, FrameType | None], None]

#: The handlers of running workers, and those that they have replaced.
_installed: list[tuple[Receive, dict[signal.Signals, Any]]] = []
_forking = threading.local()


def _hold_back() -> None:
    """Before a fork: a signal that reaches the new process waits there until its handlers are restored."""
    if _installed:
        _forking.mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())  # to be known if a handler raises in the next call
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)


def _let_through() -> None:
    mask = vars(_forking).pop("mask", None)
    if mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _restore_in_child() -> None:
    """After a fork: the new process is no worker."""
    try:
        while _installed:
            _restore(*_installed.pop())
    finally:
        _let_through()


def _restore(receive: Receive, before: Mapping[signal.Signals, Any]) -> None:
    """Restore the handlers that a worker has replaced; those installed since stay."""
    for number, handler in before.items():
        if signal.getsignal(number) is receive:
            signal.signal(number, handler or signal.SIG_DFL)  # None if it is not of Python
        for _, others in _installed:
            if others.get(number) is receive:
                others[number] = handler


os.register_at_fork(before=_hold_back, after_in_parent=_let_through, after_in_child=_restore_in_child)


def _nothing() -> None:
    pass


@contextmanager
def stopped_by_signals(stop: Callable[[], None], before_the_end: Callable[[], None] = _nothing) -> Iterator[None]:
    """Call ``stop`` at a signal. In any thread but the main one this does nothing, because only that gets signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    before: dict[signal.Signals, Any] = {}
    process = os.getpid()

    def receive(number: int, _: FrameType | None) -> None:
        if os.getpid() != process:  # called by a handler that was installed since, in a forked process
            signal.signal(number, before.get(signal.Signals(number)) or signal.SIG_DFL)
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

    installed = receive, before
    _installed.append(installed)
    try:
        for number in SIGNALS:
            before[number] = signal.signal(number, receive)
        yield
    finally:
        _restore(receive, before)
        _installed[:] = (each for each in _installed if each is not installed)


@contextmanager
def interrupts_held_back() -> Iterator[None]:
    """Block SIGINT in this thread, and in a process that it starts meanwhile."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
