"""Topics and subscriptions: create, alter, inspect, drop; and send."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from pgqueue.errors import InvalidArgumentError, MessageNotReadableError, QueueNotFoundError, TopicNotFoundError
from pgqueue.model.arguments import name_of, several, shown, text
from pgqueue.model.encoding import EncodedMessage, columns, to_json
from pgqueue.model.json_text import decode_jsonb, undecoded
from pgqueue.model.message import SequenceNumber
from pgqueue.model.names import subscription_queue
from pgqueue.model.properties import as_json, decode_properties, from_json
from pgqueue.model.row import Row
from pgqueue.model.settings import QueueSettings, QueueStatus
from pgqueue.model.topic import (
    CorrelationFilter,
    Filter,
    JsonPathFilter,
    Published,
    RuleProperties,
    SqlFilter,
    SubscriptionProperties,
    TopicProperties,
    TopicSettings,
)
from pgqueue.statements import queues, sending
from pgqueue.statements.statement import NO_LIMIT, Statement, call, column, columns_of, each, nothing, scalar

T = TypeVar("T")

#: Passed instead of a filter or properties: the subscription keeps what it has. (None removes it.)
UNCHANGED: Any = object()

#: How a filter is removed: this one asks for nothing, so every message matches.
MATCHES_ALL: Final = CorrelationFilter()

SETTINGS_OF_QUEUE: Final = queues.SETTINGS.replace("name, ", "settings.name, ", 1).replace(
    "created_at", "settings.created_at"
)

SUBSCRIPTIONS: Final = f"""
select topic.name, rules, subscription.name, correlation_filter, json_path_filter, sql_filter, set_properties,
       subscription.created_at, {SETTINGS_OF_QUEUE}
  from pgqueue.topics as topic
  left join pgqueue.subscriptions as subscription
    on subscription.topic = topic.name and subscription.name = coalesce(%(subscription)s::text, subscription.name)
  left join pgqueue.queue_settings() as settings on settings.name = subscription.queue
 where topic.name = %(topic)s::text
 order by subscription.name"""

SUBSCRIPTION_QUEUES: Final = "select queue from pgqueue.subscriptions where topic = %(topic)s::text order by name"

#: How many columns come before those of the queue.
OWN_COLUMNS: Final = 8

#: A row without a rule for a subscription that has none; no row for a subscription that does not exist.
RULES: Final = """
select rule.name, rule.correlation_filter, rule.json_path_filter, rule.sql_filter, rule.set_properties, rule.created_at
  from pgqueue.subscriptions as subscription
  left join pgqueue.rules as rule on rule.topic = subscription.topic and rule.subscription = subscription.name
 where subscription.topic = %(topic)s::text and subscription.name = %(subscription)s::text
 order by rule.name"""


TOPICS: Final = f"select {columns_of(TopicProperties)} from pgqueue.topics join pgqueue.topic_settings() using (name)"


def create_topic(name: str, settings: TopicSettings) -> Statement[None]:
    return call("select pgqueue.create_topic(…)", nothing, queues.new_settings(settings, "topic"), topic=name)


def alter_topic(name: str, settings: TopicSettings) -> Statement[None]:
    return call("select pgqueue.alter_topic(…)", nothing, queues.altered_settings(settings, "topic"), topic=name)


def get_topic(name: str) -> Statement[TopicProperties]:
    def read(rows: Sequence[Row]) -> TopicProperties:
        if not rows:
            raise unknown(name)
        return _topic(*rows[0])

    return Statement(f"{TOPICS} where name = %(topic)s::text", {"topic": name_of("topic", name)}, read)


def drop_topic(name: str) -> Statement[None]:
    return call("select pgqueue.drop_topic(…)", nothing, topic=name).within(NO_LIMIT)


def list_topics() -> Statement[list[TopicProperties]]:
    return Statement(f"{TOPICS} order by name", {}, each(_topic))


def _topic(*row: Any) -> TopicProperties:
    values = dict(zip(columns_of(TopicProperties).split(", "), row, strict=True))
    return undecoded(TopicProperties(**{**values, "status": QueueStatus(values["status"])}), "user_metadata")


def unknown(topic: str) -> TopicNotFoundError:
    return TopicNotFoundError(
        f"topic {topic} does not exist, or this role may not see it: create it with client.create_topic({topic!r})"
    )


def unknown_subscription(topic: str, name: str) -> QueueNotFoundError:
    return QueueNotFoundError(
        f"queue {subscription_queue(topic, name)} does not exist, or this role may not see it: create it with"
        " client.create_subscription, or let the role receive from it with client.grant_receive"
    )


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
    known = {**_altered(filter, set_properties), **queues.altered_settings(settings)}
    return call("select pgqueue.alter_subscription(…)", nothing, known, topic=topic, subscription=name)


def drop_subscription(topic: str, name: str) -> Statement[None]:
    return call("select pgqueue.drop_subscription(…)", nothing, topic=topic, subscription=name).within(NO_LIMIT)


def subscription_queues(topic: str) -> Statement[list[str]]:
    return Statement(SUBSCRIPTION_QUEUES, {"topic": name_of("topic", topic)}, column)


def list_subscriptions(topic: str, subscription: str | None = None) -> Statement[list[SubscriptionProperties]]:
    """All, or at most the one with this name."""

    def read(rows: Sequence[Row]) -> list[SubscriptionProperties]:
        if not rows:
            raise unknown(topic)
        return [_read(row) for row in rows if row[2] is not None]

    wanted = None if subscription is None else name_of("subscription", subscription)
    return Statement(SUBSCRIPTIONS, {"topic": name_of("topic", topic), "subscription": wanted}, read)


def create_rule(
    topic: str, subscription: str, name: str, filter: Filter | None, set_properties: Mapping[str, Any] | None
) -> Statement[None]:
    known = {**_filter(filter), "set_properties": _properties(set_properties)}
    return call("select pgqueue.create_rule(…)", nothing, known, topic=topic, subscription=subscription, rule=name)


def alter_rule(
    topic: str, subscription: str, name: str, filter: Filter | None, set_properties: Mapping[str, Any] | None
) -> Statement[None]:
    known = _altered(filter, set_properties)
    return call("select pgqueue.alter_rule(…)", nothing, known, topic=topic, subscription=subscription, rule=name)


def drop_rule(topic: str, subscription: str, name: str) -> Statement[None]:
    return call("select pgqueue.drop_rule(…)", nothing, topic=topic, subscription=subscription, rule=name)


def list_rules(topic: str, subscription: str) -> Statement[list[RuleProperties]]:
    def read(rows: Sequence[Row]) -> list[RuleProperties]:
        if not rows:
            raise unknown_subscription(topic, subscription)
        return [_read_rule(row) for row in rows if row[0] is not None]

    given = {"topic": name_of("topic", topic), "subscription": name_of("subscription", subscription)}
    return Statement(RULES, given, read)


def publish(topic: str, message: EncodedMessage, *, require_subscription: bool) -> Statement[Published]:
    if message.scheduled_enqueue_time is not None:
        return _send(topic, [message], require_subscription, lambda rows: _published(rows)[0])
    return call(
        "select pgqueue.publish_to_topic(…)",
        lambda rows: Published(scalar(rows)),
        message._asdict(),
        topic=topic,
        require_subscription=require_subscription,
    )


def publish_batch(
    topic: str, messages: Sequence[EncodedMessage], *, require_subscription: bool
) -> Statement[list[Published]]:
    if any(message.scheduled_enqueue_time is not None for message in messages):
        return _send(topic, messages, require_subscription, _published)
    return call(
        f"select pgqueue.publish_batch_to_topic(…, {sending.GIVEN_ARRAYS})",
        each(Published),
        columns(messages),
        topic=topic,
        require_subscription=require_subscription,
    )


def _send(
    topic: str, messages: Sequence[EncodedMessage], require_subscription: bool, read: Callable[[Sequence[Row]], T]
) -> Statement[T]:
    """Send messages some of which are scheduled: these get numbers in the topic."""
    return call(
        f"select copies, sequence_number from pgqueue.send_to_topic(…, {sending.GIVEN_ARRAYS})",
        read,
        columns(messages),
        topic=topic,
        require_subscription=require_subscription,
    )


def _published(rows: Sequence[Row]) -> list[Published]:
    sent = []
    for copies, number in rows:
        published = Published(copies)
        if number is not None:
            published.sequence_number = SequenceNumber(number)
        sent.append(published)
    return sent


def cancel_scheduled(topic: str, sequence_numbers: Sequence[int]) -> Statement[None]:
    """Cancel messages by their numbers in the topic, or by what sending them has returned."""
    given = several("sequence_numbers", sequence_numbers)
    numbers = [each.sequence_number if isinstance(each, Published) else each for each in given]
    if None in numbers:
        raise InvalidArgumentError(
            "the message was not scheduled: only one with a scheduled_enqueue_time can be cancelled"
        )
    return call("select pgqueue.cancel_on_topic(…)", nothing, topic=topic, sequence_numbers=numbers)


def _altered(filter: Filter | None, set_properties: Mapping[str, Any] | None) -> dict[str, Any]:
    return {
        **_filter(None if filter is UNCHANGED else filter or MATCHES_ALL),
        "set_properties": None if set_properties is UNCHANGED else _properties(set_properties or {}),
    }


def _properties(set_properties: Mapping[str, Any] | None) -> str | None:
    if set_properties is None:
        return None
    if not isinstance(set_properties, Mapping):
        raise InvalidArgumentError(f"set_properties must be a mapping, not {shown(set_properties)}")
    return to_json("set_properties", as_json(dict(set_properties)), InvalidArgumentError)


def _filter(filter: Filter | None) -> dict[str, Any]:
    asked = path = sql = None
    match filter:
        case None:
            pass
        case CorrelationFilter():
            compared = {field: as_json(value) for field, value in vars(filter).items() if value is not None}
            asked = to_json("the filter", compared, InvalidArgumentError)
        case JsonPathFilter() if filter.path is not None:
            path = text("the path of a filter", filter.path)
        case SqlFilter():
            path, sql = _translated(filter), filter.sql
        case _:
            raise InvalidArgumentError(
                f"a filter must be a CorrelationFilter, a JsonPathFilter or an SqlFilter, not {shown(filter)}"
            )
    return {"correlation_filter": asked, "json_path_filter": path, "sql_filter": sql}


def _translated(filter: SqlFilter) -> str:
    try:
        from pgqueue.model.sql_filter import to_json_path
    except ModuleNotFoundError as error:
        raise InvalidArgumentError(f"an SqlFilter needs {error.name}: pip install 'pgqueue-tx[sql-filter]'") from error
    return to_json_path(filter.sql)


def _read(row: Row) -> SubscriptionProperties:
    topic, rules = row[:2]
    default = _read_rule(row[2:OWN_COLUMNS])
    return SubscriptionProperties(
        topic,
        default.name,
        default.filter,
        default.set_properties,
        default.created_at,
        queues.properties(*row[OWN_COLUMNS:]),
        rules,
    )


def _read_rule(row: Row) -> RuleProperties:
    """Read a rule, or a subscription with its rule ``$Default``."""
    name, correlation_filter, json_path_filter, sql_filter, set_properties, created_at = row
    filter: Filter | None = None
    try:
        if sql_filter is not None:
            filter = SqlFilter(sql_filter)
        elif json_path_filter is not None:
            filter = JsonPathFilter(json_path_filter)
        elif correlation_filter is not None:
            asked = decode_jsonb(correlation_filter)
            filter = CorrelationFilter(**{field: from_json(value) for field, value in asked.items()})
        return RuleProperties(name, filter, decode_properties(set_properties), created_at)
    except ValueError as error:
        raise MessageNotReadableError(f"the filter or the properties of {name} cannot be read: {error}") from None
