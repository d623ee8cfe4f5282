"""Topics and subscriptions: create, alter, inspect, drop; and send."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from pgqueue.errors import InvalidArgumentError, MessageNotReadableError, TopicNotFoundError
from pgqueue.model.arguments import name_of, text
from pgqueue.model.encoding import EncodedMessage, to_json
from pgqueue.model.json_text import decode_jsonb
from pgqueue.model.row import Row
from pgqueue.model.settings import QueueSettings
from pgqueue.model.topic import CorrelationFilter, Filter, JsonPathFilter, SubscriptionProperties, TopicProperties
from pgqueue.statements import queues, sending
from pgqueue.statements.statement import NO_LIMIT, Statement, call, column, columns_of, each, nothing, scalar

#: Passed instead of a filter or properties: the subscription keeps what it has. (None removes it.)
UNCHANGED: Any = object()

#: How a filter is removed: this one asks for nothing, so every message matches.
MATCHES_ALL: Final = CorrelationFilter()

SETTINGS_OF_QUEUE: Final = queues.SETTINGS.replace("name, ", "settings.name, ", 1).replace(
    "created_at", "settings.created_at"
)

SUBSCRIPTIONS: Final = f"""
select topic.name, subscription.name, correlation_filter, json_path_filter, set_properties, subscription.created_at,
       {SETTINGS_OF_QUEUE}
  from pgqueue.topics as topic
  left join pgqueue.subscriptions as subscription on subscription.topic = topic.name
  left join pgqueue.queue_settings() as settings on settings.name = subscription.queue
 where topic.name = %(topic)s::text
 order by subscription.name"""

#: How many columns come before those of the queue.
OWN_COLUMNS: Final = 6


def create_topic(name: str) -> Statement[None]:
    return call("select pgqueue.create_topic(…)", nothing, topic=name)


def drop_topic(name: str) -> Statement[None]:
    return call("select pgqueue.drop_topic(…)", nothing, topic=name).within(NO_LIMIT)


def list_topics() -> Statement[list[TopicProperties]]:
    sql = f"select {columns_of(TopicProperties)} from pgqueue.topics order by name"
    return Statement(sql, {}, each(TopicProperties))


def create_subscription(
    topic: str, name: str, filter: Filter | None, set_properties: Mapping[str, Any] | None, settings: QueueSettings
) -> Statement[None]:
    known = {
        **_filter(filter),
        "set_properties": _properties(set_properties),
        **queues.new_settings(settings),
    }
    return call("select pgqueue.create_subscription(…)", nothing, known, topic=topic, subscription=name)


def alter_subscription(
    topic: str, name: str, filter: Filter | None, set_properties: Mapping[str, Any] | None, settings: QueueSettings
) -> Statement[None]:
    known = {
        **_filter(None if filter is UNCHANGED else filter or MATCHES_ALL),
        "set_properties": None if set_properties is UNCHANGED else _properties(set_properties or {}),
        **queues.altered_settings(settings),
    }
    return call("select pgqueue.alter_subscription(…)", nothing, known, topic=topic, subscription=name)


def drop_subscription(topic: str, name: str) -> Statement[None]:
    return call("select pgqueue.drop_subscription(…)", nothing, topic=topic, subscription=name).within(NO_LIMIT)


def list_subscriptions(topic: str) -> Statement[list[SubscriptionProperties]]:
    def read(rows: Sequence[Row]) -> list[SubscriptionProperties]:
        if not rows:
            raise TopicNotFoundError(f"topic {topic} does not exist: create it with client.create_topic({topic!r})")
        return [_read(row) for row in rows if row[1] is not None]

    return Statement(SUBSCRIPTIONS, {"topic": name_of("topic", topic)}, read)


def publish(topic: str, message: EncodedMessage, *, require_subscription: bool) -> Statement[int]:
    return call(
        "select pgqueue.publish_to_topic(…)",
        scalar,
        message._asdict(),
        topic=topic,
        require_subscription=require_subscription,
    )


def publish_batch(
    topic: str, messages: Sequence[EncodedMessage], *, require_subscription: bool
) -> Statement[list[int]]:
    return call(
        f"select pgqueue.publish_batch_to_topic(…, {sending.GIVEN_ARRAYS})",
        column,
        sending.columns(messages),
        topic=topic,
        require_subscription=require_subscription,
    )


def _properties(set_properties: Mapping[str, Any] | None) -> str | None:
    if set_properties is not None and not isinstance(set_properties, Mapping):
        raise InvalidArgumentError(f"set_properties must be a mapping, not {set_properties!r}")
    return None if set_properties is None else to_json("set_properties", dict(set_properties), InvalidArgumentError)


def _filter(filter: Filter | None) -> dict[str, Any]:
    match filter:
        case None:
            return {"correlation_filter": None, "json_path_filter": None}
        case CorrelationFilter():
            asked = {field: value for field, value in asdict(filter).items() if value is not None}
            return {"correlation_filter": to_json("the filter", asked, InvalidArgumentError), "json_path_filter": None}
        case JsonPathFilter() if filter.path is not None:
            return {"correlation_filter": None, "json_path_filter": text("the path of a filter", filter.path)}
    raise InvalidArgumentError(f"a filter must be a CorrelationFilter or a JsonPathFilter, not {filter!r}")


def _read(row: Row) -> SubscriptionProperties:
    topic, name, correlation_filter, json_path_filter, set_properties, created_at = row[:OWN_COLUMNS]
    filter: Filter | None = None if json_path_filter is None else JsonPathFilter(json_path_filter)
    try:
        if correlation_filter is not None:
            filter = CorrelationFilter(**decode_jsonb(correlation_filter))
        properties = decode_jsonb(set_properties)
    except ValueError as error:
        raise MessageNotReadableError(f"subscription {name} of topic {topic} cannot be read: {error}") from None
    return SubscriptionProperties(
        topic,
        name,
        filter,
        properties,
        created_at,
        queues.properties(*row[OWN_COLUMNS:]),
    )
