"""Outcomes of messages."""

from __future__ import annotations

from collections.abc import Iterable

from pgqueue.model.outcome import Outcome, by_number
from pgqueue.statements.statement import Statement, call


def outcomes(queue: str, sequence_numbers: Iterable[int]) -> Statement[dict[int, Outcome | None]]:
    """Returns the outcome of each message that is settled, and None for each that is unknown."""
    return call(
        "select sequence_number, state, result, error, settled_at from pgqueue.outcomes(…)",
        by_number,
        {"sequence_numbers": "{" + ",".join(map(str, sequence_numbers)) + "}"},
        queue=queue,
    )
