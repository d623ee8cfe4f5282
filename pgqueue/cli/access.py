"""``pgqueue grant``, ``revoke`` and ``grants``: which database role may do what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from pgqueue import QueueClient
from pgqueue.cli.connection import Command, Database, on_database
from pgqueue.cli.documents import grants_table
from pgqueue.cli.group import Group, top
from pgqueue.cli.output import Result
from pgqueue.cli.queues import Name

grant = Group(no_args_is_help=True, help="Let a database role use a queue, or all of them.")
revoke = Group(no_args_is_help=True, help="Take back what was granted.")
top.add_typer(grant, name="grant")
top.add_typer(revoke, name="revoke")

Role = Annotated[str, typer.Argument(metavar="ROLE", help="A role of the server; public is every role.")]


def _of_queue(change: Callable[[QueueClient, str, str], None], done: str) -> Command:
    def command(database: Database, name: Name, role: Role) -> Result:
        change(database.client, name, role)
        return _done(done.format(role=role, queue=name))

    return command


def _of_all_queues(change: Callable[[QueueClient, str], None], done: str) -> Command:
    def command(database: Database, role: Role) -> Result:
        change(database.client, role)
        return _done(done.format(role=role))

    return command


def _done(done: str) -> Result:
    return Result({"done": done}, done)


#: Each right: its meaning, and the commands that give it and take it back.
RIGHTS = {
    "send": (
        "Let a role send to a queue. It cannot see what the queue holds.\n\npgqueue grant send orders shop",
        _of_queue(QueueClient.grant_send, "{role} may send to {queue}"),
        _of_queue(QueueClient.revoke_send, "{role} is no sender of {queue} any more"),
    ),
    "receive": (
        "Let a role receive from a queue, settle, peek and resubmit its messages. It cannot send.",
        _of_queue(QueueClient.grant_receive, "{role} may receive from {queue}"),
        _of_queue(QueueClient.revoke_receive, "{role} is no receiver of {queue} any more"),
    ),
    "monitor": (
        "Let a role see counts and ages of all queues, but no messages.",
        _of_all_queues(QueueClient.grant_monitor, "{role} may monitor all queues"),
        _of_all_queues(QueueClient.revoke_monitor, "{role} is no monitor any more"),
    ),
    "admin": (
        "Let a role do everything with all queues.",
        _of_all_queues(QueueClient.grant_admin, "{role} may administer all queues"),
        _of_all_queues(QueueClient.revoke_admin, "{role} is no administrator any more"),
    ),
}
for right, (meaning, give, take_back) in RIGHTS.items():
    on_database(grant, right, help=meaning)(give)
    on_database(revoke, right, help=f"Take back what `pgqueue grant {right}` gave.")(take_back)


@on_database(top, "grants")
def grants(database: Database) -> Result:
    """List which role may do what. Superusers may do everything, and are not listed."""
    nothing = "only superusers and the owner may use the queues: `pgqueue grant --help` shows how to let others"
    return Result(database.client.list_grants(), picture=grants_table, hint=nothing)
