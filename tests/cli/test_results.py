"""Outcomes of messages, on the command line."""

from __future__ import annotations

from datetime import timedelta

import pytest

from pgqueue import Message, QueueClient
from tests.cli.command_line import CommandLine


@pytest.fixture(autouse=True)
def number(client: QueueClient) -> int:
    """A message in a queue that keeps results."""
    client.update_queue("orders", result_retention=timedelta(days=1))
    return client.queue("orders").send(Message({"id": 1}))


def test_the_result_of_a_completed_message(pgqueue: CommandLine, client: QueueClient, number: int) -> None:
    assert pgqueue("result", "orders", str(number), "--json").document is None
    client.queue("orders").receive()[0].complete(result={"total": 3})
    assert pgqueue("result", "orders", str(number)).out == 'COMPLETED: {"total": 3}\n'
    document = pgqueue("wait", "orders", str(number), "--timeout", "30s", "--json").document
    assert (document["sequence_number"], document["state"], document["result"]) == (number, "COMPLETED", {"total": 3})


def test_waiting_fails_for_what_was_not_completed(pgqueue: CommandLine, client: QueueClient, number: int) -> None:
    client.queue("orders").receive()[0].dead_letter("Invalid", "no address")
    waited = pgqueue("wait", "orders", str(number))
    assert waited.code == 1
    assert waited.out == "DEAD_LETTERED: Invalid: no address\n"
    assert f"message {number} of orders was not completed" in waited.err
    assert pgqueue("result", "orders", str(number), "--json").document["error"] == "Invalid: no address"


def test_waiting_in_vain(pgqueue: CommandLine, number: int) -> None:
    waited = pgqueue("wait", "orders", str(number), "--timeout", "100ms")
    assert "is not settled yet" in waited.err
    assert "nor its outcome" in pgqueue("wait", "orders", "12345678").err


def test_a_queue_that_keeps_no_results(pgqueue: CommandLine, client: QueueClient, number: int) -> None:
    pgqueue("queue", "update", "orders", "--result-retention", "none")
    assert "keeps no results" in pgqueue("result", "orders", str(number)).err
