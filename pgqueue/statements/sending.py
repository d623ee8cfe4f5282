"""Sending: one message, or many in one statement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pgqueue.model.encoding import EncodedMessage
from pgqueue.statements.arguments import queue_name
from pgqueue.statements.statement import Row, Statement, column, scalar


@dataclass(frozen=True)
class Stored:
    """Messages that a transaction has stored and not committed yet.

    ``since`` tells one life of the server from the next: in a crash it may forget transaction ids, and give them to
    others. It is when the server's statistics began, as they do anew after a crash.
    """

    transaction_id: str
    since: str | None
    numbers: list[int]


def send(queue: str, message: EncodedMessage) -> Statement[int]:
    return Statement(
        """select pgqueue.send(
               %(queue)s::text, %(body)s::jsonb, %(binary_body)s::bytea, %(message_id)s::text, %(correlation_id)s::text,
               %(subject)s::text, %(content_type)s::text, %(reply_to)s::text, %(application_properties)s::jsonb,
               %(priority)s::integer)""",
        {"queue": queue_name(queue), **asdict(message)},
        scalar,
    )


def send_batch(queue: str, messages: Sequence[EncodedMessage]) -> Statement[list[int]]:
    return Statement(
        """select pgqueue.send_batch(
               %(queue)s::text, %(body)s::text[]::jsonb[], %(binary_body)s::bytea[], %(message_id)s::text[],
               %(correlation_id)s::text[], %(subject)s::text[], %(content_type)s::text[], %(reply_to)s::text[],
               %(application_properties)s::text[]::jsonb[], %(priority)s::integer[])""",
        {
            "queue": queue_name(queue),
            **{field: _column_of(messages, field) for field in EncodedMessage.__dataclass_fields__},
        },
        column,
    )


def store(queue: str, messages: Sequence[EncodedMessage]) -> Statement[Stored]:
    """Sends in an open transaction, and says in which."""
    sent = send(queue, messages[0]) if len(messages) == 1 else send_batch(queue, messages)
    return Statement(
        f"select pg_current_xact_id()::text, pg_stat_get_bgwriter_stat_reset_time()::text, array({sent.sql})",
        sent.parameters,
        _stored,
    )


def outcome(stored: Stored) -> Statement[str]:
    """What became of a transaction: 'committed', 'aborted', 'in progress', or 'unknown' when the server has crashed.

    Raises 22023 for an id that the server has not given out, or has forgotten that it did.
    """
    return Statement(
        """select case when status <> 'committed' or since = %(since)s then status else 'unknown' end
             from (select pg_xact_status(%(transaction_id)s::text::xid8),
                          pg_stat_get_bgwriter_stat_reset_time()::text) as now (status, since)""",
        {"transaction_id": stored.transaction_id, "since": stored.since},
        scalar,
    )


def _stored(rows: Sequence[Row]) -> Stored:
    return Stored(*rows[0])


def _column_of(messages: Sequence[EncodedMessage], field: str) -> list[Any] | None:
    """The values of one field; None when no message sets it, which spares the database the array."""
    values = [getattr(message, field) for message in messages]
    return values if any(value is not None and value != 0 for value in values) else None
