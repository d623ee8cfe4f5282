"""Queues: created, altered, disabled, purged and dropped, with one clear refusal for each mistake."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from pgqueue.testing import Database
from tests.sql.stage import (
    INVALID_ARGUMENT,
    LOCK_LOST,
    QUEUE_DISABLED,
    QUEUE_EXISTS,
    SECOND,
    TOO_LARGE,
    UNKNOWN_QUEUE,
    Session,
    Stage,
    refused,
)

SETTINGS = "lock_duration, max_delivery_count, max_message_size, status, user_metadata"


def test_a_queue_has_the_defaults_that_are_documented(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        assert settings(ann, "q") == (timedelta(seconds=60), 10, None, "ACTIVE", None)


def test_a_queue_has_the_settings_it_is_created_with(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call(
            "create_queue",
            queue="flights/2013.new-york_a",
            lock_duration=timedelta(milliseconds=1),
            max_delivery_count=1,
            max_message_size=1,
            status="SEND_DISABLED",
            user_metadata=Jsonb({"team": "air"}),
        )
        expected = (timedelta(milliseconds=1), 1, 1, "SEND_DISABLED", {"team": "air"})
        assert settings(ann, "flights/2013.new-york_a") == expected


def test_a_queue_that_exists_is_not_created_again(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        with refused(QUEUE_EXISTS):
            ann.call("create_queue", queue="q")
        ann.begin()
        ann.call("create_queue", queue="new")
        creation = bob.starts(lambda: bob.call("create_queue", queue="new"))
        ann.commit()
        with refused(QUEUE_EXISTS):
            creation.result()


NAMES = ["", " ", "-", "a-", ".a", "a b", "a\nb", "a\n", "ä", "a" * 261, None]


def test_a_bad_name_is_refused(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        for name in NAMES:
            with refused(INVALID_ARGUMENT, repr(name)):
                ann.call("create_queue", queue=name)


def test_a_good_name_is_taken(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        for name in ("a", "A1", "a.b_c-d/e", "a" * 260):
            ann.call("create_queue", queue=name)
            ann.send("a", queue=name)
            assert len(ann.receive(queue=name)) == 1


BAD_SETTINGS: list[dict[str, Any]] = [
    {"lock_duration": timedelta(0)},
    {"lock_duration": timedelta(microseconds=999)},
    {"lock_duration": timedelta(days=7, microseconds=1)},
    {"max_delivery_count": 0},
    {"max_delivery_count": -1},
    {"max_message_size": -1},
    {"status": "active"},
    {"status": ""},
]


@pytest.mark.parametrize(("verb", "queue"), [("create_queue", "new"), ("alter_queue", "q")])
def test_a_bad_setting_is_refused_by_name(database: Database, verb: str, queue: str) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        for setting in BAD_SETTINGS:
            with pytest.raises(psycopg.Error, match=next(iter(setting))) as caught:
                ann.call(verb, queue=queue, **setting)
            assert caught.value.sqlstate == INVALID_ARGUMENT


def test_settings_that_are_not_given_stay_unchanged(database: Database) -> None:
    with Stage(database, max_message_size=100, user_metadata=Jsonb([1])) as stage:
        ann = stage.session("ann")
        ann.call("alter_queue", queue="q")
        assert settings(ann, "q") == (timedelta(seconds=60), 10, 100, "ACTIVE", [1])
        ann.call("alter_queue", queue="q", lock_duration=SECOND, max_delivery_count=3)
        assert settings(ann, "q") == (SECOND, 3, 100, "ACTIVE", [1])


def test_a_limit_and_metadata_can_be_taken_away(database: Database) -> None:
    with Stage(database, max_message_size=100, user_metadata=Jsonb([1])) as stage:
        ann = stage.session("ann")
        ann.call("alter_queue", queue="q", max_message_size=0)
        ann.call("alter_queue", queue="q", user_metadata=Jsonb(None))
        assert settings(ann, "q") == (timedelta(seconds=60), 10, None, "ACTIVE", None)


def test_an_altered_lock_duration_holds_for_new_locks(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send("a", "b")
        (before,) = ann.receive()
        ann.call("alter_queue", queue="q", lock_duration=SECOND)
        (after,) = ann.receive()
        assert before.locked_until - after.locked_until == timedelta(seconds=59)


def test_altering_a_queue_stops_neither_senders_nor_receivers(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.begin()
        ann.call("alter_queue", queue="q", max_delivery_count=3)
        bob.send("a")
        bob.complete(bob.receive()[0])
        ann.commit()


@pytest.mark.parametrize(
    ("status", "sends", "receives"),
    [
        ("ACTIVE", True, True),
        ("SEND_DISABLED", False, True),
        ("RECEIVE_DISABLED", True, False),
        ("DISABLED", False, False),
    ],
)
def test_a_status_forbids_sends_or_receives_and_no_settlement(
    database: Database, status: str, sends: bool, receives: bool
) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send("a", "b")
        (received,) = ann.receive()
        ann.call("alter_queue", queue="q", status=status)
        for allowed, statement in [
            (sends, "select pgqueue.send('q', '1')"),
            (sends, "select pgqueue.send_batch('q', array['1'::jsonb])"),
            (receives, "select from pgqueue.receive('q')"),
            (receives, "select from pgqueue.receive_and_delete('q')"),
        ]:
            if allowed:
                ann.rows(statement)
            else:
                with refused(QUEUE_DISABLED):
                    ann.rows(statement)
        ann.settle("renew_lock", received)
        ann.complete(received)
        assert ann.table("peek", queue="q", max_messages=9)


def test_a_message_is_measured_with_its_properties(database: Database) -> None:
    with Stage(database, max_message_size=20) as stage:
        ann = stage.session("ann")
        ann.send("x" * 18)
        with refused(TOO_LARGE):
            ann.send("x" * 19)
        with refused(TOO_LARGE):
            ann.call("send", queue="q", body=Jsonb("x" * 10), application_properties=Jsonb({"a": "1"}))
        with refused(TOO_LARGE):
            ann.call("send", queue="q", binary_body=b"x" * 21)
        with refused(TOO_LARGE):
            ann.rows("select pgqueue.send_batch('q', array['1', to_jsonb(repeat('x', 19))])")
        assert ann.value("select count(*) from pgqueue.message") == 1


def test_a_purge_takes_what_waits_and_what_is_locked_and_what_is_scheduled_but_no_dead_letters(
    database: Database,
) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_queue", queue="other")
        ann.send("a", queue="other")
        ann.send("dead", "scheduled", "locked", "returned", "waiting")
        dead, scheduled, locked, returned = ann.receive(4)
        ann.settle("dead_letter", dead, reason="r")
        ann.abandon(scheduled, delay=SECOND)
        ann.abandon(returned)
        assert ann.call("purge_queue", queue="q") == 4
        assert ann.receive(9) == []
        with refused(LOCK_LOST):
            ann.complete(locked)
        counts = "select name, ready, locked, scheduled, dead_letters from pgqueue.queues order by name"
        assert ann.rows(counts) == [("other", 1, 0, 0, 0), ("q", 0, 0, 0, 1)]


def test_a_purge_is_bounded(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send_many(10)
        ann.settle_batch("abandon_batch", ann.receive(4), delay=SECOND)
        assert [ann.call("purge_queue", queue="q", max_messages=4) for _ in range(4)] == [4, 4, 2, 0]


BOUNDED = ["purge_queue", "resubmit", "peek", "peek_dead_letters"]
BOUNDED += ["receive", "receive_and_delete", "receive_dead_letters"]


def test_a_bound_that_is_not_positive_is_refused(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        for verb in BOUNDED:
            for bound in (0, -1):
                with refused(INVALID_ARGUMENT, (verb, bound)):
                    ann.table(verb, queue="q", max_messages=bound)


def test_a_dropped_queue_is_gone_with_all_it_held(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send("dead", "scheduled", "locked", "waiting")
        dead, scheduled, locked = ann.receive(3)
        ann.settle("dead_letter", dead, reason="r")
        ann.abandon(scheduled, delay=SECOND)
        for _ in range(3):
            stage.passes(SECOND)
            ann.call("take_turn", queue="q")
        ann.call("drop_queue", queue="q")
        for table in ("queue", "message", "scheduled_message", "dead_letter", "progress", "watch"):
            assert ann.value(f"select count(*) from pgqueue.{table}") == 0
        with refused(UNKNOWN_QUEUE):
            ann.complete(locked)
        ann.call("create_queue", queue="q")
        (number,) = ann.send("a")
        assert ann.numbers(9) == [number]


UNKNOWN = [
    "send('nowhere', '1')",
    "send_batch('nowhere', array['1'::jsonb])",
    "receive('nowhere')",
    "receive_and_delete('nowhere')",
    "receive_deferred('nowhere', '{1}')",
    "receive_dead_letters('nowhere')",
    "schedule('nowhere', '1', pgqueue.clock())",
    "cancel_scheduled('nowhere', '{1}')",
    "defer('nowhere', 1, gen_random_uuid())",
    "defer_batch('nowhere', '{1}', array[gen_random_uuid()])",
    "record_effect('nowhere', 'm')",
    "recorded_effects('nowhere', 'm')",
    "take_turn('nowhere')",
    "peek('nowhere')",
    "peek_dead_letters('nowhere')",
    "complete('nowhere', 1, gen_random_uuid())",
    "abandon('nowhere', 1, gen_random_uuid())",
    "dead_letter('nowhere', 1, gen_random_uuid(), 'r')",
    "renew_lock('nowhere', 1, gen_random_uuid())",
    "pin('nowhere', 1, gen_random_uuid())",
    "resolve('nowhere', 1, gen_random_uuid(), '3')",
    "resubmit('nowhere')",
    "purge_queue('nowhere')",
    "alter_queue('nowhere')",
    "drop_queue('nowhere')",
    "receive(null)",
]


def test_every_verb_refuses_a_queue_that_does_not_exist(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        for call in UNKNOWN:
            with refused(UNKNOWN_QUEUE, call):
                ann.rows(f"select * from pgqueue.{call}")


def settings(session: Session, queue: str) -> tuple[Any, ...]:
    (row,) = session.rows(f"select {SETTINGS} from pgqueue.queues where name = %(queue)s", queue=queue)
    return row


BEHIND = """
select pgqueue.create_queue('one');
select pgqueue.create_queue('two');
select pgqueue.create_topic('first');
select pgqueue.create_topic('second');
select pgqueue.create_schedule('a', 'one', every => '1 day', body => '1');
select pgqueue.create_schedule('b', 'one', every => '1 day', body => '1');
select pgqueue.record_action('purge', 'one', 1, null);
select pgqueue.record_action('purge', 'two', 1, null);
alter table pgqueue.queue alter id restart with 1;
alter table pgqueue.topic alter id restart with 1;
alter table pgqueue.schedule alter id restart with 1;
alter table pgqueue.audited_action alter id restart with 1
"""


def test_ids_go_on_where_a_logical_replica_has_the_rows_and_not_the_sequences(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        for statement in BEHIND.split(";"):
            ann.rows(statement)
        ann.call("create_queue", queue="three")
        ann.call("create_topic", topic="third")
        ann.call("create_schedule", schedule="c", queue="one", every="1 day", body=Jsonb(1))
        ann.rows("select pgqueue.record_action('purge', 'one', 1, null)")
        for table in ("queue", "topic", "schedule", "audited_action"):
            ids = ann.values(f"select id from pgqueue.{table} order by id")
            assert len(ids) == len(set(ids)) >= 3


def test_a_sweep_lets_ids_go_on_and_the_doctor_names_tables_until_then(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        for statement in BEHIND.split(";"):
            ann.rows(statement)
        behind = "select name from pgqueue._sequences_behind() as name order by name"
        assert ann.values(behind) == ["audited_action", "queue", "schedule", "topic"]
        ann.rows("select pgqueue.sweep()")
        assert ann.values(behind) == []
