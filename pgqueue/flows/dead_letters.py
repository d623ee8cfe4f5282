"""Resubmitting and purging any number of dead letters, in short transactions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

from pgqueue.flows.flow import Executor, Flow
from pgqueue.model.arguments import numbers, whole
from pgqueue.statements.dead_letters import purge as purge_some
from pgqueue.statements.dead_letters import resubmit as resubmit_some

AT_ONCE = 1000


def resubmit(
    queue: str,
    source: Executor,
    *,
    sequence_numbers: Sequence[int] | None,
    reason: str | None,
    older_than: timedelta | None,
    limit: int | None,
) -> Flow[list[int]]:
    """Resubmit by ascending number, so that no transaction reads what an earlier one has resubmitted."""
    left = whole("limit", limit, least=1)
    resubmitted: list[int] = []
    for wanted in _portions(sequence_numbers):
        after = None
        while left is None or left > 0:
            at_once = AT_ONCE if left is None else min(left, AT_ONCE)
            some = yield from source.execute(
                resubmit_some(
                    queue, sequence_numbers=wanted, reason=reason, older_than=older_than, limit=at_once, after=after
                )
            )
            resubmitted += some
            left = None if left is None else left - len(some)
            if len(some) < at_once:
                break
            after = some[-1]
    return resubmitted


def purge(queue: str, source: Executor, sequence_numbers: Sequence[int]) -> Flow[int]:
    purged = 0
    for wanted in _portions(sequence_numbers):
        some = yield from source.execute(purge_some(queue, wanted))
        purged += len(some)
    return purged


def _portions(sequence_numbers: Sequence[int] | None) -> Iterator[list[int] | None]:
    if sequence_numbers is None:
        yield None
        return
    wanted = sorted(set(numbers("sequence_numbers", sequence_numbers)))
    for start in range(0, len(wanted), AT_ONCE):
        yield wanted[start : start + AT_ONCE]
