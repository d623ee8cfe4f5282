"""Transactions of clients: sends and settlements that are made together, or not at all.

The gateway remembers the operations of a transaction until the client discharges it, and runs them then in one
transaction of the database. So none is open while the gateway waits for a client.
"""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psycopg

from pgqueue import Message
from pgqueue.aio import Queue, ReceiveContext, ReceivedMessage, ReceiveState
from pgqueue.errors import OperationTimeoutError, PGQueueError
from pgqueue.gateway import conditions
from pgqueue.gateway.amqp import sections as parts
from pgqueue.gateway.amqp import types
from pgqueue.gateway.amqp.composite import SENDER, performative_of
from pgqueue.gateway.amqp.performatives import Accepted, Declare, Declared, Discharge, Rejected, TransactionalState
from pgqueue.gateway.amqp.types import DecodeError
from pgqueue.gateway.conditions import Refusal, error_of
from pgqueue.gateway.links import Delivery, IncomingLink
from pgqueue.gateway.receiving import TERMINAL, Held, kind_of, properties_of, settle
from pgqueue.transports.translation import translate

if TYPE_CHECKING:
    from pgqueue.gateway.clients import RoleClient
    from pgqueue.gateway.sending import Outbox, SendingLink

#: How long a transaction may take, in seconds.
PATIENCE = 60

#: The most that one transaction may do, and the bytes that it may send; how many a connection may have.
MOST, MOST_BYTES, MOST_TRANSACTIONS = 1000, 16 * 1024 * 1024, 100


@dataclass
class Transaction:
    """Operations to be done together."""

    id: bytes
    client: RoleClient | None = None
    sends: list[tuple[Outbox, list[Message]]] = field(default_factory=list)
    settlements: list[tuple[Held, tuple[Any, ...], dict[str, Any] | None]] = field(default_factory=list)
    size: int = 0

    def send(self, link: SendingLink, messages: list[Message], size: int) -> TransactionalState:
        """Remember messages to send. Raises Refusal."""
        self._join(link.client)
        self.size += size
        if self.size > MOST_BYTES:
            raise Refusal(conditions.LIMIT, f"a transaction sends {MOST_BYTES} bytes at the most")
        self.sends.append((link.outbox, messages))
        return TransactionalState(self.id, Accepted())

    def settle(self, held: Held, outcome: Any) -> None:
        """Remember how to settle a message. Raises Refusal."""
        assert held.link is not None
        if not isinstance(outcome, TERMINAL):
            raise Refusal(conditions.NOT_ALLOWED, "a message is accepted, rejected, released or modified")
        properties = properties_of(outcome)
        kind = kind_of(outcome, properties)
        self._join(held.link.client)
        held.is_settling = True
        self.settlements.append((held, kind, properties))

    def _join(self, client: RoleClient) -> None:
        if self.client not in (None, client):
            raise Refusal(conditions.NOT_ALLOWED, "a transaction is made with the key of one role")
        if len(self.sends) + len(self.settlements) >= MOST:
            raise Refusal(conditions.LIMIT, f"a transaction has {MOST} sends and settlements at the most")
        self.client = client

    async def commit(self) -> None:
        """Do all of it in one transaction of the database.

        Raises a PGQueueError; then nothing was done, unless it is a :class:`NotKnown`.
        """
        if self.client is None:
            return
        try:
            async with asyncio.timeout(PATIENCE) as patience:
                await self._commit(self.client, patience)
        except TimeoutError:
            raise OperationTimeoutError(f"the transaction took longer than {PATIENCE} s") from None
        except psycopg.Error as error:
            raise translate(error) from error

    async def _commit(self, client: RoleClient, patience: asyncio.Timeout) -> None:
        connection = await psycopg.AsyncConnection.connect(client.conninfo)
        async with connection:
            await self._act(client, connection)
            cursor = await connection.execute("select pg_current_xact_id()::text")
            ((number,),) = await cursor.fetchall()
            ends_at = patience.when()
            patience.reschedule(None)  # a COMMIT that is given up may have committed
            try:
                async with asyncio.timeout_at(ends_at):
                    await connection.commit()
            except (psycopg.OperationalError, TimeoutError):
                if not await _has_committed(client.conninfo, number):
                    raise

    async def _act(self, client: RoleClient, connection: psycopg.AsyncConnection) -> None:
        for outbox, messages in self.sends:
            await outbox.entity.send_batch(messages, transaction=connection)
        by_kind: dict[tuple[Any, ...], tuple[list[ReceivedMessage], dict[str, Any] | None]] = {}
        for held, kind, properties in self.settlements:
            same, _ = by_kind.setdefault((held.received.queue, *kind), ([], properties))
            same.append(held.received)
        for (queue, *how), (same, properties) in by_kind.items():
            opened: Queue = client.client.queue(queue)
            for error in await settle(opened, tuple(how), same, properties, transaction=connection):
                if error is not None:
                    raise error

    def roll_back(self) -> None:
        """Forget all of it: the messages are held as before."""
        for held, *_ in self.settlements:
            held.is_settling = False
            if held.received.state is ReceiveState.ABANDONED:  # it takes an abandonment in a transaction for final
                held.received.context = ReceiveContext(asynchronous=True)

    def finish(self) -> None:
        """All of it was done: send the states of the messages."""
        for held, *_ in self.settlements:
            assert held.link is not None
            held.link.settled(held)
            if held.link.session.holds(held.link):
                held.link.session.dispose(SENDER, [held.delivery_id], TransactionalState(self.id, Accepted()))


class NotKnown(Refusal):
    """The outcome of a transaction is not known."""

    def __init__(self) -> None:
        super().__init__(conditions.INTERNAL, "the COMMIT was not answered, and its outcome is not known")


async def _has_committed(conninfo: str, number: str) -> bool:
    """Ask the database for the outcome of a COMMIT that was not answered. Raises NotKnown if it does not know."""
    try:
        async with asyncio.timeout(PATIENCE), await psycopg.AsyncConnection.connect(conninfo) as connection:
            cursor = await connection.execute("select pg_xact_status(%s::xid8)", [number])
            ((status,),) = await cursor.fetchall()
    except (psycopg.Error, TimeoutError):
        status = None
    if status not in ("committed", "aborted"):
        raise NotKnown
    return bool(status == "committed")


class CoordinatorLink(IncomingLink):
    """The link on which a client begins and ends transactions."""

    async def open(self) -> None:
        """Check that the client has signed in."""
        if not self.session.connection.grants:
            raise Refusal(conditions.UNAUTHORIZED, "the client has not signed in: put a token to $cbs")
        self.answer()

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
            case Declare() if len(transactions) >= MOST_TRANSACTIONS:
                refusal = Refusal(conditions.LIMIT, f"a connection has {MOST_TRANSACTIONS} transactions at the most")
                self.settle([delivery], Rejected(error_of(refusal)))
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
        connection = self.session.connection
        try:
            if not any(connection.gateway.keys.holds(grant.key) for grant in connection.grants.values()):
                raise Refusal(conditions.UNAUTHORIZED, "the key of this client was deleted")
            async with connection.gateway.commits:
                await transaction.commit()
        except PGQueueError as error:
            transaction.roll_back()
            failure = error_of(error)
            if not isinstance(error, NotKnown):
                failure.description = f"the transaction was rolled back: {failure.description}"
            self.settle([delivery], Rejected(failure))
        else:
            transaction.finish()
            self.settle([delivery], Accepted())
