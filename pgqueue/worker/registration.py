"""The row of a worker in ``pgqueue.workers``: which it is, how it is, and what it has done."""

from __future__ import annotations

import logging
import os
import socket
import time
import uuid
from datetime import timedelta
from itertools import islice

from pgqueue.errors import logger
from pgqueue.flows import Executor, Flow
from pgqueue.model.printable import printable
from pgqueue.model.version import VERSION
from pgqueue.statements import Statement, workers
from pgqueue.worker.health import Monitored, tally_of

#: In seconds: the interval of a worker's heartbeats. Not seen for a minute, it is missing; after an hour it is removed.
BEAT_EVERY = 15.0

#: The most failing loops, and characters of an error of one, in a heartbeat.
FAILING, LONGEST_ERROR = 10, 300


class Registration:
    """Writes a worker's heartbeat every 15 s. A failure is logged once and never stops the worker."""

    def __init__(self, worker: Monitored, concurrency: int) -> None:
        self._worker = worker
        self._concurrency = concurrency
        self._id = str(uuid.uuid4())
        self._began_at = time.monotonic()
        self._beat_at = float("-inf")
        self._was_stopping = False
        self._is_failing = False

    def turn(self, own: Executor) -> Flow[None]:
        """Write the heartbeat if it is due, or if the worker has begun to stop."""
        now = time.monotonic()
        health = self._worker.health()
        if now < self._beat_at + BEAT_EVERY and health.is_stopping == self._was_stopping:
            return
        self._beat_at, self._was_stopping = now, health.is_stopping
        tally = tally_of(self._worker.services)
        errors = islice(health.failing.items(), FAILING)
        yield from self._execute(
            workers.heartbeat(
                self._id,
                host=socket.gethostname(),
                pid=os.getpid(),
                version=VERSION,
                queues=[service.queue for service in self._worker.services],
                concurrency=self._concurrency,
                uptime=timedelta(seconds=now - self._began_at),
                is_alive=health.is_alive,
                is_stopping=health.is_stopping,
                running=health.running,
                waiting=health.waiting,
                overdue=health.overdue,
                handled=tally.completed,
                failed=tally.failed,
                failing={name: printable(error)[:LONGEST_ERROR] for name, error in errors},
            ),
            own,
        )

    def remove(self, own: Executor) -> Flow[None]:
        """Remove the row, because the worker ends."""
        yield from self._execute(workers.remove_worker(self._id), own)

    def _execute(self, statement: Statement[None], own: Executor) -> Flow[None]:
        try:
            yield from own.execute(statement)
        except Exception as error:  # noqa: BLE001 - messages are handled whether or not anybody sees the worker
            level = logging.DEBUG if self._is_failing else logging.WARNING
            extra = {"tracking_id": getattr(error, "tracking_id", None)}
            logger.log(level, "pgqueue.workers does not show how this worker is: %s", error, extra=extra)
            self._is_failing = True
        else:
            self._is_failing = False
