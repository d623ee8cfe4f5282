"""Messages and models in one transaction of Django."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.db.transaction import TransactionManagementError

import pgqueue.django.testing
from pgqueue import Message, Queue, QueueClient, ReceivedMessage, ReceiveState
from pgqueue.errors import InvalidArgumentError, LockLostError, TransactionRequiredError
from tests.django.shop import Shipped


@pytest.fixture
def orders(client: QueueClient) -> Queue:
    return client.queue("orders")


def received(orders: Queue) -> ReceivedMessage:
    orders.send(Message({"order": 7}))
    (message,) = orders.receive()
    return message


def shipped() -> list[int]:
    return list(Shipped.objects.values_list("order", flat=True))


def test_a_message_is_sent_if_the_block_commits(orders: Queue) -> None:
    with transaction.atomic():
        Shipped.objects.create(order=7)
        orders.send(Message({"order": 7}), transaction=pgqueue.django.transaction())
        assert orders.peek() == []
    assert shipped() == [7]
    assert [each.body for each in orders.peek()] == [{"order": 7}]


def test_a_rollback_undoes_sends(orders: Queue) -> None:
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        orders.send(Message(7), transaction=pgqueue.django.transaction())
        raise ZeroDivisionError
    assert orders.peek() == []


def test_the_first_statement_of_a_block_may_be_ours(orders: Queue) -> None:
    connection.close()
    with transaction.atomic():
        orders.send(Message(7), transaction=pgqueue.django.transaction())
    assert len(orders.peek()) == 1


@pytest.mark.core
def test_work_and_completion_are_committed_together(orders: Queue) -> None:
    message = received(orders)
    with pgqueue.django.completing(message):
        Shipped.objects.create(order=7)
    assert (shipped(), orders.peek()) == ([7], [])
    assert message.state is ReceiveState.COMPLETED


@pytest.mark.core
def test_a_rollback_keeps_the_lock(orders: Queue) -> None:
    message = received(orders)
    with pytest.raises(ZeroDivisionError), pgqueue.django.completing(message):
        Shipped.objects.create(order=7)
        raise ZeroDivisionError
    assert shipped() == []
    assert message.context.state is ReceiveState.RECEIVED, "a worker abandons it"
    assert orders.receive() == [], "it is still ours"
    with pgqueue.django.completing(message):
        Shipped.objects.create(order=7)
    assert (shipped(), orders.peek()) == ([7], [])


def test_work_never_begins_on_a_lost_lock(orders: Queue) -> None:
    message = received(orders)
    orders.unlock(message.sequence_number)
    with pytest.raises(LockLostError), pgqueue.django.completing(message):
        raise AssertionError("the block was run")
    assert connection.get_autocommit(), "the block is closed"


def test_a_rollback_to_a_savepoint_undoes_the_work_since(orders: Queue) -> None:
    message = received(orders)
    with transaction.atomic():
        with pytest.raises(IntegrityError), transaction.atomic():
            message.complete(transaction=pgqueue.django.transaction())
            Shipped.objects.create(order=1)
            Shipped.objects.create(order=1)
        Shipped.objects.create(order=2)
        orders.send(Message("outer"), transaction=pgqueue.django.transaction())
    assert shipped() == [2]
    assert message.state is ReceiveState.RECEIVED
    assert [each.body for each in orders.peek(max_messages=9)] == [{"order": 7}, "outer"]


def test_a_nested_block_belongs_to_the_outer_one(orders: Queue) -> None:
    message = received(orders)
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        with pgqueue.django.completing(message):
            Shipped.objects.create(order=7)
        raise ZeroDivisionError
    assert (shipped(), message.state) == ([], ReceiveState.RECEIVED)


def test_on_commit_runs_after_a_commit_only(orders: Queue) -> None:
    ran: list[Any] = []
    message = received(orders)
    with pytest.raises(ZeroDivisionError), pgqueue.django.completing(message):
        transaction.on_commit(lambda: ran.append("rolled back"))
        raise ZeroDivisionError
    with pgqueue.django.completing(message):
        transaction.on_commit(lambda: ran.append(len(orders.peek())))
        assert ran == []
    assert ran == [0], "the message is gone by then"


def test_autocommit_is_refused(orders: Queue) -> None:
    with pytest.raises(TransactionRequiredError, match=r"with transaction\.atomic\(using='default'\):"):
        pgqueue.django.transaction()


def test_a_transaction_that_is_begun_by_hand_will_do(orders: Queue) -> None:
    transaction.set_autocommit(False)
    try:
        orders.send(Message(7), transaction=pgqueue.django.transaction())
        transaction.commit()
    finally:
        transaction.set_autocommit(True)
    assert len(orders.peek()) == 1


def test_a_block_that_has_to_be_rolled_back_is_refused(orders: Queue) -> None:
    with transaction.atomic():
        transaction.set_rollback(True)
        with pytest.raises(TransactionManagementError):
            pgqueue.django.transaction()


def test_each_database_has_its_own_transaction_and_client(client: QueueClient) -> None:
    with pgqueue.django.client("other") as other:
        other.migrate()
        other.create_queue("orders")
        with transaction.atomic(using="other"):
            other.queue("orders").send(Message(1), transaction=pgqueue.django.transaction("other"))
            with pytest.raises(TransactionRequiredError, match="'default'"):
                pgqueue.django.transaction()
        assert len(other.queue("orders").peek()) == 1
        assert client.queue("orders").peek() == []


def test_a_database_of_another_kind_is_refused(client: QueueClient) -> None:
    with pytest.raises(InvalidArgumentError, match="'small' is not PostgreSQL"):
        pgqueue.django.client("small")
    with transaction.atomic(using="small"), pytest.raises(InvalidArgumentError, match="'small' is not PostgreSQL"):
        pgqueue.django.transaction("small")


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize("fails", [False, True])
def test_a_block_within_a_block_of_one_connection(fails: bool) -> None:
    orders = pgqueue.django.testing.client().queue("orders")
    message = received(orders)
    with message.transaction():
        Shipped.objects.create(order=7)
        with suppress(ZeroDivisionError), message.transaction():
            Shipped.objects.create(order=8)
            if fails:
                raise ZeroDivisionError
    assert (shipped(), orders.peek()) == ([7] if fails else [7, 8], [])
