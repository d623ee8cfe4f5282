"""Records about messages: how they were settled, and their effects outside of the database."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from pgqueue.model.encoding import to_json
from pgqueue.model.json_text import json_text
from pgqueue.model.message import RecordedEffect, SettledMessage
from pgqueue.model.row import Row
from pgqueue.statements.arguments import duration, moment, queue_name, text, whole
from pgqueue.statements.statement import Statement, scalar


def history(
    queue: str,
    *,
    since: datetime | None,
    outcome: str | None,
    message_id: str | None,
    sequence_number: int | None,
    limit: int,
) -> Statement[list[SettledMessage]]:
    return Statement(
        """select queue, sequence_number, outcome, reason, enqueued_time, first_locked_at, settled_at, delivery_count,
                  locked_by, priority, body_size, message_id, correlation_id, subject, content_type, session_id
             from pgqueue.history
            where queue = %(queue)s::text
              and (%(since)s::timestamptz is null or settled_at >= %(since)s::timestamptz)
              and (%(outcome)s::text is null or outcome = %(outcome)s::text)
              and (%(message_id)s::text is null or message_id = %(message_id)s::text)
              and (%(sequence_number)s::bigint is null or sequence_number = %(sequence_number)s::bigint)
            order by settled_at desc, sequence_number desc
            limit %(limit)s::integer""",
        {
            "queue": queue_name(queue),
            "since": moment("since", since),
            "outcome": text("outcome", outcome),
            "message_id": text("message_id", message_id),
            "sequence_number": whole("sequence_number", sequence_number, bits=64),
            "limit": whole("limit", limit, least=1),
        },
        _read_history,
    )


def record_effect(queue: str, key: str, effect: str, *, result: Any, keep: timedelta) -> Statement[bool]:
    return Statement(
        """select pgqueue.record_effect(
               %(queue)s::text, %(key)s::text, %(effect)s::text, %(result)s::jsonb, %(keep)s::interval)""",
        {
            "queue": queue,
            "key": key,
            "effect": text("effect", effect),
            "result": None if result is None else to_json("result", result),
            "keep": duration("keep", keep),
        },
        scalar,
    )


def recorded_effects(queue: str, key: str) -> Statement[list[RecordedEffect]]:
    return Statement(
        "select effect, result, recorded_at from pgqueue.recorded_effects(%(queue)s::text, %(key)s::text)",
        {"queue": queue, "key": key},
        _read_effects,
    )


def _read_history(rows: Sequence[Row]) -> list[SettledMessage]:
    return [SettledMessage(*row) for row in rows]


def _read_effects(rows: Sequence[Row]) -> list[RecordedEffect]:
    return [RecordedEffect(effect, json_text(result), recorded_at) for effect, result, recorded_at in rows]
