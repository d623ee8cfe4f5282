"""Applications, workers and sweepers run under a role that has only the rights named in docs/security.md."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from pgqueue import AutoLockRenewer, Message, QueueClient, ReceivedMessage, Worker, process
from pgqueue.errors import AccessDeniedError, QueueNotFoundError, TopicNotFoundError
from pgqueue.testing import Database

NEVER = datetime(2099, 1, 1, tzinfo=UTC)


@pytest.fixture
def role(database: Database) -> Iterator[str]:
    name = f"test_{uuid4().hex[:12]}"
    with database.connect(autocommit=True) as connection:
        connection.execute(f"create role {name}; create table shipped (id integer)".encode())
        connection.execute(f"grant insert on shipped to {name}".encode())
        yield name
        connection.execute(f"drop owned by {name}; drop role {name}".encode())


@pytest.fixture
def owner(database: Database) -> Iterator[QueueClient]:
    with QueueClient(database.dsn) as client:
        client.create_queue("orders", retain_history=timedelta(days=1))
        yield client


@pytest.fixture
def dsn(database: Database, role: str) -> str:
    return make_conninfo(database.direct, options=f"-c role={role}")


@pytest.fixture
def client(dsn: str) -> Iterator[QueueClient]:
    with QueueClient(dsn) as client:
        yield client


@contextmanager
def refused() -> Iterator[None]:
    with pytest.raises(AccessDeniedError, match=r"may not call (pgqueue|\"Jobs of Acme\")\.\w+ for queue orders"):
        yield


def test_a_sender_needs_no_right_on_the_queues_that_its_messages_are_forwarded_to(
    owner: QueueClient, client: QueueClient, role: str
) -> None:
    owner.create_queue("front", forward_to="orders")
    owner.grant_send("front", role)
    client.queue("front").send(Message("work"))
    with refused():
        client.queue("orders").send(Message("work"))
    with refused():
        client.delete_queue("orders")
    assert [message.body for message in owner.queue("orders").receive()] == ["work"]


def test_a_sender_sends_in_every_way_and_sees_nothing(
    owner: QueueClient, client: QueueClient, dsn: str, role: str
) -> None:
    owner.grant_send("orders", role)
    orders = client.queue("orders")
    orders.send(Message({}, priority=7, time_to_live=timedelta(hours=1)))
    orders.send_batch([Message({}), Message(b"", application_properties={"is": 1})])
    orders.cancel_scheduled([orders.schedule(Message({}), at=NEVER)])
    with orders.sender() as sender:
        for _ in range(3):
            sender.send(Message({}))
    with psycopg.connect(dsn) as connection:
        connection.execute("insert into shipped values (1)")
        orders.send(Message({}), transaction=connection)
    engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(dsn))
    with Session(engine) as session:
        orders.send(Message({}), transaction=session)
        session.commit()
    engine.dispose()
    assert client.get_queue("orders").lock_duration == timedelta(seconds=60)
    for look in (orders.receive, orders.peek, orders.receive_and_delete, orders.dead_letters.peek):
        with refused():
            look()
    with refused():
        client.get_queue_runtime_properties("orders")
    assert orders.history(since=datetime.now(UTC) - timedelta(days=1)) == []
    assert owner.get_queue_runtime_properties("orders").ready == 8


def test_a_receiver_receives_settles_and_looks_and_cannot_send(
    owner: QueueClient, client: QueueClient, dsn: str, role: str
) -> None:
    owner.grant_receive("orders", role)
    owner.queue("orders").send_batch([Message(number) for number in range(8)])
    orders = client.queue("orders")
    first, second, third, fourth, *others = orders.receive(max_messages=6)
    with first.transaction() as transaction:
        transaction.execute("insert into shipped values (1)")
        first.record_effect("mail", transaction=transaction)
    with psycopg.connect(dsn) as connection:
        second.complete(transaction=connection)
    third.dead_letter("odd")
    fourth.defer()
    with AutoLockRenewer() as renewer:
        renewer.register(others[0])
        process(others[0], lambda message, tx: tx.execute("insert into shipped values (2)"))
    others[1].renew_lock()
    others[1].abandon(delay=timedelta(hours=1))
    orders.receive_deferred([fourth.sequence_number])[0].complete()
    assert orders.dead_letters.resubmit() == [third.sequence_number]
    assert "can be delivered" in orders.explain_message(third.sequence_number)
    assert [settled.outcome for settled in orders.history(since=datetime.now(UTC) - timedelta(days=1))]
    assert client.get_queue_runtime_properties("orders").scheduled == 1
    with refused():
        orders.send(Message({}))
    with refused():
        orders.unlock(third.sequence_number)


def test_a_sender_of_a_topic_sees_no_subscription(owner: QueueClient, client: QueueClient, role: str) -> None:
    owner.create_topic("events")
    owner.create_topic("secrets")
    owner.create_subscription("events", "billing")
    owner.grant_send("events", role)
    assert client.get_topic("events").subscriptions == 1
    assert client.list_subscriptions("events") == []
    for look in (client.get_subscription, client.list_rules):
        with pytest.raises(QueueNotFoundError, match=r"queue events/Subscriptions/billing .* this role may not see it"):
            look("events", "billing")
    for find in (client.get_topic, client.list_subscriptions):
        with pytest.raises(TopicNotFoundError, match=r"topic secrets .* this role may not see it"):
            find("secrets")


def test_a_worker_needs_the_right_to_receive(owner: QueueClient, client: QueueClient, role: str) -> None:
    owner.grant_receive("orders", role)
    owner.queue("orders").send_batch([Message(number) for number in range(5)])
    done: list[object] = []

    def handler(message: ReceivedMessage, tx: psycopg.Connection[Any]) -> None:
        tx.execute("insert into shipped values (%s)", [message.body])
        done.append(message.body)
        if len(done) == 5:
            worker.stop()

    worker = Worker(client.queue("orders"), handler, transaction="psycopg")
    worker.run()
    assert sorted(map(str, done)) == ["0", "1", "2", "3", "4"]
    assert owner.get_queue_runtime_properties("orders").ready == 0


def test_a_worker_without_the_right_ends_with_the_refusal(owner: QueueClient, client: QueueClient, role: str) -> None:
    owner.grant_send("orders", role)
    with refused():
        Worker(client.queue("orders"), lambda message: None).run()


def swept(client: QueueClient) -> object:
    return client.sweep()


def counted(client: QueueClient) -> object:
    return client.list_queues_runtime_properties(), client.list_grants(), client.sweep(dry_run=True)


@pytest.mark.parametrize(("group", "call"), [("pgqueue_receiver", swept), ("pgqueue_monitor", counted)])
def test_a_sweeper_receives_from_all_queues_and_a_monitor_counts_them(
    owner: QueueClient, client: QueueClient, database: Database, role: str, group: str, call: Callable[..., object]
) -> None:
    with pytest.raises(AccessDeniedError, match=r"may not call \S.*\.(sweep|queue_estimates)"):
        call(client)
    with database.connect(autocommit=True) as connection:
        connection.execute(f"grant {group} to {role}".encode())
    assert call(client)
