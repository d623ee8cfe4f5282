"""``pgqueue grant``, ``revoke`` and ``grants``: which database role may do what."""

from __future__ import annotations

from typing import Annotated

import typer

from pgqueue.cli.connection import Database, on_database
from pgqueue.cli.documents import grants_table
from pgqueue.cli.group import Group, top
from pgqueue.cli.output import Result
from pgqueue.cli.queues import Name

grant = Group(no_args_is_help=True, help="Let a database role use a queue, or all of them.")
revoke = Group(no_args_is_help=True, help="Take back what was granted.")
top.add_typer(grant, name="grant")
top.add_typer(revoke, name="revoke")

Role = Annotated[str, typer.Argument(metavar="ROLE", help="A role of the server; public is every role.")]


@grant.command("send")
@on_database
def grant_send(database: Database, name: Name, role: Role) -> Result:
    """Let a role send to a queue. It cannot see what the queue holds.

    pgqueue grant send orders shop
    """
    database.client.grant_send(name, role)
    return _done(f"{role} may send to {name}")


@grant.command("receive")
@on_database
def grant_receive(database: Database, name: Name, role: Role) -> Result:
    """Let a role receive from a queue, settle, peek and resubmit its messages. It cannot send."""
    database.client.grant_receive(name, role)
    return _done(f"{role} may receive from {name}")


@grant.command("monitor")
@on_database
def grant_monitor(database: Database, role: Role) -> Result:
    """Let a role see counts and ages of all queues, but no messages."""
    database.client.grant_monitor(role)
    return _done(f"{role} may monitor all queues")


@grant.command("admin")
@on_database
def grant_admin(database: Database, role: Role) -> Result:
    """Let a role do everything with all queues."""
    database.client.grant_admin(role)
    return _done(f"{role} may administer all queues")


@revoke.command("send")
@on_database
def revoke_send(database: Database, name: Name, role: Role) -> Result:
    """Take back what `pgqueue grant send` gave."""
    database.client.revoke_send(name, role)
    return _done(f"{role} is no sender of {name} any more")


@revoke.command("receive")
@on_database
def revoke_receive(database: Database, name: Name, role: Role) -> Result:
    """Take back what `pgqueue grant receive` gave."""
    database.client.revoke_receive(name, role)
    return _done(f"{role} is no receiver of {name} any more")


@revoke.command("monitor")
@on_database
def revoke_monitor(database: Database, role: Role) -> Result:
    """Take back what `pgqueue grant monitor` gave."""
    database.client.revoke_monitor(role)
    return _done(f"{role} is no monitor any more")


@revoke.command("admin")
@on_database
def revoke_admin(database: Database, role: Role) -> Result:
    """Take back what `pgqueue grant admin` gave."""
    database.client.revoke_admin(role)
    return _done(f"{role} is no administrator any more")


@top.command("grants")
@on_database
def grants(database: Database) -> Result:
    """List which role may do what. Superusers may do everything, and are not listed."""
    nothing = "only superusers and the owner may use the queues: `pgqueue grant --help` shows how to let others"
    return Result(database.client.list_grants(), picture=grants_table, hint=nothing)


def _done(done: str) -> Result:
    return Result({"done": done}, done)
