"""Finding any number of messages, and deleting those that match, in several steps."""

from __future__ import annotations

from pgqueue.flows.flow import Executor, Flow
from pgqueue.model.arguments import count, whole
from pgqueue.model.message import FoundMessage
from pgqueue.model.selection import Selection
from pgqueue.statements import selecting

#: How many messages a transaction deletes.
AT_ONCE = 10_000


def find(
    queue: str,
    selection: Selection,
    source: Executor,
    *,
    after: int,
    max_messages: int,
    message_id: str | None,
    correlation_id: str | None,
    reason: str | None,
) -> Flow[list[FoundMessage]]:
    """Search on where the database has ended a search because it had read many messages."""
    found: list[FoundMessage] = []
    left = count("max_messages", max_messages)
    while True:
        some = yield from source.execute(
            selecting.find_messages(
                queue,
                selection,
                after=after,
                max_messages=left,
                message_id=message_id,
                correlation_id=correlation_id,
                reason=reason,
            )
        )
        is_cut = bool(some) and some[-1].state is None
        found += some[:-1] if is_cut else some
        left = max_messages - len(found)
        if not is_cut or not left:
            return found
        after = some[-1].sequence_number


def delete_matching(queue: str, selection: Selection, source: Executor, *, max_messages: int | None) -> Flow[int]:
    """Delete in bounded transactions, so that no other session waits long."""
    left = whole("max_messages", max_messages, least=1)
    deleted = 0
    while True:
        at_once = AT_ONCE if left is None else min(left - deleted, AT_ONCE)
        some = yield from source.execute(selecting.delete_matching(queue, selection, max_messages=at_once))
        deleted += some
        if some < at_once or deleted == left:
            return deleted
