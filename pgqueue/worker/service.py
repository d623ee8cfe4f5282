"""The service of one queue: its steps are flows, which run in threads or in tasks."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass
from datetime import timedelta
from functools import partial
from typing import NamedTuple, Protocol

from pgqueue import transports
from pgqueue.errors import HandlerTimeoutError, PGQueueError, SettlementUndoneError, logger
from pgqueue.flows import Flow, Source, WakeSignal
from pgqueue.flows.locked import LockedMessage
from pgqueue.flows.processing import Transactions
from pgqueue.leases.loop import LAST_STATEMENT, Event, Heartbeat, Loop, Recovery
from pgqueue.leases.renewals import Renewals
from pgqueue.model.context import IN_PROGRESS, UNDONE, ReceiveState
from pgqueue.worker.dispatcher import Dispatcher
from pgqueue.worker.execution import Failures, HandlerSpec
from pgqueue.worker.failures import fail_without_handler
from pgqueue.worker.handlers import Routes
from pgqueue.worker.options import Options
from pgqueue.worker.pace import LONGEST_PAUSE, Pace
from pgqueue.worker.sessions import Make
from pgqueue.worker.stopping import Stopping


class Stuck(NamedTuple):
    """The message of a handler that was given up, and the others that were to share its transaction."""

    message: LockedMessage
    others: Sequence[LockedMessage]


class HandlerPool(Protocol):
    """Runs handlers on messages, in threads or in tasks, and notifies the service when they have finished."""

    @property
    def running(self) -> int:
        """The number of messages in handlers."""

    @property
    def waiting(self) -> int:
        """The number of messages that wait for a handler."""

    @property
    def overdue(self) -> int:
        """The number of handlers that were given up and have not returned yet."""

    @property
    def is_over(self) -> bool:
        """Whether no handler runs after :meth:`close`, except those that were given up."""

    def start(self, spec: HandlerSpec) -> None:
        """Begin to run handlers."""

    def take(self, messages: Sequence[LockedMessage]) -> None:
        """Run handlers on these messages, too."""

    def unstarted(self) -> list[LockedMessage]:
        """Take back the messages that no handler has started."""

    def replace_stuck(self, limit: timedelta) -> list[Stuck]:
        """Give up the handlers that have run longer than ``limit`` and cannot be ended; return their messages."""

    def time_left(self, limit: timedelta) -> float:
        """The seconds until a handler may have to be given up."""

    def close(self) -> None:
        """Take no more messages."""


@dataclass(eq=False)
class QueueService:
    """A loop that claims messages of a queue, one that completes them, and the handlers."""

    routes: Routes
    pool: Source
    make: Make
    options: Options
    renewals: Renewals
    wake_signal: WakeSignal | None
    stopping: Stopping
    #: It is called with an error that ends the worker.
    end_with: Callable[[BaseException], None]
    event: InitVar[Callable[[], Event]]
    make_handlers: InitVar[Callable[[QueueService], HandlerPool]]

    def __post_init__(self, event: Callable[[], Event], make_handlers: Callable[[QueueService], HandlerPool]) -> None:
        options = self.options
        self.queue = self.routes.queue
        self._woken, self._finished = event(), event()
        pace = Pace(options.concurrency * options.transaction_batch, options.prefetch)
        self.dispatcher = Dispatcher(
            self.queue,
            self.pool,
            self.make,
            pace,
            self.renewals,
            options.session_limits,
            partial(self.routes.policy, policy=options.retry),
            self.wake_signal,
        )
        self.handlers = make_handlers(self)
        on_wake = partial(self.dispatcher.on_wake, self._woken.set)
        self.claiming = Loop("claims", self._claim, self.stopping, self._woken, on_wake)
        self.completing = Loop("completions", self._complete, self.stopping, self._finished)

    @property
    def beats(self) -> Mapping[str, Heartbeat]:
        """The heartbeats of its loops."""
        return {"claims": self.claiming.beat, "completions": self.completing.beat}

    def start(self, transactions: Transactions | None) -> None:
        """Make the handlers ready for messages."""
        spec = HandlerSpec(self.routes, transactions, self.options.retry, durations=self.dispatcher.durations)
        self.handlers.start(spec)

    def wake(self) -> None:
        """Begin the next round of each loop at once. Safe to call from any thread, and from a signal handler."""
        self._woken.set()
        self._finished.set()

    def finish(self, messages: Sequence[LockedMessage], failures: Failures) -> Sequence[LockedMessage]:
        """Note that a handler has finished messages; return those of their sessions that can be handled now."""
        followers = self.dispatcher.finish(messages, failures)
        if not self._finished.is_set() and any(message.context.state is ReceiveState.RECEIVED for message in messages):
            self._finished.set()
        return followers

    def be_idle(self) -> None:
        """Wake the loop that claims; if no message waits for a handler, also wake the loop that completes."""
        _set(self._woken)
        if not self.handlers.waiting:
            _set(self._finished)

    def _claim(self) -> Flow[float | None]:
        handlers, limit = self.handlers, self.options.handler_timeout
        if limit is not None:
            yield from self._replace_stuck(limit)
        claimed = yield from self.dispatcher.claim(running=handlers.running, waiting=handlers.waiting)
        if self.stopping.time_left:
            handlers.take(claimed)
        pause = self.dispatcher.pause()
        return pause if pause is None or limit is None else min(pause, handlers.time_left(limit))

    def _complete(self) -> Flow[float]:
        if (yield from self.dispatcher.settle()) or self.dispatcher.is_claim_due:
            self._woken.set()
        return LONGEST_PAUSE

    def _replace_stuck(self, limit: timedelta) -> Flow[None]:
        for message, others in self.handlers.replace_stuck(limit):
            error = HandlerTimeoutError(f"the handler has not returned within {limit}")
            policy = self.routes.policy(message, self.options.retry)
            failures: Failures = {message.sequence_number: error}
            finished: list[LockedMessage] = [message]
            unsettled: list[LockedMessage] = []
            with transports.until(time.monotonic() + LAST_STATEMENT):
                yield from fail_without_handler(message, error, policy, self.pool)
                for each in others:
                    state = each.context.state
                    (unsettled if state is ReceiveState.RECEIVED else finished).append(each)
                    if state in IN_PROGRESS:  # in the transaction that was terminated, unless that has committed
                        failures[each.sequence_number] = SettlementUndoneError(UNDONE)
                yield from self.dispatcher.drop(unsettled)
            self.handlers.take(self.finish(finished, failures))

    def wind_up(self) -> Flow[None]:
        """Let running handlers finish within the grace period, and release the messages that none has started."""
        self.handlers.close()
        if self.stopping.time_left:
            with transports.until(self.stopping.ends_at):
                yield from self._let_handlers_finish()

    def _let_handlers_finish(self) -> Flow[None]:
        recovery = Recovery("stopping", Heartbeat())
        unstarted: list[LockedMessage] = []
        while True:
            unstarted += self.handlers.unstarted()
            try:
                yield from self.dispatcher.give_back(unstarted)
                unstarted = []
                yield from self.dispatcher.settle()
                yield from self.dispatcher.release_sessions()
            except PGQueueError as error:
                recovery.log(error)
            is_over = self.handlers.is_over  # asked first: a thread that ends has put back what it did not start
            remains = unstarted or self.handlers.waiting or self.dispatcher.has_finished or self.dispatcher.is_releasing
            if is_over and not remains:
                return
            if time.monotonic() >= self.stopping.handlers_end_at:
                logger.warning(
                    "the grace period is over: %s handlers run, %s messages were not given back; their locks run out",
                    self.handlers.running,
                    len(unstarted),
                )
                return
            yield partial(self._woken.wait, 0.05)
            self._woken.clear()


def _set(event: Event) -> None:
    """Set an event; one that is set already costs no lock."""
    if not event.is_set():
        event.set()
