from __future__ import annotations

from pathlib import Path

import pytest

from pgqueue import CorrelationFilter, JsonPathFilter, QueueClient, SqlFilter
from pgqueue.model.columns import FILTERABLE
from tests.cli.command_line import CommandLine


def test_topics_and_subscriptions_are_created_changed_and_deleted(pgqueue: CommandLine, client: QueueClient) -> None:
    assert "there is no topic yet" in pgqueue("topic", "list").err
    made = pgqueue("topic", "create", "events", "--default-message-time-to-live", "2d").out
    assert made.startswith("topic events created\n")
    assert "2d" in made
    assert "no subscription that this role may see" in pgqueue("subscription", "list", "events").err
    filtered = ["--subject", "paid", "-p", "country=CH", "-p", "n:=1", "--set-property", "checked:=false"]
    created = pgqueue("subscription", "create", "events", "billing", *filtered, "--lock-duration", "5m")
    assert created.out.startswith("subscription billing of events created\n")
    assert "5m" in created.out
    pgqueue("subscription", "create", "events", "large", "--json-path", "$.body.amount > 1000")
    billing, large = client.list_subscriptions("events")
    assert billing.filter == CorrelationFilter(subject="paid", application_properties={"country": "CH", "n": 1})
    assert (billing.set_properties, large.filter) == ({"checked": False}, JsonPathFilter("$.body.amount > 1000"))
    shown = pgqueue("subscription", "list", "events").out
    assert "$.body.amount > 1000" in shown
    assert '"subject": "paid"' in shown
    document = pgqueue("subscription", "update", "events", "billing", "--no-filter", "--set-nothing", "--json").document
    assert (document["filter"], document["set_properties"], document["queue"]["lock_duration"]) == (None, None, 300.0)
    document = pgqueue("subscription", "update", "events", "large", "--correlation-id", "7", "--json").document
    assert document["filter"] == {"correlation_id": "7"}
    listed = pgqueue("subscription", "list", "events", "--json").document
    assert [each["name"] for each in listed] == ["billing", "large"]
    (topic,) = pgqueue("topic", "list", "--json").document
    assert (topic["name"], topic["subscriptions"]) == ("events", 2)
    assert "events" in pgqueue("topic", "list").out
    assert pgqueue("subscription", "delete", "events", "large", "--yes").out == "subscription large of events deleted\n"
    assert pgqueue("topic", "delete", "events", "--yes", "--json").document == {"topic": "events", "deleted": True}
    assert client.list_topics() == []


def test_a_topic_is_shown_and_changed(pgqueue: CommandLine, client: QueueClient) -> None:
    assert pgqueue("topic", "create", "events", "--json").document["created"] is True
    shown = pgqueue("topic", "update", "events", "--status", "send_disabled", "--user-metadata", '{"a": 1}', "--json")
    assert (shown.document["status"], shown.document["user_metadata"]) == ("SEND_DISABLED", {"a": 1})
    assert "SEND_DISABLED" in pgqueue("topic", "show", "events").out
    assert "SEND_DISABLED" in pgqueue("topic", "list").out
    assert "name at least one setting" in pgqueue("topic", "update", "events").only_error
    said = pgqueue("topic", "update", "events", "--status", "receive_disabled").only_error
    assert "is not one of 'active', 'disabled', 'send_disabled'" in said
    assert "NUMBER...\n" in pgqueue("topic", "cancel", "--help").out.replace(" ", "")
    assert "`pgqueue topic list` shows the topics" in pgqueue("topic", "show", "none").only_error
    assert "`pgqueue topic update" in pgqueue("send", "--topic", "events", "1").only_error


@pytest.mark.parametrize("kind", ["queue", "topic"])
def test_only_a_subscription_is_named_as_one(pgqueue: CommandLine, kind: str) -> None:
    said = pgqueue(kind, "create", "events/Subscriptions/billing")
    assert said.code == 2
    assert said.only_error.endswith(
        f"cannot be that of a {kind}: choose another name, or use `pgqueue subscription create`"
    )


def test_a_scheduled_message_of_a_topic_is_cancelled(pgqueue: CommandLine, client: QueueClient) -> None:
    client.create_topic("events")
    client.create_subscription("events", "all")
    document = pgqueue("send", "--topic", "events", "1", "--at", "1h", "--json").document
    (number,) = document["sequence_numbers"]
    assert document["subscriptions"] == [1]
    said = pgqueue("send", "--topic", "events", "2", "--at", "1h").out
    assert f"`pgqueue topic cancel events {number + 2}` cancels it" in said
    assert pgqueue("topic", "cancel", "events", str(number)).out == "1 message of events cancelled\n"
    assert [each.body for each in client.subscription("events", "all").peek()] == [2]
    assert "has no scheduled message" in pgqueue("topic", "cancel", "events", str(number)).only_error


def test_rules_are_created_listed_updated_and_deleted(pgqueue: CommandLine, client: QueueClient) -> None:
    client.create_topic("events")
    pgqueue("subscription", "create", "events", "billing", "--sql", "amount > 1000")
    assert client.get_subscription("events", "billing").filter == SqlFilter("amount > 1000")
    swiss = ["rule", "create", "events", "billing", "swiss", "--property", "country=CH", "--set-property", "vat:=8.1"]
    assert pgqueue(*swiss).out == "rule swiss of events, billing created\n"
    assert "`pgqueue rule update`, or use --exist-ok" in pgqueue(*swiss).only_error
    assert pgqueue(*swiss, "--exist-ok", "--json").document["rule"] == "swiss"
    shown = pgqueue("rule", "list", "events", "billing").out
    assert all(text in shown for text in ("$Default", "amount > 1000", "swiss", '"CH"', '"vat"'))
    default, listed = pgqueue("rule", "list", "events", "billing", "--json").document
    assert default["filter"] == {"sql": "amount > 1000"}
    assert listed["filter"] == {"application_properties": {"country": "CH"}}
    update = ["rule", "update", "events", "billing", "swiss"]
    assert pgqueue(*update, "--set-nothing", "--json").document["updated"] is True
    assert pgqueue(*update, "--sql", "vat > 8").out == "rule swiss of events, billing changed\n"
    changed = client.list_rules("events", "billing")[1]
    assert (changed.filter, changed.set_properties) == (SqlFilter("vat > 8"), None)
    assert "set it or remove it" in pgqueue(*update, "--sql", "vat > 8", "--no-filter").only_error
    assert "name a filter or properties" in pgqueue(*update).only_error
    for name in ("swiss", "$Default"):
        assert pgqueue("rule", "delete", "events", "billing", name, "--yes", "--json").document["deleted"] is True
    assert (
        "`pgqueue rule list TOPIC SUBSCRIPTION` shows"
        in pgqueue("rule", "delete", "events", "billing", "swiss", "--yes").only_error
    )
    assert "no message of events is stored" in pgqueue("rule", "list", "events", "billing").err


def test_messages_are_sent_to_a_topic(pgqueue: CommandLine, client: QueueClient, tmp_path: Path) -> None:
    client.create_topic("events")
    client.create_subscription("events", "all")
    client.create_subscription("events", "paid", filter=CorrelationFilter(subject="paid"))
    assert pgqueue("send", "--topic", "events", "1", "--subject", "paid").out == "sent to 2 subscriptions of events\n"
    (tmp_path / "events.jsonl").write_text("2\n3\n")
    lines = str(tmp_path / "events.jsonl")
    assert pgqueue("send", "--topic", "events", "--file", lines).out == "sent 2 messages to events: 2 stored\n"
    assert pgqueue("send", "--topic", "events", "4", "--json").document == {"topic": "events", "subscriptions": [1]}
    assert [each.body for each in client.subscription("events", "all").peek(max_messages=9)] == [1, 2, 3, 4]


@pytest.mark.parametrize("field", [column.name for column in FILTERABLE])
def test_an_option_filters_by_each_field(pgqueue: CommandLine, client: QueueClient, field: str) -> None:
    client.create_topic("events")
    pgqueue("subscription", "create", "events", "some", f"--{field.replace('_', '-')}", "x")
    (subscription,) = client.list_subscriptions("events")
    assert subscription.filter == CorrelationFilter(**{field: "x"})  # type: ignore[arg-type]  # by name


def test_errors_about_subscriptions_name_their_commands(pgqueue: CommandLine, client: QueueClient) -> None:
    client.create_topic("v1.events")
    client.create_subscription("v1.events", "all")
    remedy = "`pgqueue subscription list v1.events` shows the subscriptions, `pgqueue subscription create` makes one"
    assert remedy in pgqueue("receive", "v1.events/Subscriptions/nope").only_error
    assert remedy in pgqueue("stats", "v1.events/Subscriptions/nope").only_error
    assert f"or this role may not see it: {remedy}" in pgqueue("rule", "list", "v1.events", "nope").only_error
    assert "`pgqueue subscription update`" in pgqueue("subscription", "create", "v1.events", "all").only_error


def test_errors_about_topics_are_reported_in_one_line(pgqueue: CommandLine, client: QueueClient) -> None:
    client.create_topic("events")
    unknown = pgqueue("subscription", "list", "nope")
    assert (unknown.code, "`pgqueue topic create` makes one" in unknown.err) == (1, True)
    both = pgqueue("subscription", "create", "events", "s", "--json-path", "$.body > 1", "--subject", "x")
    assert (both.code, "give one of them" in both.err) == (2, True)
    client.create_subscription("events", "s")
    assert pgqueue("subscription", "update", "events", "s").code == 2
    assert pgqueue("subscription", "update", "events", "s", "--no-filter", "--subject", "x").code == 2
    assert pgqueue("topic", "create", "events").code == 1


def test_commands_for_the_wrong_one_of_queue_and_topic_name_the_right_one(
    pgqueue: CommandLine, client: QueueClient
) -> None:
    client.create_topic("news")
    assert "it is a queue: `pgqueue send QUEUE BODY` sends" in pgqueue("send", "--topic", "orders", "1").only_error
    for command in (("send", "news", "1"), ("receive", "news")):
        assert "it is a topic: `pgqueue send --topic news BODY` sends" in pgqueue(*command).only_error
