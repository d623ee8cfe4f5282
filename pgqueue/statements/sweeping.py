"""Sweeping: one bounded batch over all queues."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Final

from pgqueue.model.row import Row
from pgqueue.model.sweeping import SweepReport
from pgqueue.statements.statement import Statement, call, column

COUNTS: Final = ", ".join(f"coalesce(sum({field.name}), 0)" for field in fields(SweepReport))

MORE: Final = "coalesce(bool_or(more), false)"


@dataclass(frozen=True)
class Swept:
    """The effects of one batch, and whether there is more to do; nothing was done if another sweep ran."""

    report: SweepReport
    more: bool
    is_refused: bool


def queues_to_sweep() -> Statement[list[list[str] | None]]:
    return Statement("select queues from pgqueue.queues_to_sweep() as queues", {}, column)


def sweep(*, max_messages: int, dry_run: bool, thorough: bool, queues: list[str] | None) -> Statement[Swept]:
    return call(
        f"select {COUNTS}, {MORE}, coalesce(bool_or(more is null), false) from pgqueue.sweep(…)",
        _read_swept,
        max_messages=max_messages,
        dry_run=dry_run,
        thorough=thorough,
        queues=queues,
    )


def _read_swept(rows: Sequence[Row]) -> Swept:
    ((*counts, more, is_refused),) = rows
    return Swept(SweepReport(*counts), more, is_refused)
