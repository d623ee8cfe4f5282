"""The driver of a worker that runs its handlers as tasks of an event loop."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from pgqueue import transports
from pgqueue.errors import HandlerTimeoutError, InvalidArgumentError, InvalidStateError, PGQueueError, logger
from pgqueue.flows import Source, WakeSignal
from pgqueue.flows.locked import LockedMessage
from pgqueue.flows.processing import Transactions
from pgqueue.leases.loop import Heartbeat, Recovery
from pgqueue.leases.renewals import Renewals
from pgqueue.model.context import ReceiveState, call_on_fault
from pgqueue.model.handler import Handler
from pgqueue.transports import adrive
from pgqueue.worker.background import Background
from pgqueue.worker.dispatcher import Dispatcher
from pgqueue.worker.execution import Failures, HandlerSpec, handle_each, handle_together
from pgqueue.worker.handlers import Routes
from pgqueue.worker.health import Health, health_of
from pgqueue.worker.options import Options
from pgqueue.worker.pace import LONGEST_PAUSE, Pace
from pgqueue.worker.sessions import Make
from pgqueue.worker.signals import stopped_by_signals
from pgqueue.worker.stopping import LAST_CLOSES, Stopping, warn_of_silence

#: Connections beside those of the handlers, for each queue: to claim, to complete, to settle what failed.
SPARE_CONNECTIONS = 3


Turn = Callable[[], Awaitable[float | None]]


class QueueTasks:
    """The service of one queue: a loop that claims, one that completes, and the tasks of its handlers."""

    overdue = 0

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
        self._options = options
        pace = Pace(options.concurrency * options.transaction_batch, options.prefetch)
        limits, retry = options.session_limits, options.retry
        self.dispatcher = Dispatcher(routes.queue, pool, make, pace, renewals, limits, retry, wake_signal)
        self._waiting: deque[LockedMessage] = deque()
        self._running: dict[asyncio.Task[None], int] = {}
        self._stopping = stopping
        self._woken = asyncio.Event()
        self._finished = asyncio.Event()
        self._claiming = Heartbeat()
        self._completing = Heartbeat()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._spec: HandlerSpec
        self._end_with: Callable[[BaseException], None]

    @property
    def running(self) -> int:
        return sum(self._running.values())

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def beats(self) -> Mapping[str, Heartbeat]:
        return {"claims": self._claiming, "completions": self._completing}

    def wake(self) -> None:
        """Safe to call from any thread, and from a signal handler."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._be_idle)

    def _be_idle(self) -> None:
        """Claim more, and count what was finished: a slot is idle, or soon will be."""
        self._woken.set()
        self._finished.set()

    async def run(self, transactions: Transactions | None, end_with: Callable[[BaseException], None]) -> None:
        """Work until the worker stops, then wind up. ``end_with`` is called with an error, and stops the worker."""
        self._loop = asyncio.get_running_loop()
        self._end_with = end_with
        retry, durations = self._options.retry, self.dispatcher.durations
        self._spec = HandlerSpec(self._routes, transactions, retry, self._call, durations)
        completing = asyncio.create_task(self._keep_completing())
        await self._keep_claiming()
        await completing
        try:
            await self._wind_up()
        except Exception as error:  # noqa: BLE001 - raised by the driver, when all queues are wound up
            self._end_with(error)

    async def cancel(self) -> None:
        """Cancels what still runs."""
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(self._running, timeout=1)

    async def _keep_claiming(self) -> None:
        async for pause in self._turns("claims", self._claim, self._claiming):
            with self.dispatcher.on_wake(self.wake):
                await _wait(self._woken, pause)

    async def _keep_completing(self) -> None:
        async for pause in self._turns("completions", self._complete, self._completing):
            await _wait(self._finished, pause)

    async def _turns(self, name: str, turn: Turn, beat: Heartbeat) -> AsyncIterator[float | None]:
        """Take turns until the worker stops; yield the pause after each."""
        recovery = Recovery(name, beat)
        try:
            while not self._stopping.is_set():
                beat.asked_at = time.monotonic()
                try:
                    pause = await turn()
                except Exception as error:  # noqa: BLE001 - what cannot be mended is raised again
                    pause = recovery.failed(error)
                else:
                    recovery.passed()
                yield pause
                beat.beat()
        except Exception as error:  # noqa: BLE001 - raised by run()
            self._end_with(error)

    async def _claim(self) -> float | None:
        claimed = await adrive(self.dispatcher.claim(running=self.running, waiting=self.waiting))
        self._waiting.extend(claimed)
        self._start()
        return self.dispatcher.pause()

    async def _complete(self) -> float:
        if await adrive(self.dispatcher.settle()) or self.dispatcher.is_claim_due:
            self._woken.set()
        return LONGEST_PAUSE

    def _start(self) -> None:
        while self._waiting and len(self._running) < self._options.concurrency:
            size = min(self._options.transaction_batch, len(self._waiting))
            messages = [self._waiting.popleft() for _ in range(size)]
            task = asyncio.create_task(self._handle(messages))
            self._running[task] = size
            task.add_done_callback(self._ended)
            for message in messages:
                call_on_fault(message.context, partial(self._cancel, task))

    def _cancel(self, task: asyncio.Task[None]) -> None:
        """Cancel a task whose lock is lost; called by the thread that renews locks."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(task.cancel)

    async def _handle(self, messages: Sequence[LockedMessage]) -> None:
        failures: Failures
        try:
            failures = await adrive((handle_each if len(messages) == 1 else handle_together)(messages, self._spec))
        except asyncio.CancelledError as cancelled:
            failures = {message.sequence_number: cancelled for message in messages}
        for message in messages:
            self.dispatcher.finish(message, failures.get(message.sequence_number))
            if message.context.state is ReceiveState.RECEIVED:
                self._finished.set()

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._running[task]
        if not task.cancelled() and task.exception() is not None:
            self._end_with(task.exception() or RuntimeError("a handler's task has died"))
        if not self._stopping.is_set():
            self._start()
        if self._stopping.is_set() or self.dispatcher.is_low(len(self._waiting)):
            self._be_idle()

    async def _call(self, handler: Handler, *arguments: Any) -> Any:
        if handler.is_coroutine:
            return await self._awaited(handler(*arguments))
        result = await asyncio.to_thread(handler, *arguments)
        return await self._awaited(result) if hasattr(result, "__await__") else result

    async def _awaited(self, handling: Awaitable[Any]) -> Any:
        limit = self._options.handler_timeout
        deadline = asyncio.timeout(limit.total_seconds() if limit else None)
        try:
            async with deadline:
                return await handling
        except TimeoutError as error:
            if not deadline.expired():
                raise
            self.dispatcher.tally.timed_out += 1
            raise HandlerTimeoutError(f"the handler has not returned within {limit}") from error

    async def _wind_up(self) -> None:
        """Let running handlers finish within the grace period, and release the messages that none has started."""
        if self._stopping.time_left:
            with transports.until(self._stopping.ends_at):
                await self._let_handlers_finish()

    async def _let_handlers_finish(self) -> None:
        recovery = Recovery("stopping", Heartbeat())
        unstarted = list(self._waiting)
        self._waiting.clear()
        while True:
            try:
                await adrive(self.dispatcher.give_back(unstarted))
                unstarted = []
                await adrive(self.dispatcher.settle())
                await adrive(self.dispatcher.release_sessions())
            except PGQueueError as error:
                recovery.tell(error)
            if not (unstarted or self._running or self.dispatcher.has_finished):
                return
            if time.monotonic() >= self._stopping.handlers_end_at:
                logger.warning("the grace period is over: %s handlers run; their locks run out", len(self._running))
                return
            await _wait(self._woken, 0.05)


class TaskDriver:
    """What :class:`pgqueue.aio.Worker` runs on: tasks for each queue; one pool, and one thread that renews all locks.

    The thread loses no lock when the event loop is blocked.
    """

    def __init__(self, source: Source, make: Make, options: Options) -> None:
        for handler in options.handlers:
            if handler.takes_transaction and not handler.is_coroutine:
                raise InvalidArgumentError(
                    f"{handler.name} takes a transaction, and is not a coroutine function: use pgqueue.Worker, or make"
                    " it one"
                )
        self._options = options
        self._stopping = Stopping(options.grace_period)
        self._stopped = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._error: BaseException | None = None
        self._is_running = False
        size = (options.concurrency + SPARE_CONNECTIONS) * len(options.routes)
        self._pool = transports.sized(source, size, asynchronous=True, name=options.name)
        self._background = Background(source, options, self._end_with, self)
        self.services = [
            QueueTasks(
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

    async def run(self) -> None:
        if self._is_running:
            raise InvalidStateError("a worker runs once: make another")
        self._is_running = True
        self._loop = asyncio.get_running_loop()
        size = self._options.concurrency * len(self.services)
        source = transports.transactions(self._options.transaction, self._pool, size, asynchronous=True)
        transactions = Transactions(source.begin) if source else None
        self._background.start()
        try:
            with stopped_by_signals(self.stop):
                await self._run_services(transactions)
        finally:
            self.stop()
            await asyncio.gather(*(service.cancel() for service in self.services))
            with transports.until(time.monotonic() + LAST_CLOSES):
                self._background.close()
                await adrive(self._pool.close())
                if source is not None:
                    await adrive(source.close())
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Safe to call from any thread, and from a signal handler."""
        self._stopping.set()
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stopped.set)
        for service in self.services:
            service.wake()

    def health(self) -> Health:
        return health_of(self.services, self._background.beats, is_stopping=self._stopping.is_set())

    async def _run_services(self, transactions: Transactions | None) -> None:
        """Run them until all have stopped, or the time for that is over."""
        each = [service.run(transactions, self._end_with) for service in self.services]
        working: asyncio.Future[Any] = asyncio.gather(*each)
        stopped: asyncio.Future[Any] = asyncio.create_task(self._stopped.wait())
        try:
            await asyncio.wait({working, stopped}, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait({working}, timeout=self._stopping.time_left)
            if working.done():
                working.result()
            else:
                warn_of_silence()
        finally:
            stopped.cancel()
            working.cancel()
            await asyncio.wait({working}, timeout=LAST_CLOSES)

    def _end_with(self, error: BaseException) -> None:
        self._error = self._error or error
        self.stop()


async def _wait(woken: asyncio.Event, pause: float | None) -> None:
    if pause is not None:
        try:
            async with asyncio.timeout(pause):
                await woken.wait()
        except TimeoutError:
            return
    woken.clear()
