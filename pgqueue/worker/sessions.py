"""The sessions of a worker: it accepts them, receives one message of each at a time, and releases them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pgqueue.errors import PGQueueError, QueueDisabledError, SessionLockLostError, logger
from pgqueue.flows import Flow, Source
from pgqueue.flows.locked import LockedMessage
from pgqueue.leases.renewals import RENEWED_AFTER, Renewals
from pgqueue.model.context import ReceiveState
from pgqueue.model.holder import this_process
from pgqueue.model.row import Row
from pgqueue.statements import sessions
from pgqueue.statements.sessions import SessionLock

Make = Callable[[str, Row, Source], LockedMessage]

SETTLED = (ReceiveState.COMPLETED, ReceiveState.ABANDONED)

#: In seconds: how long a session is held at least that had no message after all, because a transaction holds it.
SHORTEST_HOLD = 0.1


@dataclass(frozen=True)
class SessionLimits:
    """How many sessions a worker holds at a time, how long an empty one, and for how many messages each."""

    most: int
    idle_timeout: float
    max_messages: int | None


@dataclass(eq=False, slots=True)
class HeldSession:
    """A session that the worker has accepted. Times are monotonic seconds."""

    lock: SessionLock
    renewed_at: float
    #: The message that a handler works on, or that waits for one.
    in_hand: LockedMessage | None = None
    #: How many messages were received since the session was accepted.
    received: int = 0
    #: Since when there has been no further message; None if the next one has not been looked for.
    empty_since: float | None = None
    #: Whether nothing more is received from it: it is to be released.
    is_over: bool = False

    @property
    def is_free(self) -> bool:
        """Whether its next message may be received."""
        return self.in_hand is None and not self.is_over


class Sessions:
    """The sessions of a queue that a worker holds, and the message of each that is in hand.

    The lock of a session is renewed together with that of the message in hand; here, while there is none.

    A message that was handed out under a lock is not handed out again under it, and its successor must not come first.
    So a session is released if its message ends unsettled, or if a receive from it fails.
    """

    def __init__(self, queue: str, source: Source, make: Make, renewals: Renewals, limits: SessionLimits) -> None:
        self._queue = queue
        self._source = source
        self._make = make
        self._renewals = renewals
        self._limits = limits
        self._held: dict[str, HeldSession] = {}
        self._ended: deque[LockedMessage] = deque()
        self._may_be_more = True
        self._lasts = 0.0

    def __len__(self) -> int:
        return len(self._held)

    @property
    def wanted(self) -> int:
        """How many more messages could be handled at the moment."""
        return self._limits.most - sum(session.in_hand is not None for session in self._held.values())

    @property
    def has_ended(self) -> bool:
        """Whether sessions wait for their next message, because the last one has ended."""
        return bool(self._ended)

    def end(self, message: LockedMessage) -> None:
        """Note that a message is settled, or will not be. Safe to call from any thread, and more than once."""
        if self._held:
            self._ended.append(message)

    def claim(self, lasts: float, *, is_empty: bool) -> Flow[list[LockedMessage]]:
        """Receive the next message of each free session; accept others for the handlers that are idle.

        A lock ``lasts`` so many seconds. If the queue ``is_empty``, nothing has arrived since the last claim: only the
        sessions whose message has ended since are looked at.
        """
        self._lasts = lasts
        self._may_be_more |= not is_empty
        self._note_ended()
        yield from self._renew(session for session in self._free() if self._renewal_due(session) <= time.monotonic())
        messages = yield from self._receive(is_empty=is_empty)
        try:
            yield from self._release()
            yield from self._accept(messages)
        except PGQueueError:
            if not messages:
                raise  # else the next claim meets it again
        return messages

    def pause(self, now: float) -> float:
        """The seconds until a session is to be renewed, to be released, or to be received from."""
        due = (min(self._renewal_due(session), self._release_due(session)) for session in self._free())
        return max(min(due, default=float("inf")) - now, 0)

    def release_free(self) -> Flow[None]:
        """Release all sessions that have no message in hand, because the worker stops."""
        self._note_ended()
        for session in self._free():
            session.is_over = True
        yield from self._release()

    def _free(self) -> list[HeldSession]:
        return [session for session in self._held.values() if session.is_free]

    def _renewal_due(self, session: HeldSession) -> float:
        return session.renewed_at + self._lasts * RENEWED_AFTER

    def _release_due(self, session: HeldSession) -> float:
        if session.empty_since is None:
            return 0.0
        timeout = self._limits.idle_timeout
        return session.empty_since + (timeout if session.received else max(timeout, SHORTEST_HOLD))

    def _note_ended(self) -> None:
        while self._ended:
            message = self._ended.popleft()
            session = self._held.get(message.session_id or "")
            if session is not None and session.in_hand is message:
                session.in_hand = session.empty_since = None
                is_spent = self._limits.max_messages is not None and session.received >= self._limits.max_messages
                session.is_over = is_spent or message.context.state not in SETTLED

    def _renew(self, due: Iterable[HeldSession]) -> Flow[None]:
        """Renew the locks of these sessions, and drop those that are lost."""
        for session in due:
            now = time.monotonic()
            try:
                yield from self._source.execute(sessions.renew_session_lock(session.lock, lock_duration=None))
                session.renewed_at = now
            except SessionLockLostError as lost:
                del self._held[session.lock.session_id]
                self._may_be_more = True
                extra = {"queue": self._queue, "session_id": session.lock.session_id, "tracking_id": lost.tracking_id}
                logger.warning("%s; it is left to others", lost, extra=extra)

    def _receive(self, *, is_empty: bool) -> Flow[list[LockedMessage]]:
        free = [session for session in self._free() if session.empty_since is None or not is_empty]
        if not free:
            return []
        try:
            rows = yield from self._source.execute(
                sessions.receive_from_sessions(self._queue, [session.lock for session in free])
            )
        except SessionLockLostError:  # nothing was handed out
            yield from self._renew(free)
            return []
        except PGQueueError as error:
            for session in free:
                session.is_over = True
            if isinstance(error, QueueDisabledError):
                return []
            raise
        messages = [self._take(row) for row in rows]
        for session in free:
            if session.in_hand is None and session.empty_since is None:
                session.empty_since = time.monotonic()
        return messages

    def _release(self) -> Flow[None]:
        """Release the sessions that are over, and those that have been empty for long enough."""
        now = time.monotonic()
        for session in self._free():
            session.is_over = session.empty_since is not None and self._release_due(session) <= now
        over = [session for session in self._held.values() if session.is_over]
        if not over:
            return
        yield from self._source.execute(sessions.release_sessions(self._queue, [session.lock for session in over]))
        for session in over:
            del self._held[session.lock.session_id]
            self._may_be_more |= session.empty_since is None

    def _accept(self, messages: list[LockedMessage]) -> Flow[None]:
        """Accept sessions while some are available and handlers idle; append the first message of each."""
        while self._may_be_more and len(self._held) < self._limits.most:
            sent_at = time.monotonic()
            found = yield from self._source.execute(sessions.accept_and_receive(self._queue, locked_by=this_process()))
            if found is None:
                self._may_be_more = False
                return
            lock, row = found
            session = self._held[lock.session_id] = HeldSession(lock, sent_at)
            if row is None:
                session.empty_since = time.monotonic()
            else:
                messages.append(self._take(row))

    def _take(self, row: Row) -> LockedMessage:
        message = self._make(self._queue, row, self._source)
        session = self._held[message.session_id or ""]
        session.in_hand = message
        session.received += 1
        self._renewals.keep([message], session.renewed_at, self._lasts)
        return message
