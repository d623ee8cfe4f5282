"""Deadlines on drivers that wait for the server by themselves: a timer closes the connection."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from typing import Protocol

from pgqueue.errors import ConnectionLostError


class Timer(Protocol):
    """Calls back, unless it is cancelled before."""

    def cancel(self) -> object: ...


@contextmanager
def cut_off(
    until: float, call_later: Callable[[float, Callable[[], None]], Timer], cut: Callable[[], object]
) -> Iterator[None]:
    """In this block, ``cut`` is called when it is not over by then, in monotonic seconds; a wait for the server fails.

    Raises:
        ConnectionLostError: it was called, and something failed of it.
    """
    if until == inf:
        yield
        return
    began, lock = time.monotonic(), threading.Lock()
    is_over = has_expired = False

    def expire() -> None:
        nonlocal has_expired
        with lock:
            if not is_over:
                has_expired = True
                cut()

    timer = call_later(max(until - began, 0.0), expire)
    try:
        yield
    except Exception as error:
        if has_expired:
            waited = time.monotonic() - began
            raise ConnectionLostError(
                f"no answer from the server within {waited:.1f} s: the connection was closed"
            ) from error
        raise
    finally:
        with lock:
            is_over = True
        timer.cancel()
