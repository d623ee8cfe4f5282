"""``pgqueue topic``, ``pgqueue subscription`` and ``pgqueue rule``: one message to many queues."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pgqueue import CorrelationFilter, JsonPathFilter, SqlFilter
from pgqueue.cli import documents, output
from pgqueue.cli.completion import topic_names
from pgqueue.cli.connection import Database, on_database
from pgqueue.cli.failures import WrongUse
from pgqueue.cli.group import Group, top
from pgqueue.cli.options import Options, flag
from pgqueue.cli.output import Result
from pgqueue.cli.queues import Yes, ask, presence
from pgqueue.cli.sending import TEXT_OPTIONS, parse_properties
from pgqueue.cli.settings import Settings, TopicOptions
from pgqueue.model.columns import FILTERABLE
from pgqueue.model.topic import Filter

topic = Group(
    no_args_is_help=True, help="Create, list, show, change and delete topics: what is sent to one goes to many."
)
subscription = Group(no_args_is_help=True, help="Create, list, change and delete the subscriptions of a topic.")
rule = Group(no_args_is_help=True, help="Create, update, list and delete the rules of a subscription.")
top.add_typer(topic, name="topic", short_help="Create, list, change and delete topics.")
top.add_typer(subscription, name="subscription", short_help="Create, list, change and delete subscriptions.")
top.add_typer(rule, name="rule", short_help="Create, change and delete rules of subscriptions.")

NoFilter = Annotated[bool, flag("no-filter", "Let every message match.")]
SetNothing = Annotated[bool, flag("set-nothing", "Set no properties any more.")]
TopicName = Annotated[str, typer.Argument(metavar="TOPIC", help="The name of the topic.", autocompletion=topic_names)]
Name = Annotated[str, typer.Argument(metavar="SUBSCRIPTION", help="The name of the subscription.")]
RuleName = Annotated[str, typer.Argument(metavar="RULE", help="The name of the rule.")]
FILTER = {
    **{column.name: TEXT_OPTIONS[column.name] for column in FILTERABLE},
    "json_path": Annotated[
        str | None,
        typer.Option(help="Only messages of which this is true, such as '$.body.amount > 1000'.", metavar="PATH"),
    ],
    "sql": Annotated[
        str | None,
        typer.Option(help="Only messages of which this is true, such as 'amount > 1000 or sys.subject is null'."),
    ],
    "properties": Annotated[
        list[str] | None,
        typer.Option(
            "--property",
            "-p",
            help="Only messages with this application property: key=text, or key:=JSON. May be repeated.",
            metavar="KEY=VALUE",
        ),
    ],
}
FilterOptions = Annotated[dict[str, Any], Options(FILTER)]
SetProperties = Annotated[
    list[str] | None,
    typer.Option(
        "--set-property",
        help="An application property to set in each message: key=text, or key:=JSON. May be repeated.",
        metavar="KEY=VALUE",
    ),
]


@on_database(topic, "create")
def create_topic(
    database: Database,
    name: TopicName,
    settings: TopicOptions,
    exist_ok: Annotated[bool, flag("exist-ok", "Do nothing if the topic exists.")] = False,
) -> Result:
    """Create a topic. `pgqueue subscription create` makes queues for what is sent to it."""
    created = database.client.create_topic(name, exist_ok=exist_ok, **settings)
    document = {"topic": name, "created": True, **output.plain(created)}
    return Result(document, f"topic {name} {presence(exist_ok)}", lambda _: documents.topic_record(created))


@on_database(topic, "show")
def show_topic(database: Database, name: TopicName) -> Result:
    """Show one topic: its settings, and how many subscriptions it has."""
    return Result(database.client.get_topic(name), picture=documents.topic_record)


@on_database(topic, "update")
def update_topic(database: Database, name: TopicName, settings: TopicOptions) -> Result:
    """Change settings; options left out keep their value. Messages that were sent keep their times.

    pgqueue topic update events --status SEND_DISABLED
    """
    if not settings:
        raise WrongUse("name at least one setting; see `pgqueue topic update --help`")
    return Result(database.client.update_topic(name, **settings), f"topic {name} changed", documents.topic_record)


@on_database(topic, "list")
def list_topics(database: Database) -> Result:
    """List the topics, and how many subscriptions each has."""
    nothing = "there is no topic yet: `pgqueue topic create NAME` makes one"
    return Result(database.client.list_topics(), picture=documents.topics_table, hint=nothing)


@on_database(topic, "cancel")
def cancel(
    database: Database,
    name: TopicName,
    numbers: Annotated[
        list[int],
        typer.Argument(
            metavar="NUMBER",
            help="Numbers of scheduled messages in the topic, as `send --topic --at` prints them.",
        ),
    ],
) -> Result:
    """Cancel scheduled messages of a topic, in all its subscriptions: all or none.

    pgqueue topic cancel events 4711
    """
    database.client.topic(name).cancel_scheduled(numbers)
    return Result(
        {"topic": name, "cancelled": numbers}, f"{output.counted(len(numbers), 'message')} of {name} cancelled"
    )


@on_database(topic, "delete")
def delete_topic(database: Database, name: TopicName, yes: Yes = False) -> Result:
    """Delete a topic and its subscriptions with all their messages and dead letters. There is no way back."""
    count = len(database.client.list_subscriptions(name))
    ask(f"Delete topic {name} with {output.counted(count, 'subscription')} and all that they hold?", yes)
    database.client.delete_topic(name)
    return Result({"topic": name, "deleted": True}, f"topic {name} deleted")


@on_database(subscription, "create")
def create_subscription(
    database: Database,
    topic: TopicName,
    name: Name,
    settings: Settings,
    filters: FilterOptions,
    set_properties: SetProperties = None,
    exist_ok: Annotated[bool, flag("exist-ok", "Do nothing if the subscription exists.")] = False,
) -> Result:
    """Create a subscription: a queue for the messages of a topic that its filter matches; without a filter, all.

    pgqueue subscription create events billing --subject paid --property country=CH

    pgqueue subscription create events large --json-path '$.body.amount > 1000' --set-property checked:=false

    The queue is named TOPIC/Subscriptions/SUBSCRIPTION; it has settings and messages as any other.
    """
    filter = _filter(filters)
    created = database.client.create_subscription(
        topic, name, filter=filter, set_properties=parse_properties(set_properties), exist_ok=exist_ok, **settings
    )
    return Result(created, f"subscription {name} of {topic} {presence(exist_ok)}", documents.subscription_record)


@on_database(subscription, "list")
def list_subscriptions(database: Database, topic: TopicName) -> Result:
    """List the subscriptions of a topic, with their filters. For the number of messages in them see `pgqueue stats`."""
    makes = f"`pgqueue subscription create {topic} NAME` makes one"
    nothing = f"topic {topic} has no subscription that this role may see: {makes}"
    return Result(database.client.list_subscriptions(topic), picture=documents.subscriptions_table, hint=nothing)


@on_database(subscription, "update")
def update_subscription(
    database: Database,
    topic: TopicName,
    name: Name,
    settings: Settings,
    filters: FilterOptions,
    no_filter: NoFilter = False,
    set_properties: SetProperties = None,
    set_nothing: SetNothing = False,
) -> Result:
    """Update a subscription. Options left out keep their value; existing messages are kept.

    pgqueue subscription update events billing --subject refunded --lock-duration 5m
    """
    given = _changes(filters, no_filter, set_properties, set_nothing)
    if not given and not settings:
        raise WrongUse("name at least one setting; see `pgqueue subscription update --help`")
    updated = database.client.update_subscription(topic, name, **given, **settings)
    return Result(updated, f"subscription {name} of {topic} changed", documents.subscription_record)


@on_database(subscription, "delete")
def delete_subscription(database: Database, topic: TopicName, name: Name, yes: Yes = False) -> Result:
    """Delete a subscription with all its messages and dead letters. There is no way back."""
    ask(f"Delete subscription {name} of {topic} and all that it holds?", yes)
    database.client.delete_subscription(topic, name)
    document = {"topic": topic, "subscription": name, "deleted": True}
    return Result(document, f"subscription {name} of {topic} deleted")


@on_database(rule, "create")
def create_rule(
    database: Database,
    topic: TopicName,
    subscription: Name,
    name: RuleName,
    filters: FilterOptions,
    set_properties: SetProperties = None,
    exist_ok: Annotated[bool, flag("exist-ok", "Do nothing if the rule exists.")] = False,
) -> Result:
    """Create a rule of a subscription: messages that its filter matches are stored there, too.

    pgqueue rule create events billing swiss --sql "country = 'CH' and amount > 1000"

    A subscription is created with the rule $Default. A message that several rules match is stored once.
    """
    database.client.create_rule(
        topic,
        subscription,
        name,
        filter=_filter(filters),
        set_properties=parse_properties(set_properties),
        exist_ok=exist_ok,
    )
    document = {"topic": topic, "subscription": subscription, "rule": name, "created": True}
    return Result(document, f"rule {name} of {topic}, {subscription} {presence(exist_ok)}")


@on_database(rule, "list")
def list_rules(database: Database, topic: TopicName, subscription: Name) -> Result:
    """List the rules of a subscription, with their filters."""
    nothing = f"no message of {topic} is stored: `pgqueue rule create {topic} {subscription} NAME` makes a rule"
    return Result(database.client.list_rules(topic, subscription), picture=documents.rules_table, hint=nothing)


@on_database(rule, "update")
def update_rule(
    database: Database,
    topic: TopicName,
    subscription: Name,
    name: RuleName,
    filters: FilterOptions,
    no_filter: NoFilter = False,
    set_properties: SetProperties = None,
    set_nothing: SetNothing = False,
) -> Result:
    """Update a rule of a subscription. Options left out keep their value; existing messages are kept.

    pgqueue rule update events billing swiss --sql "country = 'CH'"
    """
    given = _changes(filters, no_filter, set_properties, set_nothing)
    if not given:
        raise WrongUse("name a filter or properties; see `pgqueue rule update --help`")
    database.client.update_rule(topic, subscription, name, **given)
    document = {"topic": topic, "subscription": subscription, "rule": name, "updated": True}
    return Result(document, f"rule {name} of {topic}, {subscription} changed")


@on_database(rule, "delete")
def delete_rule(database: Database, topic: TopicName, subscription: Name, name: RuleName, yes: Yes = False) -> Result:
    """Delete a rule of a subscription. Messages that are in the subscription stay there."""
    ask(f"Delete rule {name} of {topic}, {subscription}?", yes)
    database.client.delete_rule(topic, subscription, name)
    document = {"topic": topic, "subscription": subscription, "rule": name, "deleted": True}
    return Result(document, f"rule {name} of {topic}, {subscription} deleted")


def _changes(
    filters: dict[str, Any], no_filter: bool, set_properties: list[str] | None, set_nothing: bool
) -> dict[str, Any]:
    """The changes of a rule, as arguments."""
    filter, set_to = _filter(filters), parse_properties(set_properties)
    if (filter is not None and no_filter) or (set_to is not None and set_nothing):
        raise WrongUse("set it or remove it: use one of the two options")
    given: dict[str, Any] = {}
    if filter is not None or no_filter:
        given["filter"] = filter
    if set_to is not None or set_nothing:
        given["set_properties"] = set_to
    return given


def _filter(options: dict[str, Any]) -> Filter | None:
    expressions: dict[str, type[JsonPathFilter | SqlFilter]] = {"json_path": JsonPathFilter, "sql": SqlFilter}
    for option, made in expressions.items():
        if option in options:
            if len(options) > 1:
                raise WrongUse("a filter is SQL, or a JSON path, or values that a message must have: give one of them")
            return made(options[option])
    properties = parse_properties(options.pop("properties", None))
    return CorrelationFilter(application_properties=properties, **options) if properties or options else None
