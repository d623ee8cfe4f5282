"""Messages by the table: staged by many, proved, and published at once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from pgqueue.model.columns import identifier
from pgqueue.schema import migrate
from pgqueue.testing import Database, ThrowawayServer
from tests.fields import STAGED_VALUES
from tests.sql.stage import (
    INVALID_ARGUMENT,
    QUEUE_DISABLED,
    QUEUE_FULL,
    SECOND,
    TOO_LARGE,
    UNKNOWN_QUEUE,
    Session,
    Stage,
    refused,
)

TABLES = "select relname from pg_class where relname like 'staged\\_%%' and relkind = 'r' and relname <> 'staged_batch'"
SENT = "select body from pgqueue.messages order by sequence_number"


def staged(session: Session, *rows: dict[str, Any], part: str = "1", job: str = "job") -> str:
    """A table with these rows, proved."""
    columns = list(rows[0]) if rows else ["body"]
    session.begin()
    table: str = session.call("stage", queue="q", job=job, part=part, columns=columns)
    for row in rows:
        insert(session, table, row)
    assert session.call("check_staged", queue="q", staged=table) == len(rows)
    session.commit()
    return table


def insert(session: Session, table: str, row: dict[str, Any]) -> None:
    names, values = ", ".join(map(identifier, row)), ", ".join(f"%({column})s" for column in row)
    session.rows(f"insert into pgqueue.{table} ({names}) values ({values})", **row)


def publish(session: Session, *tables: str, rows: int, **options: Any) -> list[tuple[Any, ...]]:
    return session.table("publish", queue="q", staged=list(tables), rows=rows, **options)


def bodies(*values: Any) -> list[dict[str, Any]]:
    return [{"body": Jsonb(value)} for value in values]


def test_staged_messages_are_sent_when_published_in_the_order_given(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        second, first = staged(ann, *bodies(3, 4), part="2"), staged(ann, *bodies(1, 2))
        assert ann.receive(10) == []
        assert publish(ann, first, second, rows=4) == [(4, 0)]
        assert [message.body for message in ann.receive(10)] == [1, 2, 3, 4]
        assert ann.values(TABLES) == []


def test_it_is_all_or_nothing(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        table = staged(ann, *bodies(1, 2))
        ann.begin()
        publish(ann, table, rows=2)
        ann.rollback()
        assert ann.receive(10) == []
        with refused("55000"):
            publish(ann, table, rows=3)
        assert ann.receive(10) == []
        assert publish(ann, table, rows=2) == [(2, 0)]


def test_nothing_at_all_can_be_published(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        assert publish(ann, rows=0) == [(0, 0)]
        assert publish(ann, staged(ann), rows=0) == [(0, 0)]


def test_every_field_of_a_message_arrives(database: Database) -> None:
    row = {
        "body": Jsonb({"a": 1}), **STAGED_VALUES,
        "application_properties": Jsonb({"p": 1}), "priority": -3, "time_to_live": timedelta(hours=1),
    }  # fmt: skip
    with Stage(database) as stage:
        ann = stage.session("ann")
        publish(ann, staged(ann, row), rows=1)
        names = [identifier(name) for name in row if name != "time_to_live"]
        (found,) = ann.rows(f"select {', '.join(names)}, expires_at - pgqueue.clock() from pgqueue.messages")
        assert list(found) == [{"a": 1}, *STAGED_VALUES.values(), {"p": 1}, -3, timedelta(hours=1)]
        publish(ann, staged(ann, {"binary_body": b"\0x", "time_to_live": timedelta(days=36_500)}), rows=1)
        assert ann.values("select binary_body from pgqueue.messages where body is null") == [b"\0x"]


def test_a_missing_priority_is_the_ordinary_one(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        publish(ann, staged(ann, {"body": Jsonb(1), "priority": None}, {"body": Jsonb(2), "priority": 7}), rows=2)
        assert ann.values("select priority from pgqueue.messages order by sequence_number") == [0, 7]
        assert [message.body for message in ann.receive(10)] == [1, 2]


def test_a_staged_message_with_a_scheduled_time_waits_for_it(database: Database) -> None:
    with Stage(database, default_message_time_to_live=timedelta(hours=2)) as stage:
        ann = stage.session("ann")
        now = ann.call("clock")
        rows = [
            {"body": Jsonb("later"), "scheduled_enqueue_time": now + timedelta(hours=1), "time_to_live": None},
            {"body": Jsonb("past"), "scheduled_enqueue_time": now - timedelta(hours=1), "time_to_live": 60 * SECOND},
            {"body": Jsonb("now"), "scheduled_enqueue_time": None, "time_to_live": timedelta(hours=9)},
        ]
        assert publish(ann, staged(ann, *rows), rows=3) == [(3, 0)]
        assert ann.rows("select body, expires_at - pgqueue.clock() from pgqueue.messages order by sequence_number") == [
            ("past", 60 * SECOND),
            ("now", timedelta(hours=2)),
        ]
        assert ann.rows("select body, expires_at - scheduled_enqueue_time from pgqueue.scheduled_messages") == [
            ("later", timedelta(hours=2))
        ]
        assert [message.body for message in ann.receive(10)] == ["past", "now"]
        stage.passes(timedelta(hours=1))
        assert [message.body for message in ann.receive(10)] == ["now", "later"]


def test_duplicates_are_left_out_and_counted(database: Database) -> None:
    with Stage(database, requires_duplicate_detection=True) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("before", message_id="a")
        rows: list[dict[str, Any]] = [{"body": Jsonb(body), "message_id": body} for body in ("a", "b", "b")]
        rows += [{"body": Jsonb(body), "message_id": None} for body in ("x", "x")]
        table = staged(ann, *rows)
        assert publish(ann, table, rows=5) == [(3, 2)]
        assert ann.values(SENT) == ["before", "b", "x", "x"]
        bob.send("again", message_id="b")
        assert ann.value("select count(*) from pgqueue.messages") == 4


def test_a_message_id_is_no_more_than_that_where_duplicates_are_not_detected(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        rows = [{"body": Jsonb(1), "message_id": "a"}] * 2
        assert publish(ann, staged(ann, *rows), rows=2) == [(2, 0)]


def test_a_queue_is_not_made_longer_than_it_may_be(database: Database) -> None:
    with Stage(database, max_queue_length=3) as stage:
        ann = stage.session("ann")
        ann.send("a", "b")
        table = staged(ann, *bodies(1, 2))
        with refused(QUEUE_FULL):
            publish(ann, table, rows=2)
        ann.complete(ann.receive()[0])
        assert publish(ann, table, rows=2) == [(2, 0)]


BAD_ROWS = pytest.mark.parametrize(
    ("row", "flaw"),
    [
        ({"body": None}, "must be one with either a body or a binary_body, not one without"),
        ({"body": Jsonb(1), "binary_body": b"x"}, "must be one with either a body or a binary_body, not both"),
        ({"body": Jsonb(1), "priority": 101}, "priority of the message must be a whole number from -100 to 100"),
        ({"body": Jsonb(1), "time_to_live": timedelta(0)}, "time_to_live"),
        ({"body": Jsonb(1), "time_to_live": timedelta(days=40_000)}, "time_to_live"),
        ({"body": Jsonb(1), "scheduled_enqueue_time": "infinity"}, "scheduled_enqueue_time"),
        ({"body": Jsonb(1), "scheduled_enqueue_time": "2900-01-01"}, "scheduled_enqueue_time"),
        ({"body": Jsonb(1), "message_id": "x" * 129}, "message_id of the message must be at most 128 characters"),
        ({"body": Jsonb(1), "correlation_id": "x" * 129}, "correlation_id"),
        ({"body": Jsonb(1), "subject": "x" * 261}, "subject"),
        ({"body": Jsonb(1), "content_type": "x" * 261}, "content_type"),
        ({"body": Jsonb(1), "reply_to": "x" * 261}, "reply_to"),
        ({"body": Jsonb(1), "application_properties": Jsonb([])}, "must be a JSON object"),
        ({"body": Jsonb(1), "application_properties": Jsonb({"x": "ab" * 40_000})}, "application_properties"),
    ],
)  # fmt: skip


@BAD_ROWS
def test_a_bad_row_is_named_by_its_place(database: Database, row: dict[str, Any], flaw: str) -> None:
    good: dict[str, Any] = row | {"body": Jsonb("good")} | ({"priority": 0} if "priority" in row else {})
    good |= {name: None for name in row if name not in ("body", "priority")}
    with Stage(database) as stage:
        ann = stage.session("ann")
        with pytest.raises(psycopg.Error, match=f"row 3: .*{flaw}") as refusal:
            staged(ann, good, good, row, row)
        assert refusal.value.sqlstate == INVALID_ARGUMENT
        ann.rollback()
        assert ann.values(TABLES) == []


@BAD_ROWS
def test_a_bad_row_that_was_not_checked_is_not_published(database: Database, row: dict[str, Any], flaw: str) -> None:
    good = {"body": Jsonb("good")} | {name: None for name in row if name != "body"}
    with Stage(database) as stage:
        ann = stage.session("ann")
        table = staged(ann, good)
        insert(ann, table, row)
        with pytest.raises(psycopg.Error, match=f"row 2: .*{flaw}") as refusal:
            publish(ann, table, rows=2)
        assert refusal.value.sqlstate == INVALID_ARGUMENT
        assert ann.values(SENT) == []


def test_a_bad_row_is_not_published_for_the_columns_of_another_table(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        of_text, of_bytes = staged(ann, *bodies(1)), staged(ann, {"body": None, "binary_body": b"x"}, part="2")
        with refused(INVALID_ARGUMENT):
            publish(ann, of_text, of_bytes, rows=2)


def test_a_row_that_comes_while_the_table_is_published_is_not_sent(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob, eve = stage.sessions("ann", "bob", "eve")
        good: dict[str, Any] = {"body": Jsonb(1), "priority": 5}
        table = staged(ann, good)
        bob.begin()
        bob.send(2, priority=5)
        publishing = ann.starts(lambda: publish(ann, table, rows=2))
        insert(eve, table, good | {"body": None})
        bob.commit()
        with refused("55000"):
            publishing.result()
        assert ann.values(SENT) == [2]


def test_properties_that_are_longer_as_text_hide_no_bad_row(database: Database) -> None:
    innocent = {"body": Jsonb(1), "application_properties": Jsonb({"k": "\n" * 40_000})}
    with Stage(database) as stage:
        ann = stage.session("ann")
        with pytest.raises(psycopg.Error, match="row 2"):
            staged(ann, innocent, {"body": None, "application_properties": None})
        ann.rollback()
        assert publish(ann, staged(ann, innocent), rows=1) == [(1, 0)]
        with pytest.raises(psycopg.Error, match="row 1"):
            staged(ann, {"body": Jsonb(1), "application_properties": Jsonb({"k": [1] * 20_000})})
        ann.rollback()


def test_a_table_is_published_once_and_its_rows_are_counted(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        table = staged(ann, *bodies(1))
        with refused(INVALID_ARGUMENT):
            publish(ann, table, table, rows=2)
        with refused("55000"):
            ann.table("publish", queue="q", staged=[table], rows=None)
        for columns in (["body", "body"], ["body", None]):
            with refused(INVALID_ARGUMENT, columns):
                ann.call("stage", queue="q", job="j", part="1", columns=columns)
        for job in ("\u00fc" * 50, None):
            with refused(INVALID_ARGUMENT):
                ann.call("stage", queue="q", job=job, part="1", columns=["body"])
        with refused(INVALID_ARGUMENT):
            ann.rows(f"select pgqueue.publish('q', '{{{{{table}}}}}', 1)")


def test_duplicates_alone_fit_into_a_full_queue(database: Database) -> None:
    with Stage(database, requires_duplicate_detection=True) as stage:
        ann = stage.session("ann")
        rows = [{"body": Jsonb(body), "message_id": body} for body in ("a", "b")]
        publish(ann, staged(ann, *rows), rows=2)
        ann.call("alter_queue", queue="q", max_queue_length=1)
        assert publish(ann, staged(ann, *rows), rows=2) == [(0, 2)]
        assert publish(ann, rows=0) == [(0, 0)]


def test_a_consumer_that_starts_to_wait_during_a_publication_is_notified(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob, listener = stage.sessions("ann", "bob", "listener")
        table = staged(ann, *bodies(1))
        bob.rows("begin")
        bob.rows("select from pgqueue.staged_batch for update")
        publishing = ann.starts(lambda: publish(ann, table, rows=1))
        ((channel, _),) = listener.table("_subscribe", queues=["q"], lasts=SECOND * 60)
        listener.rows(f"listen {channel}")
        bob.rollback()
        assert publishing.result() == [(1, 0)]
        assert [told.payload for told in listener.connection.notifies(timeout=5, stop_after=1)] == ["q"]


def test_a_message_larger_than_the_queue_allows_is_named(database: Database) -> None:
    with Stage(database, max_message_size=10) as stage:
        ann = stage.session("ann")
        with pytest.raises(psycopg.Error, match="row 2") as refusal:
            staged(ann, *bodies("short", "much too long"))
        assert refusal.value.sqlstate == TOO_LARGE
        ann.rollback()
        table = staged(ann, *bodies("short"))
        insert(ann, table, {"body": Jsonb("much too long")})
        with refused(TOO_LARGE):
            publish(ann, table, rows=2)


def test_the_error_lists_the_columns_that_can_be_staged(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        for columns in (["body", "colour"], ["priority"], []):
            with refused(INVALID_ARGUMENT, columns):
                ann.call("stage", queue="q", job="j", part="1", columns=columns)
        with refused(INVALID_ARGUMENT):
            ann.call("stage", queue="q", job="j" * 50, part="1" * 10, columns=["body"])
        with refused(UNKNOWN_QUEUE):
            ann.call("stage", queue="nowhere", job="j", part="1", columns=["body"])
        with refused(INVALID_ARGUMENT):
            publish(ann, "staged_never", rows=1)
        with refused(INVALID_ARGUMENT):
            publish(ann, "message", rows=0)
        ann.call("create_queue", queue="other")
        with refused(INVALID_ARGUMENT):
            ann.table("publish", queue="other", staged=[staged(ann, *bodies(1))], rows=1)


def test_a_queue_that_takes_nothing_takes_nothing_staged(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        table = staged(ann, *bodies(1))
        ann.call("alter_queue", queue="q", status="SEND_DISABLED")
        with refused(QUEUE_DISABLED):
            publish(ann, table, rows=1)
        with refused(QUEUE_DISABLED):
            ann.call("stage", queue="q", job="j", part="2", columns=["body"])


def test_a_part_that_was_sent_is_reported_although_the_queue_no_longer_takes_messages(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        again = staged(ann, *bodies(1), part="again")
        assert publish(ann, staged(ann, *bodies(1)), rows=1, publisher="job", part=0) == [(1, 0)]
        ann.call("alter_queue", queue="q", status="SEND_DISABLED")
        assert publish(ann, again, rows=1, publisher="job", part=0) == [(1, 0)]
        assert ann.values(SENT) == [1]


def test_a_part_is_remembered_as_long_as_was_asked_for(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        publish(ann, staged(ann, *bodies(1)), rows=1, publisher="job", part=0, keep=timedelta(days=7))
        stage.passes(timedelta(days=7) - SECOND)
        assert [row for row in ann.table("sweep") if row[5]] == []
        stage.passes(SECOND)
        assert [row[5] for row in ann.table("sweep")] == [1]
        publish(ann, staged(ann, *bodies(1), part="again"), rows=1, publisher="job", part=0)
        assert ann.values(SENT) == [1, 1]


def test_the_parts_of_a_job_are_sent_once_each(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        again = staged(ann, *bodies(1), part="again")
        for part in (0, 1):
            assert publish(ann, staged(ann, *bodies(1), part=str(part)), rows=1, publisher="job", part=part) == [(1, 0)]
        assert publish(bob, again, rows=1, publisher="job", part=1) == [(1, 0)]
        assert ann.values(SENT) == [1, 1]
        assert ann.values(TABLES) == []


def test_a_name_is_one_in_each_queue(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_queue", queue="other")
        publish(ann, staged(ann, *bodies(1)), rows=1, publisher="job", part=0)
        table = ann.call("stage", queue="other", job="job", part="1", columns=["body"])
        ann.rows(f"insert into pgqueue.{table} values ('2')")
        assert ann.table("publish", queue="other", staged=[table], rows=1, publisher="job", part=0) == [(1, 0)]
        assert ann.values(SENT) == [1, 2]


def test_of_two_that_publish_a_part_at_once_one_does(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        first, second = staged(ann, *bodies(1), part="a"), staged(bob, *bodies(1), part="b")
        ann.begin()
        publish(ann, first, rows=1, publisher="job", part=0)
        waiting = bob.starts(lambda: publish(bob, second, rows=1, publisher="job", part=0))
        ann.commit()
        assert waiting.result() == [(1, 0)]
        assert ann.values(SENT) == [1]


def test_publishing_locks_nothing_that_was_staged_for_another_queue(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.call("create_queue", queue="other")
        theirs = ann.call("stage", queue="other", job="job", part="2", columns=["body"])
        publish(ann, staged(ann, *bodies(1)), rows=1, publisher="job", part=0)
        ann.begin()
        assert publish(ann, theirs, rows=1, publisher="job", part=0) == [(1, 0)]
        assert bob.values("select name from pgqueue.staged_batch for update nowait") == [theirs]
        ann.commit()


def test_the_parts_of_a_job_do_not_wait_for_each_other(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        first, second = staged(ann, *bodies(1), part="1"), staged(bob, *bodies(2), part="2")
        ann.begin()
        publish(ann, first, rows=1, publisher="job", part=1)
        assert publish(bob, second, rows=1, publisher="job", part=2) == [(1, 0)]
        ann.commit()


def test_the_batches_of_a_stream_wait_for_each_other(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        older, younger = staged(ann, *bodies(1), part="1"), staged(bob, *bodies(2), part="2")
        bob.begin()
        publish(bob, younger, rows=1, publisher="s", part=2, ordered=True)
        waiting = ann.starts(lambda: publish(ann, older, rows=1, publisher="s", part=1, ordered=True))
        bob.commit()
        with refused("55000"):
            waiting.result()
        assert ann.values(SENT) == [2]


def test_of_a_stream_the_last_batch_may_come_again_and_an_older_one_with_rows_may_not(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        for batch, expected in ((0, 1), (1, 2), (1, 2), (2, 3)):
            publish(ann, staged(ann, *bodies(batch), part=str(batch)), rows=1, publisher="s", part=batch, ordered=True)
            assert ann.value("select count(*) from pgqueue.messages") == expected
        assert ann.values("select part from pgqueue.published_batch") == [2]
        old = staged(ann, *bodies(1), part="old")
        with refused("55000"):
            publish(ann, old, rows=1, publisher="s", part=1, ordered=True)
        nothing = staged(ann, part="nothing")
        assert publish(ann, nothing, rows=0, publisher="s", part=1, ordered=True) == [(0, 0)]


def test_the_parts_of_a_job_are_remembered_for_a_month_and_the_last_batch_of_a_stream_for_ever(
    database: Database,
) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        publish(ann, staged(ann, *bodies(1)), rows=1, publisher="job", part=0)
        publish(ann, staged(ann, *bodies(1)), rows=1, publisher="stream", part=0, ordered=True)
        stage.passes(timedelta(days=30))
        assert [row[5] for row in ann.table("sweep", dry_run=True)] == [1]
        assert [row[5] for row in ann.table("sweep")] == [1]
        assert ann.values("select publisher from pgqueue.published_batch") == ["stream"]


def test_staged_rows_are_discarded_with_their_job_and_all_others_after_a_week(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        for job in ("one", "two"):
            staged(ann, *bodies(1), job=job)
        assert ann.call("discard_staged", job="one") == 1
        assert ann.call("discard_staged") == 0
        bob.begin()
        bob.call("stage", queue="q", job="three", part="1", columns=["body"])
        assert ann.call("discard_staged", job="three") == 0
        bob.commit()
        stage.passes(timedelta(days=7))
        ann.table("sweep")
        assert ann.values(TABLES) == []


def test_staged_rows_of_a_queue_that_is_gone_are_discarded(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        for job in ("one", "two"):
            ann.begin()
            ann.call("stage", queue="q", job=job, part="1", columns=["body"])
            bob.call("drop_queue", queue="q")
            ann.commit()
            bob.call("create_queue", queue="q")
        assert ann.call("discard_staged", job="one") == 1
        stage.passes(timedelta(days=7))
        ann.table("sweep")
        assert ann.values(TABLES) == []


def test_a_sweep_does_not_wait_for_a_table_that_is_being_read(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        staged(ann, *bodies(1))
        stage.passes(timedelta(days=7))
        ann.begin()
        ann.rows("lock table pgqueue.staged_job_1 in access share mode")
        bob.table("sweep")
        ann.commit()
        assert ann.values(TABLES) == ["staged_job_1"]
        bob.table("sweep")
        assert ann.values(TABLES) == []


def test_a_sweep_does_not_wait_for_an_old_table_that_is_being_published(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        table = staged(ann, *bodies(1))
        stage.passes(timedelta(days=7))
        ann.begin()
        publish(ann, table, rows=1)
        bob.table("sweep")
        ann.commit()
        assert bob.values(SENT) == [1]


def test_staging_uses_the_queue(database: Database) -> None:
    with Stage(database, auto_delete_on_idle=timedelta(minutes=10)) as stage:
        ann, bob = stage.sessions("ann", "bob")
        stage.passes(timedelta(minutes=9))
        staged(ann, *bodies(1))
        stage.passes(timedelta(minutes=9))
        ann.begin()
        ann.call("stage", queue="q", job="job", part="2", columns=["body"])
        stage.passes(timedelta(minutes=11))
        bob.table("sweep")
        ann.commit()
        assert ann.values("select name from pgqueue.queue_settings()") == ["q"]


@pytest.mark.parametrize("priority", [101, -101, 500])
def test_a_priority_that_was_not_proved_makes_no_lane(database: Database, priority: int) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("stage", queue="q", job="job", part="1", columns=["body", "priority"])
        ann.rows("insert into pgqueue.staged_job_1 values ('1', %(priority)s)", priority=priority)
        with refused(INVALID_ARGUMENT):
            publish(ann, "staged_job_1", rows=1)
        assert ann.values(TABLES) == ["staged_job_1"]


@pytest.mark.parametrize("missing", ["part", "rows", "ordered"])
def test_parts_without_their_numbers_are_refused(database: Database, missing: str) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        publish(ann, staged(ann, *bodies(1)), rows=1, publisher="night", part=0)
        given: dict[str, Any] = {"rows": 1, "publisher": "night", "part": 1, "ordered": False, missing: None}
        table = staged(ann, *bodies(2))
        with refused(INVALID_ARGUMENT):
            publish(ann, table, **given)
        assert ann.values(TABLES) == [table]


def test_a_sweep_does_not_wait_for_tables_that_are_being_published(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        table = staged(ann, *bodies(1))
        ann.begin()
        publish(ann, table, rows=1)
        assert bob.call("discard_staged", job="job") == 0
        ann.commit()
        assert bob.values(SENT) == [1]


def test_a_sweep_skips_a_part_that_is_locked(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        publish(ann, staged(ann, *bodies(1)), rows=1, publisher="job", part=0)
        stage.passes(timedelta(days=30))
        ann.begin()
        ann.rows("select from pgqueue.published_batch for update")
        assert bob.table("sweep") == []
        ann.rollback()


def test_a_dropped_queue_takes_along_what_was_staged_for_it(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        publish(ann, staged(ann, *bodies(1)), rows=1, publisher="job", part=0)
        staged(ann, *bodies(1))
        ann.call("drop_queue", queue="q")
        assert ann.values(TABLES) == []
        assert ann.value("select count(*) from pgqueue.published_batch") == 0
        ann.call("create_queue", queue="q")


def test_rows_that_a_crash_has_emptied_are_missed(throwaway_server: ThrowawayServer) -> None:
    dsn = throwaway_server.dsn("postgres")
    migrate(dsn)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("select pgqueue.create_queue('q')")
        row = connection.execute("select pgqueue.stage('q', 'job', '1', '{body}')").fetchone()
        assert row is not None
        connection.execute(f"insert into pgqueue.{row[0]} values ('1')".encode())
    throwaway_server.kill()
    throwaway_server.start()
    with psycopg.connect(dsn, autocommit=True) as connection:
        with pytest.raises(
            psycopg.errors.ObjectNotInPrerequisiteState, match="1 rows were staged for queue q, 0 are left"
        ):
            connection.execute("select pgqueue.publish('q', array['staged_job_1'], 1)")
        assert connection.execute("select count(*) from pgqueue.message").fetchone() == (0,)
