"""``pgqueue explain`` and ``pgqueue unlock``."""

from __future__ import annotations

from pgqueue import Message, QueueClient
from tests.cli.command_line import CommandLine


def test_a_stuck_message_is_explained_and_unlocked(pgqueue: CommandLine, client: QueueClient) -> None:
    orders = client.queue("orders")
    number = str(orders.send(Message("a")))
    orders.receive()
    assert "is locked by" in pgqueue("explain", "orders", number).out
    assert "is locked by" in pgqueue("explain", "orders", number, "--json").document["explanation"]
    assert pgqueue("unlock", "orders", number).code == 0
    assert len(orders.receive()) == 1
    assert pgqueue("unlock", "orders", number, "--json").document["unlocked"]
    (dead,) = orders.receive()
    dead.dead_letter("Unpaid")
    told = pgqueue("explain", "orders", number).out
    assert f"`pgqueue dead-letters resubmit orders {number}` gives it back" in told
    assert "no locked message" in pgqueue("unlock", "orders", number).only_error
