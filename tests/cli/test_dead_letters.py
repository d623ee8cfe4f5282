from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest

from pgqueue import Message, QueueClient
from pgqueue.testing import Clock
from tests.cli.command_line import CommandLine


@pytest.fixture(autouse=True)
def numbers(client: QueueClient) -> Sequence[int]:
    """Three dead letters: two unreadable ones and one too late."""
    orders = client.queue("orders")
    numbers = orders.send_batch([Message({"id": number}) for number in (1, 2, 3)])
    received = orders.receive(max_messages=3)
    orders.dead_letter_batch(received[:2], reason="Unreadable", description="no address")
    received[2].dead_letter("TooLate")
    return numbers


def ready(client: QueueClient) -> int:
    return client.get_queue_runtime_properties("orders").ready


def test_dead_letters_are_listed_with_their_reasons(pgqueue: CommandLine) -> None:
    listed = pgqueue("dead-letters", "list", "orders", "--json").document
    assert [message["dead_letter_reason"] for message in listed] == ["Unreadable", "Unreadable", "TooLate"]
    assert listed[0]["dead_letter_error_description"] == "no address"
    assert "TooLate" in pgqueue("dead-letters", "list", "orders").out


def test_the_list_begins_and_ends_at_the_given_numbers(pgqueue: CommandLine, numbers: Sequence[int]) -> None:
    listed = pgqueue("dead-letters", "list", "orders", "--from", str(numbers[1]), "--max-messages", "1", "--json")
    assert [message["sequence_number"] for message in listed.document] == [numbers[1]]


def test_one_dead_letter_is_shown_whole(pgqueue: CommandLine, numbers: Sequence[int]) -> None:
    assert pgqueue("dead-letters", "show", "orders", str(numbers[2]), "--json").document["body"] == {"id": 3}
    shown = pgqueue("dead-letters", "show", "orders", str(numbers[2])).out
    assert "TooLate" in shown
    assert '"id": 3' in shown


def test_showing_a_message_that_is_not_a_dead_letter_fails(pgqueue: CommandLine, numbers: Sequence[int]) -> None:
    ended = pgqueue("dead-letters", "show", "orders", str(numbers[0] - 1))
    assert ended.code == 1
    assert "dead-letters list orders" in ended.only_error


def test_resubmit_without_numbers_resubmits_all_dead_letters(
    pgqueue: CommandLine, client: QueueClient, numbers: Sequence[int]
) -> None:
    document = pgqueue("dead-letters", "resubmit", "orders", "--json").document
    assert document == {"queue": "orders", "sequence_numbers": list(numbers)}
    assert [message.delivery_count for message in client.queue("orders").receive(max_messages=3)] == [1, 1, 1]


def test_these_are_sent_back_and_no_others(pgqueue: CommandLine, client: QueueClient, numbers: Sequence[int]) -> None:
    ended = pgqueue("dead-letters", "resubmit", "orders", str(numbers[1]))
    assert ended.out == "1 dead letter sent back to orders\n"
    assert [message.body for message in client.queue("orders").peek(max_messages=3)] == [{"id": 2}]


def test_a_number_that_is_not_there_is_a_failure(
    pgqueue: CommandLine, client: QueueClient, numbers: Sequence[int]
) -> None:
    ended = pgqueue("dead-letters", "resubmit", "orders", str(numbers[0]), "999999")
    assert ended.code == 1
    assert ended.err == "pgqueue: not resubmitted, because not there, locked or not fitting: 999999\n"
    assert ready(client) == 1


def test_dead_letters_of_one_reason_are_sent_back(pgqueue: CommandLine, client: QueueClient) -> None:
    assert pgqueue("dead-letters", "resubmit", "orders", "--reason", "Unreadable").code == 0
    assert ready(client) == 2


def test_old_dead_letters_are_sent_back(pgqueue: CommandLine, client: QueueClient, clock: Clock) -> None:
    clock.move(timedelta(hours=1))
    assert pgqueue("dead-letters", "resubmit", "orders", "--older-than", "2h").code == 0
    assert ready(client) == 0
    assert pgqueue("dead-letters", "resubmit", "orders", "--older-than", "30m").code == 0
    assert ready(client) == 3


def test_so_many_are_sent_back_at_the_most(pgqueue: CommandLine, client: QueueClient) -> None:
    assert pgqueue("dead-letters", "resubmit", "orders", "--limit", "1").code == 0
    assert ready(client) == 1


def test_thousands_are_sent_back_in_portions(pgqueue: CommandLine, client: QueueClient) -> None:
    orders = client.queue("orders")
    orders.send_batch([Message(number) for number in range(2500)])
    orders.dead_letter_batch(orders.receive(max_messages=2500), reason="Unreadable")
    assert len(pgqueue("dead-letters", "resubmit", "orders", "--json").document["sequence_numbers"]) == 2503
    assert ready(client) == 2503


def test_listing_a_queue_without_dead_letters_prints_a_note(pgqueue: CommandLine, client: QueueClient) -> None:
    client.create_queue("parcels")
    ended = pgqueue("dead-letters", "list", "parcels")
    assert (ended.code, ended.out) == (0, "")
    assert "no dead letters" in ended.err


def test_locked_dead_letters_are_listed_and_stay(
    pgqueue: CommandLine, client: QueueClient, numbers: Sequence[int]
) -> None:
    client.queue("orders").dead_letters.receive(lock_duration=timedelta(hours=1))
    assert "locked for" in pgqueue("dead-letters", "list", "orders", COLUMNS="80").out
    assert "locked by" in pgqueue("dead-letters", "show", "orders", str(numbers[0])).out
    ended = pgqueue("dead-letters", "resubmit", "orders", *map(str, numbers))
    assert ended.code == 1
    assert ended.err.endswith(f"locked or not fitting: {numbers[0]}\n")
    assert ready(client) == 2


def test_a_purge_leaves_the_messages_of_the_queue(pgqueue: CommandLine, client: QueueClient) -> None:
    client.queue("orders").send(Message(4))
    assert pgqueue("dead-letters", "purge", "orders", "--yes", "--json").document == {"queue": "orders", "purged": 3}
    assert pgqueue("dead-letters", "purge", "orders", "--yes").out == "0 dead letters of orders deleted\n"
    counts = client.get_queue_runtime_properties("orders")
    assert (counts.ready, counts.dead_letters) == (1, 0)
    assert "queue create" in pgqueue("dead-letters", "purge", "nowhere").only_error


def test_these_are_purged_and_no_others(pgqueue: CommandLine, client: QueueClient, numbers: Sequence[int]) -> None:
    first, second, third = map(str, numbers)
    assert (
        pgqueue("dead-letters", "purge", "orders", second, second, "--yes").out == "1 dead letter of orders deleted\n"
    )
    assert pgqueue("dead-letters", "purge", "orders", third, "--yes", "--json").document == {
        "queue": "orders",
        "purged": 1,
    }
    assert [str(left.sequence_number) for left in client.queue("orders").dead_letters.peek(max_messages=9)] == [first]


def test_an_unknown_number_stops_a_purge(pgqueue: CommandLine, client: QueueClient, numbers: Sequence[int]) -> None:
    error = pgqueue("dead-letters", "purge", "orders", str(numbers[0]), "999999", "888888").only_error
    assert "orders has no dead letters 888888, 999999: `pgqueue dead-letters list orders` shows them" in error
    assert len(client.queue("orders").dead_letters.peek(max_messages=9)) == 3


def test_a_locked_dead_letter_is_not_purged_by_number(
    pgqueue: CommandLine, client: QueueClient, numbers: Sequence[int]
) -> None:
    client.queue("orders").dead_letters.receive(lock_duration=timedelta(hours=1))
    ended = pgqueue("dead-letters", "purge", "orders", *map(str, numbers), "--yes")
    assert (ended.code, ended.err) == (1, f"pgqueue: not deleted, because locked: {numbers[0]}\n")
    assert len(client.queue("orders").dead_letters.peek(max_messages=9)) == 1
