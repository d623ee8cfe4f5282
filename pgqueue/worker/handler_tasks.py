"""The tasks that run handlers."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextvars import copy_context
from dataclasses import replace
from datetime import timedelta
from functools import partial
from math import inf
from queue import SimpleQueue
from typing import Any

from pgqueue.errors import HandlerTimeoutError
from pgqueue.flows.locked import LockedMessage
from pgqueue.flows.processing import Ahead, Chain
from pgqueue.model.context import call_on_fault
from pgqueue.model.handler import Handler
from pgqueue.transports import adrive, call_in
from pgqueue.worker.chainable import Chainable, together
from pgqueue.worker.execution import Failures, HandlerCancelledError, HandlerSpec, execute, execute_together
from pgqueue.worker.service import QueueService, Stuck


class PlainCall:
    """A call of a plain function, in the context of the task that awaits its result."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self._context = copy_context()
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        self._result: Any = None
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            self._result = self._context.run(self._function)
        except BaseException as error:  # noqa: BLE001 - raised where the result is awaited
            self._error = error

    def end(self) -> None:
        call_in(self._loop, self._ended.set)

    async def result(self) -> Any:
        await self._ended.wait()
        if self._error is not None:
            raise self._error
        return self._result


class PlainThread(threading.Thread):
    """A thread that runs plain functions, one at a time. As a daemon it cannot keep the process alive."""

    def __init__(self) -> None:
        super().__init__(name="pgqueue-handler", daemon=True)
        self._calls: SimpleQueue[PlainCall | None] = SimpleQueue()
        self.is_busy = False
        self.is_overdue = False
        self.start()

    async def call(self, function: Callable[[], Any]) -> Any:
        """Return what the function returns, or raise what it raises."""
        call = PlainCall(function)
        self.is_busy, self.is_overdue = True, False
        self._calls.put(call)
        return await call.result()

    def run(self) -> None:
        while (call := self._calls.get()) is not None:
            call.run()
            self.is_busy = False
            call.end()

    def end(self) -> None:
        """Let the thread end when its function has returned."""
        self._calls.put(None)


class HandlerTasks:
    """Tasks of one event loop, each for one message, or for several in one transaction.

    A message that was begun with the COMMIT of another is handled in a task of its own when that task has ended.
    A task whose handler exceeds its timeout, or loses the lock of its message, is cancelled. A thread that runs a plain
    function cannot be: it is given up.
    """

    def __init__(self, service: QueueService) -> None:
        self._service = service
        self._options = service.options
        self._messages: deque[LockedMessage] = deque()
        self._running: dict[asyncio.Task[None], int] = {}
        self._threads: list[PlainThread] = []

    def start(self, spec: HandlerSpec) -> None:
        self._loop = asyncio.get_running_loop()
        self._spec = replace(spec, call=self._call)
        self._ahead: Ahead = Chainable(self, spec.routes) if spec.routes.is_mixed else self

    @property
    def running(self) -> int:
        return sum(self._running.values())

    @property
    def waiting(self) -> int:
        return len(self._messages)

    @property
    def is_over(self) -> bool:
        return not self._running

    @property
    def overdue(self) -> int:
        return sum(thread.is_busy and thread.is_overdue for thread in list(self._threads))

    def take(self, messages: Sequence[LockedMessage]) -> None:
        self._messages.extend(messages)
        if not self._service.stopping.is_set():
            self._start_tasks()

    def unstarted(self) -> list[LockedMessage]:
        unstarted = list(self._messages)
        self._messages.clear()
        return unstarted

    def get_nowait(self) -> LockedMessage | None:
        """Take the next message that waits, unless no more are to be started."""
        return self._messages.popleft() if self._messages and not self._service.stopping.is_set() else None

    def put_back(self, message: LockedMessage) -> None:
        """Return a message that was taken; it is the next to be taken."""
        self._messages.appendleft(message)

    def replace_stuck(self, limit: timedelta) -> list[Stuck]:
        return []  # the event loop ends handlers in time

    def time_left(self, limit: timedelta) -> float:
        return inf

    def close(self) -> None:
        """Do nothing: no task starts when the worker is stopping."""

    async def cancel(self) -> None:
        """Cancel all tasks that still run."""
        for task in self._running:
            task.cancel()
        try:
            if self._running:
                await asyncio.wait(self._running, timeout=1)
        finally:
            for thread in self._threads:
                thread.end()

    def _start_tasks(self) -> None:
        while self._messages and len(self._running) < self._options.concurrency:
            first, most = self._messages.popleft(), self._options.transaction_batch
            messages = [first] if most == 1 else together(first, most, self._ahead, self._spec.routes)
            self._start_task(messages, self._chain())

    def _chain(self) -> Chain | None:
        transactions = self._spec.transactions
        return Chain(transactions.begin, self._ahead) if transactions and self._options.transaction_batch == 1 else None

    def _start_task(self, messages: Sequence[LockedMessage], chain: Chain | None) -> None:
        spec = self._spec if chain is None else replace(self._spec, transactions=chain)
        task = self._run(self._handle(messages, spec), chain, len(messages))
        if len(messages) == 1:  # several end with their transaction, and are then handled one by one
            call_on_fault(messages[0].context, partial(self._cancel, task))

    def _run(self, handling: Coroutine[Any, Any, None], chain: Chain | None, size: int) -> asyncio.Task[None]:
        task = asyncio.create_task(handling)
        self._running[task] = size
        task.add_done_callback(partial(self._ended, chain))
        return task

    def _cancel(self, task: asyncio.Task[None]) -> None:
        """Cancel a task whose lock is lost; called by the thread that renews locks."""
        call_in(self._loop, task.cancel)

    async def _handle(self, messages: Sequence[LockedMessage], spec: HandlerSpec) -> None:
        failures: Failures
        try:
            failures = await adrive(
                execute(messages[0], spec) if len(messages) == 1 else execute_together(messages, spec)
            )
        except asyncio.CancelledError as cancelled:
            failures = {message.sequence_number: cancelled for message in messages}
        self._messages.extend(self._service.finish(messages, failures))

    async def _break_off(self, chain: Chain) -> None:
        following = await adrive(chain.break_off())
        if following is not None:
            self.put_back(following)

    def _ended(self, chain: Chain | None, task: asyncio.Task[None]) -> None:
        del self._running[task]
        if not task.cancelled() and (error := task.exception()) is not None:
            self._service.end_with(error)
        is_stopping = self._service.stopping.is_set()
        if chain is not None and chain.next is not None:
            if is_stopping:
                self._run(self._break_off(chain), None, 0)
            else:
                self._start_task([chain.next], chain)
        if not is_stopping:
            self._start_tasks()
        if is_stopping or self._service.dispatcher.is_low(self.waiting):
            self._service.be_idle()

    async def _call(self, handler: Handler, *arguments: Any) -> Any:
        try:
            return await self._called(handler, *arguments)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise HandlerCancelledError from error

    async def _called(self, handler: Handler, *arguments: Any) -> Any:
        if handler.is_coroutine:
            return await self._limited(handler(*arguments))
        thread = self._idle_thread()
        try:
            result = await self._limited(thread.call(partial(handler, *arguments)))
        except HandlerTimeoutError:
            thread.is_overdue = True
            raise
        return await self._limited(result) if hasattr(result, "__await__") else result

    def _idle_thread(self) -> PlainThread:
        for thread in self._threads:
            if not thread.is_busy:
                return thread
        self._threads.append(PlainThread())
        return self._threads[-1]

    def _limited(self, handling: Awaitable[Any]) -> Awaitable[Any]:
        limit = self._options.handler_timeout
        return _within(limit, handling) if limit else handling


async def _within(limit: timedelta, handling: Awaitable[Any]) -> Any:
    deadline = asyncio.timeout(limit.total_seconds())
    try:
        async with deadline:
            return await handling
    except TimeoutError as error:
        if not deadline.expired():
            raise
        raise HandlerTimeoutError(f"the handler has not returned within {limit}") from error
