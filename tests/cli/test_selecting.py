"""``pgqueue find``, ``delete``, ``cancel``, ``move`` and ``reschedule``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from uuid import uuid4

import pytest

from pgqueue import Message, QueueClient
from pgqueue.testing import Database
from pgqueue.transports.dsn import as_role
from tests.cli.command_line import CommandLine


def left(client: QueueClient, queue: str = "orders") -> Sequence[object]:
    return [message.body for message in client.queue(queue).peek(max_messages=100)]


def sent(client: QueueClient, *bodies: object, **fields: object) -> list[str]:
    messages = [Message(body, **fields) for body in bodies]  # type: ignore[arg-type]  # what a test gives
    return [str(number) for number in client.queue("orders").send_batch(messages)]


def test_messages_are_found(pgqueue: CommandLine, client: QueueClient) -> None:
    first, second = sent(client, "a", "b", subject="mail", application_properties={"n": 1})
    sent(client, "c")
    ended = pgqueue("find", "orders", "--subject", "mail")
    assert [line.split()[0] for line in ended.out.splitlines() if "mail" in line] == [first, second]
    found = pgqueue("find", "orders", "--state", "ready", "-p", "n:=1", "--after", first, "--json").document
    assert [(message["sequence_number"], message["state"]) for message in found] == [(int(second), "READY")]
    ended = pgqueue("find", "orders", "--subject", "letter")
    assert (ended.code, ended.out, ended.err) == (0, "", "orders has none like this\n")


def test_messages_are_deleted_by_number(pgqueue: CommandLine, client: QueueClient) -> None:
    first, second, third = sent(client, "a", "b", "c")
    ended = pgqueue("delete", "orders", first, second, "--yes")
    assert (ended.code, ended.out) == (0, "2 messages of orders deleted\n")
    client.queue("orders").receive()
    ended = pgqueue("delete", "orders", third, "--yes", "--json")
    assert ended.code == 1
    assert "1 message not deleted, because not there, locked" in ended.err
    assert left(client) == ["c"]


def test_messages_that_match_are_deleted(pgqueue: CommandLine, client: QueueClient) -> None:
    sent(client, *range(5), subject="mail")
    sent(client, "kept")
    assert pgqueue("delete", "orders", "--subject", "mail", "--limit", "2", "--yes", "--json").document == {
        "queue": "orders",
        "deleted": 2,
    }
    ended = pgqueue("delete", "orders", "--subject", "mail", "--yes")
    assert (ended.code, ended.out) == (0, "3 messages of orders deleted\n")
    assert left(client) == ["kept"]


@pytest.mark.parametrize("command", ["delete", "move"])
def test_numbers_or_conditions_choose_the_messages(pgqueue: CommandLine, client: QueueClient, command: str) -> None:
    client.create_queue("mails")
    options = ["--to", "mails"] if command == "move" else ["--yes"]
    (number,) = sent(client, "a")
    neither = pgqueue(command, "orders", *options)
    assert neither.code == 2
    assert "which messages?" in neither.only_error
    both = pgqueue(command, "orders", number, "--subject", "mail", *options)
    assert both.code == 2
    assert "not both" in both.only_error
    assert left(client) == ["a"]


def test_scheduled_messages_are_cancelled(pgqueue: CommandLine, client: QueueClient) -> None:
    numbers = pgqueue("send", "orders", "-f", "-", "--at", "1h", "--json", stdin="1\n2\n3\n").document[
        "sequence_numbers"
    ]
    ended = pgqueue("cancel", "orders", str(numbers[0]))
    assert (ended.code, ended.out) == (0, "1 message of orders cancelled\n")
    rest = numbers[1:]
    document = pgqueue("cancel", "orders", *map(str, rest), "--json").document
    assert document == {"queue": "orders", "cancelled": rest}
    assert left(client) == []


def test_messages_that_wait_or_are_locked_are_cancelled(pgqueue: CommandLine, client: QueueClient) -> None:
    first, second = sent(client, "a", "b")
    (received,) = client.queue("orders").receive()
    ended = pgqueue("cancel", "orders", first, second, "--reason", "sent twice")
    assert (ended.code, ended.out) == (0, "2 messages of orders cancelled\n")
    dead = client.queue("orders").dead_letters.peek(max_messages=9)
    assert [letter.dead_letter_error_description for letter in dead] == ["sent twice", "sent twice"]
    again = pgqueue("cancel", "orders", first)
    assert again.code == 1
    assert f"not cancelled: Message {first} of queue orders" in again.err
    assert received.sequence_number == int(first)


@pytest.mark.parametrize(("right", "code"), [("receive", 0), ("send", 1)])
def test_the_right_to_receive_suffices_to_cancel_what_waits(
    pgqueue: CommandLine, client: QueueClient, database: Database, right: str, code: int
) -> None:
    (number,) = sent(client, "a")
    role = f"test_{uuid4().hex[:12]}"
    with database.connect(autocommit=True) as connection:
        connection.execute(f"create role {role}".encode())
        connection.execute(f"select pgqueue.grant_{right}('orders', '{role}')".encode())
        ended = pgqueue("cancel", "orders", number, PGQUEUE_DSN=as_role(database.direct, role))
        connection.execute(f"drop owned by {role}".encode())
        connection.execute(f"drop role {role}".encode())
    assert ended.code == code, ended.err
    assert left(client) == ([] if code == 0 else ["a"])
    assert code == 0 or f"pgqueue grant receive orders {role}" in ended.only_error


def test_a_message_that_a_transaction_holds_is_left_to_it(pgqueue: CommandLine, client: QueueClient) -> None:
    (number,) = sent(client, "a")
    (received,) = client.queue("orders").receive()
    with received.transaction():
        ended = pgqueue("cancel", "orders", number)
        assert ended.code == 1
        assert "is not delivered: an open transaction" in ended.err
    assert left(client) == []


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("orders",), "NUMBER"),
        (("orders", "soon"), "NUMBER"),
        (("orders", str(2**63)), "below 2^63"),
    ],
)
def test_invalid_numbers_cannot_be_cancelled(pgqueue: CommandLine, arguments: tuple[str, ...], part: str) -> None:
    ended = pgqueue("cancel", *arguments)
    assert ended.code == 2
    assert part in ended.only_error


def test_nothing_is_cancelled_in_a_queue_that_is_not_there(pgqueue: CommandLine) -> None:
    ended = pgqueue("cancel", "nowhere", "1")
    assert ended.code == 1
    assert "queue create" in ended.only_error


def test_messages_are_moved(pgqueue: CommandLine, client: QueueClient) -> None:
    client.create_queue("mails")
    (number,) = sent(client, "a")
    ended = pgqueue("move", "orders", number, "--to", "mails")
    assert (ended.code, ended.out) == (0, "1 message of orders moved\n")
    sent(client, *range(1200), subject="mail")
    sent(client, "kept")
    document = pgqueue("move", "orders", "--subject", "mail", "--to", "mails", "--json").document
    assert document == {"queue": "orders", "moved": 1200}
    assert left(client) == ["kept"]
    ended = pgqueue("move", "orders", number, "--to", "nowhere")
    assert ended.code == 1
    assert "queue nowhere does not exist" in ended.only_error
    ended = pgqueue("move", "orders", "--state", "DEAD_LETTERED", "--to", "mails")
    assert ended.code == 2
    assert "dead-letters resubmit orders" in ended.only_error


def test_a_scheduled_message_gets_another_time(pgqueue: CommandLine, client: QueueClient) -> None:
    (number,) = pgqueue("send", "orders", "1", "--at", "1h", "--json").document["sequence_numbers"]
    document = pgqueue("reschedule", "orders", str(number), "--at", "3h", "--json").document
    (message,) = client.queue("orders").peek()
    assert message.scheduled_enqueue_time is not None
    assert document["scheduled_enqueue_time"] == message.scheduled_enqueue_time.isoformat()
    assert message.scheduled_enqueue_time - message.enqueued_time > timedelta(hours=1)
    ended = pgqueue("reschedule", "orders", "999", "--at", "1h")
    assert ended.code == 1
    assert "no scheduled message 999" in ended.only_error
