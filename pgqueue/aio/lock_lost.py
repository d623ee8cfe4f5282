"""Whether a lock is lost, to be awaited."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator

from pgqueue.model.lock_lost import LockLostFlag
from pgqueue.transports import call_in

Waiter = tuple[asyncio.AbstractEventLoop, asyncio.Event]


class LockLost(LockLostFlag):
    """True once the lock is lost; awaiting it, or ``wait(timeout)``, waits for that."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: list[Waiter] = []
        self._turning = threading.Lock()

    def __await__(self) -> Generator[None, None, bool]:
        return self.wait().__await__()

    def set(self) -> None:
        """Notes that the lock is lost. Safe to call from any thread, more than once."""
        with self._turning:
            super().set()
            for loop, woken in self._waiting:
                call_in(loop, woken.set)
            self._waiting.clear()

    async def wait(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 - as of threading.Event
        """Waits until the lock is lost, ``timeout`` seconds at most; returns whether it is."""
        waiter = asyncio.get_running_loop(), asyncio.Event()
        with self._turning:
            if not self:
                self._waiting.append(waiter)
        try:
            async with asyncio.timeout(timeout):
                return bool(self) or await waiter[1].wait()
        except TimeoutError:
            return bool(self)
        finally:
            with self._turning:
                if waiter in self._waiting:
                    self._waiting.remove(waiter)
