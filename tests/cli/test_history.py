from __future__ import annotations

import re
from datetime import timedelta

import pytest

from pgqueue import Message, QueueClient, SettledMessage
from pgqueue.cli.history import Ending
from pgqueue.testing import Clock
from tests.cli.command_line import CommandLine


@pytest.fixture(autouse=True)
def numbers(client: QueueClient, clock: Clock) -> list[int]:
    """Three settled messages, an hour from one to the next: dead-lettered, completed, purged."""
    client.update_queue("orders", retain_history=timedelta(days=7))
    orders = client.queue("orders")
    messages = [Message({"id": number}, message_id=f"order-{number}", subject="new") for number in (1, 2, 3)]
    numbers = orders.send_batch(messages)
    orders.receive()[0].dead_letter("Unreadable", "no address")
    clock.move(timedelta(hours=1))
    orders.receive()[0].complete()
    clock.move(timedelta(hours=1))
    client.purge_queue("orders")
    return [int(number) for number in numbers]


def outcomes(pgqueue: CommandLine, *arguments: str) -> list[str]:
    return [message["outcome"] for message in pgqueue("history", "orders", *arguments, "--json").document]


def test_the_history_lists_the_last_message_first(pgqueue: CommandLine, numbers: list[int]) -> None:
    purged, completed, dead = pgqueue("history", "orders", "--json").document
    assert [message["sequence_number"] for message in (dead, completed, purged)] == numbers
    assert (dead["outcome"], dead["reason"], dead["message_id"]) == ("DEAD_LETTERED", "Unreadable", "order-1")
    assert (completed["outcome"], completed["delivery_count"]) == ("COMPLETED", 1)
    assert (purged["outcome"], purged["first_locked_at"]) == ("PURGED", None)


@pytest.mark.parametrize("columns", ["80", "120"])
def test_the_history_is_a_table_for_people(pgqueue: CommandLine, columns: str) -> None:
    told = pgqueue("history", "orders", COLUMNS=columns).out
    assert max(map(len, told.splitlines())) <= int(columns)
    for word in ("DEAD_LETTERED", "Unreadable", "order-2"):
        assert word in told
    assert re.search(r" 1h.* ago +COMPLETED", told)


def test_filters_of_the_history_are_combined(pgqueue: CommandLine, numbers: list[int]) -> None:
    assert outcomes(pgqueue, "--limit", "2") == ["PURGED", "COMPLETED"]
    assert outcomes(pgqueue, "--outcome", "completed") == ["COMPLETED"]
    assert outcomes(pgqueue, "--message-id", "order-1") == ["DEAD_LETTERED"]
    assert outcomes(pgqueue, "--sequence-number", str(numbers[2])) == ["PURGED"]
    assert outcomes(pgqueue, "--sequence-number", str(numbers[2]), "--message-id", "order-1") == []


def test_since_is_a_time_or_how_long_ago(pgqueue: CommandLine, clock: Clock) -> None:
    assert outcomes(pgqueue, "--since", "90m") == ["PURGED", "COMPLETED"]
    then = clock.now() - timedelta(minutes=30)
    assert outcomes(pgqueue, "--since", then.isoformat()) == ["PURGED"]


def test_nothing_is_no_failure(pgqueue: CommandLine, client: QueueClient) -> None:
    ended = pgqueue("history", "orders", "--message-id", "order-4")
    assert (ended.code, ended.out) == (0, "")
    assert "which goes back 7d" in ended.err
    client.create_queue("parcels")
    ended = pgqueue("history", "parcels", "--json")
    assert ended.document == []
    assert "pgqueue queue update parcels --retain-history" in ended.err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--since", "yesterday"), "write 2026-01-31T08:00Z, or a duration such as 10m"),
        (("--since", "2026-01-31T08:00"), "lacks its zone"),
        (("--since", "99999999d"), "more than a hundred years away"),
        (("--outcome", "lost"), "dead_lettered"),
        (("--limit", "0"), "--limit"),
        (("--sequence-number", str(2**63)), "below 2^63"),
    ],
)
def test_invalid_filters_of_the_history_are_wrong_use(
    pgqueue: CommandLine, arguments: tuple[str, ...], told: str
) -> None:
    ended = pgqueue("history", "orders", *arguments)
    assert ended.code == 2
    assert told in ended.only_error


def test_the_history_of_an_unknown_queue_is_a_failure(pgqueue: CommandLine) -> None:
    ended = pgqueue("history", "nowhere")
    assert ended.code == 1
    assert "queue create" in ended.only_error


def test_every_outcome_can_be_asked_for() -> None:
    assert SettledMessage.__doc__ is not None
    assert [ending for ending in Ending if ending not in SettledMessage.__doc__] == []
