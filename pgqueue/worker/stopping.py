"""The end of a worker: it is over in time, whether or not the database answers."""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from math import inf

from pgqueue.errors import logger

#: In seconds, after the grace period: for the last statements, and then for connections to be closed.
LAST_STATEMENTS, LAST_CLOSES = 2.0, 1.0


class Stopping(threading.Event):
    """Is set when the worker is to stop. Times are monotonic seconds.

    Handlers may run until ``handlers_end_at``; at ``ends_at`` what has no answer from the database is left behind.
    """

    def __init__(self, grace_period: timedelta) -> None:
        super().__init__()
        self._grace_period = grace_period.total_seconds()
        self.handlers_end_at = self.ends_at = inf

    def set(self) -> None:
        """Begin the grace period, if it has not begun."""
        if self.ends_at == inf:
            self.handlers_end_at = time.monotonic() + self._grace_period
            self.ends_at = self.handlers_end_at + LAST_STATEMENTS
        super().set()

    @property
    def time_left(self) -> float:
        """The seconds until ``ends_at``, at least 0; infinite before ``set``."""
        return max(self.ends_at - time.monotonic(), 0.0)


def warn_of_silence() -> None:
    """Log that locks and sessions are not released, and expire."""
    logger.warning(
        "the grace period is over, and the database has not answered: locks and sessions of this worker run out"
    )
