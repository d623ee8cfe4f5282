"""Messages by their numbers, or those that match: find, delete, cancel, move and reschedule them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from pgqueue.errors import InvalidArgumentError
from pgqueue.model.arguments import shown
from pgqueue.model.encoding import to_json
from pgqueue.model.message import FoundMessage
from pgqueue.model.properties import as_json
from pgqueue.model.selection import Selection
from pgqueue.statements.statement import NO_LIMIT, Statement, call, columns_of, each, nothing, scalar


def find_messages(
    queue: str,
    selection: Selection,
    *,
    after: int,
    max_messages: int | None,
    message_id: str | None,
    correlation_id: str | None,
    reason: str | None,
) -> Statement[list[FoundMessage]]:
    """The last one has no state where the search ended before all messages were read."""
    return call(
        f"select {columns_of(FoundMessage)} from pgqueue.find_messages(…)",
        each(FoundMessage),
        _properties(selection.application_properties),
        queue=queue,
        state=selection.state,
        subject=selection.subject,
        older_than=selection.older_than,
        session_id=selection.session_id,
        after=after,
        max_messages=max_messages,
        message_id=message_id,
        correlation_id=correlation_id,
        reason=reason,
    )


def delete_matching(queue: str, selection: Selection, *, max_messages: int | None) -> Statement[int]:
    return call(
        "select pgqueue.delete_matching(…)",
        scalar,
        _properties(selection.application_properties),
        queue=queue,
        state=selection.state,
        subject=selection.subject,
        older_than=selection.older_than,
        session_id=selection.session_id,
        max_messages=max_messages,
    ).within(NO_LIMIT)


def delete_messages(queue: str, sequence_numbers: Sequence[int]) -> Statement[int]:
    return call("select pgqueue.delete_messages(…)", scalar, queue=queue, sequence_numbers=sequence_numbers)


def move_messages(queue: str, sequence_numbers: Sequence[int], *, to: str) -> Statement[int]:
    return call("select pgqueue.move_messages(…)", scalar, queue=queue, sequence_numbers=sequence_numbers, to=to)


def cancel(queue: str, sequence_number: int, *, reason: str | None) -> Statement[bool]:
    return call("select pgqueue.cancel(…)", scalar, queue=queue, sequence_number=sequence_number, reason=reason)


def reschedule(queue: str, sequence_number: int, *, at: datetime) -> Statement[None]:
    return call("select pgqueue.reschedule(…)", nothing, queue=queue, sequence_number=sequence_number, at=at)


def _properties(wanted: Any) -> dict[str, str | None]:
    if wanted is not None and not isinstance(wanted, Mapping):
        raise InvalidArgumentError(f"application_properties must be a mapping, not {shown(wanted)}")
    name = "application_properties"
    return {name: None if wanted is None else to_json(name, as_json(dict(wanted)), InvalidArgumentError)}
