"""Renewal of locks: which are due, and the flow that renews them. Times are monotonic seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from pgqueue.errors import (
    AccessDeniedError,
    InvalidArgumentError,
    LockLostError,
    PGQueueError,
    QueueNotFoundError,
    logger,
)
from pgqueue.flows import Executor, Flow, LossSignal
from pgqueue.flows.locked import LockedMessage
from pgqueue.flows.sessions import AcceptedSession
from pgqueue.model.about import about
from pgqueue.model.calls import must_finish
from pgqueue.model.context import ReceiveState
from pgqueue.statements import sessions, settling

ReceivedT = TypeVar("ReceivedT", LockedMessage, AcceptedSession)

Extra = Mapping[str, object]

#: It is called with a message, or with a session.
OnFailure = Callable[[Any, PGQueueError], object]


def check_renewal_callback(callback: OnFailure | None) -> None:
    """Refuse a callback that is not a plain function: both faces call it in a thread."""
    must_finish(callback, "on_lock_renew_failure", asynchronous=False, remedy="give a plain function")


#: Errors of one queue that do not pass by themselves.
REFUSED = AccessDeniedError | InvalidArgumentError | QueueNotFoundError

OVER = (ReceiveState.COMPLETED, ReceiveState.ABANDONED, ReceiveState.FAULTED)

#: A lock is renewed when this share of its time is over, so that one renewal may fail and the next still succeeds.
RENEWED_AFTER = 0.4
#: In seconds: the shortest and longest interval between checks for locks to renew.
SHORTEST_ROUND, LONGEST_ROUND = 0.05, 5.0
AT_ONCE = 1_000


@dataclass(slots=True)
class Renewal(Generic[ReceivedT]):
    """A message or a session whose lock is renewed, and the times for it."""

    received: ReceivedT
    since: float
    renewed_at: float
    lasts: float | None = None
    #: How often it was asked whether the lock was taken away, and how many of these questions renewals have answered.
    questions: int = 0
    answered: int = 0

    def is_due(self, now: float) -> bool:
        return (
            self.questions != self.answered or self.lasts is None or now >= self.renewed_at + self.lasts * RENEWED_AFTER
        )

    def has_run_out(self, now: float) -> bool:
        return self.lasts is not None and now >= self.renewed_at + self.lasts


def _next_round(shortest: float) -> float:
    """The seconds until the next check, given how long the shortest lock lasts."""
    return min(max(shortest * RENEWED_AFTER / 2, SHORTEST_ROUND), LONGEST_ROUND)


def _shortest(kept: Iterable[Renewal[Any]]) -> float:
    return min((renewal.lasts for renewal in kept if renewal.lasts is not None), default=float("inf"))


def _report(received: object, name: str, error: PGQueueError, on_failure: OnFailure | None, extra: Extra) -> None:
    """Log that a lock was not renewed, and call ``on_failure``; an error of it does not concern other locks."""
    logger.warning("the lock on %s was not renewed: %s", name, error, extra=extra)
    if on_failure is None:
        return
    try:
        on_failure(received, error)
    except Exception:  # noqa: BLE001 - a callback of the application may raise anything
        logger.exception("on_lock_renew_failure raised for %s", name, extra=extra)


class Renewals:
    """The locks of one queue that are renewed while their messages are being processed.

    ``longest`` limits the time of renewal; after it the lock expires. ``on_failure`` is called with the message and the
    error if a lock could not be renewed before it expired, or was found lost; the delivery is then faulted. ``woken``
    is set when a lock is added that expires before the next turn, and when ``losses`` reports that one was taken away.
    """

    def __init__(
        self,
        queue: str,
        longest: timedelta,
        on_failure: OnFailure | None,
        woken: threading.Event,
        losses: LossSignal | None = None,
    ) -> None:
        self._queue = queue
        self._longest = longest.total_seconds()
        self._on_failure = on_failure
        self._woken = woken
        self._shortest = float("inf")
        self._kept: dict[int, Renewal[LockedMessage]] = {}
        self._losses = losses
        if losses is not None:
            losses.connect(self._question, self._has_any)

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, messages: Iterable[LockedMessage], claimed_at: float, lasts: float | None) -> None:
        """Renew these locks, claimed by a statement that was sent at ``claimed_at``, for ``lasts`` seconds if known."""
        for message in messages:
            self._kept[message.sequence_number] = Renewal(message, claimed_at, claimed_at, lasts)
        if lasts is None or lasts < self._shortest:
            self._woken.set()
        if self._losses is not None and self._kept:
            self._losses.locked(claimed_at)

    def _question(self, sequence_number: int | None) -> None:
        """Renew this lock at once, or all: it may have been taken away. Any thread calls it."""
        asked = list(self._kept.values()) if sequence_number is None else [self._kept.get(sequence_number)]
        for renewal in asked:
            if renewal is not None:
                renewal.questions += 1
                self._woken.set()

    def _has_any(self) -> bool:
        return bool(self._kept)

    def drop(self, message: LockedMessage) -> None:
        """Stop renewing this lock; if the message was claimed again meanwhile, the new lock is still renewed."""
        renewal = self._kept.pop(message.sequence_number, None)
        if renewal is not None and renewal.received is not message:
            self._kept.setdefault(message.sequence_number, renewal)

    def keeps(self, message: LockedMessage) -> bool:
        """Whether this lock is still renewed."""
        renewal = self._kept.get(message.sequence_number)
        return renewal is not None and renewal.received is message

    def turn(self, own: Executor) -> Flow[float]:
        """Renew the locks that are due; return the seconds until the next check."""
        now = time.monotonic()
        kept = list(self._kept.values())
        for renewal in kept:
            if renewal.received.context.state in OVER or now - renewal.since >= self._longest:
                self.drop(renewal.received)
        due = [renewal for renewal in kept if renewal.is_due(now) and _is_wanted(renewal.received)]
        try:
            for first in range(0, len(due), AT_ONCE):
                yield from self._renew(due[first : first + AT_ONCE], own)
        except PGQueueError as error:
            self._give_up([renewal for renewal in due if renewal.has_run_out(time.monotonic())], error)
            raise
        self._shortest = _shortest(kept)
        return _next_round(self._shortest)

    def give_up_all(self, error: PGQueueError) -> None:
        """Stop renewing all locks, because of an error that does not pass by itself."""
        self._give_up([kept for kept in self._kept.values() if _is_wanted(kept.received)], error)

    def _renew(self, due: list[Renewal[LockedMessage]], own: Executor) -> Flow[None]:
        now, questions = time.monotonic(), [renewal.questions for renewal in due]
        statement = settling.keep_locks(self._queue, [renewal.received.lock for renewal in due])
        renewed = yield from own.execute(statement)
        for renewal, asked, (locked_until, remaining) in zip(due, questions, renewed, strict=True):
            renewal.answered = asked
            self._note(renewal, now, locked_until, remaining)

    def _note(
        self, renewal: Renewal[LockedMessage], now: float, locked_until: datetime | None, remaining: timedelta | None
    ) -> None:
        if locked_until is not None and remaining is not None:
            renewal.received.locked_until = locked_until
            renewal.renewed_at, renewal.lasts = now, remaining.total_seconds()
        elif _is_wanted(renewal.received):
            number = renewal.received.sequence_number
            self._give_up([renewal], LockLostError(f"the lock on message {number} of queue {self._queue} is lost"))

    def _give_up(self, lost: Iterable[Renewal[LockedMessage]], error: PGQueueError) -> None:
        for message in [renewal.received for renewal in lost]:
            self.drop(message)
            message.context.lose()
            name = f"message {message.sequence_number} of {self._queue}"
            _report(message, name, error, self._on_failure, about(message, message.delivery_count, error))


def _is_wanted(message: LockedMessage) -> bool:
    """Whether the lock must be renewed: not while a transaction has it pinned, nor after a settlement."""
    return message.context.state is ReceiveState.RECEIVED and message.context.pinned_in is None


class SessionRenewals:
    """The locks of sessions that are renewed until they are released, for at most ``longest``."""

    def __init__(self, longest: timedelta, on_failure: OnFailure | None, woken: threading.Event) -> None:
        self._longest = longest.total_seconds()
        self._on_failure = on_failure
        self._woken = woken
        self._kept: dict[str, Renewal[AcceptedSession]] = {}

    def keep(self, session: AcceptedSession) -> None:
        """Renew the lock of this session from now on."""
        now = time.monotonic()
        self._kept[session.lock.lock_token] = Renewal(session, now, now)
        self._woken.set()

    def turn(self, own: Executor) -> Flow[float]:
        """Renew the locks that are due; return the seconds until the next check."""
        for renewal in list(self._kept.values()):
            now = time.monotonic()
            if renewal.received.is_released or now - renewal.since >= self._longest:
                self._drop(renewal)
            elif renewal.is_due(now):
                yield from self._renew(renewal, own)
        return _next_round(_shortest(list(self._kept.values())))

    def give_up_all(self, error: PGQueueError) -> None:
        """Stop renewing all locks, because of an error that does not pass by itself."""
        for renewal in list(self._kept.values()):
            self._give_up(renewal, error)

    def _renew(self, renewal: Renewal[AcceptedSession], own: Executor) -> Flow[None]:
        now = time.monotonic()
        try:
            until, lasts = yield from own.execute(sessions.keep_session_lock(renewal.received.lock))
        except PGQueueError as error:
            if isinstance(error, LockLostError | REFUSED) or renewal.has_run_out(time.monotonic()):
                self._give_up(renewal, error)
                return
            raise
        renewal.received.locked_until = until
        renewal.renewed_at, renewal.lasts = now, lasts.total_seconds()

    def _give_up(self, renewal: Renewal[AcceptedSession], error: PGQueueError) -> None:
        self._drop(renewal)
        session = renewal.received
        if session.is_released:
            return
        session.lock_lost.set()
        extra = {"queue": session.queue, "tracking_id": error.tracking_id}
        name = f"session {session.session_id} of {session.queue}"
        _report(session, name, error, self._on_failure, extra)

    def _drop(self, renewal: Renewal[AcceptedSession]) -> None:
        self._kept.pop(renewal.received.lock.lock_token, None)
