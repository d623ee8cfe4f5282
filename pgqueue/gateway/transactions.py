"""Transactions of clients: sends and settlements that are made together, or not at all.

The gateway remembers the operations of a transaction until the client discharges it, and runs them then in one
transaction of the database. So none is open while the gateway waits for a client.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psycopg

from pgqueue import Message
from pgqueue.aio import Queue
from pgqueue.errors import PGQueueError
from pgqueue.gateway import conditions
from pgqueue.gateway.amqp import sections as parts
from pgqueue.gateway.amqp import types
from pgqueue.gateway.amqp.performatives import (
    SENDER,
    Accepted,
    Declare,
    Declared,
    Discharge,
    Rejected,
    TransactionalState,
    performative_of,
)
from pgqueue.gateway.amqp.types import DecodeError
from pgqueue.gateway.conditions import Refusal, error_of
from pgqueue.gateway.links import Delivery, IncomingLink
from pgqueue.gateway.receiving import Held, kind_of, settle
from pgqueue.transports.translation import translate

if TYPE_CHECKING:
    from pgqueue.gateway.clients import RoleClient
    from pgqueue.gateway.sending import Outbox, SendingLink

#: The most that one transaction may do.
MOST = 1000


@dataclass
class Transaction:
    """Operations to be done together."""

    id: bytes
    client: RoleClient | None = None
    sends: list[tuple[Outbox, list[Message]]] = field(default_factory=list)
    settlements: list[tuple[Held, Any]] = field(default_factory=list)

    def send(self, link: SendingLink, messages: list[Message]) -> TransactionalState:
        """Remember messages to send. Raises Refusal."""
        self._join(link.client)
        self.sends.append((link.outbox, messages))
        return TransactionalState(self.id, Accepted())

    def settle(self, held: Held, outcome: Any) -> None:
        """Remember how to settle a message. Raises Refusal."""
        assert held.link is not None
        self._join(held.link.client)
        held.is_settling = True
        self.settlements.append((held, outcome))

    def _join(self, client: RoleClient) -> None:
        if self.client not in (None, client):
            raise Refusal(conditions.NOT_ALLOWED, "a transaction is made with the key of one role")
        if len(self.sends) + len(self.settlements) >= MOST:
            raise Refusal(conditions.LIMIT, f"a transaction has {MOST} sends and settlements at the most")
        self.client = client

    async def commit(self) -> None:
        """Do all of it in one transaction of the database. Raises a PGQueueError; then nothing was done."""
        if self.client is None:
            return
        try:
            async with await psycopg.AsyncConnection.connect(self.client.conninfo) as connection:
                await self._act(self.client, connection)
        except psycopg.Error as error:
            raise translate(error) from error

    async def _act(self, client: RoleClient, connection: psycopg.AsyncConnection) -> None:
        for outbox, messages in self.sends:
            await outbox.entity.send_batch(messages, transaction=connection)
        by_kind: dict[tuple[Any, ...], list[Held]] = {}
        for held, outcome in self.settlements:
            by_kind.setdefault((held.received.queue, *kind_of(outcome, None)), []).append(held)
        for (queue, *kind), same in by_kind.items():
            opened: Queue = client.client.queue(queue)
            received = [held.received for held in same]
            for error in await settle(opened, tuple(kind), received, None, transaction=connection):
                if error is not None:
                    raise error

    def roll_back(self) -> None:
        """Forget all of it: the messages are held as before."""
        for held, _ in self.settlements:
            held.is_settling = False

    def finish(self) -> None:
        """All of it was done: send the states of the messages."""
        for held, _ in self.settlements:
            assert held.link is not None
            held.link.settled(held)
            if held.link.session.holds(held.link):
                held.link.session.dispose(SENDER, [held.delivery_id], TransactionalState(self.id, Accepted()))


class CoordinatorLink(IncomingLink):
    """The link on which a client begins and ends transactions."""

    def arrived(self, delivery: Delivery) -> None:
        """Begin a transaction, or end one."""
        try:
            sections = parts.sections_of(delivery.raw)
            if sections.kind != parts.VALUE or not sections.body:
                raise DecodeError("a coordinator takes values: declare and discharge")
            asked = performative_of(types.decode(delivery.raw, sections.body[0][0])[0])
        except DecodeError as error:
            self.settle([delivery], Rejected(error_of(error)))
            return
        transactions = self.session.connection.transactions
        match asked:
            case Declare():
                begun = Transaction(uuid.uuid4().bytes)
                transactions[begun.id] = begun
                self.settle([delivery], Declared(begun.id))
            case Discharge() if asked.txn_id in transactions:
                self.session.connection.gateway.spawn(self._discharge(delivery, transactions.pop(asked.txn_id), asked))
            case _:
                refusal = Refusal(conditions.UNKNOWN_TRANSACTION, "there is no such transaction on this connection")
                self.settle([delivery], Rejected(error_of(refusal)))

    async def _discharge(self, delivery: Delivery, transaction: Transaction, asked: Discharge) -> None:
        if asked.fail:
            transaction.roll_back()
            self.settle([delivery], Accepted())
            return
        try:
            await transaction.commit()
        except PGQueueError as error:
            transaction.roll_back()
            failure = error_of(error)
            failure.description = f"the transaction was rolled back: {failure.description}"
            self.settle([delivery], Rejected(failure))
        else:
            transaction.finish()
            self.settle([delivery], Accepted())
