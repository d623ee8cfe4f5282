"""The output of commands: messages and queues, as JSON documents and as tables. In JSON, durations are seconds."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from datetime import datetime, timedelta
from typing import Any

from rich.table import Table

from pgqueue import (
    DeliveryError,
    Grant,
    JsonPathFilter,
    PeekedMessage,
    QueueProperties,
    QueueRuntimeProperties,
    ReceivedMessage,
    Resubmission,
    Schedule,
    SessionProperties,
    SettledMessage,
    SubscriptionProperties,
    TopicProperties,
)
from pgqueue.cli import output
from pgqueue.cli.quantities import NONE, format_duration
from pgqueue.cli.watching import Trend
from pgqueue.errors import MessageNotReadableError
from pgqueue.model.columns import TEXTS
from pgqueue.model.encoding import DEEPEST, is_nested_deeper
from pgqueue.model.queue_settings import SETTINGS, Setting
from pgqueue.model.recurrence import zone

MESSAGE_FIELDS = (
    "queue",
    "sequence_number",
    "enqueued_time",
    "scheduled_enqueue_time",
    "expires_at",
    "delivery_count",
    "is_deferred",
    "locked_until",
    "locked_by",
    "priority",
    *(column.name for column in TEXTS),
)
DEAD_LETTER_FIELDS = (
    "dead_letter_reason",
    "dead_letter_error_description",
    "dead_letter_source",
    "dead_lettered_at",
)


def message_document(message: PeekedMessage) -> dict[str, Any]:
    """Return a message as a JSON document; the document of a message locked by us has its lock token, for use in SQL.

    Bytes are base64, in ``binary_body``. JSON that Python cannot read is text, in ``raw_body`` and
    ``raw_application_properties``.
    """
    fields = [*MESSAGE_FIELDS, *(DEAD_LETTER_FIELDS if message.dead_letter_reason is not None else ())]
    document = {field: _plain(getattr(message, field)) for field in fields}
    document.update(_json(message, "application_properties"))
    document["last_error"] = None if message.last_error is None else _plain_fields(message.last_error)
    if message.resubmitted_from is not None:
        document["resubmitted_from"] = _plain_fields(message.resubmitted_from)
    if message.delivery_log:
        document["delivery_log"] = [_plain_fields(error) for error in message.delivery_log]
    if isinstance(message, ReceivedMessage):
        document["lock_token"] = str(message.lock_token)
    if isinstance(message.raw_body, bytes):
        return {**document, "binary_body": base64.b64encode(message.raw_body).decode()}
    return {**document, **_json(message, "body")}


def _plain_fields(value: DeliveryError | Resubmission) -> dict[str, Any]:
    shown = {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    return {name: _plain_fields(each) if isinstance(each, DeliveryError) else each for name, each in shown.items()}


def messages_table(messages: Sequence[PeekedMessage], now: datetime) -> Table:
    if messages[0].dead_letter_reason is not None:
        return dead_letters_table(messages, now)
    rows = [
        (
            output.Number(message.sequence_number),
            _age(message.enqueued_time, now),
            message.delivery_count,
            _state(message, now),
            _remaining(message.expires_at, now),
            message.subject,
            message.last_error and str(message.last_error),
            body_text(message),
        )
        for message in messages
    ]
    columns = ("number", "age", "deliveries", "state", "expires in", "subject", "last error", "body")
    return output.table(
        columns, rows, wide=("subject", "last error", "body"), spare=("expires in", "subject", "last error")
    )


def dead_letters_table(messages: Sequence[PeekedMessage], now: datetime) -> Table:
    rows = [
        (
            output.Number(message.sequence_number),
            _age(message.dead_lettered_at, now),
            message.delivery_count,
            _remaining(message.locked_until, now),
            message.dead_letter_reason,
            message.dead_letter_error_description,
            body_text(message),
        )
        for message in messages
    ]
    columns = ("number", "dead for", "deliveries", "locked for", "reason", "description", "body")
    return output.table(columns, rows, wide=("description", "body"), spare=("locked for", "description"))


def settled_document(message: SettledMessage) -> dict[str, Any]:
    return {name: _plain(value) for name, value in asdict(message).items()}


def history_table(messages: Sequence[SettledMessage], now: datetime) -> Table:
    rows = [
        (
            output.Number(message.sequence_number),
            f"{_age(message.settled_at, now)} ago",
            message.outcome,
            message.delivery_count,
            _age(message.first_locked_at, message.settled_at),
            message.reason,
            message.message_id,
            message.subject,
            message.locked_by,
        )
        for message in messages
    ]
    spare = ("work took", "reason", "message id", "subject", "last locked by")
    columns = ("number", "settled", "outcome", "deliveries", *spare)
    return output.table(columns, rows, wide=spare[1:], spare=spare)


def message_record(message: PeekedMessage) -> Table:
    """Everything about one message; fields that are empty or false are left out."""
    document = message_document(message)
    body = next(document.pop(name) for name in ("body", "binary_body", "raw_body") if name in document)
    log = [str(error) for error in message.delivery_log]
    if message.last_error is not None:
        document["last_error"] = message.last_error.traceback or str(message.last_error)
        document["delivery_log"] = "\n".join(log) if len(log) > 1 else None
    fields = [(name.replace("_", " "), _readable(value)) for name, value in document.items() if _says(value)]
    is_text = isinstance(message.raw_body, bytes) or _is_unreadable(message, "body")
    return output.record([*fields, ("body", body if is_text else json.dumps(body, ensure_ascii=False, indent=2))])


def body_text(message: PeekedMessage) -> str:
    body = message.raw_body
    return f"{len(body)} bytes: {body[:32].hex(' ')}" if isinstance(body, bytes) else body


def _json(holder: PeekedMessage | QueueProperties, field: str) -> dict[str, Any]:
    """A JSON field as a part of a document; as text, under another name, if Python cannot read or write it."""
    name = f"raw_{field}" if _is_unreadable(holder, field) else field
    return {name: getattr(holder, name)}


def _is_unreadable(holder: PeekedMessage | QueueProperties, field: str) -> bool:
    try:
        return is_nested_deeper(getattr(holder, field), DEEPEST)
    except MessageNotReadableError:
        return True


def queue_document(queue: QueueProperties) -> dict[str, Any]:
    settings = {each.name: _plain(getattr(queue, each.name)) for each in fields(queue) if each.name != "user_metadata"}
    return {**settings, **_json(queue, "user_metadata")}


def counts_document(counts: QueueRuntimeProperties) -> dict[str, Any]:
    return {name: _plain(value) for name, value in asdict(counts).items()}


def queues_table(queues: Sequence[QueueProperties]) -> Table:
    """The main settings of the queues, as far as they fit; :func:`settings_record` has all."""
    rows = [
        (
            queue.name,
            str(queue.status) if queue.paused_at is None else f"{queue.status}, paused",
            format_duration(queue.lock_duration),
            queue.max_delivery_count,
            _duration(queue.default_message_time_to_live),
            queue.max_queue_length,
            format_duration(queue.duplicate_detection_history_time_window)
            if queue.requires_duplicate_detection
            else None,
            _duration(queue.retain_history),
            queue.max_message_size,
            queue.raw_user_metadata,
        )
        for queue in queues
    ]
    spare = ("to live", "max length", "unique for", "history", "max bytes", "user metadata")
    columns = ("queue", "status", "lock for", "deliveries", *spare)
    return output.table(columns, rows, wide=("queue", "user metadata"), spare=spare)


def grants_table(grants: Sequence[Grant]) -> Table:
    rows = [(each.role, each.may, each.queue or "all queues") for each in grants]
    return output.table(("role", "may", "queue"), rows, wide=("queue",))


def settings_record(queue: QueueProperties) -> Table:
    return output.record(_settings(queue))


def queue_record(queue: QueueProperties, counts: QueueRuntimeProperties, now: datetime) -> Table:
    return output.record(
        [
            *_settings(queue),
            ("ready", counts.ready),
            ("locked", counts.locked),
            ("deferred", counts.deferred),
            ("expired", counts.expired),
            ("scheduled", counts.scheduled),
            ("dead letters", counts.dead_letters),
            ("oldest waits for", _age(counts.oldest_enqueued_time, now)),
            ("size", f"{counts.size_in_bytes:,} bytes"),
        ]
    )


def _settings(queue: QueueProperties) -> list[tuple[str, object]]:
    """The settings under the names of the options that set them."""
    return [
        ("queue", queue.name),
        ("status", str(queue.status)),
        ("paused since", NONE if queue.paused_at is None else queue.paused_at.isoformat(timespec="seconds")),
        *(
            (setting.name.replace("_", " "), _setting(setting, getattr(queue, setting.name)))
            for setting in SETTINGS
            if setting.name not in ("status", "user_metadata")
        ),
        ("user metadata", queue.raw_user_metadata),
        ("created", _readable(queue.created_at.isoformat(timespec="seconds"))),
        ("updated", _readable(queue.updated_at.isoformat(timespec="seconds"))),
    ]


def _setting(setting: Setting, value: Any) -> object:
    match value:
        case None:
            return "no bound" if setting.type == "bigint" else NONE
        case bool():
            return _readable(value)
        case timedelta():
            return format_duration(value)
        case float():
            return f"{value:g} a second"
        case int() if setting.name == "max_message_size":
            return f"{value:,} bytes"
    return value


def counts_table(
    all_counts: Sequence[QueueRuntimeProperties], now: datetime, trends: Mapping[str, Trend] | None = None
) -> Table:
    """A row a queue; with trends, how its messages ready have changed, too."""
    rows = [
        (
            counts.name,
            counts.ready,
            *_trend(None if trends is None else trends[counts.name]),
            counts.locked,
            counts.deferred,
            counts.expired,
            counts.scheduled,
            counts.dead_letters,
            _age(counts.oldest_enqueued_time, now),
            counts.size_in_bytes,
            None if counts.is_exact else "estimate",
        )
        for counts in all_counts
    ]
    named = (
        "queue",
        "ready",
        "change/s",
        "trend",
        "locked",
        "deferred",
        "expired",
        "scheduled",
        "dead\nletters",
        "oldest",
        "bytes",
        "counts",
    )
    spare = ["change/s", "trend", "deferred", "expired", "scheduled", "bytes"]
    if all(counts.is_exact for counts in all_counts):
        spare.append("counts")
    return output.table(named, rows, wide=("queue",), spare=spare)


def _trend(trend: Trend | None) -> tuple[int | None, str | None]:
    if trend is None:
        return None, None
    return trend.change, trend.line if output.console().encoding.startswith("utf") else None


def topic_document(topic: TopicProperties) -> dict[str, Any]:
    return {name: _plain(value) for name, value in asdict(topic).items()}


def topics_table(topics: Sequence[TopicProperties]) -> Table:
    rows = [(topic.name, topic.subscriptions, topic.created_at.isoformat(timespec="seconds")) for topic in topics]
    return output.table(("topic", "subscriptions", "created"), rows, wide=("topic",), spare=("created",))


def subscription_document(subscription: SubscriptionProperties) -> dict[str, Any]:
    """Return a subscription as a JSON document; its filter has a ``path``, or what a correlation filter asks for."""
    return {
        "topic": subscription.topic,
        "name": subscription.name,
        "filter": _filter_document(subscription),
        "set_properties": subscription.set_properties,
        "created_at": _plain(subscription.created_at),
        "queue": queue_document(subscription.queue),
    }


def subscriptions_table(subscriptions: Sequence[SubscriptionProperties]) -> Table:
    rows = [
        (
            subscription.name,
            str(subscription.queue.status),
            _filter_text(subscription),
            None if subscription.set_properties is None else _readable(subscription.set_properties),
        )
        for subscription in subscriptions
    ]
    columns = ("subscription", "status", "filter", "sets")
    return output.table(columns, rows, wide=("filter", "sets"), spare=("sets",))


def subscription_record(subscription: SubscriptionProperties) -> Table:
    return output.record(
        [
            ("topic", subscription.topic),
            ("subscription", subscription.name),
            ("filter", _filter_text(subscription) or NONE),
            ("sets", NONE if subscription.set_properties is None else _readable(subscription.set_properties)),
            *_settings(subscription.queue),
        ]
    )


def _filter_document(subscription: SubscriptionProperties) -> dict[str, Any] | None:
    if subscription.filter is None:
        return None
    return {name: value for name, value in asdict(subscription.filter).items() if value is not None}


def _filter_text(subscription: SubscriptionProperties) -> str | None:
    if isinstance(subscription.filter, JsonPathFilter):
        return subscription.filter.path
    return None if subscription.filter is None else _readable(_filter_document(subscription))


def schedule_document(schedule: Schedule) -> dict[str, Any]:
    """Return a schedule as a JSON document. The body is JSON, or base64 of bytes in ``binary_body``."""
    shown = {each.name: _plain(getattr(schedule, each.name)) for each in fields(schedule) if each.repr}
    message = schedule.message
    body = message.body
    told = {"binary_body": base64.b64encode(body).decode()} if isinstance(body, bytes) else {"body": body}
    options = {
        name: _plain(value) for name, value in vars(message).items() if name not in ("body", "scheduled_enqueue_time")
    }
    return {**shown, "message": {**options, **told}}


def session_document(session: SessionProperties) -> dict[str, Any]:
    return {each.name: _plain(getattr(session, each.name)) for each in fields(session)}


def sessions_table(sessions: Sequence[SessionProperties]) -> Table:
    rows = [
        (
            session.session_id,
            session.messages,
            _duration(session.oldest_age),
            session.locked_by if session.is_locked else None,
            _plain(session.locked_until) if session.is_locked else None,
            session.state_size,
        )
        for session in sessions
    ]
    return output.table(("session", "messages", "oldest", "locked by", "locked until", "bytes of state"), rows)


def schedules_table(schedules: Sequence[Schedule]) -> Table:
    rows = [
        (
            schedule.name,
            schedule.queue,
            _recurrence(schedule),
            schedule.timezone if schedule.cron else None,
            _next_due(schedule),
            _last_due(schedule),
            schedule.last_error,
        )
        for schedule in schedules
    ]
    spare = ("time zone", "last due", "last error")
    columns = ("schedule", "queue", "when", "time zone", "next due", "last due", "last error")
    return output.table(columns, rows, wide=("last error",), spare=spare)


def schedule_record(schedule: Schedule) -> Table:
    document = {name: value for name, value in schedule_document(schedule)["message"].items() if value is not None}
    return output.record(
        [
            ("schedule", schedule.name),
            ("queue", schedule.queue),
            ("when", _recurrence(schedule)),
            ("time zone", schedule.timezone),
            ("next due", _next_due(schedule)),
            ("last due", _last_due(schedule)),
            ("last error", schedule.last_error),
            ("catch up", str(schedule.catch_up)),
            ("jitter", _duration(schedule.jitter) or NONE),
            ("start", local(schedule.start, schedule)),
            ("end", NONE if schedule.end is None else local(schedule.end, schedule)),
            ("created", schedule.created_at.isoformat(timespec="seconds")),
            *((name.replace("_", " "), _readable(value)) for name, value in document.items() if name != "body"),
            *((name, json.dumps(value, ensure_ascii=False)) for name, value in document.items() if name == "body"),
        ]
    )


def local(moment: datetime, schedule: Schedule, timespec: str = "seconds") -> str:
    """A time in the time zone of a schedule."""
    return moment.astimezone(zone(schedule.timezone)).isoformat(timespec=timespec)


def _recurrence(schedule: Schedule) -> str:
    return schedule.cron or f"every {_duration(schedule.every)}"


def _next_due(schedule: Schedule) -> str | None:
    if schedule.is_paused:
        return "paused"
    return None if schedule.next_due is None else local(schedule.next_due, schedule)


def _last_due(schedule: Schedule) -> str | None:
    return None if schedule.last_due is None else local(schedule.last_due, schedule)


def _plain(value: Any) -> Any:
    match value:
        case datetime():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
    return value


def _says(value: Any) -> bool:
    return value is not None and value is not False


def _readable(value: Any) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case dict():
            return json.dumps(value, ensure_ascii=False)
    return str(value)


def _duration(duration: timedelta | None) -> str | None:
    return None if duration is None else format_duration(duration)


def _state(message: PeekedMessage, now: datetime) -> str:
    """The state of a message, and how long it lasts."""
    if message.locked_until is not None and message.locked_until > now:
        aside = "deferred, " if message.is_deferred else ""
        return f"{aside}locked for {_remaining(message.locked_until, now)}"
    if message.expires_at is not None and message.expires_at <= now:
        return "expired"
    if message.scheduled_enqueue_time is not None and message.scheduled_enqueue_time > now:
        return f"due in {_remaining(message.scheduled_enqueue_time, now)}"
    if message.is_deferred:
        return "deferred"
    return "ready" if message.locked_until is None else "lock expired"


def _age(moment: datetime | None, now: datetime) -> str | None:
    """An age in whole seconds: more precision is of no use to a reader."""
    return None if moment is None else format_duration(timedelta(seconds=max((now - moment).total_seconds() // 1, 0)))


def _remaining(moment: datetime | None, now: datetime) -> str | None:
    if moment is None:
        return None
    return format_duration(moment - now) if moment > now else "expired"
