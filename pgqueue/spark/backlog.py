"""The backlog of a queue, for the progress of a stream: an estimate, taken so rarely that it costs little."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, LiteralString

import psycopg
from psycopg.rows import TupleRow

#: The largest number of pages that are read of each table; of a larger table it is a random sample.
PAGES = 1_000

#: After a count that took a second, the next is taken 100 seconds later.
PAUSE = 100
PAUSE_AFTER_AN_ERROR = 60.0

WAITING: LiteralString = """
    select ready, extract(epoch from pgqueue.clock() - oldest_enqueued_time)::float8, is_exact, pgqueue.clock()
      from pgqueue.queue_estimates(%(pages)s)
     where name = %(queue)s
"""


class Backlog:
    """The messages that wait in a queue, as counted last; empty if the role may not see counts."""

    def __init__(self, queue: str) -> None:
        self._queue = queue
        self._not_before = 0.0
        self.counted: dict[str, Any] = {}

    def count(self, rows: Callable[..., list[TupleRow]]) -> None:
        """Count if it is time; an error is only reported, because the stream does not need the count."""
        begun = time.monotonic()
        if begun < self._not_before:
            return
        try:
            ((waiting, age, is_exact, at),) = rows(WAITING, pages=PAGES, queue=self._queue)
        except psycopg.errors.InsufficientPrivilege as error:
            self._not_before = float("inf")
            sys.stderr.write(f"the progress shows no waiting messages: {error.diag.message_primary}\n")
        except psycopg.Error as error:
            self._not_before = begun + PAUSE_AFTER_AN_ERROR
            sys.stderr.write(f"the waiting messages of {self._queue!r} were not counted; trying again: {error}\n")
        else:
            self.counted = {"waiting": waiting, "oldest_age_seconds": age, "is_exact": is_exact}
            self.counted["counted_at"] = at.isoformat(timespec="seconds")
            now = time.monotonic()
            self._not_before = now + PAUSE * (now - begun)
