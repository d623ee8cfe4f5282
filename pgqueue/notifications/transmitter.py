"""The synchronous transmitters."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

from pgqueue import transports
from pgqueue.notifications.notification import Pace, QueueNotification
from pgqueue.notifications.queued import Processed, Processing, to_forward
from pgqueue.notifications.receipts import ReceiptStatus
from pgqueue.notifications.recipients import Recipients
from pgqueue.notifications.registry import NotificationTypes
from pgqueue.queue import Queue
from pgqueue.transports import drive


class Transmitter:
    """Tells recipients of notifications, within this process. Safe to use from several threads."""

    def __init__(self) -> None:
        self._recipients = Recipients(asynchronous=False)

    def register(self, recipient: Any) -> Any:
        """Adds a :class:`Recipient`, or a function, behind those that are there; returns it, so it may decorate one.

        Raises:
            InvalidArgumentError: it is registered already, or can be no recipient here.
        """
        self._recipients.add(recipient)
        return recipient

    def deregister(self, recipient: Any) -> None:
        """Takes a recipient away; it is not told any more, not even in a round that has begun.

        Raises:
            InvalidArgumentError: it is not registered.
        """
        self._recipients.remove(recipient)

    def notify_all(self, notification: Any, *, transaction: Any = None) -> ReceiptStatus:
        """Tells the recipients, in the order of their registration, and returns what came of it.

        FINISHED ends the round, and the answer is OK; ABORT ends it, and is the answer. A FAIL is remembered, and no
        later OK or PENDING hides it; PENDING counts as OK. NOT_PROCESSED: nobody knew it. A recipient that raises has
        failed, and its error is logged. Recipients that need a second argument get the ``transaction``.
        """
        return drive(self._recipients.tell(notification, transaction)).answer


class QueuedTransmitter(Transmitter):
    """Keeps notifications in a queue, and tells the recipients of them until they are done or their time is over.

    ``types`` says how notifications become message bodies. ``pace`` is how long one rests before it is sent again,
    by default 1 s, then twice as long each time, up to 5 minutes; ``time_to_live`` when it times out unless it says so
    itself. Recipients that need a second argument get a transaction begun on ``source``, by default a connection of the
    queue's client; it commits with what becomes of the notification. Any number of transmitters, in any number of
    processes, may work on one queue.
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
            queue.name,
            queue._source,
            types,
            self._recipients,
            work_source=source,
            pace=pace or Pace(),
            time_to_live=time_to_live,
            asynchronous=False,
        )

    def notify_all(self, notification: QueueNotification, *, transaction: Any = None) -> ReceiptStatus:
        """Stores the notification, in your transaction if given, and answers OK: the request has been accepted.

        Raises what ``Queue.send`` raises, too.

        Raises:
            InvalidArgumentError: its type is not registered.
        """
        where = self._processing.source if transaction is None else transports.shared(transaction, asynchronous=False)
        return drive(self._processing.store(notification, where))

    def process_pending(self) -> Processed:
        """Tells the recipients of all notifications that are ready now, and says what became of those."""
        return drive(self._processing.pending())

    def run(self) -> Processed:
        """The same for ever, until :meth:`stop` is called. What passes, such as a lost connection, is waited for.

        Raises what does not pass, such as QueueNotFoundError.
        """
        return drive(self._processing.forever(self._stopped.is_set))

    def stop(self) -> None:
        """Lets ``run()`` return after the notification in hand, within a second or so. Not taken back."""
        self._stopped.set()


class Bridge:
    """A recipient that forwards notifications into another queue, once each, in the transaction of the round.

    It answers with ``answer``: PENDING, when somebody here waits for what comes of it, or FINISHED.
    """

    def __init__(
        self, queue: Queue, types: NotificationTypes, *, answer: ReceiptStatus = ReceiptStatus.PENDING
    ) -> None:
        self._queue = queue
        self._types = types
        self._answer = answer

    def receive(self, notification: Any, transaction: Any) -> ReceiptStatus:
        """Forwards what is registered with the bridge's types; anything else is NOT_PROCESSED."""
        if not self._types.knows(notification):
            return ReceiptStatus.NOT_PROCESSED
        message = to_forward(notification, self._types, self._queue.name)
        if message is not None:
            self._queue.send(message, transaction=transaction)
        return self._answer
