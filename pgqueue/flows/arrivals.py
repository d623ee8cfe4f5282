"""The messages of a receiver, one at a time."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from math import inf
from typing import Protocol, TypeVar

from pgqueue.errors import InvalidArgumentError
from pgqueue.flows import receiving, settling
from pgqueue.flows.flow import Flow, WakeableExecutor, WakeSignal
from pgqueue.flows.locked import LockedMessage
from pgqueue.flows.validating import keep_valid
from pgqueue.model.arguments import instance, whole
from pgqueue.model.body_type import BodyType
from pgqueue.model.message import Lock, PeekedMessage, from_row
from pgqueue.model.row import LASTS, Row
from pgqueue.model.settings import ReceiveMode
from pgqueue.statements import Statement
from pgqueue.statements import receiving as verbs

T = TypeVar("T")

PATIENCE = timedelta(seconds=1)

Make = Callable[[Row], LockedMessage]


class Arrivals(Protocol):
    """The source of a receiver's messages."""

    def next(self) -> Flow[PeekedMessage | None]:
        """The next message; None if none arrived within :data:`PATIENCE`, or the one that did is invalid."""

    def close(self) -> Flow[None]:
        """Release the messages that are locked but were not handed out."""

    def reset_after_fork(self) -> None:
        """Forget the messages that are locked ahead: after a fork they belong to the parent."""


@dataclass
class Stopwatch:
    """Runs statements, and records when the last one was sent, by the clock of this process."""

    source: WakeableExecutor
    sent: float = -inf

    def execute(self, statement: Statement[T]) -> Flow[T]:
        self.sent = yield time.monotonic
        return (yield from self.source.execute(statement))

    def wake_signal(self, queue: str) -> WakeSignal | None:
        return self.source.wake_signal(queue)


class Locked:
    """Up to ``prefetch`` messages that are locked ahead, and handed out one by one.

    The locks may expire before the messages are handed out. The database states how long a lock lasts, and the clock of
    this process measures the time since the request: the two clocks are never compared. A message whose lock may have
    expired is not handed out. It is released, unless another receiver has it, and the delivery is not counted.

    One thread may call ``close`` while another waits for the next message.
    """

    def __init__(self, statement: Statement[list[Row]], queue: str, source: WakeableExecutor, make: Make) -> None:
        self._statement = statement
        self._queue = queue
        self._source = Stopwatch(source)
        self._make = make
        self._ahead: deque[Row] = deque()
        self._safe_until = inf
        self._rest = receiving.Rest()
        self._is_closed = False

    def next(self) -> Flow[PeekedMessage | None]:
        now = yield time.monotonic
        if now >= self._safe_until:
            yield from self._give_back()
        if not self._ahead:
            yield from self._receive()
        if self._is_closed:
            yield from self._give_back()
        try:
            message = self._make(self._ahead.popleft())
        except IndexError:  # none arrived, or another thread called close()
            return None
        return next(iter((yield from keep_valid([message]))), None)

    def close(self) -> Flow[None]:
        self._is_closed = True
        yield from self._give_back()

    def reset_after_fork(self) -> None:
        self._ahead.clear()

    def _receive(self) -> Flow[None]:
        rows = yield from receiving.wait_for(self._queue, self._statement, self._source, PATIENCE, self._rest)
        lasts = [row[LASTS].total_seconds() for row in rows]
        self._safe_until = self._source.sent + min(lasts, default=inf)
        self._ahead.extend(rows)

    def _give_back(self) -> Flow[None]:
        unbegun = []
        while self._ahead:
            try:
                unbegun.append(self._ahead.popleft())
            except IndexError:  # another thread took the last one
                break
        yield from settling.release(self._queue, [Lock.of_row(self._queue, row) for row in unbegun], self._source)


@dataclass(eq=False)
class Deleted:
    """Messages that are deleted as they are received."""

    queue: str
    source: WakeableExecutor
    body_type: BodyType | None

    def __post_init__(self) -> None:
        self._turns = receiving.Turns(self.queue, self.source)
        self._rest = receiving.Rest()

    def next(self) -> Flow[PeekedMessage | None]:
        statement = verbs.receive_and_delete(self.queue, max_messages=1)
        rows = yield from receiving.receive_and_delete(statement, self._turns, self.source, None, PATIENCE, self._rest)
        return from_row(PeekedMessage, self.queue, rows[0], self.body_type) if rows else None

    def close(self) -> Flow[None]:
        yield from ()

    def reset_after_fork(self) -> None:
        """Do nothing: no message is locked ahead."""


def arrivals(
    queue: str,
    mode: ReceiveMode,
    prefetch: int,
    locked_by: str,
    source: WakeableExecutor,
    make: Make,
    body_type: BodyType | None = None,
) -> Arrivals:
    """Make the message source for a receive mode.

    Raises:
        InvalidArgumentError: ``mode`` is none, or ``prefetch`` is invalid, or not 0 for RECEIVE_AND_DELETE.
    """
    ahead = whole("prefetch", prefetch, least=0) or 0
    if instance("receive_mode", mode, ReceiveMode) is ReceiveMode.PEEK_LOCK:
        statement = verbs.receive(queue, max_messages=ahead + 1, lock_duration=None, locked_by=locked_by, lasts=True)
        return Locked(statement, queue, source, make)
    if ahead:
        raise InvalidArgumentError("prefetch must be 0 in the mode RECEIVE_AND_DELETE, where nothing can be given back")
    return Deleted(queue, source, body_type)
