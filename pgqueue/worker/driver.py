"""The common part of both drivers of a worker: a service for each queue, one pool, and the threads beside them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import ClassVar, Protocol

from pgqueue import transports
from pgqueue.errors import InvalidStateError
from pgqueue.flows import Begun, Flow, Source
from pgqueue.flows.processing import Transactions
from pgqueue.leases.loop import Event
from pgqueue.worker.background import Background
from pgqueue.worker.health import Health, health_of
from pgqueue.worker.options import Options
from pgqueue.worker.service import HandlerPool, QueueService
from pgqueue.worker.sessions import Make
from pgqueue.worker.stopping import LAST_CLOSES, Stopping

#: Connections beside those of the handlers, for each queue: to claim, to complete, to settle what failed.
SPARE_CONNECTIONS = 3


class TransactionSource(Protocol):
    """Where transactions for handlers are begun."""

    def begin(self) -> Flow[Begun]:
        """Begin one."""

    def close(self) -> Flow[None]:
        """Close its connections, if they are ours."""


class Driver:
    """A worker, whether its handlers run in threads or in tasks. One thread renews the locks of all queues."""

    asynchronous: ClassVar[bool]
    #: How many connections a handler may need.
    connections: ClassVar[int]

    def __init__(
        self,
        source: Source,
        make: Make,
        options: Options,
        event: Callable[[], Event],
        handlers: Callable[[QueueService], HandlerPool],
    ) -> None:
        self.options = options
        self.stopping = Stopping(options.grace_period, event())
        self._error: BaseException | None = None
        self._is_running = False
        size = (self.connections * options.concurrency + SPARE_CONNECTIONS) * len(options.routes)
        self._pool = transports.sized(source, size, asynchronous=self.asynchronous, name=options.name)
        self._transactions: TransactionSource | None = None
        self._background = Background(source, options, self.end_with, self)
        self.services = [
            QueueService(
                routes,
                self._pool,
                make,
                options,
                self._background.renewals[queue],
                source.wake_signal(queue),
                self.stopping,
                self.end_with,
                event,
                handlers,
            )
            for queue, routes in options.routes.items()
        ]

    def require_first_run(self) -> None:
        """Refuse to run once more.

        Raises:
            InvalidStateError: the worker has run.
        """
        if self._is_running:
            raise InvalidStateError("a worker runs once: make another")
        self._is_running = True

    def start(self) -> None:
        """Start everything but the loops of the services."""
        size = self.options.concurrency * len(self.services)
        kind, pool = self.options.transaction, self._pool
        self._transactions = transports.transactions(kind, pool, size, asynchronous=self.asynchronous)
        transactions = Transactions(self._transactions.begin) if self._transactions else None
        for service in self.services:
            service.start(transactions)
        self._background.start()

    def close(self) -> Flow[None]:
        """End the threads beside the services, and close all connections."""
        with transports.until(time.monotonic() + LAST_CLOSES):
            self._background.close()
            yield from self._pool.close()
            if self._transactions is not None:
                yield from self._transactions.close()

    def stop(self) -> None:
        """Safe to call from any thread, and from a signal handler."""
        self.stopping.set()
        for service in self.services:
            service.wake()

    def health(self) -> Health:
        """Its health."""
        return health_of(self.services, self._background.beats, is_stopping=self.stopping.is_set())

    def end_with(self, error: BaseException) -> None:
        """Stop because of an error, which is raised at the end."""
        self._error = self._error or error
        self.stop()

    def raise_error(self) -> None:
        """Raise the error that ended the worker, if there is one."""
        if self._error is not None:
            raise self._error
