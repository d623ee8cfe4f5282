"""Sweeping: one bounded batch over all queues."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pgqueue.model.row import Row
from pgqueue.model.sweeping import SweepReport
from pgqueue.statements.statement import Statement


@dataclass(frozen=True)
class Swept:
    """The effects of one batch, and whether there is more to do."""

    report: SweepReport
    more: bool


def sweep(*, max_messages: int, dry_run: bool, thorough: bool) -> Statement[Swept]:
    return Statement(
        """select coalesce(sum(expired), 0), coalesce(sum(dead_lettered), 0), coalesce(sum(returned), 0),
                  coalesce(sum(activated), 0), coalesce(sum(forgotten), 0), coalesce(sum(reclaimed_days), 0),
                  coalesce(sum(deleted_queues), 0), coalesce(sum(forwarded), 0), coalesce(bool_or(more), false)
             from pgqueue.sweep(%(max_messages)s::integer, %(dry_run)s::boolean,
                                %(thorough)s::boolean)""",
        {"max_messages": max_messages, "dry_run": dry_run, "thorough": thorough},
        _read_swept,
    )


def _read_swept(rows: Sequence[Row]) -> Swept:
    ((*counts, more),) = rows
    return Swept(SweepReport(*counts), more)
