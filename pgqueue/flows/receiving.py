"""Receiving with a wait: poll, pause, poll again. No transaction and no connection is held in a pause."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from math import inf

from pgqueue.errors import PGQueueError, logger
from pgqueue.flows.flow import Executor, Flow, Pause, WakeableExecutor, WakeSignal
from pgqueue.model.arguments import duration
from pgqueue.model.backoff import POLLS
from pgqueue.model.names import is_dead_letter_queue
from pgqueue.model.row import Row
from pgqueue.statements import Statement, looking, receiving
from pgqueue.statements.looking import Look

NO_WAIT = timedelta(0)

#: In seconds; the SQL uses the same value.
TURN_EVERY = 1.0

#: The time left may be rounded to zero.
SHORTEST_PAUSE = timedelta.resolution


@dataclass
class Rest:
    """The time until which no poll is needed unless the signal is set; kept from one empty wait to the next."""

    until: float = -inf
    count: int = 0

    @property
    def is_begun(self) -> bool:
        """Whether the last poll found nothing."""
        return self.until > -inf

    def is_over(self, wake_signal: WakeSignal | None, now: float) -> bool:
        return wake_signal is None or not wake_signal.is_live or wake_signal.count != self.count or now >= self.until


def wait_for(
    queue: str,
    statement: Statement[list[Row]],
    source: WakeableExecutor,
    wait: timedelta | None,
    rest: Rest | None = None,
) -> Flow[list[Row]]:
    """Run a statement until it returns rows or ``wait`` is over."""
    patience, rest = duration("wait", wait), rest or Rest()

    def look() -> Flow[list[Row]]:
        return source.execute(statement)

    def look_notified() -> Flow[Look]:
        return source.execute(looking.look(statement, queue))

    if not rest.is_begun:
        rows = yield from look()
        if rows or not patience:
            return rows
    return (yield from _look(look, look_notified, queue, source, patience, rest))


@dataclass
class Turns:
    """The turns of receivers that delete what they receive.

    A turn never runs in the caller's transaction, which may stay open. There is one a second, as with receivers that
    lock, and one whenever a receive found nothing.
    """

    queue: str
    source: Executor
    due: float = -inf

    def take_when_due(self) -> Flow[None]:
        """Take a turn if one is due. A transient error is ignored: the caller's receive may still succeed."""
        now = yield time.monotonic
        if now < self.due:
            return
        self.due = now + TURN_EVERY
        try:
            yield from self.take()
        except PGQueueError as failure:
            if not failure.is_transient:
                raise
            logger.debug("the turn of %s failed and was skipped: %s", self.queue, failure)

    def take(self) -> Flow[None]:
        if not is_dead_letter_queue(self.queue):  # a queue of dead letters needs no turns
            yield from self.source.execute(receiving.take_turn(self.queue))


def receive_and_delete(
    statement: Statement[list[Row]],
    turns: Turns,
    source: WakeableExecutor,
    transaction: Executor | None,
    wait: timedelta | None,
    rest: Rest | None = None,
) -> Flow[list[Row]]:
    """Receive and delete at once, and take the turns of the queue."""

    def look() -> Flow[list[Row]]:
        yield from turns.take()
        return (yield from (transaction or source).execute(statement))

    def look_notified() -> Flow[Look]:
        if transaction is None:
            return (yield from source.execute(looking.turn_and_look(statement, turns.queue)))
        pause = yield from source.execute(looking.turn(turns.queue))
        return Look((yield from transaction.execute(statement)), pause)

    patience, rest = duration("wait", wait), rest or Rest()
    if not rest.is_begun:
        yield from turns.take_when_due()
        rows = yield from (transaction or source).execute(statement)
        if rows:
            return rows
    return (yield from _look(look, look_notified, turns.queue, source, patience, rest))


def _look(
    look: Callable[[], Flow[list[Row]]],
    look_notified: Callable[[], Flow[Look]],
    queue: str,
    source: WakeableExecutor,
    wait: timedelta | None,
    rest: Rest,
) -> Flow[list[Row]]:
    """Poll until a message arrives or ``wait`` is over; at least once, unless no poll is needed by ``rest``."""
    patience = (wait or NO_WAIT).total_seconds()
    wake_signal = source.wake_signal(queue) if patience else None
    began = now = yield time.monotonic
    pauses = iter(POLLS)  # without notifications; with them, see looking
    while True:
        if rest.is_over(wake_signal, now):
            rest.count, rest.until = wake_signal.count if wake_signal else 0, -inf
            if wake_signal and wake_signal.is_live:
                rows, rests, _ = yield from look_notified()
            else:
                rows, rests = (yield from look()), next(pauses).total_seconds()
            now = yield time.monotonic
            if rows:
                return rows
            rest.until = now + rests
        left = began + patience - now
        if left <= 0:
            return []
        pause = timedelta(seconds=min(rest.until - now, left))
        yield Pause(max(pause, SHORTEST_PAUSE), wake_signal, rest.count)
        now = yield time.monotonic
