"""Threads that renew locks: of an application's own receive loop, and of notifications."""

from __future__ import annotations

import threading
import time
from datetime import timedelta

from pgqueue import transports
from pgqueue.errors import InvalidStateError, PGQueueError, logger
from pgqueue.flows import Flow, Source
from pgqueue.flows.flow import source_of
from pgqueue.flows.locked import LockedMessage
from pgqueue.flows.sessions import AcceptedSession
from pgqueue.leases.loop import LAST_STATEMENT, Loop
from pgqueue.leases.renewals import LONGEST_ROUND, REFUSED, OnFailure, Renewals, SessionRenewals, check_renewal_callback
from pgqueue.model.context import ReceiveState
from pgqueue.transports import drive, forking, time_left

#: A database, and the schema of pgqueue there.
Instance = tuple[str, str]


class LockRenewals:
    """Renews locks of any number of queues and instances: each instance has a thread with one connection."""

    def __init__(self, longest: timedelta, on_failure: OnFailure | None) -> None:
        check_renewal_callback(on_failure)
        self._longest = longest
        self._on_failure = on_failure
        self._sources: dict[Instance, Source] = {}
        self._over = threading.Event()
        self._begin()
        forking.register_for_reset(self)

    def _begin(self) -> None:
        self._renewers: dict[Instance, InstanceRenewer] = {}
        self._lock = threading.Lock()

    def reset_after_fork(self) -> None:
        """Drop the registrations in a forked child: the parent keeps renewing them; the child renews only new ones."""
        if not self._over.is_set():
            self._over = threading.Event()
        self._begin()

    def keep(self, message: LockedMessage) -> None:
        """Renew the lock of a message from now on.

        Raises:
            InvalidStateError: the delivery is over, or the renewer is closed.
        """
        self._require_open()
        message.context.require("register()", ReceiveState.RECEIVED)
        with self._lock:
            self._renewer(source_of(message)).keep(message)

    def keep_session(self, session: AcceptedSession) -> None:
        """Renew the lock of a session from now on.

        Raises:
            InvalidStateError: the session was released, or the renewer is closed.
        """
        self._require_open()
        if session.is_released:
            raise InvalidStateError("the session was released: accept it again")
        with self._lock:
            self._renewer(source_of(session)).keep_session(session)

    def _require_open(self, error: BaseException | None = None) -> None:
        if error is not None or self._over.is_set():
            raise InvalidStateError("the renewer is closed: make another") from error

    def _renewer(self, source: Source) -> InstanceRenewer:
        instance = (source.conninfo, source.schema)
        if instance not in self._sources:
            self._sources[instance] = transports.sized(source, 1, asynchronous=False)
        if instance not in self._renewers:
            own = self._sources[instance]
            self._renewers[instance] = InstanceRenewer(own, self._longest, self._on_failure, self._over)
        renewer = self._renewers[instance]
        self._require_open(renewer.error)
        return renewer

    def close(self) -> None:
        """Stop renewing, and close the connections."""
        self._over.set()
        ends_at = time.monotonic() + time_left(LAST_STATEMENT)
        for renewer in self._renewers.values():
            renewer.end(ends_at)
        for source in self._sources.values():
            drive(source.close())


class InstanceRenewer:
    """A thread that renews the locks of one instance until ``over`` is set. ``error`` has ended it before."""

    def __init__(self, own: Source, longest: timedelta, on_failure: OnFailure | None, over: threading.Event) -> None:
        self.error: BaseException | None = None
        self._own = own
        self._longest = longest
        self._on_failure = on_failure
        self._over = over
        self._woken = threading.Event()
        self._queues: dict[str, Renewals] = {}
        self._sessions = SessionRenewals(longest, on_failure, self._woken)
        self._thread: threading.Thread | None = None

    def keep(self, message: LockedMessage) -> None:
        """Renew the lock of a message from now on."""
        queue = message.queue
        if queue not in self._queues:
            losses = source_of(message).loss_signal(queue)
            self._queues[queue] = Renewals(queue, self._longest, self._on_failure, self._woken, losses)
        self._queues[queue].keep([message], time.monotonic(), None)
        self._start()

    def keep_session(self, session: AcceptedSession) -> None:
        """Renew the lock of a session from now on."""
        self._sessions.keep(session)
        self._start()

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="pgqueue-renewer", daemon=True)
            self._thread.start()

    def end(self, ends_at: float) -> None:
        """Wait until the thread has ended, but no longer than until then. Times are monotonic seconds."""
        self._woken.set()
        if self._thread is not None:
            self._thread.join(max(ends_at - time.monotonic(), 0.0))

    def _run(self) -> None:
        try:
            drive(Loop("renewals", self._turn, self._over, self._woken).run())
        except BaseException as error:  # noqa: BLE001 - the next call of register() raises it
            logger.exception("the lock renewer ends: its locks run out")
            self.error = error
            failure = error if isinstance(error, PGQueueError) else PGQueueError(f"the renewer has failed: {error!r}")
            for renewals in list(self._queues.values()):
                renewals.give_up_all(failure)
            self._sessions.give_up_all(failure)

    def _turn(self) -> Flow[float]:
        """Renew what is due; what fails for one queue keeps no other from its turn."""
        failure: PGQueueError | None = None
        pause = LONGEST_ROUND
        for renewals in list(self._queues.values()):
            try:
                pause = min(pause, (yield from renewals.turn(self._own)))
            except PGQueueError as error:
                if isinstance(error, REFUSED):
                    renewals.give_up_all(error)
                else:
                    failure = failure or error
        pause = min(pause, (yield from self._sessions.turn(self._own)))
        if failure is not None:
            raise failure
        return pause
