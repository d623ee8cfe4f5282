"""Each subscription gets the messages its rules match: a model in Python, while subscriptions and rules come and go.

PGQUEUE_EXAMPLES and PGQUEUE_STEPS make it play more, and longer.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, TypeAlias

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from pgqueue import CorrelationFilter, JsonPathFilter, Message, QueueClient
from pgqueue.errors import RuleAlreadyExistsError, RuleNotFoundError
from pgqueue.testing import Database

EXAMPLES = int(os.environ.get("PGQUEUE_EXAMPLES", "25"))
STEPS = int(os.environ.get("PGQUEUE_STEPS", "40"))

Filter: TypeAlias = CorrelationFilter | JsonPathFilter | None
Kept: TypeAlias = tuple[Any, dict[str, Any] | None]

DEFAULT = "$Default"


def amount(message: Message[Any]) -> Any:
    return message.body.get("amount") if isinstance(message.body, dict) else None


def country(message: Message[Any]) -> Any:
    return (message.application_properties or {}).get("country")


#: The meaning of each path, in Python.
PATHS: dict[str, Callable[[Message[Any]], bool]] = {
    "$.body.amount > 1": lambda message: isinstance(amount(message), int) and amount(message) > 1,
    '$.subject == "x"': lambda message: message.subject == "x",
    '$.application_properties.country == "CH" || $.correlation_id == "1"': lambda message: (
        country(message) == "CH" or message.correlation_id == "1"
    ),
    "$.body.amount / 0 == 1": lambda message: False,
    "!exists($.application_properties.country)": lambda message: (
        "country" not in (message.application_properties or {})
    ),
}

texts = st.sampled_from(["x", "y", "1"])
properties = st.dictionaries(
    st.sampled_from(["country", "n", "subject"]), st.sampled_from(["CH", "x", 1, 2, True]), max_size=3
)
bodies = st.fixed_dictionaries({"amount": st.sampled_from([0, 1, 2, "many", None])}) | st.just([1])
messages = st.builds(
    Message,
    bodies,
    subject=st.none() | texts,
    correlation_id=st.none() | texts,
    message_id=st.none() | texts,
    application_properties=st.none() | properties,
    priority=st.sampled_from([0, 0, 0, 5]),
)
filters = st.one_of(
    st.none(),
    st.builds(
        CorrelationFilter,
        subject=st.none() | texts,
        correlation_id=st.none() | texts,
        application_properties=st.none() | properties,
    ),
    st.sampled_from([JsonPathFilter(path) for path in PATHS]),
)
names = st.sampled_from(["a", "b", "c", "d"])
rules = st.sampled_from([DEFAULT, "Z", "a"])
#: Subscriptions with one of these are not served by the statement that serves the plain ones.
queue_settings = st.sampled_from([{}, {}, {"max_queue_length": 10_000}, {"max_message_size": 10_000}])
set_properties = st.none() | st.dictionaries(st.sampled_from(["country", "set"]), st.integers(0, 2), min_size=1)


def as_json(value: Any) -> Any:
    """A value that Python compares as JSON: true is not 1."""
    return (type(value) is bool, value)


def matches(filter: Filter, message: Message[Any]) -> bool:
    match filter:
        case None:
            return True
        case JsonPathFilter(path):
            return PATHS[path](message)
        case CorrelationFilter():
            has = message.application_properties or {}
            return all(
                getattr(filter, name) in (None, getattr(message, name)) for name in ("subject", "correlation_id")
            ) and all(
                name in has and as_json(has[name]) == as_json(asked)
                for name, asked in (filter.application_properties or {}).items()
            )


@dataclass
class Subscription:
    """A subscription in the model: its rules, and the messages it must hold, in the order of sending."""

    rules: dict[str, tuple[Filter, dict[str, Any] | None]]
    holds: list[tuple[int, Kept]] = field(default_factory=list)

    def kept(self, message: Message[Any]) -> Kept | None:
        """The stored message; None if no rule matches."""
        matching = [sets for _, (filter, sets) in sorted(self.rules.items()) if matches(filter, message)]
        if not matching:
            return None
        properties = message.application_properties
        for sets in matching:
            properties = {**(properties or {}), **sets} if sets else properties
        return message.body, None if properties is None else dict(properties)


class Topics(RuleBasedStateMachine):
    """Two senders, of which each may have a transaction open, and others who change the subscriptions meanwhile."""

    _topics = count()

    def __init__(self, client: QueueClient, connections: list[psycopg.Connection[Any]]) -> None:
        super().__init__()
        self._client = client
        self._name = f"topic-{next(self._topics)}"
        self._client.create_topic(self._name)
        self._topic = self._client.topic(self._name)
        self._connections = connections
        self._sent = count()
        self._subscriptions: dict[str, Subscription] = {}
        self._open: list[list[Callable[[], None]]] = [[], []]

    @rule(name=names, filter=filters, sets=set_properties, options=queue_settings)
    def subscribe(self, name: str, filter: Filter, sets: dict[str, Any] | None, options: Any) -> None:
        if name in self._subscriptions:
            known = self._subscriptions[name].rules
            with nullcontext() if DEFAULT in known else pytest.raises(RuleNotFoundError):
                self._client.update_subscription(self._name, name, filter=filter, set_properties=sets, **options)
                known[DEFAULT] = filter, sets
        else:
            self._client.create_subscription(self._name, name, filter=filter, set_properties=sets, **options)
            self._subscriptions[name] = Subscription({DEFAULT: (filter, sets)})

    @rule(name=names, rule=rules, filter=filters, sets=set_properties)
    def create_rule(self, name: str, rule: str, filter: Filter, sets: dict[str, Any] | None) -> None:
        if known := self._subscriptions.get(name):
            with pytest.raises(RuleAlreadyExistsError) if rule in known.rules else nullcontext():
                self._client.create_rule(self._name, name, rule, filter=filter, set_properties=sets)
            known.rules.setdefault(rule, (filter, sets))

    @rule(name=names, rule=rules, filter=filters, sets=set_properties)
    def update_rule(self, name: str, rule: str, filter: Filter, sets: dict[str, Any] | None) -> None:
        if known := self._subscriptions.get(name):
            with nullcontext() if rule in known.rules else pytest.raises(RuleNotFoundError):
                self._client.update_rule(self._name, name, rule, filter=filter, set_properties=sets)
                known.rules[rule] = (filter, sets)

    @rule(name=names, rule=rules)
    def delete_rule(self, name: str, rule: str) -> None:
        if known := self._subscriptions.get(name):
            with nullcontext() if rule in known.rules else pytest.raises(RuleNotFoundError):
                self._client.delete_rule(self._name, name, rule)
                del known.rules[rule]

    @rule(name=names)
    def unsubscribe(self, name: str) -> None:
        if self._subscriptions.pop(name, None):
            self._client.delete_subscription(self._name, name)

    @rule(sent=st.lists(messages, min_size=1, max_size=4), within=st.none() | st.sampled_from([0, 1]))
    def send(self, sent: list[Message[Any]], within: int | None) -> None:
        if within is not None:
            sent = [Message(**{**vars(message), "priority": 0}) for message in sent]  # its first use lets others wait
        connection = None if within is None else self._connections[within]
        if connection is not None:
            connection.execute("select 1")
        if len(sent) == 1:
            counts = [self._topic.send(sent[0], transaction=connection)]
        else:
            counts = self._topic.send_batch(sent, transaction=connection)
        for message, went in zip(sent, counts, strict=True):
            nth = next(self._sent)
            found = [(each, kept) for each in self._subscriptions.values() if (kept := each.kept(message))]
            assert went == len(found)
            for each, kept in found:
                if within is None:
                    each.holds.append((nth, kept))
                else:
                    self._open[within].append(partial(each.holds.append, (nth, kept)))

    @rule(which=st.sampled_from([0, 1]), commits=st.booleans())
    def end(self, which: int, commits: bool) -> None:
        connection = self._connections[which]
        if commits:
            connection.commit()
            for keep in self._open[which]:
                keep()
        else:
            connection.rollback()
        self._open[which].clear()

    @rule()
    def compare(self) -> None:
        for name, subscription in self._subscriptions.items():
            found = self._client.subscription(self._name, name).peek(max_messages=10_000)
            expected = [kept for _, kept in sorted(subscription.holds, key=lambda held: held[0])]
            assert [(each.body, each.application_properties) for each in found] == expected, name
        known = {each.name: each for each in self._client.list_subscriptions(self._name)}
        assert known.keys() == self._subscriptions.keys()
        for name, subscription in self._subscriptions.items():
            rules = {
                each.name: (each.filter, each.set_properties) for each in self._client.list_rules(self._name, name)
            }
            asked = {
                rule: (None if filter == CorrelationFilter() else filter, sets)
                for rule, (filter, sets) in subscription.rules.items()
            }
            assert rules == asked
            assert known[name].rules == len(asked)
            assert (known[name].filter, known[name].set_properties) == asked.get(DEFAULT, (None, None))

    def teardown(self) -> None:
        for which in (0, 1):
            self.end(which, commits=True)
        self.compare()


def test_each_subscription_gets_the_messages_its_rules_match(database: Database) -> None:
    with QueueClient(database.dsn, listen=False) as client, database.connect() as one, database.connect() as other:

        class Here(Topics):
            def __init__(self) -> None:
                super().__init__(client, [one, other])

        run_state_machine_as_test(
            Here,
            settings=settings(
                max_examples=EXAMPLES, stateful_step_count=STEPS, deadline=None, suppress_health_check=list(HealthCheck)
            ),
        )
