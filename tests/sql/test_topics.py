"""Topics: what is stored in which subscription, what is refused, and who waits for whom."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from pgqueue.model.columns import FILTERABLE
from pgqueue.testing import Database
from tests.sql.stage import (
    INVALID_ARGUMENT,
    QUEUE_DISABLED,
    QUEUE_EXISTS,
    QUEUE_FULL,
    SERIALIZATION_FAILURE,
    TOO_LARGE,
    UNKNOWN_QUEUE,
    Session,
    Stage,
    refused,
)

UNKNOWN_TOPIC, TOPIC_EXISTS, NO_SUBSCRIPTION, UNKNOWN_RULE, RULE_EXISTS = "PQ040", "PQ041", "PQ042", "PQ043", "PQ044"

STORED = """
select queue, body from pgqueue.messages where queue like 't/%%' order by queue, sequence_number
"""


def subscribe(session: Session, name: str, **options: Any) -> int:
    number: int = session.call("create_subscription", topic="t", subscription=name, **options)
    return number


def equals(**fields: Any) -> dict[str, Any]:
    return {"correlation_filter": Jsonb(fields)}


def publish(session: Session, body: Any = 0, **options: Any) -> int:
    count: int = session.call("publish_to_topic", topic="t", body=Jsonb(body), **options)
    return count


def stored(session: Session) -> list[tuple[str, Any]]:
    """The subscriptions and bodies of all messages in the topic's subscriptions."""
    return [(queue.removeprefix("t/Subscriptions/"), body) for queue, body in session.rows(STORED)]


@contextmanager
def explained(text: str) -> Iterator[None]:
    """The block must be refused with this text."""
    try:
        yield
    except psycopg.Error as error:
        if text not in str(error):
            raise AssertionError(f"{text!r} is not in {error}") from error
        raise


def test_a_message_is_stored_in_each_subscription_that_matches(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_topic", topic="t")
        ann.call("create_topic", topic="another")
        ann.call("create_subscription", topic="another", subscription="all")
        subscribe(ann, "all")
        subscribe(ann, "paid", **equals(subject="paid"))
        subscribe(ann, "swiss", **equals(subject="paid", application_properties={"country": "CH"}))
        subscribe(ann, "large", json_path_filter="$.body.amount > 1000")
        assert publish(ann, {"amount": 1}) == 1
        assert publish(ann, {"amount": 2}, subject="paid") == 2
        assert publish(ann, {"amount": 3}, application_properties=Jsonb({"country": "CH"})) == 1
        assert (
            publish(ann, {"amount": 4000}, subject="paid", application_properties=Jsonb({"country": "CH", "a": 1})) == 4
        )
        amounts: dict[str, list[int]] = {}
        for name, body in stored(ann):
            amounts.setdefault(name, []).append(body["amount"])
        assert amounts == {"all": [1, 2, 3, 4000], "paid": [2, 4000], "swiss": [4000], "large": [4000]}
        ann.call("drop_topic", topic="t")
        assert ann.rows("select name from pgqueue.topics") == [("another",)]
        assert ann.rows("select name from pgqueue.queues order by 1") == [("another/Subscriptions/all",), ("q",)]


@pytest.mark.parametrize("field", [column.name for column in FILTERABLE])
def test_each_field_can_be_compared(database: Database, field: str) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_topic", topic="t")
        subscribe(ann, "s", **equals(**{field: "x"}))
        subscribe(ann, "path", json_path_filter=f'$.{field} == "x"')
        assert publish(ann, **{field: "x"}) == 2
        assert publish(ann, **{field: "y"}) == 0
        assert publish(ann, application_properties=Jsonb({field: "x"})) == 0
        assert publish(ann) == 0


@pytest.mark.parametrize(
    ("asked", "has", "matches"),
    [
        ({"a": 1}, {"a": 1.0, "b": 2}, True),
        ({"a": 1}, {"a": "1"}, False),
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 2]}}, True),
        ({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}, False),
        ({"": "empty"}, {"": "empty"}, True),
        ({"": "empty"}, {"a": "empty"}, False),
        ({"subject": "a property"}, {"subject": "a property"}, True),
        ({"application_properties.a": 1}, {"application_properties.a": 1}, True),
        ({"application_properties.a": 1}, {"a": 1}, False),
        ({"a": "x" * 5000}, {"a": "x" * 5000}, True),
        ({"a": "x" * 5000}, {"a": "x" * 5001}, False),
        ({"a": False}, {"a": None}, False),
        ({"a": False}, {}, False),
        ({}, {}, True),
        ({}, None, True),
    ],
)
def test_properties_are_compared_as_json(database: Database, asked: Any, has: Any, matches: bool) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_topic", topic="t")
        subscribe(ann, "s", **equals(application_properties=asked))
        assert publish(ann, application_properties=Jsonb(has) if has is not None else None) == matches


def test_filters_with_the_same_hash_are_distinguished(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_topic", topic="t")
        subscribe(ann, "s", **equals(subject="x"))
        ann.rows("drop index pgqueue.rule_equals")
        ann.rows("""create function pgqueue_testing.seven(jsonb) returns bigint immutable language sql as 'select 7'""")
        stage.rewrite("_matching_subscriptions", "jsonb_hash_extended(equals, 0)", "pgqueue_testing.seven(equals)")
        stage.rewrite("_matching_subscriptions", "jsonb_hash_extended(has, 0)", "pgqueue_testing.seven(has)")
        assert publish(ann, subject="x") == 1
        assert publish(ann, subject="y") == 0


@pytest.mark.parametrize(
    ("path", "body", "matches"),
    [
        ("$.body.amount > 1000", {"amount": 1001}, True),
        ("$.body.amount > 1000", {"amount": "many"}, False),
        ("$.body.amount > 1000", [], False),
        ("strict $.body.amount > 1000", {}, False),
        ("exists($.body.items[*] ? (@.price > 5))", {"items": [{"price": 1}, {"price": 6}]}, True),
        ('$.body.name like_regex "^a"', {"name": "ann"}, True),
        ("$.body.a / $.body.b == 2", {"a": 4, "b": 2}, True),
        ("$.body.a / $.body.b == 2", {"a": 4, "b": 0}, False),
        ("!exists($.application_properties.a)", {}, True),
        ("!exists($.subject)", {}, True),
        ("exists($.body)", None, True),
        # PostgreSQL raises these even in silent mode
        (
            "$.body.at.datetime() > $.body.since.datetime()",
            {"at": "2030-01-01", "since": "2029-01-01T00:00:00+00"},
            False,
        ),
        ("$.body.a == 1 && $.body.b == $unknown", {"a": 1, "b": 2}, False),
    ],
)
def test_a_json_path_that_fails_does_not_match(database: Database, path: str, body: Any, matches: bool) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_topic", topic="t")
        subscribe(ann, "path", json_path_filter=path)
        subscribe(ann, "all")
        assert publish(ann, body) == 1 + matches


def test_a_json_path_that_the_server_cannot_follow_refuses_the_message(database: Database) -> None:
    """It is no error of the path: the subscription might want the message."""
    deep = "('[' || repeat('[', 4000) || repeat(']', 4000) || ']')::jsonb"
    with database.connect() as connection:
        connection.execute(f"create temporary table deep as select {deep} as document".encode())
        connection.execute("set max_stack_depth = '100kB'")
        with pytest.raises(psycopg.errors.StatementTooComplex):
            connection.execute("select pgqueue._satisfies(document, 'strict $.** == 1') from deep")


def test_a_topic_that_got_a_subscription_since_the_snapshot_is_dropped_at_the_next_try(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.call("create_topic", topic="t")
        bob.begin("repeatable read")
        bob.rows("select 1 from pgqueue.topics")
        subscribe(ann, "new")
        with refused(SERIALIZATION_FAILURE), explained("topic t has got a subscription"):
            bob.call("drop_topic", topic="t")
        bob.rollback()
        bob.call("drop_topic", topic="t")
        assert ann.values("select name from pgqueue.topics") == []


@pytest.mark.parametrize("setting", ["forward_to", "forward_dead_lettered_messages_to"])
def test_a_topic_whose_subscriptions_forward_to_each_other_is_dropped(database: Database, setting: str) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_topic", topic="t")
        subscribe(ann, "old")
        subscribe(ann, "new", **{setting: "t/Subscriptions/old"})
        ann.call("create_queue", queue="outside", **{setting: "t/Subscriptions/new"})
        with refused(INVALID_ARGUMENT), explained("others forward to it: outside"):
            ann.call("drop_topic", topic="t")
        assert ann.values(f"select {setting} from pgqueue.queue_settings('t/Subscriptions/new')") == [
            "t/Subscriptions/old"
        ]
        ann.call("drop_queue", queue="outside")
        ann.call("drop_topic", topic="t")
        assert ann.rows("select name from pgqueue.queues") == [("q",)]


def test_a_json_path_does_not_see_bytes(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_topic", topic="t")
        subscribe(ann, "path", json_path_filter="$.body != null")
        subscribe(ann, "any-body", json_path_filter="exists($.body)")
        assert ann.call("publish_to_topic", topic="t", binary_body=b"\0") == 0
        assert publish(ann, 1) == 2


def test_properties_are_set_in_the_copy_only(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_topic", topic="t")
        subscribe(ann, "as-sent")
        subscribe(ann, "set", set_properties=Jsonb({"a": 2, "b": 3}))
        subscribe(ann, "slow", set_properties=Jsonb({"a": 4}), max_queue_length=10)
        given = Jsonb({"a": 1, "c": 1})
        assert publish(ann, application_properties=given) == 3
        assert publish(ann) == 3
        found = ann.rows("select queue, application_properties from pgqueue.messages order by queue, sequence_number")
        assert [(queue.rpartition("/")[2], properties) for queue, properties in found] == [
            ("as-sent", {"a": 1, "c": 1}),
            ("as-sent", None),
            ("set", {"a": 2, "b": 3, "c": 1}),
            ("set", {"a": 2, "b": 3}),
            ("slow", {"a": 4, "c": 1}),
            ("slow", {"a": 4}),
        ]


@pytest.mark.parametrize("settings", [{}, {"max_queue_length": 100}])
def test_properties_that_become_too_large_are_refused(database: Database, settings: Any) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_topic", topic="t")
        subscribe(ann, "s", set_properties=Jsonb({"a": "x" * 40_000}), **settings)
        with refused(INVALID_ARGUMENT):
            publish(ann, application_properties=Jsonb({"b": "x" * 40_000}))


def test_messages_keep_their_order_and_fields_in_each_subscription(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_topic", topic="t")
        for name, settings in {"plain": {}, "bounded": {"max_message_size": 1000}}.items():
            subscribe(ann, name, **settings, json_path_filter="$.body % 2 == 0")
        counts = ann.values(
            """select pgqueue.publish_batch_to_topic('t', array(select to_jsonb(n) from generate_series(0, 9) as n),
                      subjects => array(select 'subject ' || n from generate_series(0, 9) as n))"""
        )
        assert counts == [2, 0] * 5
        for name in ("plain", "bounded"):
            found = ann.rows("select body, subject from pgqueue.peek(%(queue)s, 99)", queue=f"t/Subscriptions/{name}")
            assert found == [(n, f"subject {n}") for n in (0, 2, 4, 6, 8)]


def test_a_batch_of_bytes_alone_is_stored(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_topic", topic="t")
        subscribe(ann, "plain")
        assert ann.values("select pgqueue.publish_batch_to_topic('t', binary_bodies => array['a', 'b']::bytea[])") == [
            1,
            1,
        ]
        found = ann.values("select binary_body from pgqueue.peek('t/Subscriptions/plain', 9)")
        assert [bytes(each) for each in found] == [b"a", b"b"]


def test_each_subscription_has_its_own_settings(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_topic", topic="t")
        subscribe(ann, "plain")
        subscribe(ann, "expiring", default_message_time_to_live=timedelta(seconds=5))
        subscribe(ann, "once", requires_duplicate_detection=True)
        subscribe(ann, "idle", auto_delete_on_idle=timedelta(hours=1))
        assert publish(ann, 1, message_id="m") == 4
        assert publish(ann, 2, message_id="m") == 4
        assert publish(ann, 3, priority=-5, time_to_live=timedelta(seconds=9)) == 4
        tomorrow = ann.value("select pgqueue.clock() + interval '1 day'")
        assert publish(ann, 4, scheduled_enqueue_time=tomorrow) == 4
        bodies: dict[str, list[int]] = {}
        for name, body in stored(ann):
            bodies.setdefault(name, []).append(body)
        assert bodies == {"plain": [1, 2, 3], "expiring": [1, 2, 3], "once": [1, 3], "idle": [1, 2, 3]}
        lifetimes = """select (expires_at - enqueued_time)::text
              from pgqueue.messages
             where queue like %(queue)s
             order by sequence_number"""
        assert ann.values(lifetimes, queue="%expiring") == ["00:00:05"] * 3
        assert ann.values(lifetimes, queue="%plain") == [None, None, "00:00:09"]
        assert ann.value("select count(*) from pgqueue.scheduled_messages") == 4
        assert ann.receive(queue="t/Subscriptions/plain")[0].body == 3, "the most urgent comes first"


@pytest.mark.parametrize(
    ("settings", "sqlstate"),
    [
        ({"status": "DISABLED"}, QUEUE_DISABLED),
        ({"status": "SEND_DISABLED"}, QUEUE_DISABLED),
        ({"max_message_size": 3}, TOO_LARGE),
        ({"max_queue_length": 1}, QUEUE_FULL),
    ],
)
def test_a_message_that_one_subscription_refuses_is_stored_in_none(
    database: Database, settings: Any, sqlstate: str
) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_topic", topic="t")
        subscribe(ann, "all")
        subscribe(ann, "narrow", **settings, **equals(subject="x"))
        bodies = [Jsonb("long enough"), Jsonb("long enough")]
        with refused(sqlstate):
            ann.values(
                "select pgqueue.publish_batch_to_topic('t', %(bodies)s, subjects => array['x', 'x'])", bodies=bodies
            )
        assert stored(ann) == []
        assert publish(ann, "long enough", subject="y") == 1, "it does not match"
        with pytest.raises(psycopg.Error, match="t/Subscriptions/narrow"):
            ann.values(
                "select pgqueue.publish_batch_to_topic('t', %(bodies)s, subjects => array['x', 'x'])", bodies=bodies
            )


@pytest.mark.parametrize(
    ("settings", "sqlstate", "refusal"),
    [
        (
            {"max_message_size": 5},
            TOO_LARGE,
            'message 3 has 11 bytes, and queue "t/Subscriptions/narrow" takes at most 5',
        ),
        (
            {"requires_session": True},
            INVALID_ARGUMENT,
            'the session_id of message 3 to queue "t/Subscriptions/narrow" must be',
        ),
    ],
)
def test_a_refusal_names_the_message_and_the_subscription(
    database: Database, settings: dict[str, Any], sqlstate: str, refusal: str
) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_topic", topic="t")
        subscribe(ann, "narrow", **settings, **equals(subject="x"))
        with refused(sqlstate), explained(refusal):
            ann.rows(
                "select pgqueue.publish_batch_to_topic('t', %(bodies)s, subjects => '{y,y,x}')",
                bodies=[Jsonb(1), Jsonb(2), Jsonb("too long!")],
            )


def test_a_subscription_with_receives_disabled_still_gets_its_messages(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_topic", topic="t")
        subscribe(ann, "s", status="RECEIVE_DISABLED")
        assert publish(ann) == 1
        assert stored(ann) == [("s", 0)]


def test_a_message_without_a_matching_subscription_is_reported_or_refused(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_topic", topic="t")
        subscribe(ann, "s", **equals(subject="x"))
        assert publish(ann) == 0
        with refused(NO_SUBSCRIPTION):
            publish(ann, require_subscription=True)
        bodies = [Jsonb(1), Jsonb(2)]
        batch = """select pgqueue.publish_batch_to_topic(
                       't', %(bodies)s, subjects => array['x', 'y'], require_subscription => true)"""
        with pytest.raises(psycopg.Error, match="no subscription of topic t matches message 2"):
            ann.values(batch, bodies=bodies)
        assert stored(ann) == []
        assert publish(ann, subject="x", require_subscription=True) == 1


def test_invalid_messages_are_refused_even_without_a_matching_subscription(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_topic", topic="t")
        for options in ({}, {"body": Jsonb(1), "binary_body": b""}, {"body": Jsonb(1), "message_id": "x" * 129}):
            with refused(INVALID_ARGUMENT):
                ann.call("publish_to_topic", topic="t", **options)
        assert ann.values("select pgqueue.publish_batch_to_topic('t', '{}'::jsonb[])") == []
        with refused(UNKNOWN_TOPIC):
            ann.call("publish_to_topic", topic="nope", body=Jsonb(1))


@pytest.mark.parametrize(
    ("filter", "says"),
    [
        ({"correlation_filter": Jsonb([])}, "must be a JSON object"),
        ({"correlation_filter": Jsonb({"colour": "red"})}, 'not one with the colour "red"'),
        ({"correlation_filter": Jsonb({"subject": 7})}, "not one with the subject 7"),
        ({"correlation_filter": Jsonb({"application_properties": 7})}, "must be a JSON object"),
        ({"correlation_filter": Jsonb({"application_properties": {"a": None}})}, "without nulls"),
        ({"correlation_filter": Jsonb({"application_properties": {"a" * 2000: 1}})}, "at most 2000 bytes"),
        ({"correlation_filter": Jsonb({}), "json_path_filter": "$.a == 1"}, "not both"),
        ({"json_path_filter": "$."}, "syntax error"),
        ({"json_path_filter": "$.body.amount ? (@ > 1000)"}, "single boolean result"),
        ({"json_path_filter": "$.body.amount"}, "single boolean result"),
        ({"json_path_filter": "$.body.amount > $least"}, "could not find jsonpath variable"),
        ({"set_properties": Jsonb([])}, "set_properties must be a JSON object"),
        ({"set_properties": Jsonb({"a": "x" * 70_000})}, "at most 65536 bytes"),
        ({"lock_duration": timedelta(0)}, "lock_duration must be"),
    ],
)
@pytest.mark.parametrize("verb", ["create_subscription", "alter_subscription"])
def test_an_invalid_filter_is_refused(database: Database, verb: str, filter: Any, says: str) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_topic", topic="t")
        subscribe(ann, "old")
        name = "old" if verb == "alter_subscription" else "new"
        with refused(INVALID_ARGUMENT, filter), explained(says):
            ann.call(verb, topic="t", subscription=name, **filter)
        assert ann.rows("select name, correlation_filter, json_path_filter from pgqueue.subscriptions") == [
            ("old", None, None)
        ]


def test_names_are_checked_and_taken_once(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_topic", topic="t")
        for name in ("", "-", "a b", "x" * 191):
            with refused(INVALID_ARGUMENT):
                ann.call("create_topic", topic=name)
        for name in ("", "a/b", "x" * 51):
            with refused(INVALID_ARGUMENT):
                subscribe(ann, name)
        with refused(TOPIC_EXISTS):
            ann.call("create_topic", topic="t")
        with refused(TOPIC_EXISTS):
            ann.call("create_queue", queue="t")
        with refused(QUEUE_EXISTS):
            ann.call("create_topic", topic="q")
        subscribe(ann, "s")
        with refused(QUEUE_EXISTS):
            subscribe(ann, "s")
        ann.call("create_topic", topic="x" * 190)
        ann.call("create_subscription", topic="x" * 190, subscription="y" * 50)
        for verb in ("create_subscription", "alter_subscription", "drop_subscription"):
            with refused(UNKNOWN_TOPIC):
                ann.call(verb, topic="nope", subscription="s")
        with refused(UNKNOWN_TOPIC):
            ann.call("drop_topic", topic="nope")
        ann.call("create_queue", queue="plain")
        ann.rows("update pgqueue.queue set name = 't/Subscriptions/queue' where name = 'plain'")
        for name in ("nope", "queue"):
            for verb in ("alter_subscription", "drop_subscription"):
                with refused(UNKNOWN_QUEUE):
                    ann.call(verb, topic="t", subscription=name)
        with pytest.raises(psycopg.Error, match="does not exist") as error:
            ann.send(1, queue="t")
        assert "publish_to_topic" in str(error.value.diag.message_hint)


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("queue", ["t/Subscriptions/s", "t/subscriptions/s", "u/SUBSCRIPTIONS/s", "a/Subscriptions/b/c"]),
        ("topic", ["t/Subscriptions/s", "a/subscriptions/b/c", "a/Subscriptions"]),
    ],
)
def test_only_a_subscription_is_named_as_one(database: Database, kind: str, names: list[str]) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_topic", topic="t")
        for name in names:
            with (
                refused(INVALID_ARGUMENT),
                explained(f'"{name}" is reserved for subscriptions, and cannot be that of a {kind}'),
            ):
                ann.call(f"create_{kind}", **{kind: name})
            with refused(INVALID_ARGUMENT), explained("Create a subscription with pgqueue.create_subscription"):
                ann.call(f"create_{kind}", **{kind: name})
        subscribe(ann, "s")
        subscribe(ann, "Subscriptions")
        for name in ("subscriptions/s", "a/subscription/s", "a/subscriptions-s"):
            ann.call(f"create_{kind}", **{kind: name})


def test_a_subscription_is_altered_in_part(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_topic", topic="t")
        subscribe(ann, "s", **equals(subject="x"), set_properties=Jsonb({"a": 1}), max_queue_length=5)
        shown = """
            select correlation_filter, json_path_filter, set_properties, max_queue_length
              from pgqueue.subscriptions
              join pgqueue.queues on queues.name = queue"""

        def alter(**options: Any) -> tuple[Any, ...]:
            ann.call("alter_subscription", topic="t", subscription="s", **options)
            (row,) = ann.rows(shown)
            return row

        assert alter(max_queue_length=6) == ({"subject": "x"}, None, {"a": 1}, 6)
        assert alter(json_path_filter="$.body > 1") == (None, "$.body > 1", {"a": 1}, 6)
        assert [publish(ann, n) for n in (1, 2)] == [0, 1]
        assert alter(**equals(subject="y"), set_properties=Jsonb({"b": 1})) == ({"subject": "y"}, None, {"b": 1}, 6)
        assert [publish(ann, 9), publish(ann, subject="y")] == [0, 1]
        assert alter(**equals(), set_properties=Jsonb({}), max_queue_length=0) == (None, None, None, None)
        assert publish(ann) == 1


def test_a_queue_that_is_dropped_is_no_subscription_any_more(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_topic", topic="t")
        subscribe(ann, "dropped")
        subscribe(ann, "idle", auto_delete_on_idle=timedelta(hours=1))
        ann.call("drop_queue", queue="t/Subscriptions/dropped")
        assert publish(ann) == 1
        stage.passes(timedelta(hours=2))
        ann.rows("select * from pgqueue.sweep()")
        assert publish(ann) == 0
        assert ann.rows("select name, subscriptions from pgqueue.topics") == [("t", 0)]


@pytest.mark.parametrize("first", ["queue", "topic"])
@pytest.mark.parametrize("second", ["queue", "topic"])
def test_a_name_taken_since_the_snapshot_is_refused(database: Database, first: str, second: str) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        bob.begin("repeatable read")
        bob.rows("select from pgqueue.topic")
        ann.call(f"create_{first}", **{first: "t"})
        with refused(SERIALIZATION_FAILURE):
            bob.call(f"create_{second}", **{second: "t"})
        bob.rollback()


@pytest.mark.parametrize(
    ("first", "second", "sqlstate"), [("queue", "topic", "PQ003"), ("topic", "queue", TOPIC_EXISTS)]
)
def test_a_queue_and_a_topic_created_at_once_do_not_get_one_name(
    database: Database, first: str, second: str, sqlstate: str
) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        for end in (ann.rollback, ann.commit):
            ann.begin()
            ann.call(f"create_{first}", **{first: "t"})
            bob.begin()
            waiting = bob.starts(lambda: bob.call(f"create_{second}", **{second: "t"}))
            end()
            if end == ann.rollback:
                waiting.result()
            else:
                with refused(sqlstate):
                    waiting.result()
            bob.rollback()
        assert ann.value("select count(*) from pgqueue.queue where name = 't'") == (first == "queue")


def test_no_messages_are_sent_without_arrays(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_topic", topic="t", requires_duplicate_detection=True)
        subscribe(ann, "s")
        for verb in ("send_to_topic", "publish_batch_to_topic"):
            assert ann.table(verb, topic="t") == ann.table(verb, topic="t", require_subscription=True) == []
            assert ann.table(verb, topic="t", bodies=[]) == []


def test_waiting_consumers_of_each_subscription_are_woken(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.call("create_topic", topic="t")
        names = []
        for name, settings in {"plain": {}, "bounded": {"max_queue_length": 100}, "deaf": {}}.items():
            subscribe(ann, name, **settings)
            names.append(f"t/Subscriptions/{name}")
        for channel, _ in bob.table("_subscribe", queues=names[:2], lasts=timedelta(hours=1)):
            bob.rows(f"listen {channel}")
        publish(ann)
        found = {notice.payload for notice in bob.connection.notifies(timeout=20, stop_after=2)}
        assert found == set(names[:2])


def test_senders_and_changes_of_subscriptions_do_not_wait_for_each_other(database: Database) -> None:
    """Each step would fail if it had to wait: sends are in open transactions, and then changes are, too."""
    with Stage(database) as stage:
        ann, bob, cid, dan = stage.sessions("ann", "bob", "cid", "dan")
        ann.call("create_topic", topic="t")
        for name, settings in {"plain": {}, "bounded": {"max_queue_length": 99}, "gone": {}, "also-gone": {}}.items():
            subscribe(ann, name, **settings)
        ann.begin()
        assert publish(ann, 1) == 4
        bob.begin()
        bob.call("alter_subscription", topic="t", subscription="plain", **equals(subject="x"), lock_duration="5 s")
        bob.call("alter_subscription", topic="t", subscription="bounded", json_path_filter="$.body > 5")
        bob.call("drop_subscription", topic="t", subscription="gone")
        dan.call("drop_subscription", topic="t", subscription="also-gone")
        cid.begin()
        assert publish(cid, 2) == 3, "bob's changes are not committed"
        bob.commit()
        assert publish(cid, 3) == 0
        assert publish(cid, 6, subject="x") == 2
        ann.commit()
        cid.commit()
        assert stored(ann) == [("bounded", 1), ("bounded", 2), ("bounded", 6), ("plain", 1), ("plain", 2), ("plain", 6)]
        while _orphans(ann):
            ann.rows("select * from pgqueue.sweep()")
        ann.call("drop_topic", topic="t")


def _orphans(session: Session) -> int:
    count: int = session.value(
        "select count(*) from pgqueue.message where not exists (select from pgqueue.queue where id = queue_id)"
    )
    return count


def test_dropping_an_idle_subscription_waits_for_its_senders_and_no_other_sender_waits(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob, cid = stage.sessions("ann", "bob", "cid")
        ann.call("create_topic", topic="t")
        subscribe(ann, "idle", auto_delete_on_idle=timedelta(hours=1))
        subscribe(ann, "s")
        ann.begin()
        assert publish(ann, 1) == 2
        dropped = bob.starts(lambda: bob.call("drop_subscription", topic="t", subscription="idle"))
        assert publish(cid, 2) == 2
        ann.commit()
        dropped.result()
        assert publish(ann, 3) == 1


def test_a_send_that_meets_a_subscription_being_deleted_goes_to_the_others(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.call("create_topic", topic="t")
        subscribe(ann, "idle", auto_delete_on_idle=timedelta(hours=1))
        subscribe(ann, "s")
        bob.begin()
        bob.call("drop_subscription", topic="t", subscription="idle")
        sent = ann.starts(lambda: publish(ann))
        bob.commit()
        assert sent.result() == 2
        assert stored(ann) == [("s", 0)]


def test_a_topic_is_not_dropped_under_a_new_subscription(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.call("create_topic", topic="t")
        ann.begin()
        subscribe(ann, "s")
        dropped = bob.starts(lambda: bob.call("drop_topic", topic="t"))
        ann.commit()
        dropped.result()
        assert ann.rows("select name from pgqueue.queues") == [("q",)]
        ann.call("create_topic", topic="t")
        bob.begin()
        bob.call("drop_topic", topic="t")

        def create() -> None:
            with refused(UNKNOWN_TOPIC):
                subscribe(ann, "s")

        refusal = ann.starts(create)
        bob.commit()
        refusal.result()


def add_rule(session: Session, name: str, **options: Any) -> None:
    session.call("create_rule", topic="t", subscription="s", rule=name, **options)


def test_a_message_that_several_rules_match_is_stored_once_with_all_that_they_set(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_topic", topic="t")
        subscribe(ann, "s", **equals(subject="x"), set_properties=Jsonb({"a": 1, "by": "$Default"}))
        add_rule(ann, "b", json_path_filter="$.body > 1", set_properties=Jsonb({"b": 2, "by": "b"}))
        add_rule(ann, "B", **equals(subject="x"), set_properties=Jsonb({"by": "B"}))
        add_rule(ann, "c", **equals(correlation_id="7"))
        assert publish(ann, 2, subject="x", application_properties=Jsonb({"by": "sender", "own": True})) == 1
        assert publish(ann, 3, subject="y") == 1
        assert publish(ann, 0, correlation_id="7") == 1
        assert publish(ann, 0) == 0
        assert ann.values("select application_properties from pgqueue.messages order by sequence_number") == [
            {"own": True, "a": 1, "b": 2, "by": "b"},
            {"b": 2, "by": "b"},
            None,
        ]


def test_a_subscription_without_rules_gets_nothing(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_topic", topic="t")
        subscribe(ann, "s")
        ann.call("drop_rule", topic="t", subscription="s", rule="$Default")
        assert publish(ann) == 0
        with refused(UNKNOWN_RULE):
            ann.call("alter_subscription", topic="t", subscription="s", **equals(subject="x"))
        ann.call("alter_subscription", topic="t", subscription="s", max_delivery_count=3)
        add_rule(ann, "$Default")
        assert publish(ann) == 1


def test_a_rule_is_changed_as_far_as_it_is_given(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_topic", topic="t")
        subscribe(ann, "s", **equals(subject="x"))
        add_rule(ann, "r", **equals(subject="y"), set_properties=Jsonb({"a": 1}))
        shown = (
            "select correlation_filter, json_path_filter, sql_filter, set_properties from pgqueue.rules order by name"
        )

        def alter(**given: Any) -> tuple[Any, ...]:
            ann.call("alter_rule", topic="t", subscription="s", rule="r", **given)
            default, altered = ann.rows(shown)
            assert default == ({"subject": "x"}, None, None, None)
            return altered

        assert alter() == ({"subject": "y"}, None, None, {"a": 1})
        assert alter(json_path_filter="$.body > 1", sql_filter="n > 1") == (None, "$.body > 1", "n > 1", {"a": 1})
        assert (publish(ann, 1, subject="y"), publish(ann, 2)) == (0, 1)
        assert alter(set_properties=Jsonb({"b": 2})) == (None, "$.body > 1", "n > 1", {"b": 2})
        assert alter(correlation_filter=Jsonb({}), set_properties=Jsonb({})) == (None, None, None, None)
        assert publish(ann, 1) == 1


@pytest.mark.parametrize(
    ("verb", "options", "sqlstate"),
    [
        ("create_rule", {"rule": "$Default"}, RULE_EXISTS),
        ("create_rule", {"rule": "a/b"}, INVALID_ARGUMENT),
        ("create_rule", {"rule": None}, INVALID_ARGUMENT),
        ("create_rule", {"rule": "r", "sql_filter": "a = 1"}, INVALID_ARGUMENT),
        ("create_rule", {"rule": "r", "json_path_filter": "$.body"}, INVALID_ARGUMENT),
        ("create_rule", {"rule": "r", "subscription": "nope"}, UNKNOWN_QUEUE),
        ("create_rule", {"rule": "r", "topic": "nope"}, UNKNOWN_TOPIC),
        ("alter_rule", {"rule": "nope"}, UNKNOWN_RULE),
        ("alter_rule", {"rule": None}, UNKNOWN_RULE),
        ("alter_rule", {"rule": "$Default", "sql_filter": "a = 1"}, INVALID_ARGUMENT),
        ("alter_rule", {"rule": "$Default", "subscription": "nope"}, UNKNOWN_QUEUE),
        ("alter_rule", {"rule": "$Default", "topic": "nope"}, UNKNOWN_TOPIC),
        ("drop_rule", {"rule": "nope"}, UNKNOWN_RULE),
        ("drop_rule", {"rule": "$Default", "subscription": "nope"}, UNKNOWN_QUEUE),
        ("drop_rule", {"rule": "$Default", "topic": "nope"}, UNKNOWN_TOPIC),
    ],
)
def test_a_change_of_rules_is_refused(database: Database, verb: str, options: dict[str, Any], sqlstate: str) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_topic", topic="t")
        subscribe(ann, "s")
        with refused(sqlstate):
            ann.call(verb, **{"topic": "t", "subscription": "s", **options})
        assert ann.values("select name from pgqueue.rules") == ["$Default"]


def test_a_rule_of_a_subscription_that_is_being_dropped_is_refused(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.session("ann"), stage.session("bob")
        ann.call("create_topic", topic="t")
        subscribe(ann, "s")
        ann.rows("begin")
        ann.call("drop_subscription", topic="t", subscription="s")
        created = bob.starts(lambda: add_rule(bob, "r"))
        ann.rows("commit")
        with refused(UNKNOWN_QUEUE):
            created.result()


def test_a_message_is_looked_up_once_for_each_set_of_fields(database: Database) -> None:
    """A thousand filters that ask for the same fields are one look-up in an index."""
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_topic", topic="t")
        ann.rows(
            """select pgqueue.create_subscription('t', 's' || n, jsonb_build_object('subject', 'subject ' || n))
                 from generate_series(1, 500) as n"""
        )
        ann.rows(
            """select pgqueue.create_subscription(
                          't', 'c' || n, jsonb_build_object('application_properties', jsonb_build_object('country', n)))
                 from generate_series(1, 500) as n"""
        )
        subscribe(ann, "all")
        ann.rows("begin")
        before = _rows_read(ann)
        assert publish(ann, subject="subject 7", application_properties=Jsonb({"country": 8})) == 3
        assert _rows_read(ann) - before < 20
        ann.rows("commit")


def _rows_read(session: Session) -> int:
    count: int = session.value(
        """select seq_tup_read + idx_tup_fetch
             from pg_stat_xact_user_tables where relid = 'pgqueue.rule'::regclass"""
    )
    return count


def test_a_subscription_takes_every_setting_of_a_queue(database: Database) -> None:
    with Stage(database) as stage:
        arguments = {
            name: (given, types)
            for name, given, types in stage.prompter.rows(
                """select proname, proargnames, proargtypes::regtype[]::text[]
                     from pg_proc
                    where pronamespace = 'pgqueue'::regnamespace and proname ~ '^(create|alter)_(queue|subscr.+)$'"""
            )
        }
        for verb in ("create", "alter"):
            names, types = arguments[f"{verb}_queue"]
            count = len(types) - 1
            others, other_types = arguments[f"{verb}_subscription"]
            assert others[-count:] == names[-count:]
            assert other_types[-count:] == types[-count:]


def test_a_subscription_may_require_sessions(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_topic", topic="events")
        ann.call("create_subscription", topic="events", subscription="steps", requires_session=True)
        ann.call("create_subscription", topic="events", subscription="a", correlation_filter=Jsonb({"session_id": "a"}))
        assert ann.call("publish_to_topic", topic="events", body=Jsonb(1), session_id="a") == 2
        assert ann.call("publish_to_topic", topic="events", body=Jsonb(2), session_id="b") == 1
        with refused(INVALID_ARGUMENT):
            ann.call("publish_to_topic", topic="events", body=Jsonb(3))
        steps = "events/Subscriptions/steps"
        accepted = "select session_id from pgqueue.accept_session(%(queue)s)"
        assert [ann.value(accepted, queue=steps) for _ in range(2)] == ["a", "b"]
        assert ann.values("select session_id from pgqueue.peek('events/Subscriptions/a', 9)") == ["a"]
        assert ann.rows("select * from pgqueue.broken_invariants()") == []


def test_a_subscription_may_forward(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_topic", topic="events")
        ann.call("create_subscription", topic="events", subscription="all", forward_to="q")
        assert ann.call("publish_to_topic", topic="events", body=Jsonb(1)) == 1
        assert [message.body for message in ann.receive()] == [1]


def test_the_hint_for_an_unknown_subscription_names_create_subscription(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_topic", topic="events")
        with pytest.raises(psycopg.Error) as refusal:
            ann.call("create_rule", topic="events", subscription="none", rule="r")
        assert refusal.value.sqlstate == UNKNOWN_QUEUE
        assert "pgqueue.create_subscription" in str(refusal.value.diag.message_hint)
