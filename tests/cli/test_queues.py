from __future__ import annotations

import os
import pty
from datetime import timedelta

import pytest

from pgqueue import Message, QueueClient, QueueStatus
from tests.cli.command_line import CommandLine


def test_a_queue_is_created_with_what_is_said(pgqueue: CommandLine, client: QueueClient) -> None:
    created = pgqueue(
        "queue", "create", "parcels",
        "--lock-duration", "1m30s",
        "--max-delivery-count", "5",
        "--max-message-size", "64kB",
        "--status", "SEND_DISABLED",
        "--user-metadata", '{"team": "shipping"}',
    )  # fmt: skip
    assert created.code == 0
    assert "parcels" in created.out
    queue = client.get_queue("parcels")
    assert queue.lock_duration == timedelta(seconds=90)
    assert queue.max_delivery_count == 5
    assert queue.max_message_size == 65536
    assert queue.status is QueueStatus.SEND_DISABLED
    assert queue.user_metadata == {"team": "shipping"}


def test_a_queue_that_exists_is_refused_unless_that_is_fine(pgqueue: CommandLine, client: QueueClient) -> None:
    refused = pgqueue("queue", "create", "orders")
    assert refused.code == 1
    assert "--exist-ok" in refused.only_error
    assert pgqueue("queue", "create", "orders", "--exist-ok", "--json").document["name"] == "orders"


def test_queues_are_listed_for_people_and_for_programs(pgqueue: CommandLine, client: QueueClient) -> None:
    client.create_queue("parcels", lock_duration=timedelta(minutes=5))
    assert [queue["name"] for queue in pgqueue("queue", "list", "--json").document] == ["orders", "parcels"]
    listed = pgqueue("queue", "list").out
    assert "orders" in listed
    assert "5m" in listed


def test_no_queues_is_an_empty_list(pgqueue: CommandLine) -> None:
    assert pgqueue("queue", "list", "--json").document == []
    listed = pgqueue("queue", "list")
    assert listed.code == 0
    assert "pgqueue queue create" in listed.err


def test_a_queue_is_shown_with_what_is_in_it(pgqueue: CommandLine, client: QueueClient) -> None:
    client.queue("orders").send_batch([Message(1), Message(2)])
    shown = pgqueue("queue", "show", "orders", "--json").document
    assert shown["lock_duration"] == 60.0
    assert shown["ready"] == 2
    assert "oldest waits for" in pgqueue("queue", "show", "orders").out


def test_an_update_changes_what_is_said_and_nothing_else(pgqueue: CommandLine, client: QueueClient) -> None:
    client.update_queue("orders", max_message_size=1000, user_metadata={"team": "shop"})
    updated = pgqueue("queue", "update", "orders", "--lock-duration", "5m", "--json").document
    assert updated["lock_duration"] == 300.0
    assert updated["max_message_size"] == 1000
    assert updated["user_metadata"] == {"team": "shop"}


def test_none_and_null_take_the_bound_and_the_metadata_away(pgqueue: CommandLine, client: QueueClient) -> None:
    client.update_queue("orders", max_message_size=1000, user_metadata={"team": "shop"})
    taken = pgqueue("queue", "update", "orders", "--max-message-size", "none", "--user-metadata", "null", "--json")
    assert taken.document["max_message_size"] is None
    assert taken.document["user_metadata"] is None


def test_an_update_of_nothing_is_wrong_use(pgqueue: CommandLine, client: QueueClient) -> None:
    ended = pgqueue("queue", "update", "orders")
    assert ended.code == 2
    assert "what is to be changed" in ended.only_error


def test_a_purge_leaves_the_queue_and_its_dead_letters(pgqueue: CommandLine, client: QueueClient) -> None:
    orders = client.queue("orders")
    orders.send_batch([Message(1), Message(2), Message(3)])
    orders.receive()[0].dead_letter("Unreadable")
    assert pgqueue("queue", "purge", "orders", "--json").document == {"queue": "orders", "purged": 2}
    assert client.get_queue_runtime_properties("orders").dead_letters == 1


def test_a_deleted_queue_is_gone(pgqueue: CommandLine, client: QueueClient) -> None:
    client.queue("orders").send(Message(1))
    assert pgqueue("queue", "delete", "orders", "--yes", "--json").document == {"queue": "orders", "deleted": True}
    assert client.list_queues() == []


@pytest.mark.parametrize(("answer", "code", "left"), [("n", 1, 1), ("y", 0, 0)])
def test_a_person_is_asked_before_anything_is_deleted(
    pgqueue: CommandLine, client: QueueClient, answer: str, code: int, left: int
) -> None:
    keyboard, terminal = pty.openpty()
    with os.fdopen(keyboard, "wb") as typing, os.fdopen(terminal, "rb") as stdin:
        process = pgqueue.start("queue", "delete", "orders", stdin=stdin)
        typing.write(f"{answer}\n".encode())
        typing.flush()
        _, said = process.communicate(timeout=60)
    assert process.returncode == code
    assert b"Delete queue orders with 0 messages and 0 dead letters?" in said
    assert len(client.list_queues()) == left


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("create", "no spaces"), "the name of a queue"),
        (("create", "slow", "--lock-duration", "8d"), "lock_duration must be from 1 millisecond to 7 days"),
        (("create", "slow", "--lock-duration", "soon"), "write 30s, 5m or 1h30m"),
        (("create", "small", "--max-message-size", "tiny"), "write a number of bytes, 64kB or 1MB"),
        (("create", "eager", "--max-delivery-count", "0"), "--max-delivery-count"),
        (("create", "odd", "--status", "ASLEEP"), "send_disabled"),
        (("create", "odd", "--user-metadata", "{"), "not JSON"),
    ],
)
def test_a_bad_name_or_setting_is_wrong_use(pgqueue: CommandLine, arguments: tuple[str, ...], told: str) -> None:
    ended = pgqueue("queue", *arguments)
    assert ended.code == 2
    assert told in ended.only_error


@pytest.mark.parametrize("verb", ["show", "delete", "purge"])
def test_an_unknown_queue_is_a_failure_that_names_the_way_out(pgqueue: CommandLine, verb: str) -> None:
    ended = pgqueue("queue", verb, "nowhere")
    assert ended.code == 1
    assert "queue create" in ended.only_error
