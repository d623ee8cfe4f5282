"""The threads that run handlers."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import closing
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Any

from pgqueue.errors import HandlerTimeoutError
from pgqueue.flows import Flow
from pgqueue.flows.locked import LockedMessage
from pgqueue.flows.processing import Ahead, Chain
from pgqueue.model.handler import Handler
from pgqueue.transports import drive
from pgqueue.worker.chainable import Chainable, together
from pgqueue.worker.execution import Failures, HandlerCancelledError, HandlerSpec, execute, execute_together
from pgqueue.worker.service import QueueService, Stuck

#: One message, and those that are handled together with it.
Together = Callable[[LockedMessage], list[LockedMessage]]


class Inbox:
    """The messages that wait for a handler; threads take them in order, and wait while there are none.

    One thread is woken at a time: it wakes the next, if messages are left when it has taken one. So handlers that do
    not block are not interrupted by threads that would find nothing.
    """

    def __init__(self) -> None:
        self._messages: deque[LockedMessage] = deque()
        self._filled = threading.Condition()
        self._waiting = 0
        self._is_waking = False
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._messages)

    def put(self, messages: Iterable[LockedMessage], *, taken: int = 0) -> None:
        """Add messages; the thread that calls takes as many as are ``taken`` itself."""
        with self._filled:
            self._messages.extend(messages)
            if len(self._messages) > taken:
                self._wake_one()

    def put_back(self, *messages: LockedMessage) -> None:
        """Return messages that were taken; they are the next to be taken."""
        with self._filled:
            self._messages.extendleft(reversed(messages))
            self._wake_one()

    def get(self, together: Together | None = None) -> list[LockedMessage]:
        """Wait for the next message, and take it and those to handle with it; return none when no more will arrive."""
        while (first := self.get_nowait()) is None:
            with self._filled:
                if self._is_closed:
                    return []
                if not self._messages:
                    self._waiting += 1
                    self._filled.wait()
                    self._waiting -= 1
                    self._is_waking = False
        taken = [first] if together is None else together(first)
        if self._waiting and self._messages and not self._is_waking:
            with self._filled:
                self._wake_one()
        return taken

    def _wake_one(self) -> None:
        if self._waiting and not self._is_waking:
            self._is_waking = True
            self._filled.notify()

    def get_nowait(self) -> LockedMessage | None:
        try:
            return self._messages.popleft()
        except IndexError:
            return None

    def close(self) -> None:
        with self._filled:
            self._is_closed = True
            self._filled.notify_all()


@dataclass(eq=False)
class Slot:
    """The work of one thread: the messages in its handler, and since when.

    ``started_at`` is set before ``messages``, and again when the handler is called on the next of them, ``current``.
    ``turning`` is held while a thread is replaced, or reports what it did.
    """

    messages: Sequence[LockedMessage] = ()
    current: LockedMessage | None = None
    started_at: float = 0.0
    is_replaced: bool = False
    is_over: bool = False
    turning: threading.Lock = field(default_factory=threading.Lock)


class HandlerThreads:
    """Threads that take messages from one inbox, each one at a time, or several for one transaction.

    A thread whose handler exceeds its timeout is given up: another thread replaces it, and its result is ignored.
    Threads are daemons, so none of them can keep the process alive.
    """

    def __init__(self, service: QueueService) -> None:
        self._service = service
        self._batch = service.options.transaction_batch
        self._inbox = Inbox()
        self._together: Together | None = None
        self._slots: list[Slot] = []
        self._replaced: list[Slot] = []

    def start(self, spec: HandlerSpec) -> None:
        self._spec = spec
        self._ahead: Ahead = Chainable(self._inbox, spec.routes) if spec.routes.is_mixed else self._inbox
        if self._batch > 1:
            self._together = partial(together, most=self._batch, ahead=self._ahead, routes=spec.routes)
        self._slots = [self._start_thread() for _ in range(self._service.options.concurrency)]

    @property
    def running(self) -> int:
        return sum(len(slot.messages) for slot in self._slots)

    @property
    def is_over(self) -> bool:
        return all(slot.is_over for slot in self._slots)

    @property
    def waiting(self) -> int:
        return len(self._inbox)

    @property
    def overdue(self) -> int:
        self._replaced = [slot for slot in self._replaced if slot.messages]
        return len(self._replaced)

    def take(self, messages: Sequence[LockedMessage]) -> None:
        if messages:
            self._inbox.put(messages)

    def unstarted(self) -> list[LockedMessage]:
        return list(iter(self._inbox.get_nowait, None))

    def replace_stuck(self, limit: timedelta) -> list[Stuck]:
        """Replace the threads whose handlers have run longer than ``limit``; return their messages."""
        began_before = time.monotonic() - limit.total_seconds()
        stuck: list[Stuck] = []
        for place, slot in enumerate(self._slots):
            with slot.turning:
                slot.is_replaced = bool(slot.messages) and slot.started_at < began_before
                if slot.is_replaced:
                    current = slot.current or slot.messages[0]
                    stuck.append(Stuck(current, [message for message in slot.messages if message is not current]))
                    self._replaced.append(slot)
                    self._slots[place] = self._start_thread()
        return stuck

    def time_left(self, limit: timedelta) -> float:
        oldest = min((slot.started_at for slot in self._slots if slot.messages), default=time.monotonic())
        return max(oldest + limit.total_seconds() - time.monotonic(), 0.001)

    def close(self) -> None:
        """Let each thread end when its handler has returned."""
        self._inbox.close()

    def _start_thread(self) -> Slot:
        slot = Slot()
        threading.Thread(target=self._work, args=(slot,), name="pgqueue-handler", daemon=True).start()
        return slot

    def _work(self, slot: Slot) -> None:
        try:
            with closing(asyncio.Runner()) as runner:  # it creates its loop at the first coroutine
                spec = replace(self._spec, call=_in_loop(runner, slot), is_given_up=lambda: slot.is_replaced)
                drive(self._keep_handling(slot, spec))
        except BaseException as error:  # noqa: BLE001 - the worker ends with it
            self._service.end_with(error)
        finally:
            slot.is_over = True
            self._service.be_idle()

    def _keep_handling(self, slot: Slot, spec: HandlerSpec) -> Flow[None]:
        chain = Chain(spec.transactions.begin, self._ahead) if spec.transactions and self._batch == 1 else None
        spec = replace(spec, transactions=chain or spec.transactions)
        try:
            while not slot.is_replaced and (messages := self._next(chain)):
                self._begin(slot, messages)
                failures = yield from (
                    execute(messages[0], spec) if len(messages) == 1 else execute_together(messages, spec)
                )
                self._end(slot, failures, chain.next if chain else None)
        finally:
            following = (yield from chain.break_off()) if chain else None
            if following is not None:
                self._inbox.put_back(following)
                slot.messages = ()

    def _next(self, chain: Chain | None) -> Sequence[LockedMessage]:
        """The messages to handle next, when there is one; none if no more will arrive, or the worker stops."""
        following = chain.next if chain else None
        messages = self._inbox.get(self._together) if following is None else [following]
        if not self._service.stopping.is_set():
            return messages
        if following is None:  # else the end of the chain returns it
            self._inbox.put_back(*messages)
        return ()

    def _begin(self, slot: Slot, messages: Sequence[LockedMessage]) -> None:
        slot.started_at = time.monotonic()
        slot.current = None
        slot.messages = messages

    def _end(self, slot: Slot, failures: Failures, following: LockedMessage | None = None) -> None:
        """Note that the handler has returned. With a ``following`` message the slot is not idle."""
        with slot.turning:
            if not slot.is_replaced:
                followers = self._service.finish(slot.messages, failures)
                if followers:
                    self._inbox.put(followers, taken=self._batch if following is None else 0)
            if following is not None:
                slot.started_at = time.monotonic()
            slot.current = None
            slot.messages = () if following is None else [following]
        if not slot.is_replaced and self._service.dispatcher.is_low(len(self._inbox)):
            self._service.be_idle()


def _in_loop(runner: asyncio.Runner, slot: Slot) -> Callable[..., Any]:
    """Make handlers synchronous: the result is awaited in the loop if it is a coroutine.

    A handler that returns after its thread was given up has failed, and none is called there any more.
    """

    def called(handler: Handler, message: LockedMessage, *transaction: Any) -> Any:
        slot.started_at, slot.current = time.monotonic(), message
        refuse_late()
        try:
            result = handler(message, *transaction)
            if result is not None and hasattr(result, "__await__"):
                result = runner.run(_awaited(result), context=copy_context())
        except asyncio.CancelledError as error:
            raise HandlerCancelledError from error
        refuse_late()
        return result

    def refuse_late() -> None:
        if slot.is_replaced:
            raise HandlerTimeoutError("the handler has returned too late")

    return called


async def _awaited(result: Awaitable[Any]) -> Any:
    return await result
