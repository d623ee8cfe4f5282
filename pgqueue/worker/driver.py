"""The common part of both drivers of a worker: a service for each queue, one pool, and the threads beside them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import ClassVar

from pgqueue import transports
from pgqueue.errors import InvalidStateError
from pgqueue.flows import Flow, Source
from pgqueue.flows.processing import Transactions
from pgqueue.leases.loop import Event
from pgqueue.worker.background import Background
from pgqueue.worker.health import Health
from pgqueue.worker.options import Options
from pgqueue.worker.service import HandlerPool, QueueService
from pgqueue.worker.sessions import Make
from pgqueue.worker.stopping import LAST_CLOSES, Stopping

#: Connections beside those of the handlers, for each queue: to claim, to complete, to settle what failed.
SPARE_CONNECTIONS = 3


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
        handlers_at_once = options.concurrency * len(options.routes)
        self._begin, self._close_transactions = transports.transactions(
            options.transaction, self._pool, handlers_at_once, asynchronous=self.asynchronous
        )
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
        for service in self.services:
            service.start(Transactions(self._begin) if self._begin else None)
        self._background.start()

    def close(self) -> Flow[None]:
        """End the threads beside the services, and close all connections."""
        with transports.until(time.monotonic() + LAST_CLOSES):
            self._background.close()
            try:
                yield from self._pool.close()
            finally:
                yield from self._close_transactions()

    def stop(self) -> None:
        """Safe to call from any thread, and from a signal handler."""
        self.stopping.set()
        for service in self.services:
            service.wake()

    def health(self) -> Health:
        """Its health; with several queues, its loops have their names."""
        beats = dict(self._background.beats)
        for service in self.services:
            prefix = f"{service.queue}: " if len(self.services) > 1 else ""
            beats |= {f"{prefix}{name}": beat for name, beat in service.beats.items()}
        return Health(
            is_stopping=self.stopping.is_set(),
            running=sum(service.handlers.running for service in self.services),
            waiting=sum(service.handlers.waiting for service in self.services),
            overdue=sum(service.handlers.overdue for service in self.services),
            loops={name: beat.age for name, beat in beats.items()},
            failing={name: trouble for name, beat in beats.items() if (trouble := beat.trouble) is not None},
            paused=[service.queue for service in self.services if service.dispatcher.is_paused],
        )

    def end_with(self, error: BaseException) -> None:
        """Stop because of an error, which is raised at the end."""
        self._error = self._error or error
        self.stop()

    def raise_error(self) -> None:
        """Raise the error that ended the worker, if there is one."""
        if self._error is not None:
            raise self._error
