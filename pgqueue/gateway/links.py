"""Links: the two directions in which messages travel on a session."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pgqueue.gateway import conditions
from pgqueue.gateway.amqp.composite import RECEIVER, SENDER
from pgqueue.gateway.amqp.performatives import Attach, Detach, Disposition, Error, Flow, Rejected, Transfer
from pgqueue.gateway.amqp.types import Symbol
from pgqueue.gateway.conditions import Refusal, error_of
from pgqueue.gateway.entities import CBS

if TYPE_CHECKING:
    from pgqueue.gateway.session import Session

#: How many messages a client may send ahead on a link.
CREDIT = 200

#: How many messages of the largest size a connection has under way at the most: they hold memory until they are whole.
MOST_UNFINISHED = 8

#: How many answers wait for a client that does not take them, and how many of the largest size.
MOST_REPLIES, MOST_LARGE_REPLIES = 100, 16

WRAP = 2**32


@dataclass(eq=False, slots=True)
class Delivery:
    """A message that has arrived whole, on a link from a client."""

    id: int
    raw: bytes
    message_format: int
    settled: bool
    state: Any


class Link:
    """A link. It is attached by the client; the gateway answers when it has found what the link is for."""

    role = SENDER
    #: The role of the database that it was attached with.
    role_name: str | None = None

    def __init__(self, session: Session, attach: Attach, address: str) -> None:
        self.session = session
        self.attach = attach
        self.handle = attach.handle
        self.address = address
        self.is_attached = False

    @property
    def entity(self) -> str:
        """The entity that a token must cover."""
        return self.address

    @property
    def max_message_size(self) -> int:
        """How large a message may be, in bytes."""
        return self.session.connection.gateway.settings.max_message_size

    async def open(self) -> None:
        """Find what the link is for, and answer. Raises a PGQueueError to refuse it."""
        self.answer()

    def answer(self, *, source: Any = None, properties: dict[Any, Any] | None = None) -> None:
        """Attach it on this side, too."""
        self.is_attached = True
        self.session.write(
            Attach(
                self.attach.name,
                self.handle,
                self.role,
                self.attach.snd_settle_mode,
                self.attach.rcv_settle_mode,
                source if source is not None else self.attach.source,
                self.attach.target,
                initial_delivery_count=0 if self.role is SENDER else None,
                max_message_size=self.max_message_size,
                properties=properties,
            )
        )

    def detach(self, error: Error | None = None) -> None:
        """Detach it, because of an error."""
        if not self.is_attached:  # a refusal is an attach without a source or a target, and a detach
            self.session.write(Attach(self.attach.name, self.handle, self.role, initial_delivery_count=0))
        self.session.write(Detach(self.handle, closed=True, error=error))
        self.session.forget(self)

    def closed(self) -> None:
        """The link is gone: detached, or its connection has ended."""

    def flow(self, flow: Flow) -> None:
        """The client has sent the state of the link."""


def left(since: int, granted: int, now: int) -> int:
    """How much is left of what a peer has granted since it saw a count, which is larger now."""
    return max(granted - (now - since) % WRAP, 0)


class IncomingLink(Link, ABC):
    """A link on which the client sends."""

    role = RECEIVER

    def __init__(self, session: Session, attach: Attach, address: str) -> None:
        super().__init__(session, attach, address)
        self._parts: list[bytes] = []
        self._first: Transfer | None = None
        self._size = 0
        self._arrived = 0
        self._given = 0
        self._open = 0

    def answer(self, *, source: Any = None, properties: dict[Any, Any] | None = None) -> None:
        """Attach it, and let the client send."""
        super().answer(source=source, properties=properties)
        self._replenish()

    def transfer(self, transfer: Transfer, payload: bytes) -> None:
        """Take a part of a message. Raises Refusal for more messages than were allowed."""
        if self._first is None:
            if self._arrived >= self._given:
                raise Refusal("amqp:link:transfer-limit-exceeded", "the link has no credit for this message")
            self._first = transfer
        connection = self.session.connection
        if transfer.aborted:
            self.closed()
            return
        self._size += len(payload)
        if self._is_too_large:  # the rest is read, too, and the message rejected: some SDKs read no error of a detach
            self._drop()
        else:
            connection.gateway.memory.take(len(payload))
            connection.unfinished += len(payload)
            self._parts.append(payload)
        if not transfer.more:
            self._whole(self._first, transfer)
        elif connection.unfinished > MOST_UNFINISHED * connection.gateway.settings.max_message_size:
            raise Refusal(conditions.LIMIT, "the connection has sent parts of too many messages, and the rest of none")

    @property
    def _is_too_large(self) -> bool:
        return self._size > self.max_message_size

    def _whole(self, first: Transfer, last: Transfer) -> None:
        raw, is_too_large = b"".join(self._parts), self._is_too_large
        self.session.connection.unfinished -= len(raw)
        self._parts, self._first, self._size = [], None, 0
        self._arrived += 1
        self._open += 1
        try:
            if first.delivery_id is None:
                raise Refusal(conditions.NOT_ALLOWED, "the first transfer of a message has no delivery-id")
            state = last.state if last.state is not None else first.state
            settled = bool(first.settled or last.settled)
            delivery = Delivery(first.delivery_id, raw, first.message_format or 0, settled, state)
            refusal = Refusal(conditions.TOO_LARGE, "the message is larger than the link's max-message-size")
            if not is_too_large:
                self.arrived(delivery)
            elif settled:  # the client expects no answer for this message
                raise refusal
            else:
                self.settle([delivery], Rejected(error_of(refusal)))
        except Exception:
            self.session.connection.gateway.memory.give_back(len(raw))
            raise

    @abstractmethod
    def arrived(self, delivery: Delivery) -> None:
        """A message has arrived: :meth:`settle` it some time."""

    def settle(self, deliveries: Sequence[Delivery], state: Any) -> None:
        """Send the client the outcome of messages."""
        gateway = self.session.connection.gateway
        gateway.memory.give_back(sum(len(delivery.raw) for delivery in deliveries))
        self._open -= len(deliveries)
        if self.session.holds(self):
            self.session.dispose(RECEIVER, [delivery.id for delivery in deliveries if not delivery.settled], state)
            self._replenish()

    def _replenish(self) -> None:
        """Let the client send more, when half of what it may send has been taken care of."""
        allowed = self._arrived + CREDIT - self._open
        if allowed - self._given < CREDIT // 2 and self._given:
            return
        self._given = allowed
        self.session.flow(self.handle, delivery_count=self._arrived % WRAP, link_credit=self._given - self._arrived)

    def closed(self) -> None:
        """Forget a message that has not arrived whole."""
        self._drop()
        self._first, self._size = None, 0

    def _drop(self) -> None:
        size = sum(map(len, self._parts))
        self.session.connection.gateway.memory.give_back(size)
        self.session.connection.unfinished -= size
        self._parts = []

    def flow(self, flow: Flow) -> None:
        """Answer a client that asks for the state."""
        if flow.echo:
            self.session.flow(self.handle, delivery_count=self._arrived % WRAP, link_credit=self._given - self._arrived)


class OutgoingLink(Link):
    """A link on which the client receives."""

    role = SENDER

    def __init__(self, session: Session, attach: Attach, address: str) -> None:
        super().__init__(session, attach, address)
        self.credit = 0
        self.drains = False
        self._count = 0

    def flow(self, flow: Flow) -> None:
        """The client has room for more messages, or for none."""
        if flow.link_credit is None:
            return
        self.credit = left(flow.delivery_count or 0, flow.link_credit, self._count)
        self.drains = bool(flow.drain)
        if flow.echo:
            self.tell()
        self.credited()

    def credited(self) -> None:
        """There may be credit."""

    def send(self, raw: bytes, tag: bytes, *, settled: bool) -> int:
        """Send a message; returns the id of its delivery."""
        self.credit = max(self.credit - 1, 0)  # the client may have taken it back since the message was deleted
        self._count = (self._count + 1) % WRAP
        return self.session.transfer(self.handle, tag, raw, settled=settled)

    def drained(self) -> None:
        """Give up the credit that is left: there are no messages for it."""
        if self.drains:
            self._count = (self._count + self.credit) % WRAP
            self.credit, self.drains = 0, False
            self.tell(drain=True)

    def tell(self, *, drain: bool | None = None) -> None:
        """Send the client the state of the link."""
        if not self.session.holds(self):
            return
        self.session.flow(self.handle, delivery_count=self._count, link_credit=self.credit, drain=drain, available=0)

    def disposed(self, delivery_id: int, disposition: Disposition, state: Any) -> None:
        """The client has sent the state of a delivery."""


class ReplyLink(OutgoingLink):
    """On which the answers to requests go."""

    def __init__(self, session: Session, attach: Attach, address: str, name: str) -> None:
        super().__init__(session, attach, address)
        self.name = name
        self._waiting: list[bytes] = []

    @property
    def entity(self) -> str:
        """The entity that a token must cover; none for answers to tokens."""
        return "" if self.address == CBS else self.address

    def reply(self, raw: bytes) -> None:
        """Send an answer as soon as the client can receive it. One that never can is detached."""
        self._waiting.append(raw)
        self.credited()
        size = sum(map(len, self._waiting))
        if len(self._waiting) > MOST_REPLIES or size > MOST_LARGE_REPLIES * self.max_message_size:
            self.detach(error_of(Refusal(conditions.LIMIT, "the client takes no answers to its requests")))

    def credited(self) -> None:
        """Send what waits, as far as the client keeps up."""
        while self._waiting and self.credit:
            if self.session.is_congested:
                return
            self.send(self._waiting.pop(0), (self._count % WRAP).to_bytes(4, "big"), settled=True)
        self.drained()


def symbols(values: dict[str, Any]) -> dict[Symbol, Any]:
    """A map whose keys are symbols."""
    return {Symbol(key): value for key, value in values.items()}
