"""The driver of a worker that runs its handlers in threads."""

from __future__ import annotations

import threading
import time
from functools import partial

from pgqueue import transports
from pgqueue.errors import HandlerTimeoutError, InvalidStateError, PGQueueError, logger
from pgqueue.flows import Source
from pgqueue.flows.locked import LockedMessage
from pgqueue.flows.processing import Transactions
from pgqueue.model.context import ReceiveState
from pgqueue.transports import drive
from pgqueue.worker.background import Background
from pgqueue.worker.dispatcher import Dispatcher, Make
from pgqueue.worker.handler_threads import HandlerThreads
from pgqueue.worker.handling import HandlerSpec, end_transaction, fail
from pgqueue.worker.health import Health, Heartbeat
from pgqueue.worker.loop import Loop, Recovery
from pgqueue.worker.options import Options
from pgqueue.worker.pace import LONGEST_PAUSE, Pace
from pgqueue.worker.signals import stopped_by_signals

#: Connections beside those of the handlers: to claim, to complete, to settle what failed. Handlers that have been given
#: up may hold theirs still, so there may be several times as many.
SPARE_CONNECTIONS = 3


class ThreadDriver:
    """What :class:`pgqueue.Worker` runs on: loops that claim, complete and renew locks, side by side, and a crew."""

    def __init__(self, queue: str, source: Source, make: Make, options: Options) -> None:
        self._options = options
        self._stopping = threading.Event()
        self._woken = threading.Event()
        self._finished = threading.Event()
        self._error: BaseException | None = None
        self._is_running = False

        size = 4 * options.concurrency + SPARE_CONNECTIONS
        self._pool = transports.sized(source, size, asynchronous=False)
        self._background = Background(queue, source, options, self._end_with)
        pace = Pace(options.concurrency * options.transaction_batch, options.prefetch)
        self.dispatcher = Dispatcher(
            queue, self._pool, make, pace, self._background.renewals, source.wake_signal(queue)
        )
        on_wake = partial(self.dispatcher.on_wake, self._woken.set)
        self._claiming = Loop("claims", self._claim, self._stopping, self._woken, on_wake)
        self._completing = Loop("completions", self._complete, self._stopping, self._finished)
        self._threads: HandlerThreads | None = None

    def run(self) -> None:
        if self._is_running:
            raise InvalidStateError("a worker runs once: make another")
        self._is_running = True
        source = transports.transactions(
            self._options.transaction, self._pool, self._options.concurrency, asynchronous=False
        )
        transactions = Transactions(source.begin) if source else None
        spec = HandlerSpec(self._options.handler, transactions, self._options.retry, self.dispatcher.durations)
        self._threads = HandlerThreads(self._options, spec, self._finish, self._be_idle, self.dispatcher.is_low)
        self._background.start()
        completing = threading.Thread(target=self._keep_completing, name="pgqueue-completions", daemon=True)
        completing.start()
        try:
            with stopped_by_signals(self.stop):
                try:
                    self._claiming.run()
                except BaseException as error:  # noqa: BLE001 - raised when all is wound up
                    self._end_with(error)
                completing.join()
                self._wind_up(self._threads)
        finally:
            self._threads.close()
            self._background.close()
            drive(self._pool.close())
            if source is not None:
                drive(source.close())
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Safe to call from any thread, and from a signal handler."""
        self._stopping.set()
        self._woken.set()
        self._finished.set()

    def health(self) -> Health:
        beats = {"claims": self._claiming.beat, "completions": self._completing.beat, **self._background.beats}
        return Health(
            is_stopping=self._stopping.is_set(),
            running=self._threads.running if self._threads else 0,
            waiting=self._threads.waiting if self._threads else 0,
            overdue=self._threads.overdue if self._threads else 0,
            loops={name: beat.age for name, beat in beats.items()},
            failing={name: str(beat.error) for name, beat in beats.items() if beat.error is not None},
        )

    def _end_with(self, error: BaseException) -> None:
        self._error = self._error or error
        self.stop()

    def _claim(self) -> float | None:
        threads = self._threads
        assert threads is not None
        if threads.error is not None:
            raise threads.error
        self._replace_stuck(threads)
        threads.take(drive(self.dispatcher.claim(running=threads.running, waiting=threads.waiting)))
        return self._no_longer_than_a_handler_may_take(threads, self.dispatcher.pause())

    def _complete(self) -> float:
        drive(self.dispatcher.settle())
        return LONGEST_PAUSE

    def _keep_completing(self) -> None:
        try:
            self._completing.run()
        except BaseException as error:  # noqa: BLE001 - raised by run()
            self._end_with(error)

    def _finish(self, message: LockedMessage, failure: BaseException | None) -> None:
        self.dispatcher.finish(message, failure)
        if message.context.state is ReceiveState.RECEIVED and not self._finished.is_set():
            self._finished.set()

    def _be_idle(self) -> None:
        """Little is left to do: more is claimed, and when there is nothing, what was finished is counted."""
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
        """Finishes what runs and gives back what was not begun, within the grace period."""
        recovery = Recovery("stopping", Heartbeat())
        deadline = time.monotonic() + self._options.grace_period.total_seconds()
        unstarted = threads.unstarted()
        threads.close()
        while True:
            unstarted += threads.unstarted()
            try:
                drive(self.dispatcher.give_back(unstarted))
                unstarted = []
                drive(self.dispatcher.settle())
            except PGQueueError as error:
                recovery.tell(error)
            if threads.is_over and not (unstarted or threads.waiting or self.dispatcher.has_finished):
                return
            if time.monotonic() >= deadline:
                logger.warning(
                    "the grace period is over: %s handlers run, %s messages were not given back; their locks run out",
                    threads.running,
                    len(unstarted),
                )
                return
            self._woken.wait(0.05)
            self._woken.clear()
