"""A gateway whose clock differs from that of the database: what happens to messages depends on the latter."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from pgqueue import Message, QueueClient
from pgqueue.gateway import gateway as gateways
from pgqueue.gateway.amqp import types
from pgqueue.gateway.amqp.performatives import Accepted, Disposition
from pgqueue.gateway.connection import Connection
from pgqueue.gateway.gateway import Gateway
from pgqueue.testing import Database
from tests.gateway.raw import RawClient
from tests.gateway.serving import key_of, served

pytestmark = pytest.mark.usefixtures("unexpected")

MINUTE = timedelta(minutes=1)


def deleted(client: RawClient, until: datetime, most: int = 10) -> int:
    """Delete what was sent until then; returns how many the gateway has counted."""
    asked = {
        "message-count": types.int_(most),
        "enqueued-time-utc": types.Timestamp((until - types.EPOCH) // types.MILLISECOND),
    }
    answer = client.request("orders/$management", "com.microsoft:batch-delete-messages", asked)
    return int(answer["body"]["message-count"])


@pytest.mark.parametrize("ahead", [timedelta(hours=-1), timedelta(0), timedelta(hours=1)], ids=str)
def test_messages_are_deleted_by_the_time_of_the_database(
    database: Database, connect: Callable[[], RawClient], orders: QueueClient, ahead: timedelta
) -> None:
    database.clock.move(ahead)
    queue = orders.queue("orders")
    queue.send_batch([Message(nth) for nth in range(5)])
    database.clock.move(MINUTE)
    until = database.clock.now() - MINUTE / 2
    queue.send(Message("young"))
    database.clock.move(MINUTE)
    queue.receive()  # a message that is locked stays
    client = connect()
    assert [deleted(client, until, most=3), deleted(client, until), deleted(client, until)] == [3, 1, 0]
    assert [message.body for message in queue.peek(max_messages=9)] == [0, "young"]


def test_a_deletion_that_waits_deletes_no_later_messages(
    database: Database, connect: Callable[[], RawClient], orders: QueueClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Gateway.clock

    async def early(gateway: Gateway) -> datetime:
        now = await clock(gateway)
        database.clock.move(2 * MINUTE)
        return now

    monkeypatch.setattr(Gateway, "clock", early)
    queue = orders.queue("orders")
    queue.send(Message("old"))
    database.clock.move(MINUTE)
    until = database.clock.now()
    database.clock.move(MINUTE)
    queue.send(Message("young"))
    assert deleted(connect(), until) == 1
    assert [message.body for message in queue.peek()] == ["young"]


def test_a_lock_lasts_by_the_clock_of_the_database(
    database: Database, shop: str, orders: QueueClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_grants = Connection.check_grants
    rounds: list[bool] = []
    is_received, is_looked_after = threading.Event(), threading.Event()

    def noted(connection: Connection) -> None:
        check_grants(connection)
        rounds.append(is_received.is_set())
        if rounds.count(True) == 2:  # the first may have begun before
            monkeypatch.setattr(gateways, "EVERY", 60.0)
            is_looked_after.set()

    monkeypatch.setattr(Connection, "check_grants", noted)
    monkeypatch.setattr(gateways, "EVERY", 0.05)
    database.clock.move(timedelta(hours=-1))
    orders.queue("orders").send(Message(1))
    with served(database) as gateway, RawClient(gateway.address) as client:
        assert client.sign_in("shop", key_of(database, "shop")) == 0
        client.open()
        client.receiver("orders", credit=1)
        first, _ = client.receive()
        is_received.set()
        assert is_looked_after.wait(60)
        client.write(Disposition(True, first.delivery_id or 0, settled=False, state=Accepted()))
        assert client.outcome() == Accepted()
    assert not orders.queue("orders").peek()
