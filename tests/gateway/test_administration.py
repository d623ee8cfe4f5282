"""The administration client of the Azure SDK, unmodified."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from azure.core.exceptions import (
    ClientAuthenticationError,
    HttpResponseError,
    ResourceExistsError,
    ResourceNotFoundError,
)
from azure.core.pipeline.transport import RequestsTransport
from azure.servicebus.management import (
    CorrelationRuleFilter,
    FalseRuleFilter,
    ServiceBusAdministrationClient,
    SqlRuleAction,
    SqlRuleFilter,
    TrueRuleFilter,
)

from pgqueue import CorrelationFilter, JsonPathFilter, Message, QueueClient, SqlFilter
from pgqueue.aio import QueueClient as AsyncQueueClient
from pgqueue.gateway.conditions import Refusal
from pgqueue.gateway.rules import from_map
from pgqueue.testing import Database
from tests.gateway.raw import token
from tests.gateway.serving import ANYWHERE, key_of, served

HOUR = timedelta(hours=1)
MOMENT = datetime(2020, 7, 5, 11, 12, 13, tzinfo=UTC)


@pytest.fixture
def connection_string(database: Database, shop: str, certificate: Path, free_port: int) -> Iterator[str]:
    with served(database, certificate=certificate, administration=("127.0.0.1", free_port), listen=ANYWHERE):
        yield f"Endpoint=sb://localhost:{free_port};SharedAccessKeyName=shop;SharedAccessKey={key_of(database, 'shop')}"


@contextmanager
def administering(connection_string: str, certificate: Path) -> Iterator[ServiceBusAdministrationClient]:
    """A client; it does not close its connections by itself."""
    with RequestsTransport(connection_verify=str(certificate)) as transport:
        yield ServiceBusAdministrationClient.from_connection_string(
            connection_string, transport=transport, retry_total=0
        )


@pytest.fixture
def admin(connection_string: str, certificate: Path) -> Iterator[ServiceBusAdministrationClient]:
    with administering(connection_string, certificate) as client:
        yield client


@pytest.mark.core
def test_a_queue_from_its_creation_to_its_end(admin: ServiceBusAdministrationClient, client: QueueClient) -> None:
    made = admin.create_queue(
        "orders", lock_duration=timedelta(seconds=30), max_delivery_count=3, requires_session=True, user_metadata="hi",
        default_message_time_to_live=HOUR, dead_lettering_on_message_expiration=True, max_message_size_in_kilobytes=256,
    )  # fmt: skip
    known = client.get_queue("orders")
    assert (known.lock_duration, known.max_delivery_count, known.requires_session) == (timedelta(seconds=30), 3, True)
    assert (known.user_metadata, known.default_message_time_to_live, known.max_message_size) == ("hi", HOUR, 256 * 1024)
    assert made.lock_duration == timedelta(seconds=30)
    made.max_delivery_count, made.default_message_time_to_live, made.status = (
        7,
        timedelta(days=1, seconds=1.5),
        "SendDisabled",
    )
    admin.update_queue(made)
    found = admin.get_queue("orders")
    assert (found.max_delivery_count, found.default_message_time_to_live) == (7, timedelta(days=1, seconds=1.5))
    assert (found.status, client.get_queue("orders").status) == ("SendDisabled", "SEND_DISABLED")
    with pytest.raises(ResourceExistsError, match="exists already"):
        admin.create_queue("orders")
    admin.delete_queue("orders")
    with pytest.raises(ResourceNotFoundError):
        admin.get_queue("orders")
    with pytest.raises(ResourceNotFoundError):
        admin.delete_queue("orders")


def test_the_messages_of_queues_are_counted(admin: ServiceBusAdministrationClient, client: QueueClient) -> None:
    client.create_queue("orders")
    queue = client.queue("orders")
    queue.send_batch([Message(n) for n in range(5)])
    first, second, *_ = queue.receive(max_messages=3)
    first.dead_letter("Bad")
    second.defer()
    counts = admin.get_queue_runtime_properties("orders")
    assert (counts.active_message_count, counts.dead_letter_message_count, counts.scheduled_message_count) == (3, 1, 0)
    assert counts.total_message_count == 5
    assert [one.active_message_count for one in admin.list_queues_runtime_properties()] == [3]


def test_lists_come_in_pages(admin: ServiceBusAdministrationClient, client: QueueClient) -> None:
    names = [f"queue-{n:03}" for n in range(120)]
    for name in names:
        client.create_queue(name)
    client.create_topic("events")
    client.create_subscription("events", "all")
    assert [queue.name for queue in admin.list_queues()] == names
    assert [topic.name for topic in admin.list_topics()] == ["events"]
    assert [one.name for one in admin.list_subscriptions("events")] == ["all"]


def test_topics_subscriptions_and_rules(admin: ServiceBusAdministrationClient, client: QueueClient) -> None:
    topic = admin.create_topic("events", requires_duplicate_detection=True, user_metadata='{"a":1}')
    topic.default_message_time_to_live = HOUR
    admin.update_topic(topic)
    assert client.get_topic("events").default_message_time_to_live == HOUR
    subscription = admin.create_subscription(
        "events", "billing", max_delivery_count=4, lock_duration=timedelta(minutes=2)
    )
    subscription.max_delivery_count = 5
    admin.update_subscription("events", subscription)
    assert client.get_subscription("events", "billing").queue.max_delivery_count == 5
    assert admin.get_topic_runtime_properties("events").subscription_count == 1
    correlated = CorrelationRuleFilter(label="paid", properties={"country": "CH", "n": 1, "b": True, "f": 1.5})
    admin.create_rule(
        "events", "billing", "swiss", filter=correlated, action=SqlRuleAction("SET seen = 'yes'; SET n = 2")
    )
    admin.create_rule("events", "billing", "large", filter=SqlRuleFilter("amount > @least", {"least": 100}))
    rules = {rule.name: rule for rule in client.list_rules("events", "billing")}
    assert rules["swiss"].filter == CorrelationFilter(
        subject="paid", application_properties={"country": "CH", "n": 1, "b": True, "f": 1.5}
    )
    assert rules["swiss"].set_properties == {"seen": "yes", "n": 2}
    assert rules["large"].filter == SqlFilter("amount > 100")
    found = {rule.name: rule for rule in admin.list_rules("events", "billing")}
    assert {name: type(rule.filter) for name, rule in found.items()} == {
        "$Default": TrueRuleFilter, "large": SqlRuleFilter, "swiss": CorrelationRuleFilter,
    }  # fmt: skip
    swiss: Any = found["swiss"]
    assert swiss.filter.properties == {"country": "CH", "n": 1, "b": True, "f": 1.5}
    assert swiss.action.sql_expression == "SET n = 2; SET seen = 'yes'"
    rule = found["large"]
    rule.filter = FalseRuleFilter()
    admin.update_rule("events", "billing", rule)
    assert isinstance(admin.get_rule("events", "billing", "large").filter, FalseRuleFilter)
    admin.delete_rule("events", "billing", "large")
    with pytest.raises(ResourceNotFoundError):
        admin.get_rule("events", "billing", "large")
    assert admin.get_subscription_runtime_properties("events", "billing").total_message_count == 0
    admin.delete_subscription("events", "billing")
    admin.delete_topic("events")
    assert (client.list_topics(), client.list_queues()) == ([], [])


@pytest.mark.parametrize(
    ("setting", "value", "named"),
    [
        ("enable_partitioning", True, "EnablePartitioning"),
        ("enable_express", True, "EnableExpress"),
        ("max_size_in_megabytes", 5120, "MaxSizeInMegabytes"),
        ("lock_duration", timedelta(days=400), "lock_duration"),
        ("lock_duration", timedelta(days=10_675_199), "lock_duration"),
        ("duplicate_detection_history_time_window", timedelta(days=10_675_199), "duplicate_detection"),
        ("max_delivery_count", 10**20, "MaxDeliveryCount"),
        ("status", "Deleting", "status"),
        ("forward_to", "nosuch", "nosuch"),
        ("forward_to", "sb://localhost/", "ForwardTo"),
    ],
)
def test_settings_that_pgqueue_lacks_are_refused_by_name(
    admin: ServiceBusAdministrationClient, client: QueueClient, setting: str, value: Any, named: str
) -> None:
    with pytest.raises(HttpResponseError, match=named):
        admin.create_queue("orders", **{setting: value})
    assert client.list_queues() == []


@pytest.mark.parametrize("dies", [True, False])
def test_filters_do_not_fail_whether_their_failures_are_dead_lettered_or_not(
    admin: ServiceBusAdministrationClient, dies: bool
) -> None:
    admin.create_topic("events")
    admin.create_subscription("events", "billing", dead_lettering_on_filter_evaluation_exceptions=dies)
    assert admin.get_subscription("events", "billing").name == "billing"


@pytest.mark.parametrize("action", ["REMOVE a", "SET sys.Label = 'x'", "SET a = b + 1", "nonsense"])
def test_an_action_that_does_more_than_to_set_is_refused(
    admin: ServiceBusAdministrationClient, client: QueueClient, action: str
) -> None:
    client.create_topic("events")
    client.create_subscription("events", "all")
    with pytest.raises(HttpResponseError, match="SET name = literal"):
        admin.create_rule("events", "all", "r", action=SqlRuleAction(action))
    assert [rule.name for rule in client.list_rules("events", "all")] == ["$Default"]


def test_an_update_changes_only_the_settings_that_differ(
    admin: ServiceBusAdministrationClient, client: QueueClient
) -> None:
    client.create_queue("orders", user_metadata={"team": "a"}, max_message_size=1000, requires_session=True)
    found = admin.get_queue("orders")
    found.max_delivery_count = 7
    admin.update_queue(found)
    known = client.get_queue("orders")
    assert (known.user_metadata, known.max_message_size, known.max_delivery_count) == ({"team": "a"}, 1000, 7)


def test_a_rule_that_cannot_be_replaced_stays(admin: ServiceBusAdministrationClient, client: QueueClient) -> None:
    client.create_topic("events")
    client.create_subscription("events", "all", filter=JsonPathFilter("$.body.a > 1"), set_properties={"seen": True})
    rule = admin.get_rule("events", "all", "$Default")
    with pytest.raises(HttpResponseError):
        admin.update_rule("events", "all", rule)
    (kept,) = client.list_rules("events", "all")
    assert (kept.filter, kept.set_properties) == (JsonPathFilter("$.body.a > 1"), {"seen": True})


def test_forwards_are_addresses_and_go_when_they_are_left_out(
    admin: ServiceBusAdministrationClient, client: QueueClient
) -> None:
    client.create_queue("archive")
    queue = admin.create_queue("orders", forward_to="archive", user_metadata="hi")
    assert (queue.forward_to or "").endswith("/archive")
    assert (queue.forward_to or "").startswith("sb://localhost:")
    queue.max_delivery_count = 3
    admin.update_queue(queue)
    assert (client.get_queue("orders").forward_to, client.get_queue("orders").user_metadata) == ("archive", "hi")
    queue.forward_to = queue.user_metadata = None
    admin.update_queue(queue)
    assert (client.get_queue("orders").forward_to, client.get_queue("orders").user_metadata) == (None, None)


def test_characters_that_xml_does_not_have_are_replaced(
    admin: ServiceBusAdministrationClient, client: QueueClient
) -> None:
    client.create_queue("orders", user_metadata="\x01a")
    (queue,) = admin.list_queues()
    assert queue.user_metadata == "\ufffda"
    queue.max_delivery_count = 3
    admin.update_queue(queue)
    assert client.get_queue("orders").user_metadata == "\x01a"


def test_a_topic_counts_its_rules(admin: ServiceBusAdministrationClient, client: QueueClient) -> None:
    client.create_topic("events")
    for name in ("a", "b"):
        client.create_subscription("events", name)
        client.create_rule("events", name, "r", filter=CorrelationFilter(subject="x"))
    counts = admin.get_topic_runtime_properties("events")
    assert (counts.sql_filter_count, counts.correlation_filter_count, counts.subscription_count) == (2, 2, 2)
    (counts,) = admin.list_topics_runtime_properties()
    assert (counts.scheduled_message_count, counts.size_in_bytes, counts.subscription_count) == (0, 0, 2)


def test_a_topic_is_shown_while_a_subscription_is_deleted(
    admin: ServiceBusAdministrationClient, client: QueueClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.create_topic("events")
    for name in ("a", "b"):
        client.create_subscription("events", name)
    listed = AsyncQueueClient.list_subscriptions

    async def then_one_is_deleted(asked: AsyncQueueClient, topic: str) -> Any:
        found = await listed(asked, topic)
        await asked.delete_subscription("events", "a")
        return found

    monkeypatch.setattr(AsyncQueueClient, "list_subscriptions", then_one_is_deleted)
    assert admin.get_topic_runtime_properties("events").sql_filter_count == 1


def test_an_action_takes_parameters(admin: ServiceBusAdministrationClient, client: QueueClient) -> None:
    client.create_topic("events")
    client.create_subscription("events", "all")
    given: Any = {"@n": -2, "@when": datetime(2020, 7, 5, 11, 12, 13)}  # noqa: DTZ001 - as clients give it
    admin.create_rule("events", "all", "r", action=SqlRuleAction("SET n = @n; SET [a b] = @when", given))
    (_, rule) = client.list_rules("events", "all")
    assert rule.set_properties == {"n": -2, "a b": MOMENT}
    action: Any = admin.get_rule("events", "all", "r").action
    assert action.sql_expression == "SET n = -2; SET [a b] = '2020-07-05 11:12:13+00:00'"
    with pytest.raises(HttpResponseError, match="@x of an action has no value"):
        admin.create_rule("events", "all", "s", action=SqlRuleAction("SET n = @x"))


@pytest.mark.parametrize("value", [2**62, 1e-7, 1e20, -1.5, True, "it's"])
def test_an_action_with_a_parameter_can_be_sent_back(
    admin: ServiceBusAdministrationClient, client: QueueClient, value: Any
) -> None:
    client.create_topic("events")
    client.create_subscription("events", "all")
    admin.create_rule("events", "all", "r", action=SqlRuleAction("SET a = @p", {"@p": value}))
    admin.update_rule("events", "all", admin.get_rule("events", "all", "r"))
    (_, rule) = client.list_rules("events", "all")
    assert rule.set_properties == {"a": value}


@pytest.mark.parametrize("parameters", [5, "@p", {"@p": b"x"}, {"@p": None}])
def test_a_parameter_that_is_no_literal_is_refused(parameters: Any) -> None:
    with pytest.raises(Refusal, match="parameter"):
        from_map({"sql-rule-action": {"expression": "SET a = @p", "parameters": parameters}})


@pytest.mark.parametrize("filter", [{"a": "x\x01y"}, {"a\x01": 1}])
def test_rules_with_characters_that_xml_does_not_have_are_listed(
    admin: ServiceBusAdministrationClient, client: QueueClient, filter: dict[str, Any]
) -> None:
    client.create_topic("events")
    client.create_subscription("events", "all", filter=CorrelationFilter(application_properties=filter))
    assert [rule.name for rule in admin.list_rules("events", "all")] == ["$Default"]


def test_a_limit_that_an_update_leaves_out_stays(admin: ServiceBusAdministrationClient, client: QueueClient) -> None:
    client.create_queue("orders", max_message_size=2048, user_metadata={"a": 1})
    known = admin.get_queue("orders")
    known.max_message_size_in_kilobytes = known.user_metadata = None
    admin.update_queue(known)
    queue = client.get_queue("orders")
    assert (queue.max_message_size, queue.user_metadata) == (2048, None)


def test_a_time_of_a_filter_is_compared_as_times_of_messages_are(
    admin: ServiceBusAdministrationClient, client: QueueClient
) -> None:
    client.create_topic("events")
    client.create_subscription("events", "all", filter=SqlFilter("1=0"))
    given: Any = {"at": datetime(2020, 7, 5, 11, 12, 13)}  # noqa: DTZ001 - as clients give it
    admin.create_rule("events", "all", "r", filter=CorrelationRuleFilter(properties=given))
    assert client.topic("events").send(Message(1, application_properties={"at": MOMENT})) == 1
    found: Any = admin.get_rule("events", "all", "r").filter
    assert found.properties == {"at": MOMENT}


def test_a_subscription_without_its_first_rule_changes(
    admin: ServiceBusAdministrationClient, client: QueueClient
) -> None:
    client.create_topic("events")
    subscription = admin.create_subscription("events", "all")
    admin.delete_rule("events", "all", "$Default")
    subscription.max_delivery_count = 4
    admin.update_subscription("events", subscription)
    assert client.get_subscription("events", "all").queue.max_delivery_count == 4


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<a/>",
        b"\xff\xfe<\0",
        b"<!DOCTYPE a []><a/>",
        b"<?xml version='1.0' encoding='foo'?><a/>",
        b"x" * 2_000_000,
    ],
)
def test_bodies_that_are_no_entries_are_refused(database: Database, shop: str, free_port: int, body: bytes) -> None:
    signed = token("sb://localhost/orders", "shop", key_of(database, "shop"))
    with served(database, administration=("127.0.0.1", free_port)):
        answer = httpx.put(f"http://127.0.0.1:{free_port}/orders", content=body, headers={"Authorization": signed})
    assert 400 <= answer.status_code < 500, answer.text
    assert "<Error>" in answer.text


def test_the_wrong_key_is_refused(connection_string: str, certificate: Path) -> None:
    wrong = connection_string.replace("SharedAccessKey=", "SharedAccessKey=x")
    with administering(wrong, certificate) as admin, pytest.raises(ClientAuthenticationError):
        admin.create_queue("orders")


def test_the_namespace(admin: ServiceBusAdministrationClient) -> None:
    assert admin.get_namespace_properties().name == "pgqueue"
