from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pgqueue import PeekedMessage, QueueClient
from pgqueue.testing import Clock
from tests.cli.command_line import CommandLine


def sent(client: QueueClient) -> list[PeekedMessage]:
    return client.queue("orders").peek(max_messages=10_000)


def test_a_body_is_json(pgqueue: CommandLine, client: QueueClient) -> None:
    ended = pgqueue("send", "orders", '{"id": 7, "lines": [1, 2]}')
    (message,) = sent(client)
    assert message.body == {"id": 7, "lines": [1, 2]}
    assert ended.out == f"sent message {message.sequence_number} to orders\n"


def test_a_message_is_sent_with_all_given_options(pgqueue: CommandLine, client: QueueClient) -> None:
    document = pgqueue(
        "send", "orders", "1",
        "--property", "shop=berlin=mitte",
        "-p", 'tries:={"left": 3}',
        "--message-id", "order-7",
        "--correlation-id", "basket-3",
        "--subject", "new",
        "--content-type", "application/vnd.order",
        "--reply-to", "answers",
        "--priority", "-5",
        "--json",
    ).document  # fmt: skip
    (message,) = sent(client)
    assert document == {"queue": "orders", "sequence_numbers": [message.sequence_number], "duplicate": False}
    assert message.application_properties == {"shop": "berlin=mitte", "tries": {"left": 3}}
    assert (message.message_id, message.correlation_id, message.subject) == ("order-7", "basket-3", "new")
    assert (message.content_type, message.reply_to, message.priority) == ("application/vnd.order", "answers", -5)


def test_a_message_expires_when_its_time_is_over(pgqueue: CommandLine, client: QueueClient, clock: Clock) -> None:
    assert pgqueue("send", "orders", "1", "--time-to-live", "1h").code == 0
    (message,) = sent(client)
    assert message.expires_at == message.enqueued_time + timedelta(hours=1)
    clock.move(timedelta(hours=2))
    assert client.queue("orders").receive() == []


def test_a_message_comes_when_its_time_has_come(pgqueue: CommandLine, client: QueueClient, clock: Clock) -> None:
    assert pgqueue("send", "orders", "1", "--at", "2100-01-31T08:00+01:00").code == 0
    assert sent(client)[0].scheduled_enqueue_time == datetime(2100, 1, 31, 7, tzinfo=UTC)
    assert client.queue("orders").receive() == []


def test_so_long_from_now_is_by_the_clock_of_the_database(
    pgqueue: CommandLine, client: QueueClient, clock: Clock
) -> None:
    clock.move(timedelta(days=100))
    assert pgqueue("send", "orders", "--file", "-", "--at", "10m", stdin="1\n2\n").code == 0
    now = clock.now()
    for message in sent(client):
        assert message.scheduled_enqueue_time is not None
        assert timedelta(minutes=9) < message.scheduled_enqueue_time - now <= timedelta(minutes=10)


def test_a_duplicate_is_reported_and_is_no_failure(pgqueue: CommandLine, client: QueueClient) -> None:
    client.update_queue("orders", requires_duplicate_detection=True)
    first = pgqueue("send", "orders", "1", "--message-id", "order-7", "--json").document
    (number,) = first["sequence_numbers"]
    assert first["duplicate"] is False
    again = pgqueue("send", "orders", "2", "--message-id", "order-7")
    assert (again.code, again.out) == (0, f"message {number} has the same message id order-7: nothing was stored\n")
    assert pgqueue("send", "orders", "2", "--message-id", "order-7", "--json").document == first | {"duplicate": True}
    assert [message.body for message in sent(client)] == [1]


def test_a_message_with_a_unique_key_is_ignored_replaces_another_one_or_fails(
    pgqueue: CommandLine, client: QueueClient
) -> None:
    (number,) = pgqueue("send", "orders", "1", "--unique-key", "k", "--json").document["sequence_numbers"]
    again = pgqueue("send", "orders", "2", "--unique-key", "k")
    assert (again.code, again.out) == (0, f"message {number} has the same unique key k: nothing was stored\n")
    replaced = pgqueue("send", "orders", "3", "--unique-key", "k", "--on-conflict", "replace")
    assert (replaced.code, replaced.out) == (0, f"sent message {number} to orders\n")
    raised = pgqueue("send", "orders", "4", "--unique-key", "k", "--on-conflict", "raise")
    assert (raised.code, "has the unique key 'k'" in raised.only_error) == (1, True)
    assert [message.body for message in sent(client)] == [3]
    received = client.queue("orders").receive()
    locked = pgqueue("send", "orders", "5", "--unique-key", "k", "--unique-scope", "unsettled")
    assert (locked.code, len(received), len(sent(client))) == (0, 1, 1)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--file", "-", "--unique-key", "k"), "--unique-key is for one message"),
        (("1", "--topic", "--on-conflict", "replace"), "--on-conflict is for a queue"),
        (("1", "--on-conflict", "merge"), "merge"),
    ],
)
def test_wrong_options_of_unique_messages_are_refused(
    pgqueue: CommandLine, client: QueueClient, arguments: tuple[str, ...], told: str
) -> None:
    ended = pgqueue("send", "orders", *arguments, stdin="1\n")
    assert ended.code == 2
    assert told in ended.err


def test_a_dash_reads_the_body_from_stdin(pgqueue: CommandLine, client: QueueClient) -> None:
    assert pgqueue("send", "orders", "-", stdin='{"street":\n "Straße"}').code == 0
    assert sent(client)[0].body == {"street": "Straße"}


def test_text_and_bytes_are_sent_as_they_stand(pgqueue: CommandLine, client: QueueClient) -> None:
    assert pgqueue("send", "orders", "--text", "call me back").code == 0
    assert pgqueue("send", "orders", "--binary", "-", stdin=b"\x00\xff").code == 0
    assert [message.body for message in sent(client)] == ["call me back", b"\x00\xff"]


def test_each_line_of_a_file_is_a_message(pgqueue: CommandLine, client: QueueClient) -> None:
    lines = "".join(f'{{"id": {number}}}\n\n' for number in range(2500))
    (pgqueue.directory / "orders.jsonl").write_text(lines)
    ended = pgqueue("send", "orders", "--file", "orders.jsonl", "--subject", "import")
    assert ended.out == "sent 2,500 messages to orders\n"
    assert [message.body["id"] for message in sent(client)] == list(range(2500))
    assert {message.subject for message in sent(client)} == {"import"}


def test_the_file_may_be_stdin(pgqueue: CommandLine, client: QueueClient) -> None:
    assert pgqueue("send", "orders", "-f", "-", stdin="1\n2\n").code == 0
    assert [message.body for message in sent(client)] == [1, 2]


@pytest.mark.parametrize("line", ["{", "NaN", '"\\u0000"', "\xff"])
def test_a_bad_line_is_named_and_nothing_is_sent(pgqueue: CommandLine, client: QueueClient, line: str) -> None:
    (pgqueue.directory / "orders.jsonl").write_bytes(b"1\n" * 1500 + line.encode("latin-1") + b"\n")
    ended = pgqueue("send", "orders", "--file", "orders.jsonl")
    assert ended.code == 1
    assert ended.only_error.startswith("pgqueue: orders.jsonl, line 1501: ")
    assert sent(client) == []


def test_a_file_that_cannot_be_read_is_a_failure(pgqueue: CommandLine, client: QueueClient, tmp_path: Path) -> None:
    ended = pgqueue("send", "orders", "--file", "missing.jsonl")
    assert ended.code == 1
    assert ended.only_error == "pgqueue: missing.jsonl: No such file or directory"
    assert pgqueue("send", "orders", "--file", str(tmp_path)).code == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "what is to be sent?"),
        (("1", "--file", "orders.jsonl"), "what is to be sent?"),
        (("hello",), "--text"),
        (("1", "--text", "--binary"), "--text and --binary"),
        (("--file", "-", "--message-id", "one"), "--message-id is for one message"),
        (("1", "--property", "shop"), "key=text"),
        (("1", "--property", "shop:={"), "not JSON"),
        (("1", "--priority", "101"), "--priority"),
        (("1", "--time-to-live", "0"), "more than 0"),
        (("1", "--time-to-live", "40000d"), "36500d at the most"),
        (("1", "--time-to-live", "soon"), "write 30s, 5m or 1h30m"),
        (("1", "--at", "tomorrow"), "write 2026-01-31T08:00Z, or a duration such as 10m"),
        (("1", "--at", "2100-01-31T08:00"), "lacks its zone"),
        (("1", "--at", "99999999d"), "more than a hundred years away"),
        (("1", "--at", "9999-12-31T23:59:59-12:00"), "more than a hundred years away"),
    ],
)
def test_impossible_options_of_send_are_wrong_use(
    pgqueue: CommandLine, client: QueueClient, arguments: tuple[str, ...], told: str
) -> None:
    ended = pgqueue("send", "orders", *arguments)
    assert ended.code == 2
    assert told in ended.only_error
    assert sent(client) == []


def test_a_send_that_the_queue_refuses_is_a_failure(pgqueue: CommandLine, client: QueueClient) -> None:
    client.update_queue("orders", max_message_size=10)
    assert "--max-message-size" in pgqueue("send", "orders", '"a long story"').only_error
    client.update_queue("orders", status="SEND_DISABLED")
    assert "--status ACTIVE" in pgqueue("send", "orders", "1").only_error
    client.update_queue("orders", status="ACTIVE", max_message_size=None, max_queue_length=1)
    assert pgqueue("send", "orders", "1").code == 0
    assert "--max-queue-length" in pgqueue("send", "orders", "2").only_error
    assert pgqueue("send", "nowhere", "1").code == 1
