"""The sessions of a worker: it accepts them, hands their messages to handlers in order, and releases them."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import dropwhile
from operator import is_not

from pgqueue.errors import PGQueueError, QueueDisabledError, SessionLockLostError, logger
from pgqueue.flows import Flow, Source
from pgqueue.flows.locked import LockedMessage
from pgqueue.leases.renewals import RENEWED_AFTER, Renewals
from pgqueue.model.context import ReceiveState
from pgqueue.model.holder import this_process
from pgqueue.model.row import Row
from pgqueue.statements import sessions, settling
from pgqueue.statements.sessions import SessionLock
from pgqueue.worker.tally import Tally

Make = Callable[[str, Row, Source], LockedMessage]

SETTLED = (ReceiveState.COMPLETED, ReceiveState.ABANDONED)

#: How many messages of a session are received at a time, at least, where handlers are fast.
FEWEST_AT_A_TIME = 10
#: The number of sessions that the average of their messages follows.
RECENT = 8
#: How often a release is tried that meets a renewal, and how many seconds after the first time; then twice as many.
RELEASES, RELEASED_AFTER = 5, 0.05
#: The number of sessions held at most for messages to receive ahead: others may have idle handlers.
SESSIONS_AHEAD = 100
#: In seconds: how long an exchange of a few sessions may be put off while all handlers are busy.
PUT_OFF = 0.05
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
    #: The messages that were received and are not settled yet, by their ids in Python: one may come twice.
    unsettled: dict[int, LockedMessage] = field(default_factory=dict)
    #: The message that a handler works on, or that waits for one.
    started: LockedMessage | None = None
    #: The messages that follow it, in order.
    ahead: deque[LockedMessage] = field(default_factory=deque)
    #: How many messages were received since the session was accepted, without those that were given back.
    received: int = 0
    #: Since when there has been no further message; None if the next one has not been looked for.
    empty_since: float | None = None
    #: Whether nothing more is received from it: it is to be released.
    is_over: bool = False
    #: How often it could not be released, because its lock is lost, or just being renewed; and when to try again.
    refusals: int = 0
    release_at: float = 0.0

    @property
    def is_free(self) -> bool:
        """Whether no message of it is in hand, and its next one may be received."""
        return not self.unsettled and not self.is_over

    def start_next(self) -> LockedMessage | None:
        """Start the next message, unless one is started already, or the session is over."""
        if self.started is not None or self.is_over or not self.ahead:
            return None
        if self.ahead[0].context.state is ReceiveState.FAULTED:
            self.is_over = True
            return None
        self.started = self.ahead.popleft()
        return self.started


class Sessions:
    """The sessions of a queue that a worker holds, and their messages in hand.

    The lock of a session is renewed together with those of its messages; here, while it has none.

    A handler works on one message of a session at a time. Where handlers are fast, more are received ahead, and each is
    started once its predecessor was handled; their completions follow in batches. Messages ahead are given back when a
    predecessor has failed, the session is lost, or the worker stops. Where a handler settles some messages itself, each
    waits for the completion of its predecessor, so that none is settled before it.

    A message that was handed out under a lock is not handed out again under it, and its successor must not come first.
    So a session is released if a message of it ends unsettled, or if a receive from it fails.
    """

    def __init__(
        self, queue: str, source: Source, make: Make, renewals: Renewals, limits: SessionLimits, tally: Tally
    ) -> None:
        self._queue = queue
        self._source = source
        self._make = make
        self._renewals = renewals
        self._limits = limits
        self._tally = tally
        #: Those that are held at the moment, by id.
        self.held: dict[str, HeldSession] = {}
        self._ended: deque[LockedMessage] = deque()
        self._unstarted: list[LockedMessage] = []
        #: Held while a message is started, or those ahead are taken back.
        self._starting = threading.Lock()
        #: Whether messages were completed after their handlers, and whether some were settled by them.
        self._completed_later = self._settled_by_handlers = False
        #: How many messages to receive ahead in all, and of each session at a time.
        self._ahead, self._at_a_time = 0, 1
        #: How many sessions to hold at a time.
        self._at_once = limits.most
        #: How many messages a session has had of late, on average: from one to as many as are received at a time.
        self._each = float(FEWEST_AT_A_TIME)
        self._may_be_more = True
        self._put_off_since: float | None = None
        self._lasts = 0.0
        #: Whether a session may need further messages.
        self.is_low = False

    @property
    def wanted(self) -> int:
        """How many more messages could be handled at the moment."""
        return max(self._limits.most - sum(session.started is not None for session in self.held.values()), 0)

    @property
    def has_ended(self) -> bool:
        """Whether messages have ended since the last claim."""
        return bool(self._ended)

    def follow(
        self, message: LockedMessage, failure: BaseException | None, state: ReceiveState
    ) -> LockedMessage | None:
        """Start the successor of a message that was handled, if it is at hand. Safe to call from any thread."""
        session = self._session_of(message)
        if session is None:
            return None
        if failure is None or state is ReceiveState.COMPLETED:
            self._settled_by_handlers |= state not in (ReceiveState.RECEIVED, ReceiveState.FAULTED)
            self._completed_later |= state is ReceiveState.RECEIVED
        may_follow = (
            failure is None
            and state is ReceiveState.RECEIVED
            and not self._is_mixed
            and not message.context.may_refuse_completion
        )
        with self._starting:
            if session.started is message and (may_follow or state is ReceiveState.COMPLETED):
                session.started = None
            following = session.start_next()
            self.is_low |= following is None or self._is_low(session)
            return following

    def end(self, message: LockedMessage) -> None:
        """Note that a message is settled, or will not be. Safe to call from any thread, and more than once."""
        session = self._session_of(message)
        if session is not None:
            if message.context.state not in SETTLED:
                session.is_over = True
            self._ended.append(message)

    def lose_behind(self, messages: Iterable[LockedMessage]) -> None:
        """Lose what follows these messages in their sessions, if they are lost: they come again, and come first."""
        for message in messages if self.held else ():
            session = self._session_of(message)
            if session is not None and message.context.state is ReceiveState.FAULTED:
                for following in dropwhile(partial(is_not, message), list(session.unsettled.values())):
                    following.context.lose()

    def claim(self, lasts: float, ahead: int, *, is_empty: bool) -> Flow[list[LockedMessage]]:
        """Receive the next messages of each session; accept others for the handlers that are idle.

        A lock ``lasts`` so many seconds. The sessions share the ``ahead`` messages to receive ahead: none if handlers
        are slow. If the queue ``is_empty``, nothing has arrived since the last claim, and sessions that were found
        empty are not asked again.

        Returns:
            The messages to start.
        """
        self._lasts = lasts
        is_fast = ahead > 0 and not self._is_mixed
        self._ahead = ahead
        self._at_a_time = max(ahead // max(len(self.held), 1), FEWEST_AT_A_TIME) if is_fast else 1
        self._at_once = self._limits.most + (min(int(ahead / self._each), SESSIONS_AHEAD) if is_fast else 0)
        self._may_be_more |= not is_empty
        self.is_low = False
        self._note_ended()
        try:
            yield from self._give_back()
            yield from self._renew(self._due())
            yield from self._receive(is_empty=is_empty)
            yield from self._exchange()
        except PGQueueError:
            if not (messages := self._start()):
                raise
            return messages  # the next claim meets it again
        return self._start()

    def pause(self, now: float) -> float:
        """The seconds until a session is to be renewed, to be released, or to be received from."""
        due = [min(self._renewal_due(session), self._release_due(session)) for session in self._free()]
        due += [session.release_at for session in self.held.values() if session.release_at]
        if self._put_off_since is not None:
            due.append(self._put_off_since + PUT_OFF)
        return max(min(due, default=float("inf")) - now, 0)

    @property
    def is_releasing(self) -> bool:
        """Whether a session could not be released, and is to be tried again."""
        return any(session.release_at for session in self.held.values())

    def release_free(self) -> Flow[None]:
        """Give back what no handler has started, and release the sessions of which no message is in hand."""
        self._note_ended()
        for session in self.held.values():
            session.is_over = True
        yield from self._give_back()
        yield from self._release(self._over())

    @property
    def _is_mixed(self) -> bool:
        return self._completed_later and self._settled_by_handlers

    def _session_of(self, message: LockedMessage) -> HeldSession | None:
        session = self.held.get(message.session_id or "") if self.held else None
        return session if session is not None and id(message) in session.unsettled else None

    def _free(self) -> list[HeldSession]:
        return [session for session in self.held.values() if session.is_free]

    def _is_low(self, session: HeldSession) -> bool:
        return len(session.ahead) * 2 < self._at_a_time

    def _missing(self, session: HeldSession) -> int:
        """How many messages to receive from the session now."""
        if session.is_over or not self._is_low(session):
            return 0
        return min(self._at_a_time - len(session.ahead), self._left(session))

    def _left(self, session: HeldSession) -> int:
        """How many more messages may be received from it before others have their turn."""
        most = self._limits.max_messages
        return self._at_a_time if most is None else most - session.received

    def _due(self) -> list[HeldSession]:
        """The sessions whose locks are to be renewed now."""
        now = time.monotonic()
        return [
            session
            for session in self.held.values()
            if not session.is_over and self._renewal_due(session) <= now and self._may_be_kept(session)
        ]

    def _may_be_kept(self, session: HeldSession) -> bool:
        """Whether its lock may be renewed: not while a handler has run longer than locks are renewed."""
        started = session.started
        return started is None or started.context.state in SETTLED or self._renewals.keeps(started)

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
            session = self._session_of(message)
            if session is None:
                continue
            del session.unsettled[id(message)]
            if message.context.state is not ReceiveState.COMPLETED:
                session.empty_since = None
                self._take_back(session)  # they come again after it
            elif session.empty_since is not None:
                session.empty_since = time.monotonic()
            with self._starting:
                if session.started is message:
                    session.started = None

    def _take_back(self, session: HeldSession) -> None:
        """Take back the messages that are not started."""
        with self._starting:
            for message in session.ahead:
                self._renewals.drop(message)
            self._unstarted.extend(session.ahead)
            session.ahead.clear()

    def _give_back(self) -> Flow[None]:
        """Let messages that are not started be received again, uncounted, where one failed or the session is over."""
        for each in self.held.values():
            if each.is_over:
                self._take_back(each)
        if not self._unstarted:
            return
        locks = [message.lock for message in self._unstarted]
        try:
            yield from self._source.execute(settling.release_batch(self._queue, locks))
        except PGQueueError:
            for lost in filter(None, map(self._session_of, self._unstarted)):
                lost.is_over = True  # were it to run late, it would give back what is received next
            raise
        for message in self._unstarted:
            session = self._session_of(message)
            if session is not None:
                del session.unsettled[id(message)]
                session.received -= 1
        self._unstarted.clear()

    def _renew(self, due: Iterable[HeldSession]) -> Flow[None]:
        """Renew the locks of these sessions; those that are lost are over."""
        for session in due:
            now = time.monotonic()
            try:
                yield from self._source.execute(sessions.renew_session_lock(session.lock, lock_duration=None))
                session.renewed_at = now
            except SessionLockLostError as lost:
                session.is_over, session.empty_since, session.refusals = True, None, RELEASES
                extra = {"queue": self._queue, "session_id": session.lock.session_id, "tracking_id": lost.tracking_id}
                logger.warning("%s; it is left to others", lost, extra=extra)

    def _receive(self, *, is_empty: bool) -> Flow[None]:
        now = time.monotonic()
        low = [
            session
            for session in self.held.values()
            if session.empty_since is None or (not is_empty and now < self._release_due(session))
        ]
        missing = {session: count for session in low if (count := self._missing(session)) > 0}
        if not missing:
            return
        try:
            rows = yield from self._source.execute(
                sessions.receive_from_sessions(
                    self._queue, [session.lock for session in missing], list(missing.values())
                )
            )
        except SessionLockLostError:  # nothing was handed out
            yield from self._renew(missing)
        except PGQueueError as error:
            for session in missing:
                session.is_over, session.empty_since = True, None
            if not isinstance(error, QueueDisabledError):
                raise
        else:
            self._take(rows, missing)

    def _exchange(self) -> Flow[None]:
        """Release the sessions that are over, and accept others for the handlers that are idle.

        That is one trip if those that are over are empty: others may be accepted again.
        """
        over = self._over()
        lacking = self._at_once - sum(not each.is_over or bool(each.unsettled) for each in self.held.values())
        if (over or self._may_be_more) and self._may_be_put_off(lacking):
            return
        are_empty = all(session.empty_since is not None for session in over)
        if not (are_empty and self._may_be_more and lacking > 0):
            yield from self._release(over)
            over = []
        if not (self._may_be_more and lacking > 0):
            return
        sent_at = time.monotonic()
        each = min(self._at_a_time, self._limits.max_messages or self._at_a_time)
        in_all = 2 * (self._ahead + self._limits.most)
        try:
            accepted, released = yield from self._source.execute(
                sessions.accept_and_release(
                    self._queue,
                    [session.lock for session in over],
                    max_sessions=lacking,
                    max_messages_each=each,
                    max_messages=in_all,
                    locked_by=this_process(),
                )
            )
        except QueueDisabledError:
            yield from self._release(over)
            raise
        self._forget(over, released)
        self._may_be_more = len(accepted) == lacking
        for lock, rows in accepted:
            session = self.held[lock.session_id] = HeldSession(lock, sent_at)
            self._take(rows, {session: min(each, max(in_all // len(accepted), 1))})

    def _may_be_put_off(self, lacking: int) -> bool:
        """Whether so few sessions are to be exchanged that more of them can soon be exchanged in the same trip."""
        now = time.monotonic()
        if self.wanted or self.is_releasing or not 0 < lacking * 2 <= self._at_once - self._limits.most:
            self._put_off_since = None
        elif self._put_off_since is None:
            self._put_off_since = now
        elif now >= self._put_off_since + PUT_OFF:
            self._put_off_since = None
        return self._put_off_since is not None

    def _over(self) -> list[HeldSession]:
        """The sessions to release: those that are over, and those that have been empty for long enough."""
        now = time.monotonic()
        for session in self._free():
            is_empty = session.empty_since is not None and self._release_due(session) <= now
            session.is_over = is_empty or self._left(session) <= 0
        return [
            session
            for session in self.held.values()
            if session.is_over and not session.unsettled and session.release_at <= now
        ]

    def _release(self, over: Sequence[HeldSession]) -> Flow[None]:
        if over:
            released = yield from self._source.execute(
                sessions.release_sessions(self._queue, [each.lock for each in over])
            )
            self._forget(over, released)

    def _forget(self, over: Iterable[HeldSession], released: Iterable[bool]) -> None:
        for session, is_released in zip(over, released, strict=True):
            session.refusals += not is_released
            if not is_released and session.refusals < RELEASES:
                session.release_at = time.monotonic() + RELEASED_AFTER * 2 ** (session.refusals - 1)
                continue
            del self.held[session.lock.session_id]
            self._may_be_more |= session.empty_since is None
            self._each += (min(max(session.received, 1), FEWEST_AT_A_TIME) - self._each) / RECENT

    def _take(self, rows: Iterable[Row], asked: Mapping[HeldSession, int]) -> None:
        """Keep the messages that were received; a session with fewer than were asked for is empty."""
        goals = {session: session.received + count for session, count in asked.items()}
        for row in rows:
            message = self._make(self._queue, row, self._source)
            session = self.held[message.session_id or ""]
            session.unsettled[id(message)] = message
            session.ahead.append(message)
            session.received += 1
            self._tally.received += 1
            self._renewals.keep([message], session.renewed_at, self._lasts)
        for session, goal in goals.items():
            if session.received == goal:
                session.empty_since = None
            elif session.empty_since is None:
                session.empty_since = time.monotonic()

    def _start(self) -> list[LockedMessage]:
        """Start a message of each session that has none started."""
        with self._starting:
            following = [session.start_next() for session in self.held.values()]
        return [message for message in following if message is not None]
