from __future__ import annotations

from datetime import timedelta

import pytest

from pgqueue import Message, QueueClient
from pgqueue.testing import Database
from tests.cli.command_line import CommandLine

NOTHING = {
    "expired": 0,
    "dead_lettered": 0,
    "returned": 0,
    "activated": 0,
    "forgotten": 0,
    "reclaimed_days": 0,
    "deleted_queues": 0,
    "forwarded": 0,
    "dry_run": False,
}


@pytest.fixture(autouse=True)
def something_to_do(client: QueueClient, database: Database) -> None:
    orders = client.queue("orders")
    orders.send_batch([Message(number) for number in range(3)])
    for received in orders.receive(max_messages=3)[1:]:
        received.abandon(delay=timedelta(seconds=1) if received.body == 2 else None)
    client.update_queue("orders", max_delivery_count=1)
    database.move_clock(timedelta(minutes=2))


def test_a_sweep_does_what_is_due_and_reports_it(pgqueue: CommandLine, client: QueueClient) -> None:
    ended = pgqueue("sweep", "--json")
    assert ended.document == NOTHING | {"dead_lettered": 3, "activated": 1}
    assert len(client.queue("orders").dead_letters.peek(max_messages=9)) == 3
    assert pgqueue("sweep", "--json").document == NOTHING


def test_a_sweep_speaks_to_people(pgqueue: CommandLine) -> None:
    assert pgqueue("sweep").out == "3 messages dead-lettered, 1 whose time had come\n"
    assert pgqueue("sweep").out == "there was nothing to do\n"


def test_a_dry_run_only_counts(pgqueue: CommandLine, client: QueueClient) -> None:
    foreseen = NOTHING | {"dead_lettered": 3, "activated": 1, "dry_run": True}
    assert pgqueue("sweep", "--dry-run", "--json").document == foreseen
    assert pgqueue("sweep", "--dry-run").out.startswith("there is to be done: 3 messages dead-lettered")
    assert client.queue("orders").dead_letters.peek() == []
    assert pgqueue("sweep", "--json").document == foreseen | {"dry_run": False}


def test_a_thorough_sweep_looks_everything_over(pgqueue: CommandLine, client: QueueClient, database: Database) -> None:
    pgqueue("sweep")
    client.queue("orders").send(Message(1, time_to_live=timedelta(seconds=1)))
    database.move_clock(timedelta(minutes=1))
    with database.connect() as connection:
        connection.execute(
            "insert into pgqueue.sweep_progress select id, pgqueue.clock(), pgqueue.clock() from pgqueue.queue"
        )
    assert pgqueue("sweep", "--json").document["expired"] == 0
    assert pgqueue("sweep", "--thorough", "--json").document["expired"] == 1


def test_a_sweep_reports_forwarded_messages_as_forwarded(pgqueue: CommandLine, client: QueueClient) -> None:
    client.create_queue("parcels")
    client.queue("parcels").send_batch([Message(1), Message(2)])
    client.update_queue("parcels", forward_to="orders")
    assert "2 waiting messages forwarded" in pgqueue("sweep", "--dry-run").out
    swept = pgqueue("sweep").out
    assert "2 waiting messages forwarded" in swept
    assert "put back" not in swept


def test_a_sweep_removes_outdated_records_too(pgqueue: CommandLine, client: QueueClient, database: Database) -> None:
    client.create_queue("parcels", retain_history=timedelta(days=1), requires_duplicate_detection=True)
    parcels = client.queue("parcels")
    parcels.send_batch([Message(1, message_id="one", time_to_live=timedelta(hours=1)), Message(2, message_id="two")])
    database.move_clock(timedelta(days=3))
    assert pgqueue("sweep", "--dry-run").out.startswith("there is to be done: 1 message expired, ")
    assert pgqueue("sweep").out.startswith("1 message expired, 3 messages dead-lettered, ")
    database.move_clock(timedelta(days=9))
    swept = pgqueue("sweep", "--json").document
    assert swept["reclaimed_days"] == 1
    assert pgqueue("sweep").out == "there was nothing to do\n"


def test_a_failing_sweep_reports_its_error(pgqueue: CommandLine, database: Database) -> None:
    with database.connect() as connection:
        connection.execute("drop function pgqueue.sweep")
    ended = pgqueue("sweep")
    assert ended.code == 1
    assert ended.only_error


def test_a_sweep_takes_no_queue(pgqueue: CommandLine) -> None:
    assert pgqueue("sweep", "orders").code == 2
