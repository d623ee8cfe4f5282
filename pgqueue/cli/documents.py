"""Messages, queues and the like as JSON documents, and as tables and records for people."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from typing import Any

from rich.table import Table

from pgqueue import (
    FoundMessage,
    Grant,
    JsonPathFilter,
    PeekedMessage,
    QueueProperties,
    QueueRuntimeProperties,
    ReceivedMessage,
    RuleProperties,
    Schedule,
    SessionProperties,
    SettledMessage,
    SqlFilter,
    SubscriptionProperties,
    TopicProperties,
)
from pgqueue.cli import output
from pgqueue.cli.output import plain
from pgqueue.cli.quantities import NONE, format_duration
from pgqueue.cli.watching import Trend
from pgqueue.errors import MessageNotReadableError
from pgqueue.model.cipher import is_encrypted
from pgqueue.model.columns import KEPT_TEXTS
from pgqueue.model.encoding import DEEPEST, is_nested_deeper
from pgqueue.model.queue_settings import SETTINGS, Setting
from pgqueue.model.recurrence import zone

#: The columns of a table: an attribute each, or what is made of an item.
Columns = dict[str, str | Callable[[Any], object]]

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
    *(column.name for column in KEPT_TEXTS),
)
DEAD_LETTER_FIELDS = ("dead_letter_reason", "dead_letter_error_description", "dead_letter_source", "dead_lettered_at")
COUNTS = ("ready", "locked", "deferred", "expired", "scheduled", "dead_letters")


@plain.register
def message_document(message: PeekedMessage) -> dict[str, Any]:
    """Return a message as a JSON document; the document of a message locked by us has its lock token, for use in SQL.

    Bytes are base64, in ``binary_body``, or ``encrypted_body`` if they cannot be decrypted. JSON that Python cannot
    read is text, in ``raw_body`` and ``raw_application_properties``.
    """
    fields = [*MESSAGE_FIELDS, *(DEAD_LETTER_FIELDS if message.dead_letter_reason is not None else ())]
    document = {field: getattr(message, field) for field in fields}
    document.update(_json(message, "application_properties"))
    document["last_error"] = message.last_error
    if message.resubmitted_from is not None:
        document["resubmitted_from"] = message.resubmitted_from
    if message.delivery_log:
        document["delivery_log"] = message.delivery_log
    if isinstance(message, ReceivedMessage):
        document["lock_token"] = str(message.lock_token)
    if is_encrypted(message.raw_body) and _is_unreadable(message, "body"):
        return {**document, "encrypted_body": message.raw_body}
    if isinstance(message.raw_body, bytes) and isinstance(message.body, bytes):
        return {**document, "binary_body": message.body}
    return {**document, **_json(message, "body")}


def _table(items: Sequence[Any], columns: Columns, *, wide: Collection[str] = (), spare: Collection[str] = ()) -> Table:
    """A row an item."""
    rows = [[getattr(item, of) if isinstance(of, str) else of(item) for of in columns.values()] for item in items]
    return output.table(list(columns), rows, wide=wide, spare=spare)


def messages_table(messages: Sequence[PeekedMessage], now: datetime) -> Table:
    if messages[0].dead_letter_reason is not None:
        return dead_letters_table(messages, now)
    return _table(
        messages,
        {
            "number": _number,
            "age": lambda message: _age(message.enqueued_time, now),
            "deliveries": "delivery_count",
            "state": lambda message: _state(message, now),
            "expires in": lambda message: _remaining(message.expires_at, now),
            "subject": "subject",
            "last error": lambda message: message.last_error and str(message.last_error),
            "body": body_text,
        },
        wide=("subject", "last error", "body"),
        spare=("expires in", "subject", "last error"),
    )


def dead_letters_table(messages: Sequence[PeekedMessage], now: datetime) -> Table:
    return _table(
        messages,
        {
            "number": _number,
            "dead for": lambda message: _age(message.dead_lettered_at, now),
            "deliveries": "delivery_count",
            "locked for": lambda message: _remaining(message.locked_until, now),
            "reason": "dead_letter_reason",
            "description": "dead_letter_error_description",
            "body": body_text,
        },
        wide=("description", "body"),
        spare=("locked for", "description"),
    )


def history_table(messages: Sequence[SettledMessage], now: datetime) -> Table:
    return _table(
        messages,
        {
            "number": _number,
            "settled": lambda message: f"{_age(message.settled_at, now)} ago",
            "outcome": "outcome",
            "deliveries": "delivery_count",
            "work took": lambda message: _age(message.first_locked_at, message.settled_at),
            "reason": "reason",
            "message id": "message_id",
            "subject": "subject",
            "last locked by": "locked_by",
        },
        wide=("reason", "message id", "subject", "last locked by"),
        spare=("work took", "reason", "message id", "subject", "last locked by"),
    )


def found_table(messages: Sequence[FoundMessage], now: datetime) -> Table:
    return _table(
        messages,
        {
            "number": _number,
            "age": lambda message: _age(message.enqueued_time, now),
            "deliveries": "delivery_count",
            "state": "state",
            "due in": lambda message: _remaining(message.scheduled_enqueue_time, now),
            "locked by": "locked_by",
            "subject": "subject",
            "message id": "message_id",
            "session": "session_id",
            "reason": "dead_letter_reason",
            "body": "body",
        },
        wide=("subject", "message id", "session", "reason", "body"),
        spare=("due in", "locked by", "subject", "message id", "session", "reason"),
    )


def message_record(message: PeekedMessage) -> Table:
    """Everything about one message; fields that are empty or false are left out."""
    document = message_document(message)
    body = next(
        document.pop(name) for name in ("body", "binary_body", "encrypted_body", "raw_body") if name in document
    )
    log = [str(error) for error in message.delivery_log]
    if message.last_error is not None:
        document["last_error"] = message.last_error.traceback or str(message.last_error)
        document["delivery_log"] = "\n".join(log) if len(log) > 1 else None
    fields = [
        (name.replace("_", " "), _readable(value))
        for name, value in document.items()
        if value is not None and value is not False
    ]
    is_text = isinstance(body, bytes) or _is_unreadable(message, "body")
    shown = _readable(body) if is_text else json.dumps(body, ensure_ascii=False, indent=2)
    return output.record([*fields, ("body", shown)])


def body_text(message: PeekedMessage) -> str:
    body = message.raw_body
    if is_encrypted(body):
        return "encrypted" if _is_unreadable(message, "body") else _readable(message.body)
    return f"{len(body)} bytes: {body[:32].hex(' ')}" if isinstance(body, bytes) else body


def _json(holder: PeekedMessage | QueueProperties | TopicProperties, field: str) -> dict[str, Any]:
    """A JSON field as a part of a document; as text, under another name, if Python cannot read or write it."""
    name = f"raw_{field}" if _is_unreadable(holder, field) else field
    return {name: getattr(holder, name)}


def _is_unreadable(holder: PeekedMessage | QueueProperties | TopicProperties, field: str) -> bool:
    try:
        return is_nested_deeper(getattr(holder, field), DEEPEST)
    except MessageNotReadableError:
        return True


@plain.register
def queue_document(holder: QueueProperties | TopicProperties) -> dict[str, Any]:
    settings = {each.name: getattr(holder, each.name) for each in fields(holder) if each.name != "user_metadata"}
    return {**settings, **_json(holder, "user_metadata")}


def queues_table(queues: Sequence[QueueProperties]) -> Table:
    """The main settings of the queues, as far as they fit; :func:`settings_record` has all."""
    spare: Columns = {
        "to live": lambda queue: _duration(queue.default_message_time_to_live),
        "max length": "max_queue_length",
        "unique for": lambda queue: (
            _duration(queue.duplicate_detection_history_time_window) if queue.requires_duplicate_detection else None
        ),
        "history": lambda queue: _duration(queue.retain_history),
        "max bytes": "max_message_size",
        "user metadata": "raw_user_metadata",
    }
    columns: Columns = {
        "queue": "name",
        "status": lambda queue: str(queue.status) if queue.paused_at is None else f"{queue.status}, paused",
        "lock for": lambda queue: _duration(queue.lock_duration),
        "deliveries": "max_delivery_count",
        **spare,
    }
    return _table(queues, columns, wide=("queue", "user metadata"), spare=spare)


def grants_table(grants: Sequence[Grant]) -> Table:
    columns: Columns = {"role": "role", "may": "may", "queue": lambda grant: grant.queue or "all queues"}
    return _table(grants, columns, wide=("queue",))


def keys_table(keys: Sequence[Any]) -> Table:
    return _table(keys, {"key": "name", "role": "role", "created": "created_at"}, wide=("key",))


def settings_record(queue: QueueProperties) -> Table:
    return output.record(_settings(queue))


def queue_record(queue: QueueProperties, counts: QueueRuntimeProperties, now: datetime) -> Table:
    return output.record(
        [
            *_settings(queue),
            *((name.replace("_", " "), getattr(counts, name)) for name in COUNTS),
            ("oldest waits for", _age(counts.oldest_enqueued_time, now)),
            ("size", f"{counts.size_in_bytes:,} bytes"),
        ]
    )


def _settings(queue: QueueProperties) -> list[tuple[str, object]]:
    return [
        ("queue", queue.name),
        ("status", str(queue.status)),
        ("paused since", NONE if queue.paused_at is None else _to_seconds(queue.paused_at)),
        *_by_option(queue, SETTINGS),
        ("created", _to_seconds(queue.created_at)),
        ("updated", _to_seconds(queue.updated_at)),
    ]


def _by_option(holder: QueueProperties | TopicProperties, settings: Iterable[Setting]) -> list[tuple[str, object]]:
    """All settings but the status, under the names of their options."""
    shown = [each for each in settings if each.name not in ("status", "user_metadata")]
    return [
        *((each.name.replace("_", " "), _setting(each, getattr(holder, each.name))) for each in shown),
        ("user metadata", holder.raw_user_metadata),
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
    known = trends or {}
    trend: Columns = {
        "change/s": lambda counts: known[counts.name].change,
        "trend": lambda counts: known[counts.name].line if output.console().encoding.startswith("utf") else None,
    }
    estimate: Columns = {"counts": lambda counts: None if counts.is_exact else "estimate"}
    columns: Columns = {
        "queue": "name",
        "ready": "ready",
        **(trend if trends is not None else {}),
        **{name.replace("_", "\n"): name for name in COUNTS[1:]},
        "oldest": lambda counts: _age(counts.oldest_enqueued_time, now),
        "bytes": "size_in_bytes",
        **({} if all(counts.is_exact for counts in all_counts) else estimate),
    }
    spare = ("change/s", "trend", "deferred", "expired", "scheduled", "bytes")
    return _table(all_counts, columns, wide=("queue",), spare=spare)


def topic_record(topic: TopicProperties) -> Table:
    return output.record(
        [
            ("topic", topic.name),
            ("subscriptions", topic.subscriptions),
            ("status", str(topic.status)),
            *_by_option(topic, (each for each in SETTINGS if each.is_of_topics)),
            ("created", _to_seconds(topic.created_at)),
        ]
    )


def topics_table(topics: Sequence[TopicProperties]) -> Table:
    columns: Columns = {
        "topic": "name",
        "subscriptions": "subscriptions",
        "status": "status",
        "created": lambda topic: _to_seconds(topic.created_at),
    }
    return _table(topics, columns, wide=("topic",), spare=("created",))


@plain.register
def _(subscription: SubscriptionProperties) -> dict[str, Any]:
    """Return a subscription as a JSON document; its filter has a ``path``, or what a correlation filter asks for."""
    return {
        "topic": subscription.topic,
        "name": subscription.name,
        "filter": _filter_document(subscription),
        "set_properties": subscription.set_properties,
        "created_at": subscription.created_at,
        "queue": subscription.queue,
        "rules": subscription.rules,
    }


@plain.register
def _(rule: RuleProperties) -> dict[str, Any]:
    """Return a rule as a JSON document; its filter is as that of a subscription."""
    return {
        "name": rule.name,
        "filter": _filter_document(rule),
        "set_properties": rule.set_properties,
        "created_at": rule.created_at,
    }


def subscriptions_table(subscriptions: Sequence[SubscriptionProperties]) -> Table:
    columns: Columns = {
        "subscription": "name",
        "status": lambda subscription: str(subscription.queue.status),
        "rules": "rules",
        "filter": _filter_text,
        "sets": _sets_text,
    }
    return _table(subscriptions, columns, wide=("filter", "sets"), spare=("sets",))


def rules_table(rules: Sequence[RuleProperties]) -> Table:
    columns: Columns = {"rule": "name", "filter": _filter_text, "sets": _sets_text}
    return _table(rules, columns, wide=("filter", "sets"), spare=("sets",))


def subscription_record(subscription: SubscriptionProperties) -> Table:
    return output.record(
        [
            ("topic", subscription.topic),
            ("subscription", subscription.name),
            ("filter", _filter_text(subscription) or NONE),
            ("sets", _sets_text(subscription) or NONE),
            *_settings(subscription.queue),
        ]
    )


def _filter_document(rule: SubscriptionProperties | RuleProperties) -> dict[str, Any] | None:
    if rule.filter is None:
        return None
    return {name: value for name, value in plain(rule.filter).items() if value is not None}


def _filter_text(rule: SubscriptionProperties | RuleProperties) -> str | None:
    match rule.filter:
        case None:
            return None
        case JsonPathFilter(expression) | SqlFilter(expression):
            return expression
    return _readable(_filter_document(rule))


def _sets_text(rule: SubscriptionProperties | RuleProperties) -> str | None:
    return None if rule.set_properties is None else _readable(rule.set_properties)


@plain.register
def schedule_document(schedule: Schedule) -> dict[str, Any]:
    """Return a schedule as a JSON document. The body is JSON, or base64 of bytes in ``binary_body``."""
    shown = {each.name: getattr(schedule, each.name) for each in fields(schedule) if each.repr}
    try:
        message = {name: value for name, value in vars(schedule.message).items() if name != "scheduled_enqueue_time"}
    except MessageNotReadableError as error:
        return {**shown, "message": {"unreadable": error.args[0]}}
    body = message.pop("body")
    return {**shown, "message": {**message, "binary_body" if isinstance(body, bytes) else "body": body}}


def sessions_table(sessions: Sequence[SessionProperties]) -> Table:
    columns: Columns = {
        "session": "session_id",
        "messages": "messages",
        "oldest": lambda session: _duration(session.oldest_age),
        "locked by": lambda session: session.locked_by if session.is_locked else None,
        "locked until": lambda session: session.locked_until.isoformat() if session.is_locked else None,
        "bytes of state": "state_size",
    }
    return _table(sessions, columns)


def schedules_table(schedules: Sequence[Schedule]) -> Table:
    columns: Columns = {
        "schedule": "name",
        "queue": "queue",
        "when": _recurrence,
        "time zone": lambda schedule: schedule.timezone if schedule.cron else None,
        "next due": _next_due,
        "last due": _last_due,
        "last error": "last_error",
    }
    return _table(schedules, columns, wide=("last error",), spare=("time zone", "last due", "last error"))


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
            ("created", _to_seconds(schedule.created_at)),
            *((name.replace("_", " "), _readable(value)) for name, value in document.items() if name != "body"),
            *([("body", json.dumps(document["body"], ensure_ascii=False))] if "body" in document else []),
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


def _readable(value: Any) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case datetime() | timedelta() | bytes():
            return str(plain(value))
    is_object = isinstance(value, dict) or is_dataclass(value)
    return json.dumps(value, ensure_ascii=False, default=plain) if is_object else str(value)


def _to_seconds(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")


def _number(message: PeekedMessage | SettledMessage | FoundMessage) -> output.Number:
    return output.Number(message.sequence_number)


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
