"""Settings of topics, and the cancelling of messages that are scheduled on them. See docs/topics.md."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from pgqueue.testing import Database
from tests.sql.stage import (
    INVALID_ARGUMENT,
    MESSAGE_NOT_FOUND,
    QUEUE_DISABLED,
    Session,
    Stage,
    refused,
)
from tests.sql.test_topics import NO_SUBSCRIPTION, UNKNOWN_TOPIC, explained, publish, stored, subscribe

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
WINDOW = timedelta(minutes=10)

#: A plain subscription, and those that take messages in the other way.
SUBSCRIPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "bounded": {"max_queue_length": 9},
    "size": {"max_message_size": 99},
}

SCHEDULE = """
select copies, sequence_number
  from pgqueue.send_to_topic('t', %(bodies)s, message_ids => %(ids)s, unique_keys => %(keys)s,
                             scheduled_enqueue_times => array(
                                 select pgqueue.clock() + delay from unnest(%(delays)s::interval[]) as delay))
"""


def created(session: Session, **settings: Any) -> None:
    session.call("create_topic", topic="t", **settings)
    for name, given in SUBSCRIPTIONS.items():
        subscribe(session, name, **given)


def schedule(
    session: Session,
    *bodies: Any,
    delays: list[timedelta | None] | None = None,
    ids: list[str] | None = None,
    keys: list[str] | None = None,
) -> list[tuple[int, int | None]]:
    """How many copies each message has, and its number in the topic."""
    return session.rows(
        SCHEDULE,
        bodies=[Jsonb(body) for body in bodies],
        ids=ids,
        keys=keys,
        delays=[HOUR] * len(bodies) if delays is None else delays,
    )


def cancel(session: Session, *numbers: int | None) -> int:
    cancelled: int = session.value("select pgqueue.cancel_scheduled('t', %(numbers)s::bigint[])", numbers=list(numbers))
    return cancelled


def scheduled(session: Session) -> list[tuple[str, Any]]:
    found = session.rows("select queue, body from pgqueue.scheduled_messages order by queue, sequence_number")
    return [(queue.removeprefix("t/Subscriptions/"), body) for queue, body in found]


def numbered(session: Session) -> list[tuple[Any, ...]]:
    return session.rows("select topic, sequence_number, copies from pgqueue.scheduled_on_topics")


def remembered(session: Session) -> int:
    count: int = session.value("select count(*) from pgqueue.scheduled_on_topic")
    return count


def test_settings_are_given_changed_and_shown(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_topic", topic="plain")
        ann.call(
            "create_topic", topic="t", status="SEND_DISABLED", user_metadata=Jsonb({"team": 7}),
            default_message_time_to_live=HOUR, requires_duplicate_detection=True,
            duplicate_detection_history_time_window=MINUTE,
        )  # fmt: skip
        assert ann.rows("select * from pgqueue.topic_settings()") == [
            ("plain", "ACTIVE", None, None, False, WINDOW),
            ("t", "SEND_DISABLED", {"team": 7}, HOUR, True, MINUTE),
        ]
        ann.call("alter_topic", topic="t")
        ann.call("alter_topic", topic="t", status="ACTIVE", default_message_time_to_live=timedelta(0))
        ann.call("alter_topic", topic="t", user_metadata=Jsonb(None))
        assert ann.rows("select * from pgqueue.topic_settings() where name = 't'") == [
            ("t", "ACTIVE", None, None, True, MINUTE)
        ]


@pytest.mark.parametrize(
    "settings",
    [
        {"status": "RECEIVE_DISABLED"},
        {"status": "open"},
        {"default_message_time_to_live": timedelta(-1)},
        {"duplicate_detection_history_time_window": timedelta(days=8)},
    ],
)
def test_a_setting_out_of_its_bounds_is_refused(database: Database, settings: dict[str, Any]) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        with refused(INVALID_ARGUMENT):
            ann.call("create_topic", topic="t", **settings)
        ann.call("create_topic", topic="t")
        with refused(INVALID_ARGUMENT):
            ann.call("alter_topic", topic="t", **settings)
        with refused(UNKNOWN_TOPIC):
            ann.call("alter_topic", topic="none", status="ACTIVE")


def test_nothing_is_sent_to_a_topic_that_is_disabled(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        created(ann)
        for status in ("SEND_DISABLED", "DISABLED"):
            ann.call("alter_topic", topic="t", status=status)
            with refused(QUEUE_DISABLED):
                publish(ann)
        ann.call("alter_topic", topic="t", status="ACTIVE")
        assert publish(ann) == 3


def test_a_message_expires_by_the_shortest_time_to_live(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        created(ann, default_message_time_to_live=HOUR)
        subscribe(ann, "short", default_message_time_to_live=MINUTE)
        subscribe(ann, "long", default_message_time_to_live=2 * HOUR, max_queue_length=9)
        publish(ann)
        publish(ann, time_to_live=10 * MINUTE)
        publish(ann, time_to_live=2 * HOUR)
        lives = "select queue, expires_at - enqueued_time from pgqueue.messages order by queue, sequence_number"
        found: dict[str, list[timedelta]] = {}
        for queue, life in ann.rows(lives):
            found.setdefault(queue.removeprefix("t/Subscriptions/"), []).append(life)
        usual = [HOUR, 10 * MINUTE, HOUR]
        assert found == dict.fromkeys((*SUBSCRIPTIONS, "long"), usual) | {"short": [MINUTE] * 3}


def test_a_duplicate_is_stored_in_no_subscription(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        created(ann, requires_duplicate_detection=True)
        assert [publish(ann, n, message_id="a") for n in range(2)] == [3, 0]
        assert publish(ann, 2, message_id="a", require_subscription=True) == 0
        assert [publish(ann, n) for n in (3, 3)] == [3, 3]
        batch = "select pgqueue.publish_batch_to_topic('t', %(bodies)s, message_ids => %(ids)s)"
        assert ann.values(batch, bodies=[Jsonb(n) for n in (4, 5, 6)], ids=["b", "b", "a"]) == [3, 0, 0]
        assert [body for name, body in stored(ann) if name == "plain"] == [0, 3, 3, 4]
        stage.passes(WINDOW)
        assert publish(ann, 7, message_id="a") == 3


def test_a_message_of_a_batch_that_none_takes_is_named_beside_a_duplicate(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_topic", topic="t", requires_duplicate_detection=True)
        subscribe(ann, "even", json_path_filter="$.body % 2 == 0")
        publish(ann, 2, message_id="a")
        batch = """select pgqueue.publish_batch_to_topic('t', %(bodies)s, message_ids => %(ids)s,
                                                         require_subscription => true)"""
        with refused(NO_SUBSCRIPTION), explained("matches message 3"):
            ann.rows(batch, bodies=[Jsonb(n) for n in (2, 4, 5)], ids=["a", "b", "c"])
        assert ann.values(batch, bodies=[Jsonb(n) for n in (2, 4)], ids=["a", "b"]) == [0, 1]


def test_a_sender_waits_for_the_outcome_of_the_same_id(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        created(ann, requires_duplicate_detection=True)
        ann.begin()
        assert publish(ann, 1, message_id="a") == 3
        waiting = bob.starts(lambda: publish(bob, 2, message_id="a"))
        ann.rollback()
        assert waiting.result() == 3


def test_ids_and_numbers_are_forgotten_when_they_are_over(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        created(ann, requires_duplicate_detection=True)
        for n in range(3):
            publish(ann, n, message_id=f"id {n}")
        schedule(ann, 1, 2, delays=[WINDOW, HOUR])
        stage.passes(WINDOW)
        assert ann.table("sweep", dry_run=True)[-1][5] == 3 + 4
        assert sum(row[5] for row in ann.table("sweep", max_messages=2) if row[0] is None) <= 4
        while any(row[0] is None for row in ann.table("sweep")):
            pass
        assert ann.value("select count(*) from pgqueue.sent_message_id") == 0
        assert remembered(ann) == 4
        ann.call("drop_topic", topic="t")
        assert remembered(ann) == 0


def test_a_topic_that_is_dropped_is_forgotten_with_its_ids(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        created(ann, requires_duplicate_detection=True)
        publish(ann, 1, message_id="a")
        ann.call("drop_topic", topic="t")
        assert ann.value("select count(*) from pgqueue.sent_message_id") == 0


def test_a_sweep_skips_an_id_that_is_being_sent_again(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        created(ann, requires_duplicate_detection=True)
        publish(ann, message_id="a")
        stage.passes(WINDOW)
        ann.begin()
        publish(ann, message_id="a")
        assert bob.table("sweep") == []
        ann.commit()
        assert publish(bob, message_id="a") == 0


def test_a_sweep_skips_a_message_that_is_being_cancelled(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        created(ann)
        [(_, number)] = schedule(ann, 1)
        ann.begin()
        assert cancel(ann, number) == 1
        stage.passes(HOUR)
        assert [row for row in bob.table("sweep") if row[0] is None] == []
        ann.rollback()
        assert remembered(bob) == 4


@pytest.mark.parametrize("first", ["send", "drop"])
def test_a_topic_is_dropped_beside_a_sender_and_nothing_of_it_stays(database: Database, first: str) -> None:
    """Each step would fail if it had to wait."""
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        created(ann, requires_duplicate_detection=True)

        def send() -> None:
            assert schedule(ann, 1, ids=["a"])[0][0] == 3

        steps = {"send": (ann, send), "drop": (bob, lambda: bob.call("drop_topic", topic="t"))}
        held, step = steps.pop(first)
        held.begin()
        step()
        for _, other in steps.values():
            other()
        held.commit()
        ann.call("create_topic", topic="t")
        assert remembered(ann) > 0
        while any(row[0] is None for row in ann.table("sweep")):
            pass
        assert remembered(ann) == 0
        for table in ("sent_message_id", "message", "scheduled_message"):
            assert ann.value(f"select count(*) from pgqueue.{table}") == 0


def test_a_restored_topic_keeps_its_records(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        created(ann, requires_duplicate_detection=True)
        schedule(ann, 1, ids=["a"])
        dropped = "pgqueue.dropped_queue (queue_id, name, dropped_at)"
        ann.rows(f"insert into {dropped} select -id, name, pgqueue.clock() from pgqueue.topic")
        ann.table("sweep")
        assert remembered(ann) == 4
        assert publish(ann, message_id="a") == 0


def test_a_sweep_does_not_read_again_what_died_of_topics(database: Database) -> None:
    with Stage(database) as stage, database.connect() as holder:
        ann, slow = stage.sessions("ann", "slow")
        created(ann, requires_duplicate_detection=True)
        holder.execute("set transaction isolation level repeatable read; select")
        every = "generate_series(1, 20000) n"
        topic = "from pgqueue.topic"
        ann.rows(f"insert into pgqueue.sent_message_id select -id, n, -n, pgqueue.clock() {topic}, {every}")
        ann.rows(f"insert into pgqueue.scheduled_on_topic select id, -n, 0, null, pgqueue.clock() {topic}, {every}")
        slow.begin()
        schedule(slow, 1, ids=["late"], delays=[timedelta(seconds=1)])
        stage.passes(WINDOW + HOUR)
        assert ann.table("sweep", max_messages=50_000)[-1][5] == 40_000
        ann.begin()
        pages = ann.value("select pgqueue._pages_read()")
        assert ann.table("sweep") == []
        assert ann.value("select pgqueue._pages_read()") < pages + 100
        ann.commit()
        slow.commit()
        for thorough, forgotten in ((False, 0), (True, 1 + 4)):
            found = ann.table("sweep", thorough=thorough, dry_run=True)
            assert sum(row[5] for row in found if row[0] is None) == forgotten


def test_a_scheduled_message_is_cancelled_in_all_subscriptions(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        created(ann)
        sent = schedule(ann, 1, 2, 3, 4, delays=[HOUR, None, HOUR, timedelta(0)])
        assert [copies for copies, _ in sent] == [3] * 4
        assert [number is None for _, number in sent] == [False, True, False, True]
        first, third = sent[0][1], sent[2][1]
        assert numbered(ann) == [("t", first, 3), ("t", third, 3)]
        assert cancel(ann, third) == 1
        assert numbered(ann) == [("t", first, 3)]
        assert scheduled(ann) == [("bounded", 1), ("plain", 1), ("size", 1)]
        assert cancel(ann) == 0
        assert cancel(ann, first, first) == 1
        assert scheduled(ann) == []
        assert remembered(ann) == 0


def test_all_or_none_are_cancelled(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        created(ann)
        [(_, number), (_, other)] = schedule(ann, 1, 2)
        for wrong in (12_345, None, -1):
            with refused(MESSAGE_NOT_FOUND):
                cancel(ann, number, wrong)
        cancel(ann, other)
        with refused(MESSAGE_NOT_FOUND):
            cancel(ann, number, other)
        assert scheduled(ann) == [("bounded", 1), ("plain", 1), ("size", 1)]
        ann.begin()
        cancel(ann, number)
        ann.rollback()
        assert len(scheduled(ann)) == 3


def test_a_message_whose_time_has_come_is_not_cancelled_anywhere(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        created(ann)
        [(_, number)] = schedule(ann, 1)
        stage.passes(HOUR)
        assert numbered(ann) == []
        assert ann.rows("select body from pgqueue.receive('t/Subscriptions/plain')") == [(1,)]
        with refused(MESSAGE_NOT_FOUND):
            cancel(ann, number)
        assert [name for name, _ in scheduled(ann)] == ["bounded", "size"]


def test_two_that_cancel_a_message_do_so_once(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        created(ann)
        [(_, number)] = schedule(ann, 1)
        ann.begin()
        assert cancel(ann, number) == 1
        waiting = bob.starts(lambda: cancel(bob, number))
        ann.commit()
        with refused(MESSAGE_NOT_FOUND):
            waiting.result()


def test_a_copy_in_a_subscription_that_was_dropped_does_not_count(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        created(ann)
        [(_, number)] = schedule(ann, 1)
        ann.call("drop_subscription", topic="t", subscription="plain")
        assert cancel(ann, number) == 1
        assert scheduled(ann) == []


def test_copies_in_subscriptions_that_are_dropped_meanwhile_do_not_count(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        created(ann)
        [(_, number)] = schedule(ann, 1)
        ann.begin()
        for name in ("plain", "size"):  # it waits for the first, and finds the second gone
            ann.call("drop_subscription", topic="t", subscription=name)
        cancelling = bob.starts(lambda: cancel(bob, number))
        ann.commit()
        assert cancelling.result() == 1
        assert scheduled(ann) == []


#: Calls that touch a copy in its subscription.
FATES = {
    "moved": "move_messages(queue, array[copy], 'q')",
    "purged": "purge_queue(queue, 1)",
    "deleted": "delete_messages(queue, array[copy])",
    "cancelled": "cancel_scheduled(queue, array[copy])",
    "due": "reschedule(queue, copy, pgqueue.clock())",
    "received": "reschedule(queue, copy, pgqueue.clock())",
    "received before the clock went back": "clock()",
}
OF_THE_FIRST = """
select pgqueue.{fate}
  from (select min(sequence_number) as copy, queue
          from pgqueue.scheduled_messages
         where queue = 't/Subscriptions/plain'
         group by queue) as first
"""


@pytest.mark.parametrize("fate", FATES)
def test_a_message_is_not_cancelled_if_a_subscription_no_longer_has_it_scheduled(database: Database, fate: str) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        created(ann)
        [(_, number), (_, other)] = schedule(ann, 1, 2, delays=[HOUR, 2 * HOUR])
        ann.rows(OF_THE_FIRST.format(fate=FATES[fate]))
        went_on = HOUR if fate.endswith("clock went back") else timedelta(0)
        stage.passes(went_on)
        if fate.startswith("received"):
            assert len(ann.receive(2, queue="t/Subscriptions/plain")) == 1
        stage.passes(-went_on)
        before = scheduled(ann)
        for numbers in ((number,), (other, number)):
            with refused(MESSAGE_NOT_FOUND), explained(f"message {number} of topic t is no longer scheduled in"):
                cancel(ann, *numbers)
        assert scheduled(ann) == before
        assert cancel(ann, other) == 1


def test_a_message_that_no_subscription_takes_is_cancelled_too(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_topic", topic="t")
        [(copies, number), (_, due)] = schedule(ann, 1, 2, delays=[2 * HOUR, HOUR])
        assert numbered(ann) == [("t", due, 0), ("t", number, 0)]
        stage.passes(HOUR)
        assert (copies, cancel(ann, number)) == (0, 1)
        with refused(MESSAGE_NOT_FOUND):
            cancel(ann, due)


def test_a_scheduled_duplicate_has_the_number_of_the_first(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        created(ann, requires_duplicate_detection=True)
        first = schedule(ann, 1, ids=["a"])
        assert schedule(ann, 2, ids=["a"]) == [(0, first[0][1])]
        assert cancel(ann, first[0][1]) == 1
        assert scheduled(ann) == []


@pytest.mark.parametrize("given", [{"ids": ["a"]}, {"keys": ["a"]}])
def test_a_subscription_that_knows_a_message_already_cancels_the_earlier_one(
    database: Database, given: dict[str, Any]
) -> None:
    """The second send stores nothing there, and must not seem cancelled while the first is delivered."""
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_topic", topic="t")
        subscribe(ann, "distinct", requires_duplicate_detection=True)
        [(_, first)] = schedule(ann, 1, **given)
        subscribe(ann, "plain")
        [(copies, number)] = schedule(ann, 2, **given)
        assert (copies, scheduled(ann)) == (2, [("distinct", 1), ("plain", 2)])
        ann.begin()
        assert cancel(ann, number, first) == 2
        ann.rollback()
        assert cancel(ann, number) == 1
        assert scheduled(ann) == []
        with refused(MESSAGE_NOT_FOUND):
            cancel(ann, first)


def test_only_those_who_may_send_to_the_topic_cancel(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        created(ann)
        [(_, number)] = schedule(ann, 1)
        role = f"test_{database.name}"
        ann.rows(f"create role {role}")
        try:
            ann.rows(f"set role {role}")
            with refused("42501"):
                cancel(ann, number)
            ann.rows("reset role")
            ann.call("grant_send", queue="t", role=role)
            ann.rows(f"set role {role}")
            assert cancel(ann, number) == 1
        finally:
            ann.rows("reset role")
            ann.rows(f"drop role {role}")
