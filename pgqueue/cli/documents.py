"""What commands print: messages and queues, as JSON documents and as tables. In JSON, durations are seconds."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from rich.table import Table

from pgqueue import PeekedMessage, QueueProperties, QueueRuntimeProperties, ReceivedMessage
from pgqueue.cli import output
from pgqueue.cli.quantities import format_duration

MESSAGE_FIELDS = (
    "queue",
    "sequence_number",
    "enqueued_time",
    "delivery_count",
    "locked_until",
    "locked_by",
    "priority",
    "message_id",
    "correlation_id",
    "subject",
    "content_type",
    "reply_to",
    "application_properties",
)
DEAD_LETTER_FIELDS = ("dead_letter_reason", "dead_letter_error_description", "dead_lettered_at")


def message_document(message: PeekedMessage) -> dict[str, Any]:
    """Bytes are base64, in ``binary_body``; a message under our lock has its token, with which SQL can settle it."""
    fields = [*MESSAGE_FIELDS, *(DEAD_LETTER_FIELDS if message.dead_letter_reason is not None else ())]
    document = {field: _plain(getattr(message, field)) for field in fields}
    if isinstance(message, ReceivedMessage):
        document["lock_token"] = str(message.lock_token)
    if isinstance(message.body, bytes):
        return {**document, "binary_body": base64.b64encode(message.body).decode()}
    return {**document, "body": message.body}


def messages_table(messages: Sequence[PeekedMessage], now: datetime) -> Table:
    rows = [
        (
            output.Number(message.sequence_number),
            _age(message.enqueued_time, now),
            message.delivery_count,
            _remaining(message.locked_until, now),
            message.subject,
            body_text(message),
        )
        for message in messages
    ]
    return output.table(("number", "age", "deliveries", "locked for", "subject", "body"), rows, wide=("body",))


def dead_letters_table(messages: Sequence[PeekedMessage], now: datetime) -> Table:
    rows = [
        (
            output.Number(message.sequence_number),
            _age(message.dead_lettered_at, now),
            message.delivery_count,
            message.dead_letter_reason,
            message.dead_letter_error_description,
            body_text(message),
        )
        for message in messages
    ]
    return output.table(
        ("number", "dead for", "deliveries", "reason", "description", "body"), rows, wide=("description", "body")
    )


def message_record(message: PeekedMessage) -> Table:
    """Everything about one message; what it does not have is left out."""
    document = message_document(message)
    body = document.pop("body", None) if "body" in document else document.pop("binary_body")
    fields = [(name.replace("_", " "), _readable(value)) for name, value in document.items() if value is not None]
    text = body if isinstance(message.body, bytes) else json.dumps(body, ensure_ascii=False, indent=2)
    return output.record([*fields, ("body", text)])


def body_text(message: PeekedMessage) -> str:
    if isinstance(message.body, bytes):
        return f"{len(message.body)} bytes: {message.body[:32].hex(' ')}"
    return json.dumps(message.body, ensure_ascii=False)


def queue_document(queue: QueueProperties) -> dict[str, Any]:
    return {name: _plain(value) for name, value in asdict(queue).items()}


def counts_document(counts: QueueRuntimeProperties) -> dict[str, Any]:
    return {name: _plain(value) for name, value in asdict(counts).items()}


def queues_table(queues: Sequence[QueueProperties]) -> Table:
    rows = [
        (
            queue.name,
            str(queue.status),
            format_duration(queue.lock_duration),
            queue.max_delivery_count,
            queue.max_message_size,
            None if queue.user_metadata is None else json.dumps(queue.user_metadata, ensure_ascii=False),
        )
        for queue in queues
    ]
    columns = ("queue", "status", "lock duration", "max deliveries", "max bytes", "user metadata")
    return output.table(columns, rows, wide=("user metadata",))


def queue_record(queue: QueueProperties, counts: QueueRuntimeProperties, now: datetime) -> Table:
    return output.record(
        [
            ("queue", queue.name),
            ("status", str(queue.status)),
            ("lock duration", format_duration(queue.lock_duration)),
            ("max delivery count", queue.max_delivery_count),
            ("max message size", "no bound" if queue.max_message_size is None else f"{queue.max_message_size:,} bytes"),
            ("user metadata", None if queue.user_metadata is None else json.dumps(queue.user_metadata)),
            ("created", _readable(queue.created_at.isoformat())),
            ("updated", _readable(queue.updated_at.isoformat())),
            ("ready", counts.ready),
            ("locked", counts.locked),
            ("scheduled", counts.scheduled),
            ("dead letters", counts.dead_letters),
            ("oldest waits for", _age(counts.oldest_enqueued_time, now)),
        ]
    )


def counts_table(all_counts: Sequence[QueueRuntimeProperties], now: datetime) -> Table:
    rows = [
        (
            counts.name,
            counts.ready,
            counts.locked,
            counts.scheduled,
            counts.dead_letters,
            _age(counts.oldest_enqueued_time, now),
        )
        for counts in all_counts
    ]
    return output.table(("queue", "ready", "locked", "scheduled", "dead letters", "oldest"), rows, wide=("queue",))


def _plain(value: Any) -> Any:
    match value:
        case datetime():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
    return value


def _readable(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else str(value)


def _age(moment: datetime | None, now: datetime) -> str | None:
    """To the second: nobody looks that fast."""
    return None if moment is None else format_duration(timedelta(seconds=max((now - moment).total_seconds() // 1, 0)))


def _remaining(moment: datetime | None, now: datetime) -> str | None:
    if moment is None:
        return None
    return format_duration(moment - now) if moment > now else "expired"
