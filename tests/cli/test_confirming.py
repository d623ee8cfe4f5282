"""Commands that delete ask before, or need ``--yes`` without a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import typer

from pgqueue import Message, QueueClient
from pgqueue.cli.app import app
from tests.cli.command_line import CommandLine

#: The arguments of each command that deletes.
ARGUMENTS = {
    "delete": ["orders", "--subject", "late"],
    "queue delete": ["orders"],
    "queue purge": ["orders"],
    "dead-letters purge": ["orders"],
    "schedule delete": ["beat"],
    "topic delete": ["events"],
    "subscription delete": ["events", "large"],
    "rule delete": ["events", "large", "$Default"],
    "gateway keys delete": ["shop"],
}


def leaves(command: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The commands below a command, each with its path."""
    if not hasattr(command, "commands"):
        yield path, command
        return
    for name, inner in command.commands.items():
        yield from leaves(inner, f"{path} {name}".strip())


def test_every_command_that_deletes_can_be_confirmed() -> None:
    commands = dict(leaves(typer.main.get_command(app)))
    confirmed = {path for path, command in commands.items() if any(each.name == "yes" for each in command.params)}
    assert confirmed == {path for path in commands if path.split()[-1] in ("delete", "purge")} == set(ARGUMENTS)


@pytest.mark.parametrize("command", ARGUMENTS)
def test_without_a_terminal_nothing_is_deleted_unless_confirmed(
    pgqueue: CommandLine, client: QueueClient, command: str
) -> None:
    client.queue("orders").send_batch([Message(1), Message(2), Message(3, subject="late")])
    client.queue("orders").receive()[0].dead_letter("Unreadable")
    client.create_topic("events")
    client.create_subscription("events", "large")
    client.create_schedule("beat", queue="orders", message=Message(1), every=timedelta(hours=1))
    pgqueue("gateway", "keys", "create", "shop")
    before = inventory(client, pgqueue)
    refused = pgqueue(*command.split(), *ARGUMENTS[command], stdin="y\n")
    assert refused.code == 2
    assert "--yes" in refused.only_error
    assert inventory(client, pgqueue) == before
    assert pgqueue(*command.split(), *ARGUMENTS[command], "--yes").code == 0
    assert inventory(client, pgqueue) != before


def inventory(client: QueueClient, pgqueue: CommandLine) -> list[Any]:
    counts = client.list_queues_runtime_properties(exact=True)
    return [
        *((each.name, each.ready, each.dead_letters) for each in counts),
        *client.list_topics(),
        *(each for topic in client.list_topics() for each in client.list_subscriptions(topic.name)),
        *(each.name for each in client.list_schedules()),
        pgqueue("gateway", "keys", "list").out,
    ]
