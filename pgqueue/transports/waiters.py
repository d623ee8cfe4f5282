"""The callers that wait for outcomes of a queue: one of them polls for all."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from math import inf

from pgqueue.errors import PGQueueError, logger
from pgqueue.model.backoff import POLLS, Backoff
from pgqueue.model.outcome import Outcome
from pgqueue.transports.deadlines import seconds_of, time_left
from pgqueue.transports.wake_signals import WakeSignal

#: Between polls for all while the database notifies us: more often at first, when a settlement may not know of us.
RARE_POLLS = Backoff(timedelta(milliseconds=250), timedelta(seconds=4))
#: A poll for all is not begun before this many times as long as the last one took.
RESTS = 10
AFTER_FAILURES = Backoff(0.1, 1.0)


class Waiter(WakeSignal):
    """A caller that waits for the outcome of a message: is set when it is known, and when it is its turn to poll."""

    def __init__(self, queue: str, sequence_number: int) -> None:
        super().__init__(queue, lambda: None)
        self.sequence_number = sequence_number
        self.is_answered = False
        self.outcome: Outcome | None = None

    def answer(self, outcome: Outcome | None) -> None:
        self.outcome, self.is_answered = outcome, True
        self.set()


class Waiters(WakeSignal):
    """All callers of a client that wait for outcomes of one queue, and the signal that the one who polls waits for.

    New ones, and those whose messages a NOTIFY names, are asked for at once, all of them now and then. When the one who
    polls leaves, another takes over: no thread, task or connection serves only this.
    """

    def reset_after_fork(self) -> None:
        super().reset_after_fork()
        self.poller: Waiter | None = None
        self.error: PGQueueError | None = None
        self._waiters: dict[int, list[Waiter]] = {}
        self._due: set[int] = set()
        #: Those of the poll that runs: who leaves during it leaves them to the successor.
        self._asked: set[int] = set()
        #: In monotonic seconds: when all are asked for; infinite while they are.
        self._all_due_at = 0.0
        self._pauses = iter(POLLS)
        self._failures = 0

    def set(self) -> None:
        """Have all asked for: a NOTIFY may have been missed."""
        with self._lock:
            self._all_due_at = 0.0
            self._pauses = iter(RARE_POLLS if self.is_live else POLLS)
        super().set()

    def notified(self, sequence_number: int) -> None:
        """Have a message that is settled asked for, if a caller waits for it; all, if the number is 0."""
        if not sequence_number:
            self.set()
        elif sequence_number in self._waiters:
            self._ask(sequence_number)

    def _ask(self, sequence_number: int) -> None:
        with self._lock:
            self._due.add(sequence_number)
        super().set()

    @contextmanager
    def joined(self, sequence_number: int) -> Iterator[Waiter]:
        """Wait with the others in this block."""
        waiter = Waiter(self.queue, sequence_number)
        with self._lock:
            self._waiters.setdefault(sequence_number, []).append(waiter)
            self.poller = self.poller or waiter
        try:
            self._ask(sequence_number)
            yield waiter
        finally:
            self._leave(waiter)

    def _leave(self, waiter: Waiter) -> None:
        with self._lock:
            together = self._waiters.get(waiter.sequence_number, [waiter])  # in a forked child it is forgotten
            together.remove(waiter)
            if not together:
                self._waiters.pop(waiter.sequence_number, None)
            if self.poller is not waiter:
                return
            self._due, self._asked = self._due | self._asked, set()
            waiting = (each for together in self._waiters.values() for each in together)
            successor = self.poller = next((each for each in waiting if not each.is_answered), None)
        if successor is not None:
            successor.set()

    def due(self, now: float) -> list[int]:
        """The messages to ask for now."""
        with self._lock:
            self._asked, self._due = self._due & self._waiters.keys(), set()
            if now >= self._all_due_at:
                self._all_due_at, self._asked = inf, set(self._waiters)
            return list(self._asked)

    def answer(self, outcomes: Mapping[int, Outcome | None], took: float) -> None:
        """Pass on what a poll has found, which took so many seconds."""
        if self._failures:
            logger.info("outcomes of %s can be read again", self.queue)
        self._failures, self.error = 0, None
        with self._lock:
            self._asked = set()
            answers = [(each, outcomes[number]) for number in outcomes for each in self._waiters.get(number, ())]
            if self._all_due_at == inf:
                self._all_due_at = time.monotonic() + max(next(self._pauses).total_seconds(), RESTS * took)
        for waiter, outcome in answers:
            waiter.answer(outcome)

    def fail(self, error: PGQueueError) -> None:
        """Have all asked for after a pause."""
        self._failures, self.error, self._asked = self._failures + 1, error, set()
        if self._failures == 1:
            extra = {"tracking_id": error.tracking_id}
            logger.warning("outcomes of %s cannot be read for now: %s", self.queue, error, extra=extra)
        self._all_due_at = time.monotonic() + AFTER_FAILURES.pause(self._failures)

    def rest(self, now: float) -> float:
        """For how many seconds no poll is needed, unless the signal is set."""
        return max(self._all_due_at - now, 0.0)

    def seconds(self, timeout: timedelta | None) -> float:
        """How long a caller waits, which has no longer than its deadline."""
        return time_left(seconds_of(timeout))
