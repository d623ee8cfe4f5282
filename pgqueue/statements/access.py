"""The rights of roles: grant, revoke, list."""

from __future__ import annotations

from typing import LiteralString

from pgqueue.model.access import Grant
from pgqueue.statements.statement import Statement, call, each, nothing


def of_queue(verb: LiteralString, queue: str, role: str) -> Statement[None]:
    """Call a verb that gives a right to one queue, or takes it back: grant_send, revoke_receive and so on."""
    return call(f"select pgqueue.{verb}(…)", nothing, queue=queue, role=role)


def of_all_queues(verb: LiteralString, role: str) -> Statement[None]:
    """Call a verb that gives a right to all queues, or takes it back: grant_monitor, revoke_admin and so on."""
    return call(f"select pgqueue.{verb}(…)", nothing, role=role)


def grants() -> Statement[list[Grant]]:
    return call("select role, may, queue from pgqueue.grants()", each(Grant))
