"""The limits of a queue: no more messages than allowed, no longer fields, none at all while it is disabled."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from pgqueue.model.columns import TEXTS, Column
from pgqueue.testing import Database
from tests.sql.stage import (
    DEAD,
    INVALID_ARGUMENT,
    QUEUE_DISABLED,
    QUEUE_FULL,
    SECOND,
    TOO_LARGE,
    Session,
    Stage,
    refused,
)

STORED = "select count(*) from pgqueue.message"


def test_a_full_queue_takes_no_more(database: Database) -> None:
    with Stage(database, max_queue_length=2) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a")
        bob.send("b")
        for session in (ann, bob):
            with refused(QUEUE_FULL):
                session.send("c")
        with pytest.raises(psycopg.Error, match="queue q is full: it holds 2 of 2 messages"):
            ann.send_many(1)
        assert ann.value(STORED) == 2


def test_a_batch_that_does_not_fit_is_refused_before_anything_is_stored(database: Database) -> None:
    with Stage(database, max_queue_length=3) as stage:
        ann = stage.session("ann")
        ann.send("a")
        with refused(QUEUE_FULL):
            ann.send_many(3)
        assert ann.value(STORED) == 1
        ann.send_many(2)
        with refused(QUEUE_FULL):
            ann.send("d")


def test_locked_deferred_and_scheduled_messages_count_and_dead_letters_do_not(database: Database) -> None:
    with Stage(database, max_queue_length=4) as stage:
        ann = stage.session("ann")
        ann.send("dead", "deferred", "put off", "locked")
        dead, deferred, put_off, _ = ann.receive(4)
        with refused(QUEUE_FULL):
            ann.send("e")
        ann.settle("dead_letter", dead, reason="r")
        ann.settle("defer", deferred)
        ann.abandon(put_off, delay=SECOND)
        ann.call("schedule", queue="q", body=Jsonb("a"), at=ann.call("clock") + SECOND)
        with refused(QUEUE_FULL):
            ann.send("e")


def test_scheduling_needs_room_too(database: Database) -> None:
    with Stage(database, max_queue_length=1) as stage:
        ann = stage.session("ann")
        at = ann.call("clock") + SECOND
        number = ann.call("schedule", queue="q", body=Jsonb("a"), at=at)
        with refused(QUEUE_FULL):
            ann.call("schedule", queue="q", body=Jsonb("b"), at=at)
        ann.call("cancel_scheduled", queue="q", sequence_numbers=[number])
        ann.send("a")


def test_there_is_room_again_after_a_completion(database: Database) -> None:
    with Stage(database, max_queue_length=1) as stage:
        ann, bob = stage.sessions("ann", "bob")
        for _ in range(3):
            ann.send("a")
            with refused(QUEUE_FULL):
                ann.send("b")
            bob.complete(bob.receive()[0])


def test_messages_sent_by_the_own_transaction_count(database: Database) -> None:
    with Stage(database, max_queue_length=2) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.begin()
        ann.send("a", "b")
        with refused(QUEUE_FULL):
            ann.send("c")
        ann.rollback()
        bob.send("a", "b")
        with refused(QUEUE_FULL):
            bob.send("c")


def test_messages_of_a_rolled_back_transaction_do_not_count(database: Database) -> None:
    with Stage(database, max_queue_length=2) as stage:
        ann = stage.session("ann")
        for _ in range(5):
            ann.begin()
            ann.send("a", "b")
            ann.rollback()
        ann.begin()
        ann.rows("savepoint s")
        ann.send("a", "b")
        ann.rows("rollback to s")
        ann.send("a", "b")
        ann.commit()
        assert ann.value(STORED) == 2


def test_uncommitted_messages_of_others_do_not_count(database: Database) -> None:
    with Stage(database, max_queue_length=1) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.begin()
        ann.send("a")
        bob.send("b")
        ann.commit()
        with refused(QUEUE_FULL):
            ann.send("c")


@pytest.mark.parametrize("at_once", [1, 7])
def test_a_long_queue_is_not_filled_beyond_its_bound_by_one_who_sends_fast(database: Database, at_once: int) -> None:
    with Stage(database, max_queue_length=1200) as stage:
        ann = stage.session("ann")
        ann.send_many(1000)
        # The clock stands still: the messages are not counted again.
        with refused(QUEUE_FULL):
            for _ in range(201):
                ann.send_many(at_once)
        assert ann.value(STORED) == 1000 + 200 // at_once * at_once


def test_a_long_queue_has_room_again_when_it_is_counted_again(database: Database) -> None:
    with Stage(database, max_queue_length=1200) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send_many(1200)
        with refused(QUEUE_FULL):
            ann.send("a")
        bob.settle_batch("complete_batch", bob.receive(10))
        stage.passes(timedelta(microseconds=2401))
        ann.send_many(10)
        with refused(QUEUE_FULL):
            ann.send("a")


def test_a_session_that_counted_before_others_sent_does_not_go_by_that(database: Database) -> None:
    with Stage(database, max_queue_length=1200) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a")
        bob.send_many(1199)
        stage.passes(SECOND)
        with refused(QUEUE_FULL):
            ann.send("b")


def test_other_queues_do_not_matter(database: Database) -> None:
    with Stage(database, max_queue_length=3) as stage:
        ann = stage.session("ann")
        ann.call("create_queue", queue="other")
        ann.send("a")
        ann.send_many(50, queue="other")
        ann.send("b", "c")
        with refused(QUEUE_FULL):
            ann.send("d")


def test_a_bound_is_raised_lowered_and_taken_away(database: Database) -> None:
    with Stage(database, max_queue_length=1) as stage:
        ann = stage.session("ann")
        ann.send("a")
        ann.call("alter_queue", queue="q", max_queue_length=2)
        ann.send("b")
        ann.call("alter_queue", queue="q", max_queue_length=1)
        with refused(QUEUE_FULL):
            ann.send("c")
        ann.call("alter_queue", queue="q", max_queue_length=0)
        ann.send("c")


def test_an_empty_batch_fits_into_a_full_queue(database: Database) -> None:
    with Stage(database, max_queue_length=1) as stage:
        ann = stage.session("ann")
        ann.send("a")
        assert ann.send_many(0) == []


def test_settlements_need_no_room(database: Database) -> None:
    with Stage(database, max_queue_length=1) as stage:
        ann = stage.session("ann")
        ann.send("a")
        ann.settle("dead_letter", ann.receive()[0], reason="r")
        ann.send("b")
        ann.abandon(ann.receive()[0])
        assert ann.table("resubmit", queue="q") == [(1,)]
        ann.abandon(ann.receive()[0], delay=SECOND)


def test_a_status_is_honoured_in_a_transaction_that_is_open_already(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.begin()
        ann.send("a")
        bob.call("alter_queue", queue="q", status="DISABLED")
        for statement in ("send('q', '1')", "receive('q')", f"receive('{DEAD}')", "receive_deferred('q', '{}')"):
            ann.rows("savepoint s")
            with refused(QUEUE_DISABLED, statement):
                ann.rows(f"select * from pgqueue.{statement}")
            ann.rows("rollback to s")
        bob.call("alter_queue", queue="q", status="ACTIVE")
        ann.send("b")
        ann.commit()
        assert ann.value(STORED) == 2


def test_a_bound_is_honoured_in_a_transaction_that_is_open_already(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.begin()
        ann.send("a")
        bob.call("alter_queue", queue="q", max_queue_length=1)
        with refused(QUEUE_FULL):
            ann.send("b")
        ann.rollback()


def test_the_partition_key_of_a_session_is_its_id(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send("a", partition_key="x")
        ann.send("a", partition_key="x", session_id="x")
        with refused(INVALID_ARGUMENT):
            ann.send("a", partition_key="x", session_id="y")


@pytest.mark.parametrize("column", TEXTS, ids=[column.name for column in TEXTS])
def test_a_field_may_be_so_long_and_no_longer(database: Database, column: Column) -> None:
    field, longest = column.name, column.most or 0
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send("a", **{field: "ä" * longest})
        ann.table("send_batch", queue="q", bodies=[Jsonb("a")], **{column.arrays: ["ö" * longest]})
        with pytest.raises(psycopg.Error, match=f"the {field} of the message must be at most {longest}") as caught:
            ann.send("a", **{field: "ä" * (longest + 1)})
        assert caught.value.sqlstate == INVALID_ARGUMENT
        with pytest.raises(psycopg.Error, match=f"the {field} of message 2 must be at most {longest}") as caught:
            ann.table(
                "send_batch",
                queue="q",
                bodies=[Jsonb("a"), Jsonb("b")],
                **{column.arrays: [None, "ä" * (longest + 1)]},
            )
        assert caught.value.sqlstate == INVALID_ARGUMENT
        assert ann.value(STORED) == 2


def test_properties_may_be_so_large_and_no_larger(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send("a", application_properties=Jsonb({"a": "x" * 65_000}))
        too_many = Jsonb({"a": "x" * 65_536})
        with refused(INVALID_ARGUMENT):
            ann.send("a", application_properties=too_many)
        with refused(INVALID_ARGUMENT):
            ann.table("send_batch", queue="q", bodies=[Jsonb("a")], application_properties=[too_many])


@pytest.mark.parametrize("properties", [None, 5, "a", [{"a": 1}]], ids=str)
def test_properties_are_an_object(database: Database, properties: Any) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        with pytest.raises(psycopg.Error, match="the application_properties of the message must be a JSON object"):
            ann.send("a", application_properties=Jsonb(properties))
        with pytest.raises(psycopg.Error, match="the application_properties of message 2 must be a JSON object"):
            ann.table(
                "send_batch",
                queue="q",
                bodies=[Jsonb("a"), Jsonb("b")],
                application_properties=[Jsonb({}), Jsonb(properties)],
            )
        assert ann.value(STORED) == 0


def test_the_body_of_a_postponed_message_is_measured_with_its_properties(database: Database) -> None:
    with Stage(database, max_message_size=20) as stage:
        ann = stage.session("ann")
        ann.send(1, application_properties=Jsonb({"a": "123456"}))
        (received,) = ann.receive()
        with pytest.raises(psycopg.Error, match="the message has 22 bytes, and queue q takes at most 20") as caught:
            ann.settle("postpone", received, delay=SECOND, body=Jsonb("12345"))
        assert caught.value.sqlstate == TOO_LARGE
        ann.settle("postpone", received, delay=SECOND, body=Jsonb("123"))


WITHOUT_A_BODY: list[tuple[str, str]] = [
    ("send('q')", "the message must be one with either a body or a binary_body, not one without"),
    ("send('q', '1', '')", "the message must be one with either a body or a binary_body, not both"),
    ("send_batch('q', array['1', null]::jsonb[])", "message 2 must be one with either a body or a binary_body, not"),
    (
        "send('q', '1', priority => null)",
        "the priority of the message must be a whole number from -100 to 100, not null",
    ),
    ("send_batch('q', array['1', '2']::jsonb[], priorities => '{0,101}')", "the priority of message 2 must be"),
]


@pytest.mark.parametrize(("call", "said"), WITHOUT_A_BODY, ids=[call for call, _ in WITHOUT_A_BODY])
def test_the_error_names_the_message_and_the_flaw(database: Database, call: str, said: str) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        with pytest.raises(psycopg.Error, match=f"^{re.escape(said)}") as caught:
            ann.rows(f"select pgqueue.{call}")
        assert caught.value.sqlstate == INVALID_ARGUMENT
        assert ann.value(STORED) == 0


def test_the_message_of_a_batch_that_is_too_large_is_named(database: Database) -> None:
    with Stage(database, max_message_size=5) as stage:
        ann = stage.session("ann")
        with pytest.raises(psycopg.Error, match="message 2 has 6 bytes, and queue q takes at most 5") as caught:
            ann.rows("select pgqueue.send_batch('q', array['1', '123456']::jsonb[])")
        assert caught.value.sqlstate == TOO_LARGE


BAD_SETTINGS: list[dict[str, Any]] = [
    {"default_message_time_to_live": -SECOND},
    {"duplicate_detection_history_time_window": 20 * SECOND - timedelta(microseconds=1)},
    {"duplicate_detection_history_time_window": timedelta(days=7, microseconds=1)},
    {"max_queue_length": -1},
    {"retain_history": timedelta(seconds=59)},
    {"retain_history": timedelta(days=60, seconds=1)},
]


@pytest.mark.parametrize(("verb", "queue"), [("create_queue", "new"), ("alter_queue", "q")])
def test_a_bad_setting_is_refused_by_name(database: Database, verb: str, queue: str) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        for setting in BAD_SETTINGS:
            with pytest.raises(psycopg.Error, match=next(iter(setting))) as caught:
                ann.call(verb, queue=queue, **setting)
            assert caught.value.sqlstate == INVALID_ARGUMENT


SETTINGS: dict[str, Any] = {
    "default_message_time_to_live": timedelta(days=1),
    "dead_lettering_on_message_expiration": True,
    "requires_duplicate_detection": True,
    "duplicate_detection_history_time_window": timedelta(days=7),
    "max_queue_length": 1,
    "retain_history": timedelta(days=60),
}
DEFAULTS = (None, False, False, timedelta(minutes=10), None, None)


def test_a_queue_has_the_settings_it_is_created_with_and_keeps_those_that_are_not_altered(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        assert settings(ann, "q") == DEFAULTS
        ann.call("create_queue", queue="new", **SETTINGS)
        assert settings(ann, "new") == tuple(SETTINGS.values())
        ann.call("alter_queue", queue="new")
        assert settings(ann, "new") == tuple(SETTINGS.values())
        ann.call("alter_queue", queue="q", **SETTINGS)
        assert settings(ann, "q") == tuple(SETTINGS.values())


def test_zero_removes_an_optional_setting(database: Database) -> None:
    with Stage(database, **SETTINGS) as stage:
        ann = stage.session("ann")
        nothing = timedelta(0)
        ann.call(
            "alter_queue",
            queue="q",
            default_message_time_to_live=nothing,
            max_queue_length=0,
            retain_history=nothing,
            requires_duplicate_detection=False,
            dead_lettering_on_message_expiration=False,
        )
        assert settings(ann, "q") == (None, False, False, timedelta(days=7), None, None)


def settings(session: Session, queue: str) -> tuple[Any, ...]:
    (row,) = session.rows(f"select {', '.join(SETTINGS)} from pgqueue.queues where name = %(queue)s", queue=queue)
    return row
