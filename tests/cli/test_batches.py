"""Batches, on the command line."""

from __future__ import annotations

import re
from uuid import uuid4

from pgqueue import Message, QueueClient
from tests.cli.command_line import CommandLine


def test_a_batch_is_listed_shown_closed_and_waited_for(pgqueue: CommandLine, client: QueueClient) -> None:
    def state() -> str:
        (listed,) = pgqueue("batch", "list", "--json").document
        return str(listed["state"])

    assert "there is no batch" in pgqueue("batch", "list").err
    batch = client.create_batch(then=Message("then"), to="orders")
    assert state() == "open"
    client.queue("orders").send(Message(1), batch=batch)
    assert pgqueue("batch", "wait", str(batch.id), "--timeout", "50ms").code != 0
    assert pgqueue("batch", "close", str(batch.id)).out == f"batch {batch.id} closed\n"
    assert state() == "closed"
    client.queue("orders").receive()[0].complete()
    finished = pgqueue("batch", "wait", str(batch.id), "--json").document
    assert finished == pgqueue("batch", "show", str(batch.id), "--json").document
    assert (finished["total"], finished["completed"], finished["is_finished"]) == (1, 1, True)
    assert state() == "finished"
    shown = pgqueue("batch", "show", str(batch.id)).out
    assert "dead lettered" in shown
    assert re.search(r"is finished +yes", shown)
    (listed,) = pgqueue("batch", "list", "--json").document
    assert (listed["id"], listed["queue"], listed["pending"]) == (str(batch.id), "orders", 0)
    assert str(batch.id) in pgqueue("batch", "list").out


def test_an_unknown_batch(pgqueue: CommandLine) -> None:
    assert "does not exist" in pgqueue("batch", "show", str(uuid4())).err
    assert "a valid UUID" in pgqueue("batch", "show", "seven").err
