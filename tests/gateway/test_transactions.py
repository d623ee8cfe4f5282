"""Transactions of clients: several sends and settlements in one transaction of the database."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import psycopg
import pytest

from pgqueue import Message, QueueClient
from pgqueue.gateway import transactions
from pgqueue.gateway.amqp import types
from pgqueue.gateway.amqp.composite import part_of
from pgqueue.gateway.amqp.performatives import (
    Accepted,
    Declare,
    Declared,
    Discharge,
    Disposition,
    Error,
    Modified,
    Rejected,
    TransactionalState,
)
from pgqueue.gateway.amqp.types import Symbol
from pgqueue.testing import Database
from tests.gateway.raw import RawClient, message
from tests.gateway.serving import key_of


@pytest.fixture
def shop_queues(client: QueueClient) -> QueueClient:
    client.create_queue("orders")
    client.create_queue("invoices")
    return client


@pytest.fixture
def opened(raw: RawClient, database: Database, shop_queues: QueueClient) -> RawClient:
    raw.sign_in("shop", key_of(database, "shop"))
    raw.open()
    return raw


class Transacted:
    """A client with a coordinator, a received order, and a link to invoices."""

    def __init__(self, raw: RawClient, queues: QueueClient) -> None:
        self.raw = raw
        queues.queue("orders").send(Message("order"))
        self.coordinator = raw.sender(None)
        self.invoices = raw.sender("invoices")
        raw.receiver("orders", credit=1)
        received, _ = raw.receive()
        assert received.delivery_id is not None
        self.delivery_id = received.delivery_id
        raw.send(self.coordinator, message(value=Declare()))
        declared = raw.outcome()
        assert isinstance(declared, Declared)
        self.id = declared.txn_id

    def act(self, settlement: Any = None) -> None:
        self.raw.send(self.invoices, message(data=b"invoice"), state=TransactionalState(self.id))
        outcome = self.raw.outcome()
        assert isinstance(outcome, TransactionalState)
        assert part_of(outcome.outcome) == Accepted()
        state = TransactionalState(self.id, settlement or Accepted())
        self.raw.write(Disposition(True, self.delivery_id, settled=False, state=state))

    def discharge(self, *, fail: bool) -> object:
        self.raw.send(self.coordinator, message(value=Discharge(self.id, fail)))
        while isinstance(outcome := self.raw.outcome(), TransactionalState):
            pass
        return outcome


def waiting(queues: QueueClient, name: str) -> int:
    counts = queues.get_queue_runtime_properties(name)
    return counts.ready + counts.locked


def test_a_send_and_a_settlement_are_made_together(opened: RawClient, shop_queues: QueueClient) -> None:
    transacted = Transacted(opened, shop_queues)
    transacted.act()
    assert (waiting(shop_queues, "orders"), waiting(shop_queues, "invoices")) == (1, 0)
    assert transacted.discharge(fail=False) == Accepted()
    assert (waiting(shop_queues, "orders"), waiting(shop_queues, "invoices")) == (0, 1)


@pytest.mark.parametrize("is_in_transaction", [False, True])
@pytest.mark.parametrize(
    "settlement",
    [
        Modified(message_annotations={Symbol("ticket"): types.int_(7)}),
        Modified(undeliverable_here=True, message_annotations={Symbol("ticket"): types.int_(7)}),
        Rejected(Error(Symbol("x"), "y", {Symbol("DeadLetterReason"): "why", Symbol("ticket"): types.int_(7)})),
    ],
    ids=["abandon", "defer", "dead-letter"],
)
def test_a_settlement_sets_properties(
    opened: RawClient, shop_queues: QueueClient, settlement: Any, is_in_transaction: bool
) -> None:
    transacted = Transacted(opened, shop_queues)
    if is_in_transaction:
        transacted.act(settlement)
        assert transacted.discharge(fail=False) == Accepted()
    else:
        opened.write(Disposition(True, transacted.delivery_id, settled=False, state=settlement))
        assert isinstance(opened.outcome(), type(settlement))
    orders = shop_queues.queue("orders")
    (message,) = [*orders.peek(), *orders.dead_letters.peek()]
    assert message.application_properties == {"ticket": 7}


def test_neither_is_made_after_a_rollback(opened: RawClient, shop_queues: QueueClient) -> None:
    transacted = Transacted(opened, shop_queues)
    transacted.act()
    assert transacted.discharge(fail=True) == Accepted()
    assert (waiting(shop_queues, "orders"), waiting(shop_queues, "invoices")) == (1, 0)
    opened.write(Disposition(True, transacted.delivery_id, settled=False, state=Modified()))
    assert isinstance(opened.outcome(), Modified)


def test_a_lost_lock_undoes_the_send(opened: RawClient, shop_queues: QueueClient) -> None:
    transacted = Transacted(opened, shop_queues)
    transacted.act()
    shop_queues.queue("orders").unlock(1)
    outcome = transacted.discharge(fail=False)
    assert isinstance(outcome, Rejected)
    assert part_of(outcome.error).condition == "com.microsoft:message-lock-lost"
    assert (waiting(shop_queues, "orders"), waiting(shop_queues, "invoices")) == (1, 0)


def test_a_transaction_that_is_unknown_is_refused(opened: RawClient, shop_queues: QueueClient) -> None:
    invoices, coordinator = opened.sender("invoices"), opened.sender(None)
    nobodys = UUID(int=7).bytes
    opened.send(invoices, message(data=b"x"), state=TransactionalState(nobodys))
    assert part_of(opened.outcome().error).condition == "amqp:transaction:unknown-id"
    opened.send(coordinator, message(value=Discharge(nobodys, fail=False)))
    assert part_of(opened.outcome().error).condition == "amqp:transaction:unknown-id"
    opened.send(coordinator, message(value="commit"))
    assert part_of(opened.outcome().error).condition == "amqp:decode-error"
    assert waiting(shop_queues, "invoices") == 0


def test_a_client_that_is_gone_leaves_nothing(opened: RawClient, shop_queues: QueueClient) -> None:
    transacted = Transacted(opened, shop_queues)
    transacted.act()
    opened.socket.close()
    assert (waiting(shop_queues, "orders"), waiting(shop_queues, "invoices")) == (1, 0)


def test_a_message_that_a_transaction_settles_is_settled_by_nothing_else(
    opened: RawClient, shop_queues: QueueClient
) -> None:
    transacted = Transacted(opened, shop_queues)
    transacted.act()
    opened.write(Disposition(True, transacted.delivery_id, settled=False, state=Accepted()))
    assert opened.put_token("sb://localhost/orders", "shop", "wrong") == 401  # an answer, after the disposition
    assert (waiting(shop_queues, "orders"), waiting(shop_queues, "invoices")) == (1, 0)
    assert transacted.discharge(fail=False) == Accepted()
    assert (waiting(shop_queues, "orders"), waiting(shop_queues, "invoices")) == (0, 1)


def interrupted(monkeypatch: pytest.MonkeyPatch, *, commits: bool, may_ask: bool = True) -> None:
    """Let the next COMMIT of a client's transaction be made, or rolled back, and then hang."""
    left, connected = [commits], list[str]()

    class Interrupted(psycopg.AsyncConnection[Any]):
        async def commit(self) -> None:
            if not left:
                await super().commit()
                return
            await (super().commit() if left.pop() else self.rollback())
            await asyncio.sleep(60)

    async def connect(conninfo: str) -> Interrupted:
        if connected and not may_ask:
            raise psycopg.OperationalError("no more connections")
        connected.append(conninfo)
        return await Interrupted.connect(conninfo)

    driver = SimpleNamespace(
        AsyncConnection=SimpleNamespace(connect=connect),
        Error=psycopg.Error,
        OperationalError=psycopg.OperationalError,
    )
    monkeypatch.setattr(transactions, "psycopg", driver)
    monkeypatch.setattr(transactions, "PATIENCE", 3)


def test_a_commit_that_is_not_answered_in_time_is_asked_for(
    opened: RawClient, shop_queues: QueueClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    transacted = Transacted(opened, shop_queues)
    transacted.act()
    interrupted(monkeypatch, commits=True)
    assert transacted.discharge(fail=False) == Accepted()
    assert (waiting(shop_queues, "orders"), waiting(shop_queues, "invoices")) == (0, 1)


def test_a_message_is_held_after_its_abandonment_was_rolled_back(
    opened: RawClient, shop_queues: QueueClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    transacted = Transacted(opened, shop_queues)
    transacted.act(Modified())
    interrupted(monkeypatch, commits=False)
    outcome = transacted.discharge(fail=False)
    assert isinstance(outcome, Rejected)
    assert "was rolled back" in part_of(outcome.error).description
    assert shop_queues.get_queue_runtime_properties("orders").locked == 1
    opened.write(Disposition(True, transacted.delivery_id, settled=False, state=Modified()))
    assert isinstance(opened.outcome(), Modified)
    assert shop_queues.get_queue_runtime_properties("orders").locked == 0


def test_an_outcome_that_is_not_known_is_not_called_a_rollback(
    opened: RawClient, shop_queues: QueueClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    transacted = Transacted(opened, shop_queues)
    transacted.act()
    interrupted(monkeypatch, commits=True, may_ask=False)
    outcome = transacted.discharge(fail=False)
    assert isinstance(outcome, Rejected)
    assert part_of(outcome.error).description.startswith("the COMMIT was not answered, and its outcome is not known")
