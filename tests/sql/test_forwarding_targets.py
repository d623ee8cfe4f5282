"""Queues that others forward to: no cycles, no drop under a sender, and where settings and sessions meet forwarding."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from pgqueue.testing import Database
from tests.sql.forwarding import bodies, chain, dead, forward, one
from tests.sql.stage import (
    INVALID_ARGUMENT,
    SERIALIZATION_FAILURE,
    UNKNOWN_QUEUE,
    Session,
    Stage,
    refused,
)
from tests.sql.test_sweep import sweep

DAY = timedelta(days=1)
IDLE = timedelta(minutes=5)


@pytest.mark.parametrize("setting", ["forward_to", "forward_dead_lettered_messages_to"])
def test_a_queue_does_not_forward_to_itself(database: Database, setting: str) -> None:
    with chain(database, "a", "b") as (_, ann):
        for target in ("q", "a", "b"):
            with refused(INVALID_ARGUMENT):
                ann.call("alter_queue", queue="q", **{setting: target})
        with refused(INVALID_ARGUMENT):
            ann.call("create_queue", queue="new", **{setting: "new"})
        with refused(UNKNOWN_QUEUE):
            ann.call("create_queue", queue="new", **{setting: "unknown"})
        with refused(INVALID_ARGUMENT):
            ann.call("create_queue", queue="new", **{setting: "a/$deadletterqueue"})
        ann.call("create_queue", queue="new", **{setting: "b"})


@pytest.mark.parametrize("setting", ["forward_to", "forward_dead_lettered_messages_to"])
def test_a_queue_does_not_forward_to_a_topic(database: Database, setting: str) -> None:
    with chain(database) as (_, ann):
        ann.call("create_topic", topic="t")
        ann.call("create_subscription", topic="t", subscription="s")
        for verb, queue in (("create_queue", "new"), ("alter_queue", "q")):
            with pytest.raises(psycopg.Error, match=f"{setting} must be a queue, not the topic t") as refusal:
                ann.call(verb, queue=queue, **{setting: "t"})
            assert refusal.value.sqlstate == INVALID_ARGUMENT
            assert "'t/Subscriptions/NAME', or let a handler send to the topic" in str(refusal.value.diag.message_hint)
        ann.call("create_queue", queue="new", **{setting: "t/Subscriptions/s"})


@pytest.mark.parametrize("isolation", ["read committed", "repeatable read"])
@pytest.mark.parametrize("setting", ["forward_to", "forward_dead_lettered_messages_to"])
def test_two_at_once_cannot_close_a_cycle(database: Database, setting: str, isolation: str) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.call("create_queue", queue="a")
        bob.begin(isolation)
        bob.rows("select from pgqueue.queue")
        ann.begin()
        forward(ann, "a")
        second = bob.starts(lambda: bob.call("alter_queue", queue="q", **{setting: "a"}))
        ann.commit()
        with refused(INVALID_ARGUMENT if isolation == "read committed" else SERIALIZATION_FAILURE):
            second.result()
        bob.rollback()


def test_a_queue_that_others_forward_to_is_not_dropped(database: Database) -> None:
    with chain(database, "a") as (stage, ann):
        bob = stage.session("bob")
        ann.call("create_queue", queue="b", forward_dead_lettered_messages_to="q")
        with pytest.raises(Exception, match=r"queue q cannot be dropped: others forward to it: a, b"):
            ann.call("drop_queue", queue="q")
        ann.call("drop_queue", queue="a")
        ann.call("alter_queue", queue="b", forward_dead_lettered_messages_to="")
        ann.begin()
        forward(ann, "b")
        dropping = bob.starts(lambda: bob.call("drop_queue", queue="q"))
        ann.commit()
        with refused(INVALID_ARGUMENT):
            dropping.result()


def test_a_queue_that_is_dropped_meanwhile_is_no_target(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.call("create_queue", queue="a")
        ann.begin()
        ann.call("drop_queue", queue="q")
        setting = bob.starts(lambda: forward(bob, "a"))
        ann.commit()
        with refused(UNKNOWN_QUEUE):
            setting.result()


def test_a_target_is_not_dropped_under_a_sender(database: Database) -> None:
    with chain(database, "a") as (stage, ann):
        bob = stage.session("bob")
        ann.begin()
        ann.send("x", queue="a")
        bob.call("alter_queue", queue="a", forward_to="")
        dropping = bob.starts(lambda: bob.call("drop_queue", queue="q"))
        ann.commit()
        dropping.result()
        assert ann.values("select count(*) from pgqueue.message") == [0]


def test_a_sender_that_comes_after_the_drop_goes_where_the_source_forwards_now(database: Database) -> None:
    with chain(database, "a") as (stage, ann):
        bob = stage.session("bob")
        bob.call("create_queue", queue="instead")
        bob.begin()
        bob.rows("select from pgqueue.forwarding_target for update")
        sending = ann.starts(lambda: ann.send("x", queue="a"))
        forward(bob, "a", "instead")
        bob.call("drop_queue", queue="q")
        bob.commit()
        sending.result()
        assert bodies(ann, "instead") == ["x"]


def test_a_target_is_not_deleted_on_idle(database: Database) -> None:
    with chain(database, "a", auto_delete_on_idle=IDLE) as (stage, ann):
        stage.passes(2 * IDLE)
        sweep(ann)
        assert ann.value("select count(*) from pgqueue.queue") == 2
        ann.call("drop_queue", queue="a")
        sweep(ann)
        assert ann.value("select count(*) from pgqueue.queue") == 0


def test_settings_show_where_a_queue_forwards_to(database: Database) -> None:
    with chain(database, "a") as (_, ann):
        ann.call("alter_queue", queue="a", forward_dead_lettered_messages_to="q")
        ann.call("alter_queue", queue="a", max_delivery_count=3)
        shown = "select forward_to, forward_dead_lettered_messages_to from pgqueue.{} where name = 'a'"
        for relation in ("queues", "queue_settings()"):
            assert ann.rows(shown.format(relation)) == [("q", "q")]
        ann.call("alter_queue", queue="a", forward_to="", forward_dead_lettered_messages_to="")
        assert ann.rows(shown.format("queues")) == [(None, None)]


def test_a_dry_run_of_a_sweep_counts_what_would_be_forwarded(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_queue", queue="a")
        ann.send("x", "y", queue="a")
        forward(ann, "a")
        assert sweep(ann, dry_run=True) == [("a", 0, 0, 0, 0, 0, 0, 0, 2, False)]
        assert sweep(ann) == [("a", 0, 0, 0, 0, 0, 0, 0, 2, False)]


@contextmanager
def steps(database: Database, **settings: Any) -> Iterator[tuple[Stage, Session]]:
    """A queue that requires sessions, and the queue q that forwards to it, or has the given settings instead."""
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_queue", queue="steps", requires_session=True)
        ann.call("alter_queue", queue="q", **(settings or {"forward_to": "steps"}))
        yield stage, ann


def in_sessions(session: Session) -> list[tuple[Any, ...]]:
    """The sessions of the queue steps that can be accepted, with the messages waiting in each."""
    accepted: dict[str, Any] = {}
    while rows := session.rows("select session_id, lock_token from pgqueue.accept_session('steps')"):
        accepted.update(rows)
    query = "select body from pgqueue.receive_from_session('steps', %(name)s, %(token)s, 9)"
    return [(name, session.values(query, name=name, token=token)) for name, token in accepted.items()]


def test_a_message_arrives_in_its_session(database: Database) -> None:
    with steps(database) as (_, ann):
        for body, session_id in (("one", "a"), ("two", "b"), ("three", "a")):
            ann.call("send", queue="q", body=Jsonb(body), session_id=session_id)
        assert in_sessions(ann) == [("a", ["one", "three"]), ("b", ["two"])]
        assert ann.rows("select * from pgqueue.broken_invariants()") == []


def test_messages_that_wait_and_dead_letters_arrive_in_their_sessions(database: Database) -> None:
    with steps(database, forward_dead_lettered_messages_to="steps") as (_, ann):
        for body in ("dies", "waits"):
            ann.call("send", queue="q", body=Jsonb(body), session_id="a")
        ann.settle("dead_letter", one(ann, "q"), reason="Bad")
        forward(ann, "q", "steps")
        ann.call("send", queue="q", body=Jsonb("fresh"), session_id="a")
        sweep(ann)
        assert in_sessions(ann) == [("a", ["dies", "fresh", "waits"])]
        assert ann.rows("select * from pgqueue.broken_invariants()") == []


def test_a_message_without_a_session_is_refused_by_a_target_that_requires_one(database: Database) -> None:
    with steps(database) as (_, ann):
        for session_id in (None, ""):
            with refused(INVALID_ARGUMENT):
                ann.send("one", queue="q", session_id=session_id)
        assert (bodies(ann), bodies(ann, "steps")) == ([], [])


def test_a_dead_or_waiting_message_without_a_session_becomes_a_dead_letter(database: Database) -> None:
    with steps(database, forward_dead_lettered_messages_to="steps") as (_, ann):
        ann.send("dies", "waits", queue="q")
        ann.settle("dead_letter", one(ann, "q"), reason="Bad")
        forward(ann, "q", "steps")
        sweep(ann)
        assert [body for body, _ in dead(ann, "q")] == ["dies", "waits"]
        assert bodies(ann, "steps") == []


def test_a_claim_from_before_is_completed_and_none_is_made(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_queue", queue="target")
        ((_, epoch),) = ann.table("attach_consumer", consumer="c", queue="q")
        ann.send("claimed")
        claim = ann.call("claim_batch", consumer="c", after=0, max_messages=9, epoch=epoch)
        forward(ann, "q", "target")
        ((_, epoch),) = ann.table("attach_consumer", consumer="c", queue="q")
        ann.call("complete_claim", consumer="c", claim=claim, epoch=epoch)
        with refused(INVALID_ARGUMENT):
            ann.call("claim_batch", consumer="c", after=claim, max_messages=9, epoch=epoch)
