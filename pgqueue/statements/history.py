"""Records about messages: how they were settled, and their effects outside of the database."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from pgqueue.model.arguments import moment, queue_name, text, whole
from pgqueue.model.encoding import to_json
from pgqueue.model.json_text import undecoded
from pgqueue.model.message import RecordedEffect, SettledMessage
from pgqueue.statements.statement import Statement, call, columns_of, each, scalar


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
        f"""select {columns_of(SettledMessage)}
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
        each(SettledMessage),
    )


def record_effect(queue: str, key: str, effect: str, *, result: Any, keep: timedelta) -> Statement[bool]:
    json = None if result is None else to_json("result", result)
    return call(
        "select pgqueue.record_effect(…)",
        scalar,
        {"result": json},
        queue=queue,
        message_id=key,
        effect=effect,
        keep=keep,
    )


def recorded_effects(queue: str, key: str) -> Statement[list[RecordedEffect]]:
    return call(
        "select effect, result, recorded_at from pgqueue.recorded_effects(…)",
        each(lambda *row: undecoded(RecordedEffect(*row), "result")),
        queue=queue,
        message_id=key,
    )
