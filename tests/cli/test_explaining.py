"""``pgqueue explain`` and ``pgqueue unlock``."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from pgqueue import Message, QueueClient
from tests.cli.command_line import CommandLine


def test_a_stuck_message_is_explained_and_unlocked(pgqueue: CommandLine, client: QueueClient) -> None:
    orders = client.queue("orders")
    number = str(orders.send(Message("a")))
    orders.receive()
    assert f"`pgqueue unlock orders {number}` takes the lock away" in pgqueue("explain", "orders", number).out
    assert "is locked by" in pgqueue("explain", "orders", number, "--json").document["explanation"]
    assert pgqueue("unlock", "orders", number).code == 0
    assert len(orders.receive()) == 1
    assert pgqueue("unlock", "orders", number, "--json").document["unlocked"]
    (dead,) = orders.receive()
    dead.dead_letter("Unpaid")
    told = pgqueue("explain", "orders", number).out
    assert f"`pgqueue dead-letters resubmit orders {number}` gives it back" in told
    in_dead_letters = pgqueue("explain", "orders/$deadletterqueue", number).out
    assert f"`pgqueue dead-letters resubmit orders {number}` gives it back" in in_dead_letters
    assert "no locked message" in pgqueue("unlock", "orders", number).only_error


def test_the_advised_commands_work(pgqueue: CommandLine, client: QueueClient) -> None:
    orders = client.queue("orders")
    scheduled = orders.schedule(Message("a"), at=datetime.now(UTC) + timedelta(days=365))
    deferred = orders.send(Message("b"))
    orders.receive()[0].defer()
    client.pause_queue("orders")
    for number in (scheduled, deferred):
        for command in re.findall(r"`pgqueue (.*?)`", pgqueue("explain", "orders", str(number)).out):
            assert pgqueue(*command.split()).code == 0, command
    assert client.get_queue("orders").paused_at is None
    assert [message.sequence_number for message in orders.peek()] == [deferred]
