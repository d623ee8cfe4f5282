"""Links on which clients send to queues and topics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pgqueue import Message
from pgqueue.aio import Queue, Topic
from pgqueue.errors import PGQueueError
from pgqueue.gateway.amqp.performatives import Accepted, Rejected, TransactionalState
from pgqueue.gateway.amqp.types import DecodeError
from pgqueue.gateway.coalescing import Coalescer
from pgqueue.gateway.conditions import NOT_ALLOWED, Refusal, error_of
from pgqueue.gateway.entities import DEAD_LETTERS, SUBSCRIPTIONS
from pgqueue.gateway.links import Delivery, IncomingLink
from pgqueue.gateway.messages import messages_of

if TYPE_CHECKING:
    from pgqueue.gateway.clients import RoleClient


@dataclass(slots=True)
class Send:
    """Messages that a client has sent, and their link."""

    link: IncomingLink
    delivery: Delivery
    messages: list[Message]


class Outbox:
    """Stores what all clients of a role send to a queue or a topic."""

    def __init__(self, entity: Queue | Topic) -> None:
        self.entity = entity
        self.calls = Coalescer(self._store)

    async def _store(self, sends: list[Send]) -> None:
        """Store all in one transaction; where that is refused, each in its own, so that the others are stored."""
        try:
            await self.entity.send_batch([message for send in sends for message in send.messages])
        except PGQueueError as error:
            if len(sends) == 1 or error.is_transient:
                _settle(sends, Rejected(error_of(error)))
            else:
                for send in sends:
                    await self._store([send])
        else:
            _settle(sends, Accepted())


def _settle(sends: Sequence[Send], state: Any) -> None:
    by_link: dict[IncomingLink, list[Delivery]] = {}
    for send in sends:
        by_link.setdefault(send.link, []).append(send.delivery)
    for link, deliveries in by_link.items():
        link.settle(deliveries, state)


class SendingLink(IncomingLink):
    """A link on which a client sends to a queue or a topic. A message is settled when it is stored."""

    client: RoleClient
    outbox: Outbox

    async def open(self) -> None:
        """Find the queue or the topic."""
        grant = self.session.connection.grant_for(self.address)
        self.role_name = grant.key.role
        self.client = await self.session.connection.gateway.client_of(grant.key.role)
        if self.address.endswith(DEAD_LETTERS):
            raise Refusal(NOT_ALLOWED, "a queue of dead letters cannot be sent to")
        if SUBSCRIPTIONS.search(self.address):
            raise Refusal(NOT_ALLOWED, "a subscription cannot be sent to: send to its topic")
        self.outbox = await self.client.outbox(self.address)
        if self.session.holds(self):
            self.answer()

    def arrived(self, delivery: Delivery) -> None:
        """Store the messages, or remember them until the transaction ends."""
        gateway = self.session.connection.gateway
        try:
            messages = messages_of(delivery.raw, delivery.message_format, json_bodies=gateway.settings.json_bodies)
            send = Send(self, delivery, messages)
            if isinstance(delivery.state, TransactionalState):
                transaction = self.session.connection.transactions.get(delivery.state.txn_id)
                self.settle([delivery], transaction_of(transaction).send(self, messages, len(delivery.raw)))
            elif messages:
                self.outbox.calls.add(send)
            else:
                self.settle([delivery], Accepted())
        except (DecodeError, PGQueueError) as error:
            self.settle([delivery], Rejected(error_of(error)))


def transaction_of(found: Any) -> Any:
    """The transaction that a client names. Raises Refusal."""
    if found is None:
        raise Refusal("amqp:transaction:unknown-id", "there is no such transaction on this connection")
    return found
