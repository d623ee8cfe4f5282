"""Wakes consumers that wait for messages of a queue, blocking or awaiting."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Callback = Callable[[], object]

#: A consumer that waited this recently counts as waiting: a worker does not wait while it claims and settles.
RECENTLY = 1.0


class WakeSignal:
    """Is set each time a queue has new messages. Consumers poll when it is set, and at intervals anyway.

    ``count`` is the number of times it was set: a consumer whose last poll was at a lower count need not wait.
    ``is_live`` is whether the database notifies us; if not, ``wanted`` is called when a consumer begins to wait.
    """

    def __init__(self, queue: str, wanted: Callback) -> None:
        self.queue = queue
        self.count = 0
        self._wanted = wanted
        self.reset_after_fork()

    def reset_after_fork(self) -> None:
        """In a forked child no thread waits: the waiting threads are the parent's."""
        self.is_live = False
        self._callbacks: list[Callback] = []
        self._awaited_at = float("-inf")
        self._lock = threading.Lock()

    @property
    def is_awaited(self) -> bool:
        return bool(self._callbacks) or time.monotonic() < self._awaited_at + RECENTLY

    def set(self) -> None:
        with self._lock:
            self.count += 1
            callbacks = list(self._callbacks)
        for callback in callbacks:
            callback()

    @contextmanager
    def calling(self, callback: Callback, since: int) -> Iterator[None]:
        """Calls ``callback`` each time it is set, in any thread, and at once if ``count`` is not ``since``."""
        with self._lock:
            self._callbacks.append(callback)
        if not self.is_live:
            self._wanted()
        if self.count != since:
            callback()
        try:
            yield
        finally:
            with self._lock:
                self._awaited_at = time.monotonic()
                self._callbacks.remove(callback)

    def wait(self, seconds: float, since: int) -> None:
        """Waits until it is set, or until the timeout."""
        event = threading.Event()
        with self.calling(event.set, since):
            event.wait(seconds)

    async def arrives(self, seconds: float, since: int) -> None:
        """As :meth:`wait`, without blocking the event loop."""
        loop, event = asyncio.get_running_loop(), asyncio.Event()
        with self.calling(lambda: loop.call_soon_threadsafe(event.set), since):
            try:
                async with asyncio.timeout(seconds):
                    await event.wait()
            except TimeoutError:
                return
