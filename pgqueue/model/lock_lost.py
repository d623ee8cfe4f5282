"""Whether a lock is lost: false until it is found to be lost, true from then on."""

from __future__ import annotations

import threading


class LockLostFlag:
    """The common part of both faces; they differ in how one waits."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def __bool__(self) -> bool:
        return self._event.is_set()

    def __repr__(self) -> str:
        return f"LockLost({bool(self)})"

    def is_set(self) -> bool:
        """Whether the lock is lost."""
        return self._event.is_set()

    def set(self) -> None:
        """Notes that the lock is lost. Safe to call from any thread, more than once."""
        self._event.set()


class LockLost(LockLostFlag):
    """True once the lock is lost; ``wait(timeout)`` waits for that, for so many seconds at most."""

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until the lock is lost, ``timeout`` seconds at most; returns whether it is."""
        return self._event.wait(timeout)
