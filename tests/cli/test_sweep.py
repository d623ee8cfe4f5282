from __future__ import annotations

from datetime import timedelta

import pytest

from pgqueue import Message, QueueClient
from pgqueue.testing import Database
from tests.cli.command_line import CommandLine

NOTHING = {"dead_lettered": 0, "returned": 0, "activated": 0, "dry_run": False}


@pytest.fixture(autouse=True)
def something_to_do(client: QueueClient, database: Database) -> None:
    client.update_queue("orders", max_delivery_count=1)
    orders = client.queue("orders")
    orders.send_batch([Message(number) for number in range(3)])
    for received in orders.receive(max_messages=3)[1:]:
        received.abandon(delay=timedelta(seconds=1) if received.body == 2 else None)
    database.move_clock(timedelta(minutes=2))


def test_a_sweep_does_what_there_is_to_do_and_says_so(pgqueue: CommandLine, client: QueueClient) -> None:
    ended = pgqueue("sweep", "--json")
    assert ended.document == NOTHING | {"dead_lettered": 3, "activated": 1}
    assert len(client.queue("orders").dead_letters.peek(max_messages=9)) == 3
    assert pgqueue("sweep", "--json").document == NOTHING


def test_a_sweep_speaks_to_people(pgqueue: CommandLine) -> None:
    assert pgqueue("sweep").out == (
        "3 messages dead-lettered, 0 put back after their locks expired, 1 whose time had come\n"
    )
    assert pgqueue("sweep").out == "there was nothing to do\n"


def test_a_dry_run_only_counts(pgqueue: CommandLine, client: QueueClient) -> None:
    foreseen = NOTHING | {"dead_lettered": 3, "activated": 1, "dry_run": True}
    assert pgqueue("sweep", "--dry-run", "--json").document == foreseen
    assert pgqueue("sweep", "--dry-run").out.startswith("there is to be done: 3 messages dead-lettered")
    assert client.queue("orders").dead_letters.peek() == []
    assert pgqueue("sweep", "--json").document == foreseen | {"dry_run": False}


def test_a_sweep_that_fails_says_so(pgqueue: CommandLine, database: Database) -> None:
    with database.connect() as connection:
        connection.execute("drop function pgqueue.sweep")
    ended = pgqueue("sweep")
    assert ended.code == 1
    assert ended.only_error


def test_a_sweep_takes_no_queue(pgqueue: CommandLine) -> None:
    assert pgqueue("sweep", "orders").code == 2
