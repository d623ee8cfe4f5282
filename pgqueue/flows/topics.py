"""Topics and subscriptions: what takes several steps, and sends, which are traced."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from pgqueue import telemetry
from pgqueue.errors import QueueAlreadyExistsError, RuleAlreadyExistsError, TopicAlreadyExistsError
from pgqueue.flows import flow, queues
from pgqueue.flows.flow import Executor, Flow, Interceptors, around
from pgqueue.model.arguments import several
from pgqueue.model.body_type import BodyType
from pgqueue.model.encoding import encode
from pgqueue.model.message import Message
from pgqueue.model.names import subscription_queue
from pgqueue.model.topic import Published, SubscriptionProperties, TopicProperties, TopicSettings
from pgqueue.statements import Statement, topics


def create_topic(name: str, settings: TopicSettings, source: Executor, *, exist_ok: bool) -> Flow[TopicProperties]:
    statement = topics.create_topic(name, settings)
    yield from flow.create(statement, source, TopicAlreadyExistsError, exist_ok=exist_ok)
    return (yield from source.execute(topics.get_topic(name)))


def alter_topic(name: str, settings: TopicSettings, source: Executor) -> Flow[TopicProperties]:
    yield from source.execute(topics.alter_topic(name, settings))
    return (yield from source.execute(topics.get_topic(name)))


def drop_topic(name: str, source: Executor) -> Flow[None]:
    """Empty the subscriptions in bounded transactions, then drop all."""
    yield from queues.empty((yield from source.execute(topics.subscription_queues(name))), source)
    yield from source.execute(topics.drop_topic(name))


def create_subscription(
    statement: Statement[None], topic: str, name: str, source: Executor, *, exist_ok: bool
) -> Flow[SubscriptionProperties]:
    yield from flow.create(statement, source, QueueAlreadyExistsError, exist_ok=exist_ok)
    return (yield from get_subscription(topic, name, source))


def alter_subscription(
    statement: Statement[None], topic: str, name: str, source: Executor
) -> Flow[SubscriptionProperties]:
    yield from source.execute(statement)
    return (yield from get_subscription(topic, name, source))


def drop_subscription(topic: str, name: str, source: Executor) -> Flow[None]:
    """Empty the subscription in bounded transactions, then drop it."""
    queue = subscription_queue(topic, name)
    known = yield from source.execute(topics.subscription_queues(topic))
    yield from queues.empty([each for each in known if each == queue], source)
    yield from source.execute(topics.drop_subscription(topic, name))


def get_subscription(topic: str, name: str, source: Executor) -> Flow[SubscriptionProperties]:
    for subscription in (yield from source.execute(topics.list_subscriptions(topic, name))):
        if subscription.name == name:
            return subscription
    raise topics.unknown_subscription(topic, name)


def create_rule(statement: Statement[None], source: Executor, *, exist_ok: bool) -> Flow[None]:
    yield from flow.create(statement, source, RuleAlreadyExistsError, exist_ok=exist_ok)


def publish(
    topic: str,
    message: Message,
    where: Executor,
    body_type: BodyType | None,
    interceptors: Interceptors | None = None,
    *,
    require_subscription: bool,
) -> Flow[Published]:
    if interceptors is not None:
        store = partial(publish, topic, where=where, body_type=body_type, require_subscription=require_subscription)
        return (yield from around(interceptors, "send", message, store))
    with telemetry.recorder().sending(topic) as sent:
        encoded = encode(message, sent.trace, body_type)
        return (yield from where.execute(topics.publish(topic, encoded, require_subscription=require_subscription)))


def publish_batch(
    topic: str,
    messages: Iterable[Message],
    where: Executor,
    body_type: BodyType | None,
    interceptors: Interceptors | None = None,
    *,
    require_subscription: bool,
) -> Flow[list[Published]]:
    """Send messages in one statement, with one span."""
    given = several("messages", messages, of="messages")
    if not given:
        return []
    if interceptors is not None:
        store = partial(
            publish_batch, topic, where=where, body_type=body_type, require_subscription=require_subscription
        )
        return (yield from around(interceptors, "send_batch", given, store))
    with telemetry.recorder().sending(topic, len(given)) as sent:
        encoded = [encode(message, sent.trace, body_type) for message in given]
        statement = topics.publish_batch(topic, encoded, require_subscription=require_subscription)
        return (yield from where.execute(statement))
