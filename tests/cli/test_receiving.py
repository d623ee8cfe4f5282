from __future__ import annotations

import base64
import re
from datetime import timedelta

import pytest

from pgqueue import Message, QueueClient
from pgqueue.testing import Clock, Database
from tests.cli.command_line import CommandLine


@pytest.fixture(autouse=True)
def three_messages(client: QueueClient) -> None:
    client.queue("orders").send_batch([Message({"id": number}, subject="new") for number in (1, 2, 3)])


def test_peek_shows_messages_and_changes_nothing(pgqueue: CommandLine, client: QueueClient) -> None:
    shown = pgqueue("peek", "orders", "--json").document
    assert [message["body"]["id"] for message in shown] == [1, 2, 3]
    assert {message["delivery_count"] for message in shown} == {0}
    assert '{"id": 3}' in pgqueue("peek", "orders").out
    assert client.get_queue_runtime_properties("orders").ready == 3


@pytest.mark.parametrize("columns", ["80", "120"])
def test_peek_shows_the_state_of_each_message(
    pgqueue: CommandLine, client: QueueClient, clock: Clock, columns: str
) -> None:
    orders = client.queue("orders")
    orders.send(Message(4, time_to_live=timedelta(minutes=1)))
    orders.schedule(Message(5), at=clock.now() + timedelta(hours=3))
    first, second, _ = orders.receive(max_messages=3)
    first.defer()
    second.defer()
    orders.receive_deferred([second.sequence_number], lock_duration=timedelta(hours=1))
    clock.move(timedelta(seconds=10))
    shown = pgqueue("peek", "orders", COLUMNS=columns).out
    for state in ("deferred", "deferred, locked for 59m", "locked for", "ready", "expires in", "due in 2h59m"):
        assert state in shown
    assert max(map(len, shown.splitlines())) <= int(columns)
    clock.move(timedelta(minutes=2))
    shown = pgqueue("peek", "orders", COLUMNS=columns).out
    assert "lock expired" in shown
    assert re.search(r" 0 +expired", shown)
    documents = pgqueue("peek", "orders", "--json").document
    assert [message["is_deferred"] for message in documents] == [True, True, False, False, False]
    assert [message["expires_at"] is not None for message in documents] == [False, False, False, True, False]
    assert [message["scheduled_enqueue_time"] is not None for message in documents][-1]


def test_peek_begins_at_the_given_number_and_ends_after_the_given_count(pgqueue: CommandLine) -> None:
    first, second, _ = pgqueue("peek", "orders", "--json").document
    shown = pgqueue(
        "peek", "orders", "--from", str(first["sequence_number"] + 1), "--max-messages", "1", "--json"
    ).document
    assert shown == [second]


def test_bytes_are_shown_as_base64(pgqueue: CommandLine, client: QueueClient) -> None:
    client.create_queue("pictures")
    client.queue("pictures").send(Message(b"\x00\xff"))
    (shown,) = pgqueue("peek", "pictures", "--json").document
    assert base64.b64decode(shown["binary_body"]) == b"\x00\xff"
    assert "body" not in shown
    assert "2 bytes: 00 ff" in pgqueue("peek", "pictures").out


def test_the_text_of_a_message_cannot_control_the_terminal(pgqueue: CommandLine, client: QueueClient) -> None:
    client.create_queue("letters")
    client.queue("letters").send(Message("\x1b[2J [bold]x[/bold]", subject="a\x1b]0;title\x07\nb"))
    for command in (("peek", "letters"), ("receive", "letters")):
        shown = pgqueue(*command).out
        assert "\x1b" not in shown
        assert "\x07" not in shown
        assert "[bold]x[/bold]" in shown


@pytest.mark.core
def test_receiving_locks_and_completes_nothing(pgqueue: CommandLine, client: QueueClient) -> None:
    ended = pgqueue("receive", "orders")
    assert ended.code == 0
    assert "lock token" in ended.out
    assert "locked until" in ended.err
    counts = client.get_queue_runtime_properties("orders")
    assert (counts.ready, counts.locked) == (2, 1)


def test_messages_kept_locked_are_redelivered_when_the_lock_expires(
    pgqueue: CommandLine, client: QueueClient, clock: Clock
) -> None:
    first = pgqueue("receive", "orders", "--keep-locked", "--lock-duration", "5m", "--json").document[0]
    clock.move(timedelta(minutes=4))
    assert pgqueue("receive", "orders", "--json").document[0]["body"] == {"id": 2}
    clock.move(timedelta(minutes=2))
    again = pgqueue("receive", "orders", "--json").document[0]
    assert again["sequence_number"] == first["sequence_number"]
    assert again["delivery_count"] == 2


def test_the_token_that_is_printed_settles_in_sql(
    pgqueue: CommandLine, database: Database, client: QueueClient
) -> None:
    (message,) = pgqueue("receive", "orders", "--json").document
    with database.connect() as connection:
        proof = (message["queue"], message["sequence_number"], message["lock_token"])
        connection.execute("select pgqueue.complete(%s, %s, %s)", proof)
    counts = client.get_queue_runtime_properties("orders")
    assert (counts.ready, counts.locked) == (2, 0)


@pytest.mark.core
def test_completed_messages_are_gone(pgqueue: CommandLine, client: QueueClient) -> None:
    ended = pgqueue("receive", "orders", "--max-messages", "2", "--complete")
    assert '{"id": 2}' in ended.out
    assert "2 messages completed" in ended.err
    assert [message.body for message in client.queue("orders").peek(max_messages=10)] == [{"id": 3}]


def test_abandoned_messages_are_back_at_once_and_counted(pgqueue: CommandLine, client: QueueClient) -> None:
    assert "1 message abandoned" in pgqueue("receive", "orders", "--abandon").err
    first, *_ = client.queue("orders").receive()
    assert first.body == {"id": 1}
    assert first.delivery_count == 2


def test_nothing_to_receive_is_no_failure(pgqueue: CommandLine, client: QueueClient) -> None:
    client.purge_queue("orders")
    ended = pgqueue("receive", "orders", "--wait", "10ms")
    assert (ended.code, ended.out) == (0, "")
    assert "nothing to receive" in ended.err
    assert pgqueue("receive", "orders", "--json").document == []
    assert "there is nothing" in pgqueue("peek", "orders").err


def test_receiving_waits_for_messages_sent_meanwhile(pgqueue: CommandLine, client: QueueClient) -> None:
    client.purge_queue("orders")
    with pgqueue.start("receive", "orders", "--wait", "1m", "--json", "--complete") as waiting:
        client.queue("orders").send(Message({"id": 4}))
        out, _ = waiting.communicate(timeout=300)
    assert waiting.returncode == 0
    assert b'"id": 4' in out


def test_messages_that_could_not_be_printed_are_not_completed(pgqueue: CommandLine, client: QueueClient) -> None:
    with pgqueue.start("receive", "orders", "-n", "3", "--complete", "--json") as receiving:
        assert receiving.stdout is not None
        receiving.stdout.close()
        _, said = receiving.communicate(timeout=300)
    assert (receiving.returncode, said) == (1, b"")
    assert client.get_queue_runtime_properties("orders").ready == 3


def test_two_ends_for_one_message_are_wrong_use(pgqueue: CommandLine, client: QueueClient) -> None:
    for both in (("--complete", "--abandon"), ("--defer", "--keep-locked")):
        ended = pgqueue("receive", "orders", *both)
        assert ended.code == 2
        assert "--defer and --keep-locked" in ended.only_error
    assert client.get_queue_runtime_properties("orders").ready == 3


def test_deferred_messages_are_received_by_their_numbers(pgqueue: CommandLine, client: QueueClient) -> None:
    ended = pgqueue("receive", "orders", "--max-messages", "2", "--defer", "--json")
    numbers = [str(message["sequence_number"]) for message in ended.document]
    by_number = ("--deferred", numbers[0], "--deferred", numbers[1])
    assert f"2 messages deferred; receive with `pgqueue receive orders {' '.join(by_number)}`" in ended.err
    assert client.get_queue_runtime_properties("orders").deferred == 2
    assert pgqueue("receive", "orders", "--complete", "--json").document[0]["body"] == {"id": 3}
    received = pgqueue("receive", "orders", *by_number, "--complete", "--json").document
    assert [message["body"]["id"] for message in received] == [1, 2]
    assert client.queue("orders").peek() == []


def test_a_deferred_message_that_is_abandoned_stays_deferred(pgqueue: CommandLine, client: QueueClient) -> None:
    (message,) = pgqueue("receive", "orders", "--defer", "--json").document
    number = str(message["sequence_number"])
    shown = pgqueue("receive", "orders", "--deferred", number, "--abandon")
    assert "is deferred" in shown.out
    assert client.get_queue_runtime_properties("orders").deferred == 1
    assert "then deferred again" in pgqueue("receive", "orders", "--deferred", number).err


def test_receiving_a_locked_deferred_message_is_a_failure(pgqueue: CommandLine, client: QueueClient) -> None:
    numbers = [
        str(message["sequence_number"])
        for message in pgqueue("receive", "orders", "-n", "2", "--defer", "--json").document
    ]
    assert pgqueue("receive", "orders", "--deferred", numbers[0]).code == 0
    held = pgqueue("receive", "orders", "--deferred", numbers[0])
    assert held.code == 1
    assert f"pgqueue peek orders --from {numbers[0]}" in held.only_error
    both = pgqueue("receive", "orders", "--deferred", numbers[0], "--deferred", numbers[1], "--complete")
    assert both.code == 1
    assert "1 message completed" in both.err


def test_a_message_that_is_not_deferred_cannot_be_received_by_number(pgqueue: CommandLine, client: QueueClient) -> None:
    (first,) = client.queue("orders").peek()
    ended = pgqueue("receive", "orders", "--deferred", str(first.sequence_number))
    assert ended.code == 1
    assert f"no deferred message {first.sequence_number}" in ended.only_error
    assert client.get_queue_runtime_properties("orders").ready == 3


def test_dead_letters_are_received_and_settled(pgqueue: CommandLine, client: QueueClient) -> None:
    for message in client.queue("orders").receive(max_messages=2):
        message.dead_letter("Unreadable", "no address")
    shown = pgqueue("receive", "orders", "--dead-letters", "-n", "9", "--abandon")
    assert "Unreadable" in shown.out
    assert "2 messages abandoned" in shown.err
    (first,) = pgqueue("receive", "orders", "--dead-letters", "--complete", "--json").document
    assert (first["queue"], first["dead_letter_reason"]) == ("orders/$deadletterqueue", "Unreadable")
    counts = client.get_queue_runtime_properties("orders")
    assert (counts.ready, counts.dead_letters) == (1, 1)


def test_dead_letters_go_by_the_name_of_their_queue_too(pgqueue: CommandLine, client: QueueClient) -> None:
    client.queue("orders").receive()[0].dead_letter("Unreadable")
    refused = pgqueue("receive", "orders/$deadletterqueue", "--defer")
    assert refused.code == 2
    assert "dead letters cannot be deferred" in refused.only_error
    assert "Unreadable" in pgqueue("receive", "orders/$deadletterqueue", "--complete").out
    assert client.get_queue_runtime_properties("orders").dead_letters == 0


def test_no_dead_letters_are_nothing_to_receive(pgqueue: CommandLine) -> None:
    ended = pgqueue("receive", "orders", "--dead-letters")
    assert (ended.code, ended.out) == (0, "")
    assert "nothing to receive" in ended.err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--dead-letters", "--defer"), "dead letters cannot be deferred"),
        (("--dead-letters", "--deferred", "1"), "not both"),
        (("--deferred", "1", "--wait", "1s"), "leave out --max-messages and --wait"),
        (("--deferred", "1", "--max-messages", "2"), "leave out --max-messages and --wait"),
        (("--deferred", "first"), "--deferred"),
        (("--deferred", str(2**63)), "below 2^63"),
    ],
)
def test_options_that_do_not_fit_together_are_wrong_use(
    pgqueue: CommandLine, client: QueueClient, arguments: tuple[str, ...], told: str
) -> None:
    ended = pgqueue("receive", "orders", *arguments)
    assert ended.code == 2
    assert told in ended.only_error
    assert client.get_queue_runtime_properties("orders").ready == 3


ENDLESS = "select pgqueue.send('orders', '1e5000'::jsonb, application_properties => '{\"of\": 1e5000}')"


def test_values_that_python_cannot_read_are_shown_as_text(pgqueue: CommandLine, database: Database) -> None:
    with database.connect(autocommit=True) as connection:
        connection.execute(ENDLESS)
        connection.execute("select pgqueue.send('orders', (repeat('[', 900) || repeat(']', 900))::jsonb)")
    *_, endless, deep = pgqueue("peek", "orders", "--json").document
    assert (len(endless["raw_body"]), endless["raw_application_properties"][:9]) == (5001, '{"of": 10')
    assert "body" not in endless
    assert deep["raw_body"] == "[" * 900 + "]" * 900
    assert "10000" in pgqueue("peek", "orders").out
    received = pgqueue("receive", "orders", "-n", "5", "--keep-locked")
    assert (received.code, "10000" in received.out) == (0, True)


def test_a_dead_letter_and_a_setting_that_python_cannot_read_are_shown_as_text(
    pgqueue: CommandLine, client: QueueClient, database: Database
) -> None:
    orders = client.queue("orders")
    client.purge_queue("orders")
    with database.connect(autocommit=True) as connection:
        connection.execute(ENDLESS)
        connection.execute("select pgqueue.alter_queue('orders', user_metadata => '1e5000')")
    (received,) = orders.receive()
    received.dead_letter("Unreadable")
    assert "Unreadable" in pgqueue("dead-letters", "list", "orders").out
    (listed,) = pgqueue("dead-letters", "list", "orders", "--json").document
    shown = pgqueue("dead-letters", "show", "orders", str(received.sequence_number), "--json").document
    assert listed == shown
    assert len(shown["raw_body"]) == 5001
    assert "10000" in pgqueue("dead-letters", "show", "orders", str(received.sequence_number)).out
    assert "orders" in pgqueue("queue", "list").out
    assert len(pgqueue("queue", "show", "orders", "--json").document["raw_user_metadata"]) == 5001


def test_bodies_nested_too_deeply_are_refused_in_one_line(pgqueue: CommandLine) -> None:
    for depth in (201, 3000):
        assert "nested too deeply" in pgqueue("send", "orders", "[" * depth + "]" * depth).only_error
