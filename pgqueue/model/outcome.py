"""How a message was settled, for callers that wait for it."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pgqueue.model.body_type import BodyType
from pgqueue.model.failure import DeliveryError, delivery_error, titled
from pgqueue.model.json_text import JsonHolder, decode_jsonb, lazy_fields, undecoded
from pgqueue.model.row import Row


@lazy_fields("result")
@dataclass(frozen=True, repr=False)
class Outcome(JsonHolder):
    """The outcome of a message, in a queue with ``result_retention``.

    ``state`` is COMPLETED, DEAD_LETTERED or DELETED; a message that expired, was cancelled or purged is DELETED.
    ``result`` is that of ``complete``, or None. ``error`` states why it was dead-lettered or
    deleted, and ``last_error`` is the error of the last delivery that failed.
    """

    state: str
    result: Any
    error: str | None
    last_error: DeliveryError | None
    settled_at: datetime

    @property
    def raw_result(self) -> str | None:
        """The result as the database holds it: JSON as text, or None."""
        result: str | None = self._raw("result")
        return result

    def _read(self, name: str) -> Any:
        kind, text = vars(self).get("_type"), self.raw_result
        return super()._read(name) if kind is None or text is None else kind.read(text)

    def _title(self) -> str:
        return f"the message that was settled at {self.settled_at}"


def typed(outcome: Outcome, kind: BodyType | None) -> Outcome:
    """The same outcome; its ``result`` is made into a type when it is read."""
    outcome = copy(outcome)  # other callers that wait for the message have the same
    vars(outcome)["_type"] = kind
    return outcome


def by_number(rows: Sequence[Row]) -> dict[int, Outcome | None]:
    """The outcomes of rows of ``pgqueue.outcomes``; None where a queue has neither the message nor its outcome."""
    return {number: _outcome(state, *rest) if state else None for number, state, *rest in rows}


def _outcome(state: str, result: str | None, error: str | None, settled_at: datetime) -> Outcome:
    cause = decode_jsonb(error) or {}
    last_error = cause.get("last_error")
    return undecoded(
        Outcome(
            state,
            result,
            titled(cause["reason"], cause["description"]) if cause else None,
            delivery_error(last_error) if last_error else None,
            settled_at,
        ),
        "result",
    )
