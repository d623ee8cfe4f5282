# Written by `make generate` from pgqueue/aio/topic.py: change it there.
"""The synchronous face of a topic: signatures and docstrings; each method is one call to the database."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Generic

from pgqueue import transports
from pgqueue.flows import Shared, Source
from pgqueue.flows import topics as publishing
from pgqueue.model.body_type import BodyType
from pgqueue.model.message import BodyT, Message
from pgqueue.model.topic import Published
from pgqueue.statements import topics
from pgqueue.transports import drive

if TYPE_CHECKING:
    from pgqueue.transports.typed import Transaction


class Topic(Generic[BodyT]):
    """A topic, identified by its name: what is sent to it is stored in each subscription whose filter matches.

    Made by :meth:`pgqueue.QueueClient.topic`. The topic need not exist before the first call. ``transaction`` is as
    in :class:`~pgqueue.Queue`. Every call raises :class:`~pgqueue.errors.TopicNotFoundError` for an unknown topic.
    """

    def __init__(self, name: str, source: Source, body_type: BodyType | None = None) -> None:
        self.name = name
        self._source = source
        self._body_type = body_type

    def __repr__(self) -> str:
        return f"Topic({self.name!r})"

    def send(
        self, message: Message[BodyT], *, transaction: Transaction | None = None, require_subscription: bool = False
    ) -> Published:
        """Stores a message in each subscription whose filter matches; returns how many these are, perhaps 0.

        When the call returns, the message is stored in all of them, or part of your transaction. A subscription that
        has dropped it as a duplicate counts; if the topic itself detects duplicates, a duplicate goes to none. Pass the
        result for a scheduled message to :meth:`cancel_scheduled` to cancel it.

        Raises:
            NoSubscriptionError: no subscription matches, and ``require_subscription`` was given.
            QueueFullError: a subscription has reached its ``max_queue_length``; the message is stored in none.
            QueueDisabledError: the status of the topic or a subscription forbids sending; it is stored in none.
            MessageSizeExceededError: the message is larger than a subscription allows; it is stored in none.
            InvalidArgumentError: it is no message, or a field has the wrong type or is out of its bounds.
            MessageNotSerializableError: a field cannot be stored; the error names it.
        """
        flow = publishing.publish(
            self.name,
            message,
            self._where(transaction),
            self._body_type,
            self._source.interceptors,
            require_subscription=require_subscription,
        )
        return drive(flow)

    def send_batch(
        self,
        messages: Iterable[Message[BodyT]],
        *,
        transaction: Transaction | None = None,
        require_subscription: bool = False,
    ) -> list[Published]:
        """Stores many messages in one round trip, all or none; returns in order how many subscriptions each goes to.

        With ``require_subscription`` each message must match one. Raises what :meth:`send` raises; then no message is
        stored.
        """
        flow = publishing.publish_batch(
            self.name,
            messages,
            self._where(transaction),
            self._body_type,
            self._source.interceptors,
            require_subscription=require_subscription,
        )
        return drive(flow)

    def cancel_scheduled(self, sequence_numbers: Sequence[int], *, transaction: Transaction | None = None) -> None:
        """Cancels messages that are scheduled, in all subscriptions: all or none.

        ``sequence_numbers`` are those of the messages in the topic, or what :meth:`send` has returned for them.

        Raises:
            MessageNotFoundError: one was never scheduled, or was cancelled, or its time has come; or a subscription
                has received, moved, purged or cancelled its copy.
            InvalidArgumentError: a message was not scheduled.
        """
        drive(self._where(transaction).execute(topics.cancel_scheduled(self.name, sequence_numbers)))

    def _where(self, transaction: Transaction | None) -> Shared | Source:
        return transports.where(transaction, self._source, asynchronous=False)
