"""What wakes those who wait for messages of a queue, in whatever way they wait."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Hearer = Callable[[], object]

#: Who has waited so recently counts as waiting: a worker does not wait while it claims and settles.
RECENTLY = 1.0


class Bell:
    """Rings when messages of a queue have come. Who waits looks once more when it does, and from time to time anyway.

    ``rings`` counts: who has looked since it stood at a number need not wait when it stands higher. ``is_live`` says
    whether the database tells us at all; ``sought`` is called when somebody waits and it does not.
    """

    def __init__(self, queue: str, sought: Hearer) -> None:
        self.queue = queue
        self.rings = 0
        self._sought = sought
        self.reset_after_fork()

    def reset_after_fork(self) -> None:
        """In a child of a fork nobody waits: who waited is a thread of the parent."""
        self.is_live = False
        self._hearers: list[Hearer] = []
        self._awaited_at = float("-inf")
        self._lock = threading.Lock()

    @property
    def is_awaited(self) -> bool:
        return bool(self._hearers) or time.monotonic() < self._awaited_at + RECENTLY

    def ring(self) -> None:
        with self._lock:
            self.rings += 1
            hearers = list(self._hearers)
        for hearer in hearers:
            hearer()

    @contextmanager
    def heard_by(self, hearer: Hearer, since: int) -> Iterator[None]:
        """``hearer`` is called at every ring, in any thread, and at once if one has come after ``since``."""
        with self._lock:
            self._hearers.append(hearer)
        if not self.is_live:
            self._sought()
        if self.rings != since:
            hearer()
        try:
            yield
        finally:
            with self._lock:
                self._awaited_at = time.monotonic()
                self._hearers.remove(hearer)

    def wait(self, seconds: float, since: int) -> None:
        """Waits for a ring, so long at the most."""
        rung = threading.Event()
        with self.heard_by(rung.set, since):
            rung.wait(seconds)

    async def arrives(self, seconds: float, since: int) -> None:
        """As :meth:`wait`, without blocking the event loop."""
        loop, rung = asyncio.get_running_loop(), asyncio.Event()
        with self.heard_by(lambda: loop.call_soon_threadsafe(rung.set), since):
            try:
                async with asyncio.timeout(seconds):
                    await rung.wait()
            except TimeoutError:
                return
