"""One connection of a process that listens for all its queues."""

from __future__ import annotations

import os
import random
import select
import threading
import time
import weakref
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import psycopg
from psycopg.sql import SQL, Identifier

from pgqueue.errors import logger
from pgqueue.model.policy import Backoff
from pgqueue.transports import forking
from pgqueue.transports.bells import Bell

#: For how long the database is asked to tell us, and how soon before the end it is asked again.
LEASE, RENEWED_BEFORE = 15.0, 5.0
#: Who is told more often does better to look by himself: a NOTIFY makes senders wait for each other.
MOST_RINGS_A_SECOND = 500.0
OBSERVED_FOR = 0.1
#: For how long nobody is told then; also how soon a queue is asked for again that could not be had.
RESPITE = 0.5
#: A connection on which nothing happens is tried so often.
PROBED_EVERY = 15.0

ATTEND = "select channel, queue from pgqueue._subscribe(%s::text[], %s::interval)"
POOLED = "select pg_backend_pid()"


class Attention:
    """What the hub does about one bell, and when. Times are monotonic seconds."""

    def __init__(self, bell: Bell) -> None:
        self.bell = bell
        self.leased_until = 0.0
        self.quiet_until = 0.0
        self._observed_since = 0.0
        self._rings = 0

    def is_due(self, now: float) -> bool:
        return self.bell.is_awaited and now >= max(self.leased_until - RENEWED_BEFORE, self.quiet_until)

    def look_at(self, now: float) -> float:
        """Whether the lease is over; answers when to look again."""
        if now >= self.leased_until:
            self.bell.is_live = False
        if self.bell.is_awaited:
            return max(self.leased_until - RENEWED_BEFORE, self.quiet_until)
        return self.leased_until if self.bell.is_live else float("inf")

    def lease(self, now: float) -> None:
        self.leased_until = now + LEASE
        self.bell.is_live = True

    def rest(self, now: float) -> None:
        self.quiet_until = now + RESPITE
        self.lapse()

    def lapse(self) -> None:
        self.leased_until = 0.0
        self.bell.is_live = False

    def rings_too_often(self, now: float) -> bool:
        if now >= self._observed_since + OBSERVED_FOR:
            self._observed_since, self._rings = now, 0
        self._rings += 1
        return self._rings > MOST_RINGS_A_SECOND * OBSERVED_FOR


class HubOwner:
    """A part of what a client's statements run on: tells when messages come, if that is wanted."""

    conninfo: str
    listens = False
    _hub: Hub | None = None
    _one_at_a_time = threading.Lock()

    def bell(self, queue: str) -> Bell | None:
        """What rings when messages of a queue have come; None when nobody listens."""
        with self._one_at_a_time:
            if self.listens and self._hub is None:
                self._hub = Hub(self.conninfo)
                weakref.finalize(self, self._hub.leave)
            return self._hub.bell(queue) if self._hub is not None else None

    def reset_after_fork(self) -> None:
        HubOwner._one_at_a_time = threading.Lock()
        if self._hub is not None:
            self._hub.reset_after_fork()

    def hush(self) -> None:
        hub, self._hub = self._hub, None
        if hub is not None:
            hub.close()


class Hub:
    """Listens for all queues of a process, in one thread, over one connection, as long as anybody waits.

    Nothing depends on it: a ring that is missed costs those who wait the time until they look again. Behind a pooler
    that gives each transaction another session nothing can be heard, and nobody is asked.
    """

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        self._attentions: dict[str, Attention] = {}
        self._is_over = False
        self._is_deaf = False
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._ear, self._mouth = os.pipe()
        os.set_blocking(self._mouth, False)
        self._backoff = Backoff()

    def reset_after_fork(self) -> None:
        """In a child: the bells are the same, and nobody listens yet. What is said here is not for the parent's hub."""
        self._close_pipe()
        self._begin()
        for attention in self._attentions.values():
            attention.bell.reset_after_fork()
        self._attentions = {queue: Attention(each.bell) for queue, each in self._attentions.items()}

    def bell(self, queue: str) -> Bell:
        with self._lock:
            if queue not in self._attentions:
                self._attentions[queue] = Attention(Bell(queue, self._wake))
            return self._attentions[queue].bell

    def close(self) -> None:
        self.leave()
        thread = self._thread
        if thread is not None:
            thread.join()

    def leave(self) -> None:
        """Ends without waiting for the end."""
        self._is_over = True
        self._say()

    def __del__(self) -> None:
        self._close_pipe()

    def _close_pipe(self) -> None:
        os.close(self._ear)
        os.close(self._mouth)

    def _wake(self) -> None:
        """Somebody waits whom the database does not tell yet."""
        with self._lock:
            if self._thread is None and not (self._is_over or self._is_deaf):
                self._thread = threading.Thread(target=self._run, name="pgqueue-hub", daemon=True)
                self._thread.start()
        self._say()

    def _goes_on(self) -> bool:
        """Whether somebody waits, or has been promised to be told; else the thread ends, until somebody waits again."""
        with self._lock:
            known = self._attentions.values()
            is_wanted = any(each.bell.is_awaited or each.bell.is_live for each in known)
            if self._is_over or self._is_deaf or not is_wanted:
                self._thread = None
            return self._thread is not None

    def _say(self) -> None:
        try:
            os.write(self._mouth, b".")
        except BlockingIOError:
            return  # enough has been said

    def _run(self) -> None:
        try:
            while self._goes_on():
                try:
                    self._listen()
                except psycopg.Error as error:
                    pause = self._backoff(random.random())
                    if self._backoff.failures == 1:
                        logger.warning("nobody is woken for now, who waits looks from time to time: %s", error)
                    self._hush()
                    self._rest(pause)
        except BaseException:
            logger.exception("the hub ends: nobody is woken any more, who waits looks from time to time")
            self._is_deaf = True
            raise
        finally:
            self._hush()

    def _rest(self, seconds: float) -> None:
        """Unlike an event, a pipe may be written to by a finalizer, which runs in any thread at any time."""
        until = time.monotonic() + seconds
        while not self._is_over and (left := until - time.monotonic()) > 0:
            if select.select([self._ear], [], [], left)[0]:
                os.read(self._ear, 4096)

    def _listen(self) -> None:
        with psycopg.connect(self._conninfo, autocommit=True, application_name="pgqueue hub") as connection:
            forking.detach_after_fork(connection)
            if connection.execute(POOLED).fetchone() != (connection.info.backend_pid,):
                logger.info("a pooler stands before the database: nobody is woken, who waits looks from time to time")
                self._is_deaf = True
                return
            connection.add_notify_handler(lambda notify: self._told(notify.payload))
            channels: set[str] = set()
            look_at = probe_at = 0.0
            while not self._is_over:
                now = time.monotonic()
                if now >= look_at:
                    self._attend(connection, channels)
                    look_at = min((each.look_at(now) for each in self._known()), default=float("inf"))
                    probe_at = now + PROBED_EVERY
                    self._recovered()
                elif now >= probe_at:
                    connection.execute(POOLED)
                    probe_at = now + PROBED_EVERY
                if look_at == float("inf"):
                    return
                if self._hears(connection, max(min(look_at, probe_at) - time.monotonic(), 0)):
                    look_at = 0.0

    def _recovered(self) -> None:
        if self._backoff.failures:
            logger.info("who waits is woken again, after %s failures", self._backoff.failures)
        self._backoff.reset()

    def _attend(self, connection: psycopg.Connection[Any], channels: set[str]) -> None:
        """Asks the database to tell of the queues that are waited for, and listens."""
        now = time.monotonic()
        due = [each for each in self._known() if each.is_due(now)]
        if not due:
            return
        told = connection.execute(ATTEND, [[each.bell.queue for each in due], timedelta(seconds=LEASE)]).fetchall()
        for channel in {channel for channel, _ in told} - channels:
            connection.execute(SQL("listen {}").format(Identifier(channel)))
            channels.add(channel)
        names = {queue for _, queue in told}
        for each in due:
            if each.bell.queue in names:
                each.lease(now)
                each.bell.ring()
            else:
                each.rest(now)

    def _hears(self, connection: psycopg.Connection[Any], seconds: float) -> bool:
        """Waits for whatever comes first; answers whether somebody has begun to wait."""
        heard, _, _ = select.select([connection.fileno(), self._ear], [], [], min(seconds, PROBED_EVERY))
        if connection.fileno() in heard:
            connection.pgconn.consume_input()
            while (notify := connection.pgconn.notifies()) is not None:
                self._told(notify.extra.decode())
            self._calm(connection)
        if self._ear in heard:
            os.read(self._ear, 4096)
            return True
        return False

    def _told(self, queue: str) -> None:
        attention = self._attentions.get(queue)
        if attention is not None:
            now = time.monotonic()
            if attention.rings_too_often(now):
                attention.rest(now)
            attention.bell.ring()

    def _calm(self, connection: psycopg.Connection[Any]) -> None:
        """Asks the database not to tell of what is told too often."""
        now = time.monotonic()
        loud = [each.bell.queue for each in self._known() if each.quiet_until > now and each.leased_until == 0.0]
        if loud:
            connection.execute(ATTEND, [loud, None])

    def _known(self) -> Sequence[Attention]:
        with self._lock:
            return list(self._attentions.values())

    def _hush(self) -> None:
        for each in self._known():
            each.lapse()
            each.bell.ring()
