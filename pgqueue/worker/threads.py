"""The driver of a worker that runs its handlers in threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from functools import partial

from pgqueue import transports
from pgqueue.errors import HandlerTimeoutError, InvalidArgumentError, InvalidStateError, PGQueueError, logger
from pgqueue.flows import Source, WakeSignal
from pgqueue.flows.locked import LockedMessage
from pgqueue.flows.processing import Transactions
from pgqueue.leases.loop import Heartbeat, Loop, Recovery
from pgqueue.leases.renewals import Renewals
from pgqueue.model.context import ReceiveState
from pgqueue.transports import drive
from pgqueue.worker.background import Background
from pgqueue.worker.dispatcher import Dispatcher
from pgqueue.worker.execution import HandlerSpec, end_transaction, fail
from pgqueue.worker.handler_threads import HandlerThreads
from pgqueue.worker.handlers import Routes
from pgqueue.worker.health import Health, health_of
from pgqueue.worker.options import Options
from pgqueue.worker.pace import LONGEST_PAUSE, Pace
from pgqueue.worker.sessions import Make
from pgqueue.worker.signals import stopped_by_signals
from pgqueue.worker.stopping import LAST_CLOSES, Stopping, warn_of_silence

#: Connections beside those of the handlers, for each queue: to claim, to complete, to settle what failed. Handlers that
#: were given up may still hold theirs, so there may be several times as many.
SPARE_CONNECTIONS = 3


class QueueThreads:
    """The service of one queue: a loop that claims, one that completes, and the threads of its handlers."""

    def __init__(
        self,
        routes: Routes,
        pool: Source,
        make: Make,
        options: Options,
        renewals: Renewals,
        wake_signal: WakeSignal | None,
        stopping: Stopping,
    ) -> None:
        self.queue = routes.queue
        self._routes = routes
        self._pool = pool
        self._options = options
        self._stopping = stopping
        self._woken = threading.Event()
        self._finished = threading.Event()
        pace = Pace(options.concurrency * options.transaction_batch, options.prefetch)
        limits, retry = options.session_limits, options.retry
        self.dispatcher = Dispatcher(routes.queue, pool, make, pace, renewals, limits, retry, wake_signal)
        on_wake = partial(self.dispatcher.on_wake, self._woken.set)
        self._claiming = Loop("claims", self._claim, stopping, self._woken, on_wake)
        self._completing = Loop("completions", self._complete, stopping, self._finished)
        self._threads: HandlerThreads | None = None

    @property
    def running(self) -> int:
        return self._threads.running if self._threads else 0

    @property
    def waiting(self) -> int:
        return self._threads.waiting if self._threads else 0

    @property
    def overdue(self) -> int:
        return self._threads.overdue if self._threads else 0

    @property
    def beats(self) -> Mapping[str, Heartbeat]:
        return {"claims": self._claiming.beat, "completions": self._completing.beat}

    def start(self, transactions: Transactions | None) -> None:
        """Start the threads of the handlers."""
        spec = HandlerSpec(self._routes, transactions, self._options.retry, durations=self.dispatcher.durations)
        self._threads = HandlerThreads(self._options, spec, self._finish, self._be_idle, self.dispatcher.is_low)

    def run(self, end_with: Callable[[BaseException], None]) -> None:
        """Work until the worker stops, then wind up. ``end_with`` is called with an error, and stops the worker."""
        assert self._threads is not None
        completing = threading.Thread(
            target=_guarded, args=(self._completing.run, end_with), name="pgqueue-completions", daemon=True
        )
        completing.start()
        _guarded(self._claiming.run, end_with)
        completing.join()
        _guarded(partial(self._wind_up, self._threads), end_with)

    def wake(self) -> None:
        self._woken.set()
        self._finished.set()

    def close(self) -> None:
        if self._threads is not None:
            self._threads.close()

    def _claim(self) -> float | None:
        threads = self._threads
        assert threads is not None
        if threads.error is not None:
            raise threads.error
        self._replace_stuck(threads)
        claimed = drive(self.dispatcher.claim(running=threads.running, waiting=threads.waiting))
        if self._stopping.time_left:
            threads.take(claimed)
        return self._no_longer_than_a_handler_may_take(threads, self.dispatcher.pause())

    def _complete(self) -> float:
        if drive(self.dispatcher.settle()) or self.dispatcher.is_claim_due:
            self._woken.set()
        return LONGEST_PAUSE

    def _finish(self, message: LockedMessage, failure: BaseException | None) -> None:
        self.dispatcher.finish(message, failure)
        if message.context.state is ReceiveState.RECEIVED and not self._finished.is_set():
            self._finished.set()

    def _be_idle(self) -> None:
        """Wake the loop that claims; if no message waits for a handler, also wake the loop that completes."""
        self._woken.set()
        if self._threads is None or not self._threads.waiting:
            self._finished.set()

    def _no_longer_than_a_handler_may_take(self, threads: HandlerThreads, pause: float | None) -> float | None:
        limit = self._options.handler_timeout
        return pause if pause is None or limit is None else min(pause, threads.time_left(limit))

    def _replace_stuck(self, threads: HandlerThreads) -> None:
        if self._options.handler_timeout is None:
            return
        for message in threads.replace_stuck(self._options.handler_timeout):
            self.dispatcher.tally.timed_out += 1
            error = HandlerTimeoutError(f"the handler has not returned within {self._options.handler_timeout}")
            drive(end_transaction(message, self._pool))
            drive(fail(message, error, self._options.retry))
            self._finish(message, error)

    def _wind_up(self, threads: HandlerThreads) -> None:
        """Let running handlers finish within the grace period, and release the messages that none has started."""
        threads.close()
        if self._stopping.time_left:
            with transports.until(self._stopping.ends_at):
                self._let_handlers_finish(threads)

    def _let_handlers_finish(self, threads: HandlerThreads) -> None:
        recovery = Recovery("stopping", Heartbeat())
        unstarted: list[LockedMessage] = []
        while True:
            unstarted += threads.unstarted()
            try:
                drive(self.dispatcher.give_back(unstarted))
                unstarted = []
                drive(self.dispatcher.settle())
                drive(self.dispatcher.release_sessions())
            except PGQueueError as error:
                recovery.tell(error)
            if threads.is_over and not (unstarted or threads.waiting or self.dispatcher.has_finished):
                return
            if time.monotonic() >= self._stopping.handlers_end_at:
                logger.warning(
                    "the grace period is over: %s handlers run, %s messages were not given back; their locks run out",
                    threads.running,
                    len(unstarted),
                )
                return
            self._woken.wait(0.05)
            self._woken.clear()


class ThreadDriver:
    """What :class:`pgqueue.Worker` runs on: threads for each queue; one pool, and one thread that renews all locks."""

    def __init__(self, source: Source, make: Make, options: Options) -> None:
        for handler in options.handlers:
            if handler.is_coroutine and handler.takes_transaction:
                raise InvalidArgumentError(
                    f"{handler.name} is a coroutine function, and would get a synchronous transaction here: use"
                    " pgqueue.aio.Worker"
                )
        self._options = options
        self._stopping = Stopping(options.grace_period)
        self._error: BaseException | None = None
        self._is_running = False
        size = (4 * options.concurrency + SPARE_CONNECTIONS) * len(options.routes)
        self._pool = transports.sized(source, size, asynchronous=False, name=options.name)
        self._background = Background(source, options, self._end_with, self)
        self.services = [
            QueueThreads(
                routes,
                self._pool,
                make,
                options,
                self._background.renewals[queue],
                source.wake_signal(queue),
                self._stopping,
            )
            for queue, routes in options.routes.items()
        ]

    def run(self) -> None:
        if self._is_running:
            raise InvalidStateError("a worker runs once: make another")
        self._is_running = True
        size = self._options.concurrency * len(self.services)
        source = transports.transactions(self._options.transaction, self._pool, size, asynchronous=False)
        transactions = Transactions(source.begin) if source else None
        try:
            for service in self.services:
                service.start(transactions)
            self._background.start()
            with stopped_by_signals(self.stop):
                self._run_services()
        finally:
            self.stop()
            for service in self.services:
                service.close()
            with transports.until(time.monotonic() + LAST_CLOSES):
                self._background.close()
                drive(self._pool.close())
                if source is not None:
                    drive(source.close())
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Safe to call from any thread, and from a signal handler."""
        self._stopping.set()
        for service in self.services:
            service.wake()

    def health(self) -> Health:
        return health_of(self.services, self._background.beats, is_stopping=self._stopping.is_set())

    def _run_services(self) -> None:
        """Run each in a thread of its own, until all have stopped, or the time for that is over."""
        threads = [
            threading.Thread(target=service.run, args=(self._end_with,), name=f"pgqueue-{service.queue}", daemon=True)
            for service in self.services
        ]
        for thread in threads:
            thread.start()
        self._stopping.wait()
        for thread in threads:
            thread.join(self._stopping.time_left)
        if any(thread.is_alive() for thread in threads):
            warn_of_silence()

    def _end_with(self, error: BaseException) -> None:
        self._error = self._error or error
        self.stop()


def _guarded(run: Callable[[], None], end_with: Callable[[BaseException], None]) -> None:
    try:
        run()
    except BaseException as error:  # noqa: BLE001 - raised when all is wound up
        end_with(error)
