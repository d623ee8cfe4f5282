"""Sweeping: one bounded batch over all queues."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Final

from pgqueue.model.row import Row
from pgqueue.model.sweeping import SweepReport
from pgqueue.statements.statement import Statement, call

COUNTS: Final = ", ".join(f"coalesce(sum({field.name}), 0)" for field in fields(SweepReport))


@dataclass(frozen=True)
class Swept:
    """The effects of one batch, and whether there is more to do."""

    report: SweepReport
    more: bool


def sweep(*, max_messages: int, dry_run: bool, thorough: bool) -> Statement[Swept]:
    return call(
        f"select {COUNTS}, coalesce(bool_or(more), false) from pgqueue.sweep(…)",
        _read_swept,
        max_messages=max_messages,
        dry_run=dry_run,
        thorough=thorough,
    )


def _read_swept(rows: Sequence[Row]) -> Swept:
    ((*counts, more),) = rows
    return Swept(SweepReport(*counts), more)
