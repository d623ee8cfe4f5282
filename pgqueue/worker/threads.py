"""The driver of a worker that runs its handlers in threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TypeVar

from pgqueue.errors import InvalidArgumentError
from pgqueue.flows import Flow, Source
from pgqueue.transports import drive
from pgqueue.worker.driver import Driver
from pgqueue.worker.handler_threads import HandlerThreads
from pgqueue.worker.options import Options
from pgqueue.worker.service import QueueService
from pgqueue.worker.sessions import Make
from pgqueue.worker.signals import stopped_by_signals
from pgqueue.worker.stopping import warn_of_silence

T = TypeVar("T")

#: In seconds: how long the main thread waits before it returns to Python, which handles a signal that came meanwhile.
#: The kernel may give a signal to any thread, mostly after SIGCONT, and then it interrupts no wait of the main thread.
SIGNALS_HANDLED_AFTER = 1.0


class ThreadDriver(Driver):
    """The driver of :class:`pgqueue.Worker`: for each queue, threads of the handlers, and two for its loops."""

    asynchronous = False
    connections = 4  # handlers that were given up may still hold theirs

    def __init__(self, source: Source, make: Make, options: Options) -> None:
        for handler in options.handlers:
            if handler.is_coroutine and handler.takes_transaction:
                raise InvalidArgumentError(
                    f"{handler.name} is a coroutine function, and would get a synchronous transaction here: use"
                    " pgqueue.aio.Worker"
                )
        super().__init__(source, make, options, threading.Event, HandlerThreads)
        self._stopped: SimpleQueue[None] = SimpleQueue()  # unlike an Event, a signal handler may set it during its wait

    def run(self) -> None:
        self.require_first_run()
        try:
            self.start()
            with stopped_by_signals(self.stop):
                self._run_services()
        finally:
            self.stop()
            for service in self.services:
                service.handlers.close()
            drive(self.close())
        self.raise_error()

    def stop(self) -> None:
        super().stop()
        self._stopped.put(None)

    def _run_services(self) -> None:
        """Run each in a thread of its own, until all have stopped, or the time for that is over."""
        threads = [_started(f"pgqueue-{service.queue}", self._run_service, service) for service in self.services]
        while not self.stopping.is_set():
            with suppress(Empty):
                self._stopped.get(timeout=SIGNALS_HANDLED_AFTER)
        for thread in threads:
            thread.join(self.stopping.time_left)
        if any(thread.is_alive() for thread in threads):
            warn_of_silence()

    def _run_service(self, service: QueueService) -> None:
        completing = _started("pgqueue-completions", self._run_to_its_end, service.completing.run())
        self._run_to_its_end(service.claiming.run())
        completing.join()
        self._run_to_its_end(service.wind_up())

    def _run_to_its_end(self, flow: Flow[None]) -> None:
        try:
            drive(flow)
        except BaseException as error:  # noqa: BLE001 - raised when all services are wound up
            self.end_with(error)


def _started(name: str, run: Callable[[T], None], argument: T) -> threading.Thread:
    thread = threading.Thread(target=run, args=(argument,), name=name, daemon=True)
    thread.start()
    return thread
