"""The asynchronous transmitters."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

from pgqueue import transports
from pgqueue.aio.queue import Queue
from pgqueue.errors import InvalidArgumentError
from pgqueue.flows.flow import source_of
from pgqueue.model.arguments import instance, shown
from pgqueue.notifications.notification import Pace, QueueNotification
from pgqueue.notifications.queued import Processed, Processing, to_forward
from pgqueue.notifications.receipts import ReceiptStatus
from pgqueue.notifications.recipients import Recipients
from pgqueue.notifications.registry import NotificationTypes
from pgqueue.transports import adrive


class Transmitter:
    """Delivers notifications to recipients within this process. Safe to use from several tasks."""

    def __init__(self) -> None:
        self._recipients = Recipients(asynchronous=True)

    def register(self, recipient: Any) -> Any:
        """Registers a :class:`Recipient`, or a function, after those already registered.

        Returns the recipient, so it can be used as a decorator.

        Raises:
            InvalidArgumentError: it is already registered, or cannot be a recipient here.
        """
        self._recipients.add(recipient)
        return recipient

    def deregister(self, recipient: Any) -> None:
        """Deregisters a recipient; it is not called any more, not even in a round that has begun.

        Raises:
            InvalidArgumentError: it is not registered.
        """
        self._recipients.remove(recipient)

    async def notify_all(
        self, notification: Any, *, transaction: Any = None, errors: list[Exception] | None = None
    ) -> ReceiptStatus:
        """Calls the recipients in the order of their registration, and returns the aggregate of their answers.

        FINISHED ends the round, and the result is OK; so does a recipient that makes ``notification.is_complete`` true.
        ABORT ends the round, and the result is FAIL. FAIL does not end the round, but a later OK or PENDING does not
        hide it. PENDING counts as OK. NOT_PROCESSED means that no recipient handled the notification. Recipients with a
        second parameter get the ``transaction``.

        A recipient that raises counts as FAIL; its error is logged, and appended to ``errors`` if you pass a list. No
        recipient is called for a notification that is complete already, which is OK, or whose ``is_ready_to_send`` is
        false, which is NOT_PROCESSED, unless it has ``timed_out``.

        Raises:
            InvalidArgumentError: ``errors`` is no list.
        """
        if errors is not None and not isinstance(errors, list):
            raise InvalidArgumentError(
                f"errors must be a list that the errors of recipients are appended to, not {shown(errors)}"
            )
        round_ = await adrive(self._recipients.notify_if_due(notification, transaction))
        if errors is not None:
            errors.extend(round_.errors)
        return round_.answer


class QueuedTransmitter(Transmitter):
    """Keeps notifications in a queue, and delivers them to recipients until they are complete or time out.

    ``types`` maps notifications to message bodies. ``pace`` is how long a notification waits before it is sent again:
    by default 1 s, then twice as long each time, up to 5 minutes. ``time_to_live`` is how long until a notification
    times out, if it does not set ``expires_at`` itself. Recipients with a second parameter get a transaction begun on
    ``source``, by default the source of the queue's client; it commits together with the settlement of the
    notification. Any number of transmitters, in any number of processes, may work on one queue.
    """

    def __init__(
        self,
        queue: Queue,
        types: NotificationTypes,
        *,
        source: Any = None,
        pace: Pace | None = None,
        time_to_live: timedelta | None = timedelta(days=1),
    ) -> None:
        super().__init__()
        self._stopped = threading.Event()
        self._processing = Processing(
            instance("queue", queue, Queue).name,
            source_of(queue),
            types,
            self._recipients,
            work_source=source,
            pace=pace,
            time_to_live=time_to_live,
            asynchronous=True,
        )

    async def notify_all(
        self, notification: QueueNotification, *, transaction: Any = None, errors: list[Exception] | None = None
    ) -> ReceiptStatus:
        """Stores the notification, in your transaction if given, and returns OK: the request was accepted.

        Recipients are called later, so nothing is appended to ``errors``. Also raises what ``Queue.send`` raises.

        Raises:
            InvalidArgumentError: it is no QueueNotification, or its type is not registered.
        """
        source = self._processing.source
        where = transports.where(transaction, source, asynchronous=True)
        return await adrive(self._processing.store(notification, where))

    async def process_pending(self) -> Processed:
        """Delivers all notifications that are ready now to the recipients, and returns how many had which fate."""
        return await adrive(self._processing.pending())

    async def run(self) -> Processed:
        """Processes notifications until :meth:`stop` is called.

        Waits after transient errors, such as a lost connection. Raises permanent errors, such as QueueNotFoundError.
        """
        return await adrive(self._processing.forever(self._stopped.is_set))

    def stop(self) -> None:
        """Makes ``run()`` return after the current notification, within about a second. Cannot be undone."""
        self._stopped.set()


class Bridge:
    """A recipient that forwards notifications to another queue, once each, in the transaction of the round.

    It returns ``answer``: PENDING if a local recipient waits for the outcome, otherwise FINISHED.
    """

    def __init__(
        self, queue: Queue, types: NotificationTypes, *, answer: ReceiptStatus = ReceiptStatus.PENDING
    ) -> None:
        self._queue = instance("queue", queue, Queue)
        self._types = instance("types", types, NotificationTypes)
        self._answer = instance("answer", answer, ReceiptStatus)

    async def receive(self, notification: Any, transaction: Any) -> ReceiptStatus:
        """Forwards notifications whose types the bridge has registered; anything else is NOT_PROCESSED."""
        if not self._types.knows(notification):
            return ReceiptStatus.NOT_PROCESSED
        message = to_forward(notification, self._types, self._queue.name)
        if message is not None:
            await self._queue.send(message, transaction=transaction)
        return self._answer
