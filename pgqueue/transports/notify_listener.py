"""LISTEN for all queues of a client, over one connection, in one thread."""

from __future__ import annotations

import os
import select
import threading
import time
import weakref
from collections.abc import Sequence
from datetime import timedelta
from functools import cached_property
from typing import Any, LiteralString

import psycopg
from psycopg.pq import PGnotify
from psycopg.sql import SQL, Composed, Identifier

from pgqueue.errors import logger
from pgqueue.flows import Interceptors
from pgqueue.model.backoff import AFTER_FAILURES, by_chance
from pgqueue.model.schemas import DEFAULT, in_schema
from pgqueue.transports import forking
from pgqueue.transports.deadlines import LAST_STEP, Deadlines, time_left
from pgqueue.transports.readable import ENCODING
from pgqueue.transports.translation import translate
from pgqueue.transports.waiters import Waiters
from pgqueue.transports.wake_signals import LossSignal, WakeSignal

#: For how many seconds a subscription lasts, and how long before its end it is renewed.
SUBSCRIBED_FOR, RENEWED_BEFORE = 15.0, 5.0
#: Above this rate consumers poll instead: a NOTIFY makes senders wait for each other.
MOST_NOTIFICATIONS_A_SECOND = 500.0
COUNTED_FOR = 0.1
#: For how many seconds a queue is not subscribed to then, or after it could not be.
MUTED_FOR = 0.5
#: In seconds: how often a silent connection is probed, and how long an answer is waited for.
PROBED_EVERY = 15.0

#: The digits of a sequence number, at most.
LONGEST_NUMBER = 19

#: Has the sequence number and the queue of each message whose lock is taken away; see pgqueue._announce_loss.
LOST_LOCKS: LiteralString = "pgqueue_lock_lost"
#: Has the number, or 0, and the queue of messages that are settled; see pgqueue._notify_settled.
SETTLED: LiteralString = "pgqueue_settled"

SUBSCRIBE: LiteralString = "select channel, queue from pgqueue._subscribe(%s::text[], %s::interval)"
AWAIT_OUTCOMES: LiteralString = "select channel, queue from pgqueue._await_outcomes(%s::text[], %s::interval)"
POOLED = "select pg_backend_pid()"


def _readable(seconds: float, *descriptors: int) -> set[int]:
    """Wait until one of these can be read; ``select`` would refuse the numbers that a process with many files has."""
    poller = select.poll()
    for descriptor in descriptors:
        poller.register(descriptor, select.POLLIN)
    return {descriptor for descriptor, _ in poller.poll(seconds * 1000)}


class Subscription:
    """When the listener subscribes to one queue, by which statement. Times are monotonic seconds."""

    def __init__(self, wake_signal: WakeSignal) -> None:
        self.wake_signal = wake_signal
        self.statement = AWAIT_OUTCOMES if isinstance(wake_signal, Waiters) else SUBSCRIBE
        self.subscribed_until = 0.0
        self.muted_until = 0.0
        self._counted_since = 0.0
        self._notifications = 0

    def is_due(self, now: float) -> bool:
        return self.wake_signal.is_awaited and now >= max(self.subscribed_until - RENEWED_BEFORE, self.muted_until)

    def look_at(self, now: float) -> float:
        """Checks whether the subscription has ended; returns when to check again."""
        if now >= self.subscribed_until:
            self.wake_signal.is_live = False
        if self.wake_signal.is_awaited:
            return max(self.subscribed_until - RENEWED_BEFORE, self.muted_until)
        return self.subscribed_until if self.wake_signal.is_live else float("inf")

    def renew(self, now: float) -> None:
        self.subscribed_until = now + SUBSCRIBED_FOR
        self.wake_signal.is_live = True

    def mute(self, now: float) -> None:
        self.muted_until = now + MUTED_FOR
        self.end()

    def end(self) -> None:
        self.subscribed_until = 0.0
        self.wake_signal.is_live = False

    def is_notified_too_often(self, now: float) -> bool:
        if now >= self._counted_since + COUNTED_FOR:
            self._counted_since, self._notifications = now, 0
        self._notifications += 1
        return self._notifications > MOST_NOTIFICATIONS_A_SECOND * COUNTED_FOR


class NotifyListenerOwner:
    """The part of a source that starts a listener when the first consumer waits, if the client listens at all."""

    conninfo: str
    is_one_connection = False
    listens = False
    schema = DEFAULT
    interceptors: Interceptors | None = None
    _listener: NotifyListener | None = None
    _one_at_a_time = threading.Lock()

    def wake_signal(self, queue: str) -> WakeSignal | None:
        """The signal that is set when a queue has new messages; None if the client does not listen."""
        with self._one_at_a_time:
            listener = self._begun_listener()
            return listener.wake_signal(queue) if listener is not None else None

    def waiters(self, queue: str) -> Waiters:
        """The callers that wait for outcomes of a queue; they poll more often if the client does not listen."""
        with self._one_at_a_time:
            listener = self._begun_listener()
            if listener is not None:
                return listener.waiters(queue)
            return self._unnotified.setdefault(queue, Waiters(queue, lambda: None))

    @cached_property
    def _unnotified(self) -> dict[str, Waiters]:
        return {}

    def loss_signal(self, queue: str) -> LossSignal | None:
        """A signal that is called when a lock of the queue is taken away; None if the client does not listen."""
        with self._one_at_a_time:
            listener = self._begun_listener()
            return listener.loss_signal(queue) if listener is not None else None

    def _begun_listener(self) -> NotifyListener | None:
        if self.listens and self._listener is None:
            self._listener = NotifyListener(self.conninfo, self.schema)
            weakref.finalize(self, self._listener.leave)
        return self._listener

    def reset_after_fork(self) -> None:
        NotifyListenerOwner._one_at_a_time = threading.Lock()
        self._unnotified.clear()
        if self._listener is not None:
            self._listener.reset_after_fork()

    def stop_listening(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()


class NotifyListener:
    """Listens for all queues of a client, in one thread, over one connection, as long as a consumer waits or works.

    Correctness does not depend on it: after a missed notification, consumers find the messages at their next poll.
    LISTEN does not work behind a pooler that gives each transaction another session; then the listener ends.
    """

    def __init__(self, conninfo: str, schema: str = DEFAULT) -> None:
        self._conninfo = conninfo
        self._schema = schema
        self._lost_locks, self._settled = in_schema(LOST_LOCKS, schema), in_schema(SETTLED, schema)
        self._subscriptions: dict[tuple[type[WakeSignal], str], Subscription] = {}
        self._losses: weakref.WeakSet[LossSignal] = weakref.WeakSet()
        self._is_over = False
        self._is_unavailable = False
        self._deadlines = Deadlines(PROBED_EVERY)
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._wake_reader, self._wake_writer = os.pipe()
        os.set_blocking(self._wake_writer, False)
        self._failures = 0

    def reset_after_fork(self) -> None:
        """In a forked child the signals stay, no thread listens yet, and a new pipe replaces the parent's."""
        self._close_pipe()
        self._begin()
        for subscription in self._known():
            subscription.wake_signal.reset_after_fork()
        for signal in self._losses:
            signal.is_live = False
        self._subscriptions = {key: Subscription(each.wake_signal) for key, each in self._subscriptions.items()}

    def wake_signal(self, queue: str) -> WakeSignal:
        return self._subscribed(WakeSignal, queue).wake_signal

    def waiters(self, queue: str) -> Waiters:
        waiters = self._subscribed(Waiters, queue).wake_signal
        assert isinstance(waiters, Waiters)
        return waiters

    def _subscribed(self, kind: type[WakeSignal], queue: str) -> Subscription:
        with self._lock:
            if (kind, queue) not in self._subscriptions:
                self._subscriptions[kind, queue] = Subscription(kind(queue, self._wake))
            return self._subscriptions[kind, queue]

    def loss_signal(self, queue: str) -> LossSignal:
        with self._lock:
            signal = LossSignal(queue, self._wake)
            self._losses.add(signal)
            return signal

    def close(self) -> None:
        self.leave()
        thread = self._thread
        if thread is not None:
            thread.join(time_left(LAST_STEP))  # it ends by itself if the server does not answer

    def leave(self) -> None:
        """Ends the thread without waiting for it."""
        self._is_over = True
        self._wake_thread()

    def __del__(self) -> None:
        self._close_pipe()

    def _close_pipe(self) -> None:
        os.close(self._wake_reader)
        os.close(self._wake_writer)

    def _wake(self) -> None:
        """A consumer has begun to wait for a queue without a subscription, or to work on messages."""
        if self._is_over or self._is_unavailable:
            return
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="pgqueue-notify-listener", daemon=True)
                self._thread.start()
        self._wake_thread()

    def _goes_on(self) -> bool:
        """Whether a consumer waits or works, or a subscription is active; if not, the thread ends until one does."""
        with self._lock:
            known = self._subscriptions.values()
            is_wanted = any(each.wake_signal.is_awaited or each.wake_signal.is_live for each in known)
            is_wanted = is_wanted or any(each.is_awaited for each in self._losses)
            if self._is_over or self._is_unavailable or not is_wanted:
                self._thread = None
            return self._thread is not None

    def _wake_thread(self) -> None:
        try:
            os.write(self._wake_writer, b".")
        except BlockingIOError:
            return  # the pipe is full: the thread will wake

    def _run(self) -> None:
        try:
            while self._goes_on():
                try:
                    self._listen()
                except psycopg.Error as failure:
                    self._failures += 1
                    if self._failures == 1:
                        error = translate(failure)
                        extra = {"tracking_id": error.tracking_id}
                        logger.warning("LISTEN failed, waiting consumers poll for now: %s", error, extra=extra)
                    self._end_all()
                    self._pause(AFTER_FAILURES.pause(self._failures, by_chance()))
        except BaseException:
            logger.exception("the notify listener ends: waiting consumers poll from now on")
            self._is_unavailable = True
            raise
        finally:
            self._end_all()

    def _pause(self, seconds: float) -> None:
        """Wait on a pipe, not on an event: a finalizer, which runs in any thread at any time, may write to a pipe."""
        until = time.monotonic() + seconds
        while not self._is_over and (left := until - time.monotonic()) > 0:
            if _readable(left, self._wake_reader):
                os.read(self._wake_reader, 4096)

    def _listen(self) -> None:
        options: Any = {"application_name": "pgqueue notify listener", "client_encoding": ENCODING}
        with psycopg.connect(self._conninfo, autocommit=True, **options) as connection:
            forking.detach_after_fork(connection)
            if self._execute(connection, POOLED).fetchone() != (connection.info.backend_pid,):
                logger.info("the database is behind a pooler, where LISTEN does not work: waiting consumers poll")
                self._is_unavailable = True
                return
            connection.pgconn.notify_handler = self._on_notify
            self._execute(connection, SQL("listen {}").format(Identifier(self._lost_locks)))
            channels: set[str] = set()
            look_at = probe_at = 0.0
            while not self._is_over:
                now = time.monotonic()
                if now >= look_at:
                    self._begin_losses()
                    self._subscribe(connection, channels)
                    look_at = self._next_look(now)
                    probe_at = now + PROBED_EVERY
                    self._recovered()
                elif now >= probe_at:
                    self._execute(connection, POOLED)
                    probe_at = now + PROBED_EVERY
                if look_at == float("inf"):
                    self._end_losses()  # before it is asked once more whether a consumer works
                    return
                if self._wait(connection, max(min(look_at, probe_at) - time.monotonic(), 0)):
                    look_at = 0.0

    def _next_look(self, now: float) -> float:
        """When to check the subscriptions again; infinite if no consumer waits or works."""
        is_working = any(each.is_awaited for each in self._known_losses())
        looks = [each.look_at(now) for each in self._known()]
        return min([*looks, now + PROBED_EVERY if is_working else float("inf")])

    def _recovered(self) -> None:
        if self._failures:
            logger.info("LISTEN works again, after %s failures", self._failures)
        self._failures = 0

    def _subscribe(self, connection: psycopg.Connection[Any], channels: set[str]) -> None:
        """Subscribes to the queues that consumers or callers wait for, and listens on their channels."""
        now = time.monotonic()
        for statement in (SUBSCRIBE, AWAIT_OUTCOMES):
            due = [each for each in self._known() if each.statement == statement and each.is_due(now)]
            if due:
                self._renew(connection, channels, statement, due)

    def _renew(
        self,
        connection: psycopg.Connection[Any],
        channels: set[str],
        statement: LiteralString,
        due: Sequence[Subscription],
    ) -> None:
        now = time.monotonic()
        names = [each.wake_signal.queue for each in due]
        statement = in_schema(statement, self._schema)
        subscribed = self._execute(connection, statement, names, timedelta(seconds=SUBSCRIBED_FOR)).fetchall()
        for channel in {channel for channel, _ in subscribed} - channels:
            self._execute(connection, SQL("listen {}").format(Identifier(channel)))
            channels.add(channel)
        found = {queue for _, queue in subscribed}
        for each in due:
            if each.wake_signal.queue in found:
                each.renew(now)
                each.wake_signal.set()
            else:
                each.mute(now)

    def _wait(self, connection: psycopg.Connection[Any], seconds: float) -> bool:
        """Waits for a notification, or for a consumer that begins to wait; returns whether there was one."""
        ready = _readable(min(seconds, PROBED_EVERY), connection.fileno(), self._wake_reader)
        if connection.fileno() in ready:
            connection.pgconn.consume_input()
            while (notify := connection.pgconn.notifies()) is not None:
                self._on_notify(notify)
            self._unsubscribe_noisy(connection)
        if self._wake_reader in ready:
            os.read(self._wake_reader, 4096)
            return True
        return False

    def _on_notify(self, notify: PGnotify) -> None:
        """Wake those whom it concerns. Any role may send any text, so what is none of ours is ignored."""
        channel, payload = (given.decode(errors="replace") for given in (notify.relname, notify.extra))
        is_settled = channel == self._settled
        is_numbered = is_settled or channel == self._lost_locks
        number, _, queue = payload.partition(" ") if is_numbered else ("0", "", payload)
        if not number.isdecimal() or len(number) > LONGEST_NUMBER:
            return
        if channel == self._lost_locks:
            for signal in self._known_losses():
                if signal.queue == queue:
                    signal.set(int(number))
            return
        subscription = self._subscriptions.get((Waiters if is_settled else WakeSignal, queue))
        if subscription is not None:
            now = time.monotonic()
            if subscription.is_notified_too_often(now):
                subscription.mute(now)
                subscription.wake_signal.set()
            else:
                subscription.wake_signal.notified(int(number))

    def _unsubscribe_noisy(self, connection: psycopg.Connection[Any]) -> None:
        """Ends the subscriptions to queues with too many notifications."""
        now = time.monotonic()
        for each in self._known():
            if each.muted_until > now and each.subscribed_until == 0.0:
                statement = in_schema(each.statement, self._schema)
                self._execute(connection, statement, [each.wake_signal.queue], None)

    def _execute(
        self, connection: psycopg.Connection[Any], query: LiteralString | Composed, *parameters: Any
    ) -> psycopg.Cursor[Any]:
        with self._deadlines.limited(connection, self._deadlines.begin()):
            return connection.execute(query, parameters or None)

    def _known(self) -> Sequence[Subscription]:
        with self._lock:
            return list(self._subscriptions.values())

    def _known_losses(self) -> Sequence[LossSignal]:
        with self._lock:
            return list(self._losses)

    def _begin_losses(self) -> None:
        for signal in self._known_losses():
            if not signal.is_live:
                signal.begin()

    def _end_losses(self) -> None:
        for signal in self._known_losses():
            signal.is_live = False

    def _end_all(self) -> None:
        self._end_losses()
        for each in self._known():
            each.end()
            each.wake_signal.set()
