"""Where a test of queued notifications takes place: a queue, a face, and transmitters, spoken to synchronously."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pgqueue.aio.notifications
from pgqueue import Message, PeekedMessage, notifications
from pgqueue.notifications import NotificationTypes, Pace, Processed, QueueNotification, ReceiptStatus
from tests.contract.intercepting import interceptor
from tests.contract.interpreter import meant
from tests.contract.world import World

MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)

OK, FAIL, ABORT = ReceiptStatus.OK, ReceiptStatus.FAIL, ReceiptStatus.ABORT
FINISHED, NOT_PROCESSED, PENDING = ReceiptStatus.FINISHED, ReceiptStatus.NOT_PROCESSED, ReceiptStatus.PENDING

CONTENT_TYPE = "application/vnd.pgqueue.notification+json"

types = NotificationTypes()


@types.register("order")
@dataclass
class Order(QueueNotification):
    """The notification of most of these tests."""

    number: int = 7


@types.register("answered")
@dataclass
class Answered(QueueNotification):
    """A notification that holds the receipts of its recipients."""

    receipts: list[str] = field(default_factory=list)


@types.register("patient")
@dataclass
class Patient(QueueNotification):
    """A notification that is not ready until its state, or its class, is set so."""

    name: str = ""
    asked = 0
    ready = False

    @property
    def is_ready_to_send(self) -> bool:
        type(self).asked += 1
        return self.ready


@dataclass
class Found:
    """A notification as it lies in the queue."""

    attempts: int
    state: Any
    complete: bool
    delivery_count: int


class Place(World):
    """A queue for notifications; recipients get what they are given as the application would, in either face."""

    @property
    def is_async(self) -> bool:
        return self.mode.face == "async"

    @contextmanager
    def intercepted(self, **methods: Callable[[Any, Any], Any]) -> Iterator[Any]:
        """The queue of this test, of a client with this interceptor."""
        given = interceptor(self.mode.face, **methods)
        with self.sources.made_of(self.database.dsn, interceptors=[given]) as client:
            yield client.queue(self.name)

    def transmitter(
        self, *, of: NotificationTypes = types, pace: Pace | None = None, on: Any = None, **options: Any
    ) -> Any:
        """Another transmitter on the queue of this test: as good as another process."""
        kind = (pgqueue.aio.notifications if self.is_async else notifications).QueuedTransmitter
        return self._call(kind, on or self.queue, of, pace=pace or Pace(MINUTE, 2.0, 60 * MINUTE), **options)

    def bridge(self, to: Any, of: NotificationTypes = types, **options: Any) -> Any:
        kind = (pgqueue.aio.notifications if self.is_async else notifications).Bridge
        return meant(self._call(kind, to, of, **options))

    def recipient(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """In the asynchronous face a coroutine function, that speaks through the interpreter."""
        if not self.is_async:
            return function
        work: Callable[..., Any] = self.sources._interpreter.work(function)  # type: ignore[attr-defined]
        return work

    def told(self, *answers: Any, **options: Any) -> tuple[Any, list[Any]]:
        """A transmitter whose recipient gives these answers in turn, the last one for ever; and what it saw."""
        transmitter, seen = self.transmitter(**options), []
        left = list(answers)

        @self.recipient
        def recipient(notification: Any) -> Any:
            seen.append(notification)
            answer = left.pop(0) if len(left) > 1 else left[0]
            return answer(notification) if callable(answer) else answer

        transmitter.register(recipient)
        return transmitter, seen

    def insert(self, transaction: Any, label: str) -> None:
        """The insert of a recipient in the transaction that it is given."""
        transaction.execute(self.note(label))

    def kept(self) -> Found:
        """The one notification that is in the queue, wherever it lies."""
        (message,) = self.found()
        body = message.body
        return Found(body["attempts"], body["state"], body["complete"], message.delivery_count)

    def buried(self) -> PeekedMessage:
        (message,) = self.dead()
        return message

    def put(self, body: Any) -> None:
        """A message that none of these transmitters has sent."""
        self.queue.send(Message(body, content_type=CONTENT_TYPE))

    def now(self) -> datetime:
        return self.database.clock.now()

    def pending(self) -> list[tuple[Any, ...]]:
        """The rows of this queue in the view."""
        return self.look(
            "select notification, version, attempts, state, complete, next_ready_at, expires_at, data"
            "  from pgqueue.notifications where queue = %s",
            self.name,
        )

    def _call(self, kind: Any, *arguments: Any, **options: Any) -> Any:
        if not self.is_async:
            return kind(*arguments, **options)
        call = self.sources._interpreter.call  # type: ignore[attr-defined]
        return call(functools.partial(kind, *map(meant, arguments), **options))


def processed(removed: int = 0, kept: int = 0, dead_lettered: int = 0, lost: int = 0) -> Processed:
    return Processed(removed=removed, kept=kept, dead_lettered=dead_lettered, lost=lost)


def as_json(value: Any) -> Any:
    return json.loads(json.dumps(value))
