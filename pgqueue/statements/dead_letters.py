"""Dead letters: resubmit and purge."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from pgqueue.statements.arguments import duration, numbers, queue_name, text, whole
from pgqueue.statements.statement import Statement, column


def resubmit(
    queue: str,
    *,
    sequence_numbers: Sequence[int] | None,
    reason: str | None,
    older_than: timedelta | None,
    limit: int | None,
    after: int | None,
) -> Statement[list[int]]:
    return Statement(
        """select pgqueue.resubmit(
               %(queue)s::text, %(sequence_numbers)s::bigint[], %(reason)s::text,
               %(older_than)s::interval, %(limit)s::integer, %(after)s::bigint)""",
        {
            "queue": queue_name(queue),
            "sequence_numbers": None if sequence_numbers is None else numbers("sequence_numbers", sequence_numbers),
            "reason": text("reason", reason),
            "older_than": duration("older_than", older_than),
            "limit": whole("limit", limit, least=1),
            "after": after,
        },
        column,
    )


def purge(queue: str, sequence_numbers: Sequence[int] | None) -> Statement[list[int]]:
    return Statement(
        "select pgqueue.purge_dead_letters(%(queue)s::text, %(sequence_numbers)s::bigint[])",
        {"queue": queue_name(queue), "sequence_numbers": sequence_numbers},
        column,
    )
