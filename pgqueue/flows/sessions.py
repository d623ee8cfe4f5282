"""Sessions: what both faces share, and accepting one with a wait."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import ClassVar, TypeVar

from pgqueue.errors import PGQueueError, SessionCannotBeLockedError, logger
from pgqueue.flows import receiving
from pgqueue.flows.flow import Executor, Flow, Pause, Source, source_of
from pgqueue.model.arguments import duration
from pgqueue.model.body_type import BodyType
from pgqueue.model.holder import this_process
from pgqueue.model.lock_lost import LockLost, LockLostFlag
from pgqueue.model.row import Row
from pgqueue.statements import sessions
from pgqueue.statements.sessions import SessionLock

SessionT = TypeVar("SessionT", bound="AcceptedSession")

#: How often a session that is held elsewhere is tried again, unless a notification comes sooner.
PATIENCE = timedelta(seconds=1)


@dataclass(eq=False)
class AcceptedSession:
    """A session that this receiver has locked."""

    _lock_lost: ClassVar[type[LockLostFlag]] = LockLost

    queue: str
    session_id: str
    locked_until: datetime
    lock: SessionLock = field(repr=False)
    _source: Source = field(repr=False)
    _body_type: BodyType | None = field(default=None, repr=False)
    #: True once a renewer has found the lock lost, or could not renew it in time.
    lock_lost: LockLostFlag = field(init=False, repr=False)
    is_released: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        self.lock_lost = self._lock_lost()


def accepted(kind: type[SessionT], queue: str, row: Row, source: Source, body_type: BodyType | None = None) -> SessionT:
    """The session of a row of :func:`accept`."""
    session_id, lock_token, locked_until = row
    return kind(queue, session_id, locked_until, SessionLock(queue, session_id, lock_token), source, body_type)


def accept(
    queue: str, session_id: str | None, source: Source, wait: timedelta | None, lock_duration: timedelta | None
) -> Flow[Row | None]:
    """Accept this session, or the next one that is available; return its row, or None when there is none in time.

    Raises:
        SessionCannotBeLockedError: the named session is held elsewhere until the wait is over.
    """
    statement = sessions.accept_session(queue, session_id, lock_duration=lock_duration, locked_by=this_process())
    if session_id is None:
        rows = yield from receiving.wait_for(queue, statement, source, wait)
        return rows[0] if rows else None
    patience = (duration("wait", wait) or receiving.NO_WAIT).total_seconds()
    wake_signal = source.wake_signal(queue) if patience > 0 else None
    over = (yield time.monotonic) + patience
    while True:
        count = wake_signal.count if wake_signal else 0
        try:
            (row,) = yield from source.execute(statement)
            return row
        except SessionCannotBeLockedError:
            left = over - (yield time.monotonic)
            if left <= 0:
                raise
        yield Pause(min(timedelta(seconds=left), PATIENCE), wake_signal, count)


def renew_lock(session: AcceptedSession, lock_duration: timedelta | None) -> Flow[datetime]:
    session.locked_until = yield from source_of(session).execute(
        sessions.renew_session_lock(session.lock, lock_duration=lock_duration)
    )
    return session.locked_until


def release(session: AcceptedSession, where: Executor) -> Flow[None]:
    """Release the session; if that fails, its lock expires."""
    session.is_released = True
    try:
        is_released = yield from where.execute(sessions.release_session(session.lock))
    except PGQueueError as failure:
        if where is not source_of(session):
            session.is_released = False
            raise
        logger.warning(
            "session %s of %s could not be released; its lock expires at %s: %s",
            session.session_id,
            session.queue,
            session.locked_until,
            failure,
            extra={"queue": session.queue, "tracking_id": failure.tracking_id},
        )
    else:
        if not is_released:
            logger.debug(
                "session %s of %s was not released: its lock is lost or expires", session.session_id, session.queue
            )
