"""The driver of a worker that runs its handlers as tasks of an event loop."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from pgqueue import transports
from pgqueue.errors import HandlerTimeoutError, InvalidArgumentError, InvalidStateError, PGQueueError, logger
from pgqueue.flows import Source
from pgqueue.flows.locked import LockedMessage
from pgqueue.flows.processing import Transactions
from pgqueue.model.context import ReceiveState, call_on_fault
from pgqueue.transports import adrive
from pgqueue.worker.background import Background
from pgqueue.worker.dispatcher import Dispatcher, Make
from pgqueue.worker.handling import HandlerSpec
from pgqueue.worker.health import Health, Heartbeat
from pgqueue.worker.loop import Recovery
from pgqueue.worker.options import Options
from pgqueue.worker.pace import LONGEST_PAUSE, Pace
from pgqueue.worker.shared_transaction import Failures, handle_each, handle_together
from pgqueue.worker.signals import stopped_by_signals

#: Connections beside those of the handlers: to claim, to complete, to settle what failed.
SPARE_CONNECTIONS = 3


Turn = Callable[[], Awaitable[float | None]]


class TaskDriver:
    """What :class:`pgqueue.aio.Worker` runs on. Locks are renewed by a thread, so that a blocked loop loses none."""

    def __init__(self, queue: str, source: Source, make: Make, options: Options) -> None:
        if options.transaction is not None and not options.is_coroutine:
            raise InvalidArgumentError("a handler that takes a transaction must be a coroutine function here")
        self._options = options
        self._pool = transports.sized(source, options.concurrency + SPARE_CONNECTIONS, asynchronous=True)
        self._background = Background(queue, source, options, self._end_with)
        pace = Pace(options.concurrency * options.transaction_batch, options.prefetch)
        self.dispatcher = Dispatcher(
            queue, self._pool, make, pace, self._background.renewals, source.wake_signal(queue)
        )
        self._waiting: deque[LockedMessage] = deque()
        self._running: dict[asyncio.Task[None], int] = {}
        self._error: BaseException | None = None
        self._stopping = threading.Event()
        self._woken = asyncio.Event()
        self._finished = asyncio.Event()
        self._claiming = Heartbeat()
        self._completing = Heartbeat()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._spec: HandlerSpec

    def health(self) -> Health:
        beats = {"claims": self._claiming, "completions": self._completing, **self._background.beats}
        return Health(
            is_stopping=self._stopping.is_set(),
            running=self._in_hand,
            waiting=len(self._waiting),
            overdue=0,
            loops={name: beat.age for name, beat in beats.items()},
            failing={name: str(beat.error) for name, beat in beats.items() if beat.error is not None},
        )

    def stop(self) -> None:
        """Safe to call from any thread, and from a signal handler."""
        self._stopping.set()
        self._wake()

    def _wake(self) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._be_idle)

    def _be_idle(self) -> None:
        """A slot has little left to do: more is claimed, and what was finished is counted."""
        self._woken.set()
        self._finished.set()

    async def run(self) -> None:
        if self._loop is not None:
            raise InvalidStateError("a worker runs once: make another")
        self._loop = asyncio.get_running_loop()
        source = transports.transactions(
            self._options.transaction, self._pool, self._options.concurrency, asynchronous=True
        )
        transactions = Transactions(source.begin) if source else None
        self._spec = HandlerSpec(self._call, transactions, self._options.retry, self.dispatcher.durations)
        self._background.start()
        try:
            with stopped_by_signals(self.stop):
                completing = asyncio.create_task(self._keep_completing())
                await self._keep_claiming()
                await completing
                await self._wind_up()
        finally:
            for task in self._running:
                task.cancel()
            if self._running:
                await asyncio.wait(self._running, timeout=1)
            self._background.close()
            await adrive(self._pool.close())
            if source is not None:
                await adrive(source.close())
        if self._error is not None:
            raise self._error

    @property
    def _in_hand(self) -> int:
        return sum(self._running.values())

    async def _keep_claiming(self) -> None:
        async for pause in self._turns("claims", self._claim, self._claiming):
            with self.dispatcher.on_wake(self._wake):
                await _wait(self._woken, pause)

    async def _keep_completing(self) -> None:
        async for pause in self._turns("completions", self._complete, self._completing):
            await _wait(self._finished, pause)

    async def _turns(self, name: str, turn: Turn, beat: Heartbeat) -> AsyncIterator[float | None]:
        """Takes turns until the worker stops, and answers with the pause after each."""
        recovery = Recovery(name, beat)
        try:
            while not self._stopping.is_set():
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

    def _end_with(self, error: BaseException) -> None:
        self._error = self._error or error
        self.stop()

    async def _claim(self) -> float | None:
        claimed = await adrive(self.dispatcher.claim(running=self._in_hand, waiting=len(self._waiting)))
        self._waiting.extend(claimed)
        self._start()
        return self.dispatcher.pause()

    async def _complete(self) -> float:
        await adrive(self.dispatcher.settle())
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
        """The lock is lost. The renewals found it out in their thread."""
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

    async def _call(self, *arguments: Any) -> Any:
        if self._options.is_coroutine:
            return await self._awaited(self._options.handler(*arguments))
        result = await asyncio.to_thread(self._options.handler, *arguments)
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
        """Finishes what runs and gives back what was not begun, within the grace period."""
        recovery = Recovery("stopping", Heartbeat())
        deadline = time.monotonic() + self._options.grace_period.total_seconds()
        unstarted = list(self._waiting)
        self._waiting.clear()
        while True:
            try:
                await adrive(self.dispatcher.give_back(unstarted))
                unstarted = []
                await adrive(self.dispatcher.settle())
            except PGQueueError as error:
                recovery.tell(error)
            if not (unstarted or self._running or self.dispatcher.has_finished):
                return
            if time.monotonic() >= deadline:
                logger.warning("the grace period is over: %s handlers run; their locks run out", len(self._running))
                return
            await _wait(self._woken, 0.05)


async def _wait(woken: asyncio.Event, pause: float | None) -> None:
    if pause is not None:
        try:
            async with asyncio.timeout(pause):
                await woken.wait()
        except TimeoutError:
            return
    woken.clear()
