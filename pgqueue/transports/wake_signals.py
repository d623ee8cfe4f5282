"""Wakes consumers that wait for messages of a queue, blocking or awaiting."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

Callback = Callable[[], object]

#: A consumer that waited this recently counts as waiting: a worker does not wait while it claims and settles.
RECENTLY = 1.0


#: In seconds: how long the client listens for lost locks after the last message was locked.
LINGERS = 60.0


def call_in(loop: asyncio.AbstractEventLoop, function: Callback) -> None:
    """Call a function in the event loop soon, from any thread; not in a loop that is closed, where none waits."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(function)


class LossSignal:
    """Asks about messages whose locks may have been taken away, while their holder has any of the queue.

    ``is_live`` is whether the database notifies us; if not, ``wanted`` is called when messages are locked.
    """

    def __init__(self, queue: str, wanted: Callback) -> None:
        self.queue = queue
        self._wanted = wanted
        self._ask: Callable[[int | None], object] = lambda _: None
        self._holds: Callable[[], bool] = lambda: False
        self._locked_at = float("-inf")
        self.is_live = False

    def connect(self, ask: Callable[[int | None], object], holds: Callable[[], bool]) -> None:
        """Call ``ask`` in any thread, with the number of a message or None for all; ``holds`` whether any is held."""
        self._ask, self._holds = ask, holds

    @property
    def is_awaited(self) -> bool:
        return self._holds() or time.monotonic() < self._locked_at + LINGERS

    def locked(self, at: float) -> None:
        """Note that messages were locked at this time, so that losses of them are listened for."""
        self._locked_at = at
        if not self.is_live:
            self._wanted()

    def begin(self) -> None:
        """Note that the database notifies us from now on, and ask for what happened before."""
        self.is_live = True
        if self._holds():
            self._ask(None)

    def set(self, sequence_number: int) -> None:
        self._ask(sequence_number)


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

    def notified(self, sequence_number: int) -> None:
        """Is called for each NOTIFY."""
        self.set()

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
        with self.calling(partial(call_in, loop, event.set), since):
            try:
                async with asyncio.timeout(seconds):
                    await event.wait()
            except TimeoutError:
                return
