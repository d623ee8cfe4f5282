"""The rights of roles: grant, revoke, list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import LiteralString

from pgqueue.errors import InvalidArgumentError
from pgqueue.model.access import Grant
from pgqueue.model.row import Row
from pgqueue.statements.arguments import queue_name
from pgqueue.statements.statement import Statement, nothing


def of_queue(verb: LiteralString, queue: str, role: str) -> Statement[None]:
    """Call a verb that gives a right to one queue, or takes it back: grant_send, revoke_receive and so on."""
    return Statement(
        f"select pgqueue.{verb}(%(queue)s::text, %(role)s::text)",
        {"queue": queue_name(queue), "role": _role_name(role)},
        nothing,
    )


def of_all_queues(verb: LiteralString, role: str) -> Statement[None]:
    """Call a verb that gives a right to all queues, or takes it back: grant_monitor, revoke_admin and so on."""
    return Statement(f"select pgqueue.{verb}(%(role)s::text)", {"role": _role_name(role)}, nothing)


def grants() -> Statement[list[Grant]]:
    def read(rows: Sequence[Row]) -> list[Grant]:
        return [Grant(*row) for row in rows]

    return Statement("select role, may, queue from pgqueue.grants()", {}, read)


def _role_name(role: str) -> str:
    if not isinstance(role, str):
        raise InvalidArgumentError(f"role must be the name of a role, not {role!r}")
    return role
