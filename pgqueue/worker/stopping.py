"""The end of a worker: it is over in time, whether or not the database answers."""

from __future__ import annotations

import time
from datetime import timedelta
from math import inf
from typing import Any

from pgqueue.errors import logger
from pgqueue.leases.loop import Event

#: In seconds, after the grace period: for the last statements, and then for connections to be closed.
LAST_STATEMENTS, LAST_CLOSES = 2.0, 1.0


class Stopping:
    """An event that is set when the worker is to stop. Times are monotonic seconds.

    Handlers may run until ``handlers_end_at``; what has no answer from the database at ``ends_at`` is left behind.
    """

    def __init__(self, grace_period: timedelta, event: Event) -> None:
        self._event = event
        self._grace_period = grace_period.total_seconds()
        self.handlers_end_at = self.ends_at = inf

    def set(self) -> None:
        """Begin the grace period, if it has not begun."""
        if self.ends_at == inf:
            self.handlers_end_at = time.monotonic() + self._grace_period
            self.ends_at = self.handlers_end_at + LAST_STATEMENTS
        self._event.set()

    def is_set(self) -> bool:
        """Whether the worker is to stop."""
        return self._event.is_set()

    def wait(self, timeout: float | None = None) -> Any:
        """Wait for that, or for so many seconds."""
        return self._event.wait(timeout)

    @property
    def time_left(self) -> float:
        """The seconds until ``ends_at``, at least 0; infinite before ``set``."""
        return max(self.ends_at - time.monotonic(), 0.0)


def warn_of_silence() -> None:
    """Log that locks and sessions are not released, and expire."""
    logger.warning(
        "the grace period is over, and the database has not answered: locks and sessions of this worker run out"
    )
