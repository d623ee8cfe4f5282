"""Topics, from Python: what is sent to which subscription, in whose transaction, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pytest

from pgqueue import CorrelationFilter, JsonPathFilter, Message, QueueStatus, SqlFilter
from pgqueue.errors import (
    InvalidArgumentError,
    MessageNotFoundError,
    MessageNotReadableError,
    MessageNotSerializableError,
    NoSubscriptionError,
    QueueAlreadyExistsError,
    QueueDisabledError,
    QueueFullError,
    QueueNotFoundError,
    RuleNotFoundError,
    TopicAlreadyExistsError,
    TopicNotFoundError,
)
from tests.contract.world import World

PAID = CorrelationFilter(subject="paid", application_properties={"country": "CH"})
LARGE = JsonPathFilter("$.body.amount > 1000")


@pytest.fixture
def topic(either: World) -> Iterator[Any]:
    name = f"topic-of-{either.name}"
    either.client.create_topic(name)
    yield either.client.topic(name)
    if name in {each.name for each in either.client.list_topics()}:
        either.client.delete_topic(name)


def bodies(world: World, topic: Any, subscription: str) -> list[Any]:
    return [each.body for each in world.client.subscription(topic.name, subscription).peek(max_messages=100)]


def test_a_message_goes_to_the_subscriptions_that_match(either: World, topic: Any) -> None:
    billing = either.client.create_subscription(topic.name, "billing", filter=PAID, lock_duration=timedelta(minutes=5))
    assert billing.queue.lock_duration == timedelta(minutes=5)
    either.client.create_subscription(topic.name, "large", filter=LARGE, set_properties={"large": True})
    either.client.create_subscription(topic.name, "all")
    assert topic.send(Message({"amount": 1}, subject="paid", application_properties={"country": "CH"})) == 2
    assert topic.send_batch([Message({"amount": 2000}), Message(b"bytes"), Message(None, priority=3)]) == [2, 1, 1]
    assert topic.send_batch([]) == []
    assert bodies(either, topic, "billing") == [{"amount": 1}]
    assert bodies(either, topic, "all") == [{"amount": 1}, {"amount": 2000}, b"bytes", None]
    large = either.client.subscription(topic.name, "large")
    assert large.name == f"{topic.name}/Subscriptions/large"
    (received,) = large.receive(max_messages=9)
    assert (received.body, received.application_properties) == ({"amount": 2000}, {"large": True})
    received.complete()


def test_properties_come_back_in_their_types(either: World, topic: Any) -> None:
    invoice, at = uuid4(), datetime(2026, 11, 26, 9, 30, tzinfo=UTC)
    given = {"at": at, "invoice": invoice, "total": Decimal("12.50"), "mac": b"\0\xff"}
    asked = CorrelationFilter(application_properties={"invoice": invoice})
    either.client.create_subscription(topic.name, "invoices", filter=asked, set_properties={"vat": Decimal("8.1")})
    assert either.client.get_subscription(topic.name, "invoices").filter == asked
    assert topic.send_batch([Message(1, application_properties=given), Message(2)]) == [1, 0]
    invoices = either.client.subscription(topic.name, "invoices")
    (found,) = invoices.find_messages(application_properties={"invoice": invoice})
    (received,) = invoices.receive()
    assert received.sequence_number == found.sequence_number
    received.abandon(properties={"tried": at})
    (again,) = invoices.receive()
    assert again.application_properties == {**given, "vat": Decimal("8.1"), "tried": at}
    again.complete()


def test_a_send_takes_part_in_the_callers_transaction(caller: World) -> None:
    name = f"topic-of-{caller.name}"
    caller.client.create_topic(name)
    caller.client.create_subscription(name, "all")
    topic = caller.client.topic(name)
    for ends in ("rollback", "commit"):
        with caller.transaction() as transaction:
            assert topic.send(Message(1), transaction=transaction.handle) == 1
            assert topic.send_batch([Message(2), Message(3)], transaction=transaction.handle) == [1, 1]
            assert bodies(caller, topic, "all") == []
            getattr(transaction, ends)()
    assert bodies(caller, topic, "all") == [1, 2, 3]
    caller.client.delete_topic(name)


def test_topics_and_subscriptions_are_listed(either: World, topic: Any) -> None:
    client = either.client
    client.create_subscription(topic.name, "b", filter=PAID)
    client.create_subscription(topic.name, "a", filter=LARGE, set_properties={"n": 1}, max_delivery_count=3)
    (listed,) = [each for each in client.list_topics() if each.name == topic.name]
    assert listed.subscriptions == 2
    first, second = client.list_subscriptions(topic.name)
    assert (first.topic, first.name, first.filter, first.set_properties) == (topic.name, "a", LARGE, {"n": 1})
    assert (second.name, second.filter, second.set_properties) == ("b", PAID, None)
    assert (first.queue.name, first.queue.max_delivery_count) == (f"{topic.name}/Subscriptions/a", 3)
    client.delete_subscription(topic.name, "a")
    assert [each.name for each in client.list_subscriptions(topic.name)] == ["b"]
    client.delete_topic(topic.name)
    with pytest.raises(TopicNotFoundError):
        client.list_subscriptions(topic.name)


def test_a_subscription_is_updated_in_part(either: World, topic: Any) -> None:
    client = either.client
    client.create_subscription(topic.name, "s", filter=PAID, set_properties={"n": 1}, max_queue_length=5)

    def update(**given: Any) -> tuple[Any, ...]:
        updated = client.update_subscription(topic.name, "s", **given)
        return updated.filter, updated.set_properties, updated.queue.max_queue_length

    assert update() == (PAID, {"n": 1}, 5)
    assert update(max_queue_length=None) == (PAID, {"n": 1}, None)
    assert update(filter=LARGE) == (LARGE, {"n": 1}, None)
    assert update(filter=None, set_properties=None) == (None, None, None)
    assert topic.send(Message(1)) == 1


def test_a_rule_is_updated_in_part(either: World, topic: Any) -> None:
    client = either.client
    client.create_subscription(topic.name, "s", filter=PAID)
    client.create_rule(topic.name, "s", "r", filter=PAID, set_properties={"n": 1})

    def update(**given: Any) -> tuple[Any, ...]:
        client.update_rule(topic.name, "s", "r", **given)
        default, updated = client.list_rules(topic.name, "s")
        assert (default.filter, default.set_properties) == (PAID, None)
        return updated.filter, updated.set_properties

    assert update() == (PAID, {"n": 1})
    assert update(filter=LARGE) == (LARGE, {"n": 1})
    assert update(set_properties={"m": 2}) == (LARGE, {"m": 2})
    assert update(filter=None, set_properties=None) == (None, None)
    with pytest.raises(RuleNotFoundError):
        client.update_rule(topic.name, "s", "nope", filter=PAID)


def test_a_rule_is_deleted(either: World, topic: Any) -> None:
    client = either.client
    client.create_subscription(topic.name, "s", filter=PAID)
    client.create_rule(topic.name, "s", "r", filter=LARGE)
    client.delete_rule(topic.name, "s", "$Default")
    assert [rule.name for rule in client.list_rules(topic.name, "s")] == ["r"]
    with pytest.raises(RuleNotFoundError):
        client.delete_rule(topic.name, "s", "$Default")


def test_invalid_calls_are_refused(either: World, topic: Any) -> None:
    client = either.client
    client.create_subscription(topic.name, "s", filter=PAID, max_queue_length=1)
    with pytest.raises(TopicAlreadyExistsError):
        client.create_topic(topic.name)
    client.create_topic(topic.name, exist_ok=True)
    with pytest.raises(QueueAlreadyExistsError):
        client.create_subscription(topic.name, "s")
    assert client.create_subscription(topic.name, "s", exist_ok=True).filter == PAID
    with pytest.raises(NoSubscriptionError):
        topic.send(Message(1), require_subscription=True)
    matching = Message(1, subject="paid", application_properties={"country": "CH"})
    with pytest.raises(NoSubscriptionError):
        topic.send_batch([matching, Message(1)], require_subscription=True)
    assert topic.send(matching, require_subscription=True) == 1
    with pytest.raises(QueueFullError, match="Subscriptions/s"):
        topic.send(matching)
    with pytest.raises(MessageNotSerializableError):
        topic.send(Message(object()))
    with pytest.raises(TopicNotFoundError):
        client.topic("nope").send(Message(1))
    with pytest.raises(QueueNotFoundError):
        client.update_subscription(topic.name, "nope", lock_duration=timedelta(seconds=5))
    with pytest.raises(QueueNotFoundError):
        client.delete_subscription(topic.name, "nope")
    with pytest.raises(TopicNotFoundError):
        client.delete_subscription("nope", "s")
    with pytest.raises(TopicNotFoundError):
        client.delete_topic("nope")


@pytest.mark.parametrize("setting", ["forward_to", "forward_dead_lettered_messages_to"])
def test_a_refused_delete_leaves_the_messages_in_place(either: World, topic: Any, setting: str) -> None:
    client, source = either.client, f"{either.name}-source"
    client.create_subscription(topic.name, "first")
    client.create_subscription(topic.name, "s")
    subscription = client.subscription(topic.name, "s")
    topic.send_batch([Message("dead"), Message("ready")])
    subscription.receive()[0].dead_letter("Bad")
    either.send("own")
    for name, target in ((source, subscription.name), (f"{source}-2", either.name)):
        forwarding: dict[str, Any] = {setting: target}
        client.create_queue(name, **forwarding)
    refusal = r'others forward to it: "?{}"?\. Set their forward_to .* with client.update_queue\.'
    with pytest.raises(InvalidArgumentError, match=refusal.format(source)):
        client.delete_subscription(topic.name, "s")
    with pytest.raises(InvalidArgumentError, match=refusal.format(source)):
        client.delete_topic(topic.name)
    with pytest.raises(InvalidArgumentError, match=refusal.format(f"{source}-2")):
        client.delete_queue(either.name)
    with pytest.raises(InvalidArgumentError, match="dead letters are"):
        client.delete_subscription(topic.name, "s/$deadletterqueue")
    assert bodies(either, topic, "first") == ["dead", "ready"]
    assert bodies(either, topic, "s") == ["ready"]
    assert [each.body for each in subscription.dead_letters.peek()] == ["dead"]
    assert either.bodies() == ["own"]
    client.delete_queue(source)
    client.delete_queue(f"{source}-2")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"filter": "subject = 'x'"}, "a filter must be a CorrelationFilter, a JsonPathFilter or an SqlFilter"),
        ({"filter": SqlFilter("a = ")}, "the SQL filter 'a = ' cannot be read at its end"),
        (
            {"filter": SqlFilter("body.amount > 3")},
            "cannot be read at '.amount > 3': compare the body with a JsonPathFilter",
        ),
        ({"filter": SqlFilter(7)}, "the SQL of a filter must be a str"),  # type: ignore[arg-type]
        ({"filter": JsonPathFilter("$.body.amount")}, "json_path_filter must be a condition"),
        ({"filter": JsonPathFilter(7)}, "the path of a filter must be a str"),  # type: ignore[arg-type]
        ({"filter": CorrelationFilter(subject=7)}, "correlation_filter must be an object"),  # type: ignore[arg-type]
        ({"set_properties": 7}, "set_properties must be a mapping"),
    ],
)
def test_an_invalid_filter_is_refused(either: World, topic: Any, given: Any, text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=text):
        either.client.create_subscription(topic.name, "s", **given)


@pytest.mark.parametrize(
    ("sql", "parameters", "text"),
    [
        ("a = @x", None, "the parameter @x of an SQL filter has no value"),
        ("a = @x", {"y": 1}, "the parameter @x of an SQL filter has no value"),
        ("a = @x", {"x": None}, "@x of an SQL filter must be a text, a finite number, a truth value"),
        ("a = @x", {"x": float("inf")}, "a finite number, a truth value, a datetime or a UUID, not inf"),
        ("a = @x", ["x"], "the parameters of an SQL filter must be a mapping"),
    ],
)
def test_an_invalid_parameter_of_a_filter_is_refused(sql: str, parameters: Any, text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=text):
        SqlFilter(sql, parameters)


def test_no_parameter_begins_within_a_quoted_name() -> None:
    assert SqlFilter("[a]]@b] = @b and [@b]=@b", {"b": 1}).sql == "[a]]@b] = 1 and [@b]=1"


def test_an_sql_filter_compares_typed_properties(either: World, topic: Any) -> None:
    customer, moment = uuid4(), datetime.now(UTC)
    matching = SqlFilter(
        "customer = @customer and ordered < @moment and amount * 2 >= @amount and note = 'it''s @home'",
        {"@customer": customer, "moment": moment, "amount": Decimal("19.90")},
    )
    made = either.client.create_subscription(topic.name, "typed", filter=matching)
    assert made.filter == matching
    ordered = {"customer": customer, "ordered": moment - timedelta(seconds=1), "note": "it's @home"}
    sent: list[dict[str, Any]] = [
        {"amount": Decimal("9.95")},
        {"amount": 9.95},
        {"amount": Decimal("9.94")},
        {"customer": uuid4()},
    ]
    messages = [Message(0, application_properties={"amount": 10, **ordered, **each}) for each in sent]
    assert topic.send_batch(messages) == [1, 1, 0, 0]


def test_a_subscription_that_cannot_be_read_affects_no_other(either: World, topic: Any) -> None:
    either.client.create_subscription(topic.name, "odd")
    either.look("select pgqueue.alter_subscription(%s, 'odd', set_properties => '{\"a\": 1e5000}')", topic.name)
    assert either.client.create_subscription(topic.name, "next").name == "next"
    with pytest.raises(MessageNotReadableError, match="of odd cannot be read"):
        either.client.list_subscriptions(topic.name)
    either.client.delete_topic(topic.name)


def test_a_topic_has_settings(either: World, topic: Any) -> None:
    client, name = either.client, topic.name
    client.create_subscription(name, "s")
    made = client.update_topic(
        name, requires_duplicate_detection=True, default_message_time_to_live=timedelta(hours=1), user_metadata=[1.5]
    )
    assert made == client.get_topic(name)
    assert (made.subscriptions, made.status, made.user_metadata) == (1, QueueStatus.ACTIVE, [1.5])
    assert client.create_topic(name, exist_ok=True, status="DISABLED") == made
    assert made in client.list_topics()
    assert [topic.send(Message(n, message_id="same")) for n in range(2)] == [1, 0]
    (kept,) = client.subscription(name, "s").peek()
    assert kept.expires_at == kept.enqueued_time + timedelta(hours=1)
    changed = client.update_topic(
        name, status=QueueStatus.SEND_DISABLED, default_message_time_to_live=None, user_metadata=None
    )
    assert (changed.default_message_time_to_live, changed.raw_user_metadata) == (None, None)
    with pytest.raises(QueueDisabledError, match=r"Set its status to ACTIVE with client\.update_topic"):
        topic.send(Message(1))


def test_a_wrong_setting_of_a_topic_is_refused(either: World, topic: Any) -> None:
    client = either.client
    with pytest.raises(TypeError, match="no setting of a topic is called lock_duration"):
        client.update_topic(topic.name, lock_duration=timedelta(minutes=1))  # type: ignore[call-arg]
    with pytest.raises(InvalidArgumentError, match="ACTIVE, DISABLED or SEND_DISABLED"):
        client.update_topic(topic.name, status=QueueStatus.RECEIVE_DISABLED)
    with pytest.raises(InvalidArgumentError, match="status cannot be None"):
        client.update_topic(topic.name, status=None)
    for call in (client.get_topic, client.update_topic):
        with pytest.raises(TopicNotFoundError, match="none"):
            call("none")
    with pytest.raises(TopicNotFoundError, match="none"):
        client.topic("none").cancel_scheduled([1])


def test_a_scheduled_message_is_cancelled_in_all_subscriptions(either: World, topic: Any) -> None:
    for name in ("one", "two"):
        either.client.create_subscription(topic.name, name)
    later = either.database.clock.now() + timedelta(days=1)
    first = topic.send(Message(1, scheduled_enqueue_time=later))
    second, now = topic.send_batch([Message(2, scheduled_enqueue_time=later), Message(3)])
    assert (first, second, now, now.sequence_number) == (2, 2, 2, None)
    topic.cancel_scheduled([first])
    assert [bodies(either, topic, name) for name in ("one", "two")] == [[2, 3]] * 2
    with pytest.raises(MessageNotFoundError, match="has no scheduled message"):
        topic.cancel_scheduled([second, first])
    with pytest.raises(InvalidArgumentError, match="was not scheduled"):
        topic.cancel_scheduled([second, now])
    wrong: Any
    for wrong in (second, 5, "5"):
        for place in (topic, either.queue):
            with pytest.raises(InvalidArgumentError, match=r"must be a list of whole numbers, not '?[25]"):
                place.cancel_scheduled(wrong)
    topic.cancel_scheduled([second.sequence_number])
    topic.cancel_scheduled([])
    assert bodies(either, topic, "one") == [3]


def test_a_cancellation_takes_part_in_the_callers_transaction(caller: World) -> None:
    name = f"topic-of-{caller.name}"
    caller.client.create_topic(name)
    caller.client.create_subscription(name, "s")
    topic: Any = caller.client.topic(name)
    sent = topic.send(Message(1, scheduled_enqueue_time=caller.database.clock.now() + timedelta(days=1)))
    for end, left in (("rollback", 1), ("commit", 0)):
        with caller.transaction() as transaction:
            topic.cancel_scheduled([sent], transaction=transaction.handle)
            getattr(transaction, end)()
        assert len(caller.client.subscription(name, "s").peek()) == left
    caller.client.delete_topic(name)


def test_a_queue_that_is_taken_for_a_topic_is_called_a_queue(either: World) -> None:
    topic = either.client.topic(either.queue.name)
    later = either.database.clock.now() + timedelta(days=1)
    number = either.queue.send(Message(1, scheduled_enqueue_time=later))
    calls = (
        lambda: topic.send(Message(1)),
        lambda: topic.send_batch([Message(1)]),
        lambda: topic.cancel_scheduled([number]),
    )
    for call in calls:
        with pytest.raises(TopicNotFoundError) as refusal:
            call()
        assert "It is a queue: send to it with client.queue(name).send." in str(refusal.value)
    either.queue.cancel_scheduled([number])


def test_a_topic_that_is_taken_for_a_queue_is_called_a_topic(either: World, topic: Any) -> None:
    queue = either.client.queue(topic.name)
    for use in (lambda: queue.send(Message(1)), lambda: queue.send_batch([Message(1)]), queue.receive, queue.peek):
        with pytest.raises(QueueNotFoundError) as refusal:
            use()
        said = "It is a topic: send to it with client.topic(name).send, and receive from its subscriptions."
        assert said in str(refusal.value)
