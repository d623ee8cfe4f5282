"""Work with models that Django rolls back in silence is not completed, in whichever way the handler runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from django.db import DatabaseError, IntegrityError, connection, transaction

import pgqueue
import pgqueue.django
from pgqueue import Message, Queue, QueueClient, RetryPolicy, Worker
from pgqueue.django import framework, tasks
from pgqueue.errors import SettlementUndoneError
from pgqueue.testing import drain
from tests.django import errands
from tests.django.conftest import forget_connections
from tests.django.shop import Shipped, ship
from tests.patience import eventually
from tests.worker.scene import Running


def swallowed_error_of_a_model() -> None:
    Shipped.objects.create(order=1)
    with suppress(IntegrityError):
        Shipped.objects.create(order=1)


def swallowed_error_of_a_statement() -> None:
    Shipped.objects.create(order=1)
    with suppress(DatabaseError), connection.cursor() as cursor:
        cursor.execute("select 1 / 0")


def set_rollback() -> None:
    Shipped.objects.create(order=1)
    transaction.set_rollback(True)


WAYS: list[Callable[[], None]] = [swallowed_error_of_a_model, swallowed_error_of_a_statement, set_rollback]
WAY = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)


@contextmanager
def block(message: Any) -> Iterator[None]:
    with pgqueue.django.completing(message):
        yield


@contextmanager
def inner_block(message: Any) -> Iterator[None]:
    with transaction.atomic(), pgqueue.django.completing(message):
        yield


@contextmanager
def outer_block(message: Any) -> Iterator[None]:
    with transaction.atomic():
        with pgqueue.django.completing(message):
            pass
        yield


BLOCK = pytest.mark.parametrize("around", [block, inner_block, outer_block], ids=lambda each: each.__name__)


@pytest.fixture
def orders(client: QueueClient) -> Queue:
    queue = client.queue("orders")
    queue.send(Message({"order": 1}))
    return queue


def work_off(queue: Queue, handler: Callable[[Any], object]) -> list[str | None]:
    """Let a worker handle the one message; return the reasons of dead letters."""
    worker: Worker = Worker(queue, closing(handler), retry=RetryPolicy(max_attempts=1), concurrency=1)
    running = Running(worker)
    try:
        eventually(lambda: worker.tally.completed + worker.tally.failed == 1)
    finally:
        running.stop()
    return [dead.dead_letter_reason for dead in queue.dead_letters.peek()]


def closing(handler: Callable[[Any], object]) -> Callable[[Any], None]:
    """The connection of a thread ends with its handler, for the database is dropped after the test."""

    def handle(message: Any) -> None:
        try:
            handler(message)
        finally:
            forget_connections()

    return handle


@WAY
@BLOCK
def test_a_worker_fails_the_message(orders: Queue, way: Callable[[], None], around: Callable[[Any], Any]) -> None:
    def handler(message: Any) -> None:
        with around(message):
            way()

    assert work_off(orders, handler) == ["pgqueue.errors.SettlementUndoneError"]
    assert not Shipped.objects.exists()


@WAY
@BLOCK
@pytest.mark.parametrize("runner", ["process", "drain"])
def test_process_and_drain_raise(
    orders: Queue, runner: str, way: Callable[[], None], around: Callable[[Any], Any]
) -> None:
    def handler(message: Any) -> None:
        with around(message):
            way()

    with pytest.raises(SettlementUndoneError):
        if runner == "drain":
            drain(orders, handler)
        else:
            pgqueue.process(orders.receive()[0], handler)
    assert not Shipped.objects.exists()
    assert (orders.receive(), len(orders.peek())) == ([], 1)


@pytest.mark.parametrize("runner", ["process", "drain"])
def test_a_handler_that_completes_its_message_can_be_drained(orders: Queue, runner: str) -> None:
    if runner == "drain":
        assert drain(orders, ship) == [None]
    else:
        pgqueue.process(orders.receive()[0], ship)
    assert Shipped.objects.count() == 1
    assert orders.peek() == []


def test_an_inner_block_may_fail(orders: Queue) -> None:
    def handler(message: Any) -> None:
        with pgqueue.django.completing(message):
            Shipped.objects.create(order=1)
            with suppress(IntegrityError), transaction.atomic():
                Shipped.objects.create(order=1)

    assert work_off(orders, handler) == []
    assert Shipped.objects.count() == 1


@pytest.mark.parametrize("errand", [errands.ship_twice, errands.ship_and_undo], ids=["swallowed", "set_rollback"])
def test_a_task_that_is_rolled_back_has_failed(client: QueueClient, errand: Any) -> None:
    client.create_queue("default")
    queue = client.queue("default")
    statuses: list[Any] = []

    def listen(task_result: Any, **_: object) -> None:
        statuses.append(task_result.status)

    framework.task_finished.connect(listen)
    try:
        errand.enqueue(1)
        assert work_off(queue, tasks.run_task) == ["pgqueue.errors.SettlementUndoneError"]
    finally:
        framework.task_finished.disconnect(listen)
    assert statuses == [framework.TaskResultStatus.FAILED]
    assert not Shipped.objects.exists()
