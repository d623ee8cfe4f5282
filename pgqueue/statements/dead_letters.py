"""Dead letters: resubmit and purge."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from pgqueue.statements.statement import Statement, call, column


def resubmit(
    queue: str,
    *,
    sequence_numbers: Sequence[int] | None,
    reason: str | None,
    older_than: timedelta | None,
    limit: int | None,
    after: int | None,
) -> Statement[list[int]]:
    return call(
        "select pgqueue.resubmit(…)",
        column,
        {"sequence_numbers": sequence_numbers},
        queue=queue,
        reason=reason,
        older_than=older_than,
        max_messages=limit,
        after=after,
    )


def purge(queue: str, sequence_numbers: Sequence[int] | None) -> Statement[list[int]]:
    return call("select pgqueue.purge_dead_letters(…)", column, {"sequence_numbers": sequence_numbers}, queue=queue)
