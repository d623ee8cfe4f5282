from __future__ import annotations

from typing import Any

import pytest

from pgqueue import Message, QueueClient, ReceivedMessage
from pgqueue.testing import drain
from pgqueue.testing.database import Database


@pytest.fixture
def client(database: Database) -> Any:
    with QueueClient(database.dsn) as client:
        client.create_queue("orders")
        yield client


def test_drain_works_off_what_is_there_and_answers_for_each(client: QueueClient) -> None:
    orders = client.queue("orders")
    orders.send_batch([Message(1), Message(2)])
    assert drain(orders, lambda message, tx: message.body * 10) == [10, 20]
    assert orders.receive() == []


def test_drain_raises_the_first_error_and_gives_its_message_back(client: QueueClient) -> None:
    orders = client.queue("orders")
    orders.send_batch([Message(1), Message(0), Message(2)])

    def handler(message: ReceivedMessage, tx: object) -> float:
        return float(1 / message.body)

    with pytest.raises(ZeroDivisionError):
        drain(orders, handler)
    assert [message.body for message in orders.peek(max_messages=3)] == [0, 2]
