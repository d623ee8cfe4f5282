"""The threads that run handlers."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import closing
from contextvars import copy_context
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from pgqueue.flows.locked import LockedMessage
from pgqueue.transports import drive
from pgqueue.worker.handling import Task
from pgqueue.worker.options import Options
from pgqueue.worker.together import handle_each, handle_together

Finish = Callable[[LockedMessage, BaseException | None], None]


@dataclass(eq=False)
class Slot:
    """What one thread is at: the messages in its handler, and since when."""

    messages: Sequence[LockedMessage] = ()
    started_at: float = 0.0
    is_given_up: bool = False


class Crew:
    """Threads that take messages from one place, one at a time each, or several for one transaction.

    A thread whose handler ignores that its time is over is given up: another takes its place, and what it still says is
    not listened to. Threads are daemons, so none of them can keep the process alive.
    """

    def __init__(
        self, options: Options, task: Task, finish: Finish, idle: threading.Event, is_low: Callable[[int], bool]
    ) -> None:
        self._task = task
        self._finish = finish
        self._idle = idle
        self._is_low = is_low
        self._batch = options.transaction_batch
        self._inbox: queue.SimpleQueue[LockedMessage | None] = queue.SimpleQueue()
        self._slots = [self._hire() for _ in range(options.concurrency)]
        self._given_up: list[Slot] = []
        self.error: BaseException | None = None

    @property
    def running(self) -> int:
        """How many messages are in handlers."""
        return sum(len(slot.messages) for slot in self._slots)

    @property
    def waiting(self) -> int:
        """How many messages lie ready."""
        return self._inbox.qsize()

    @property
    def overdue(self) -> int:
        """How many handlers were given up and have not returned yet."""
        self._given_up = [slot for slot in self._given_up if slot.messages]
        return len(self._given_up)

    def take(self, messages: Iterable[LockedMessage]) -> None:
        for message in messages:
            self._inbox.put(message)

    def unstarted(self) -> list[LockedMessage]:
        """Takes back what no thread has begun."""
        return [message for message in self._taken(self.waiting) if message is not None]

    def give_up(self, limit: timedelta) -> list[LockedMessage]:
        """Replaces the threads whose handlers have run longer than ``limit``; answers with their messages."""
        began_before = time.monotonic() - limit.total_seconds()
        abandoned: list[LockedMessage] = []
        for place, slot in enumerate(self._slots):
            if slot.messages and slot.started_at < began_before:
                slot.is_given_up = True
                abandoned.extend(slot.messages)
                self._given_up.append(slot)
                self._slots[place] = self._hire()
        return abandoned

    def time_left(self, limit: timedelta) -> float:
        """How many seconds until a handler has run longer than ``limit``."""
        oldest = min((slot.started_at for slot in self._slots if slot.messages), default=time.monotonic())
        return max(oldest + limit.total_seconds() - time.monotonic(), 0.001)

    def dismiss(self) -> None:
        """Lets the threads end, each when its handler has returned."""
        for _ in self._slots:
            self._inbox.put(None)

    def _hire(self) -> Slot:
        slot = Slot()
        threading.Thread(target=self._work, args=(slot,), name="pgqueue-handler", daemon=True).start()
        return slot

    def _work(self, slot: Slot) -> None:
        try:
            with closing(asyncio.Runner()) as runner:  # which makes its loop when a coroutine comes
                task = replace(self._task, call=_in_loop(runner, self._task.call))
                while not slot.is_given_up and (message := self._inbox.get()) is not None:
                    self._handle(slot, [message, *self._company()] if self._batch > 1 else [message], task)
        except BaseException as error:  # noqa: BLE001 - the worker ends with it
            self.error = error
            self._idle.set()

    def _handle(self, slot: Slot, messages: Sequence[LockedMessage], task: Task) -> None:
        slot.started_at = time.monotonic()
        slot.messages = messages
        failures = drive((handle_each if len(messages) == 1 else handle_together)(messages, task))
        slot.messages = ()
        if not slot.is_given_up:
            for message in messages:
                self._finish(message, failures.get(message.sequence_number))
            if self._is_low(self._inbox.qsize()):
                self._idle.set()

    def _company(self) -> list[LockedMessage]:
        """What shares a transaction with a message, when transactions are shared."""
        return [message for message in self._taken(self._batch - 1) if message is not None]

    def _taken(self, most: int) -> Iterable[LockedMessage | None]:
        try:
            for _ in range(most):
                yield self._inbox.get_nowait()
        except queue.Empty:
            return


def _in_loop(runner: asyncio.Runner, call: Callable[..., Any]) -> Callable[..., Any]:
    """Calls a handler, and awaits what it may have made to be awaited."""

    def called(*arguments: Any) -> Any:
        result = call(*arguments)
        return runner.run(_awaited(result), context=copy_context()) if hasattr(result, "__await__") else result

    return called


async def _awaited(result: Awaitable[Any]) -> Any:
    return await result
