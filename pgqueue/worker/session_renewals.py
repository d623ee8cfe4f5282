"""Renewal of the locks of sessions; see :mod:`pgqueue.worker.lock_renewals`. Times are monotonic seconds."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from datetime import timedelta

from pgqueue.errors import LockLostError, PGQueueError, logger
from pgqueue.flows import Executor, Flow
from pgqueue.flows.sessions import AcceptedSession
from pgqueue.statements import sessions
from pgqueue.worker.lock_renewals import LONGEST_ROUND, RENEWED_AFTER, SHORTEST_ROUND, OnFailure


@dataclass(slots=True)
class Renewal:
    """A session whose lock is renewed, and the times for it."""

    session: AcceptedSession
    since: float
    renewed_at: float
    lasts: float | None = None

    def is_due(self, now: float) -> bool:
        """Whether the lock is to be renewed now."""
        return self.lasts is None or now >= self.renewed_at + self.lasts * RENEWED_AFTER

    def has_run_out(self, now: float) -> bool:
        """Whether the lock has expired, as far as is known here."""
        return self.lasts is not None and now >= self.renewed_at + self.lasts


class SessionRenewals:
    """The locks of sessions that are renewed until they are released, for at most ``longest``."""

    def __init__(self, longest: timedelta, on_failure: OnFailure | None, woken: threading.Event) -> None:
        self._longest = longest.total_seconds()
        self._on_failure = on_failure
        self._woken = woken
        self._kept: dict[str, Renewal] = {}

    def keep(self, session: AcceptedSession) -> None:
        """Renew the lock of this session from now on."""
        now = time.monotonic()
        self._kept[session.lock.lock_token] = Renewal(session, now, now)
        self._woken.set()

    def turn(self, own: Executor) -> Flow[float]:
        """Renew the locks that are due; return the seconds until the next check."""
        for renewal in list(self._kept.values()):
            now = time.monotonic()
            if renewal.session.is_released or now - renewal.since >= self._longest:
                self._drop(renewal)
            elif renewal.is_due(now):
                yield from self._renew(renewal, own)
        shortest = min((kept.lasts for kept in self._kept.values() if kept.lasts is not None), default=LONGEST_ROUND)
        return min(max(shortest * RENEWED_AFTER / 2, SHORTEST_ROUND), LONGEST_ROUND)

    def _renew(self, renewal: Renewal, own: Executor) -> Flow[None]:
        now = time.monotonic()
        try:
            until, lasts = yield from own.execute(sessions.keep_session_lock(renewal.session.lock))
        except PGQueueError as error:
            if isinstance(error, LockLostError) or renewal.has_run_out(time.monotonic()):
                self._give_up(renewal, error)
                return
            raise
        renewal.session.locked_until = until
        renewal.renewed_at, renewal.lasts = now, lasts.total_seconds()

    def _give_up(self, renewal: Renewal, error: PGQueueError) -> None:
        self._drop(renewal)
        session = renewal.session
        if session.is_released:
            return
        session.lock_lost.set()
        extra = {"queue": session.queue, "tracking_id": error.tracking_id}
        logger.warning(
            "the lock on session %s of %s was not renewed: %s", session.session_id, session.queue, error, extra=extra
        )
        if self._on_failure is not None:
            try:
                self._on_failure(session, error)
            except Exception:  # noqa: BLE001 - the callback's failure is its own, the locks of others go on
                logger.exception("on_lock_renew_failure raised for session %s", session.session_id, extra=extra)

    def _drop(self, renewal: Renewal) -> None:
        self._kept.pop(renewal.session.lock.lock_token, None)
