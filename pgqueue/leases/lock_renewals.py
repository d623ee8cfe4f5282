"""A thread that renews locks: of an application's own receive loop, and of notifications."""

from __future__ import annotations

import threading
import time
from datetime import timedelta

from pgqueue import transports
from pgqueue.errors import InvalidStateError, logger
from pgqueue.flows import Flow, Source
from pgqueue.flows.flow import source_of
from pgqueue.flows.locked import LockedMessage
from pgqueue.flows.sessions import AcceptedSession
from pgqueue.leases.loop import LAST_STATEMENT, Loop
from pgqueue.leases.renewals import LONGEST_ROUND, OnFailure, Renewals, SessionRenewals, check_renewal_callback
from pgqueue.model.context import ReceiveState
from pgqueue.transports import drive, forking, time_left

#: A database, and the schema of pgqueue there.
Instance = tuple[str, str]


class LockRenewals:
    """A thread that renews locks of any number of queues and instances, over one connection to each instance."""

    def __init__(self, longest: timedelta, on_failure: OnFailure | None) -> None:
        check_renewal_callback(on_failure)
        self._longest = longest
        self._on_failure = on_failure
        self._sources: dict[Instance, Source] = {}
        self._over = threading.Event()
        self._error: BaseException | None = None
        self._begin()
        forking.register_for_reset(self)

    def _begin(self) -> None:
        self._renewals: dict[tuple[Instance, str], Renewals] = {}
        self._sessions: dict[Instance, SessionRenewals] = {}
        self._lock = threading.Lock()
        self._woken = threading.Event()
        self._thread: threading.Thread | None = None

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
            key = (self._source(source_of(message)), message.queue)
            if key not in self._renewals:
                losses = source_of(message).loss_signal(message.queue)
                self._renewals[key] = Renewals(message.queue, self._longest, self._on_failure, self._woken, losses)
            self._renewals[key].keep([message], time.monotonic(), None)
            self._start()

    def keep_session(self, session: AcceptedSession) -> None:
        """Renew the lock of a session from now on.

        Raises:
            InvalidStateError: the session was released, or the renewer is closed.
        """
        self._require_open()
        if session.is_released:
            raise InvalidStateError("the session was released: accept it again")
        with self._lock:
            instance = self._source(source_of(session))
            if instance not in self._sessions:
                self._sessions[instance] = SessionRenewals(self._longest, self._on_failure, self._woken)
            self._sessions[instance].keep(session)
            self._start()

    def _require_open(self) -> None:
        if self._over.is_set():
            raise InvalidStateError("the renewer is closed: make another") from self._error

    def _source(self, source: Source) -> Instance:
        """The key of the one connection to this instance."""
        instance = (source.conninfo, source.schema)
        if instance not in self._sources:
            self._sources[instance] = transports.sized(source, 1, asynchronous=False)
        return instance

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="pgqueue-renewer", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Stop renewing, and close the connections."""
        self._over.set()
        self._woken.set()
        if self._thread is not None:
            self._thread.join(time_left(LAST_STATEMENT))
        for source in self._sources.values():
            drive(source.close())

    def _run(self) -> None:
        try:
            drive(Loop("renewals", self._turn, self._over, self._woken).run())
        except BaseException as error:  # noqa: BLE001 - the next call of register() raises it
            logger.exception("the lock renewer ends: its locks run out")
            self._error = error
            self._over.set()

    def _turn(self) -> Flow[float]:
        kept: list[tuple[Instance, Renewals | SessionRenewals]]
        kept = [(instance, renewals) for (instance, _), renewals in list(self._renewals.items())]
        pause = LONGEST_ROUND
        for instance, renewals in [*kept, *list(self._sessions.items())]:
            pause = min(pause, (yield from renewals.turn(self._sources[instance])))
        return pause
