"""Queues that are deleted on idle: what counts as use, and that nothing in use is deleted."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from pgqueue.testing import Database
from tests.sql.stage import DEAD, INVALID_ARGUMENT, UNKNOWN_QUEUE, Session, Stage, refused
from tests.sql.test_sweep import sweep

IDLE = timedelta(minutes=5)
NEARLY = timedelta(minutes=4)
DELETED = [("q", 0, 0, 0, 0, 0, 0, 1, 0, False)]

USES: dict[str, Callable[[Session], object]] = {
    "send": lambda session: session.send("a"),
    "send_batch": lambda session: session.rows("select pgqueue.send_batch('q', '{1,2}')"),
    "receive": lambda session: session.receive(),
    "receive_dead_letters": lambda session: session.receive(queue=DEAD),
    "peek": lambda session: session.rows("select from pgqueue.peek('q')"),
    "peek_dead_letters": lambda session: session.rows("select from pgqueue.peek('q/$deadletterqueue')"),
    "resubmit": lambda session: session.rows("select pgqueue.resubmit('q')"),
    "take_turn": lambda session: session.call("take_turn", queue="q"),
    "alter_queue": lambda session: session.call("alter_queue", queue="q", auto_delete_on_idle=IDLE),
}


def exists(session: Session) -> bool:
    return session.values("select name from pgqueue.queue") == ["q"]


def test_an_idle_queue_is_deleted_with_what_is_in_it(database: Database) -> None:
    with Stage(database, auto_delete_on_idle=IDLE) as stage:
        ann = stage.session("ann")
        ann.call("create_queue", queue="another")
        ann.send("a", "b")
        ann.settle("dead_letter", ann.receive()[0], reason="r")
        stage.passes(IDLE)
        assert sweep(ann, dry_run=True) == DELETED
        assert sweep(ann, max_messages=1) == [*DELETED, (None, 0, 0, 0, 0, 2, 0, 0, 0, True)]
        assert ann.values("select name from pgqueue.queue") == ["another"]
        assert (
            ann.value("select (select count(*) from pgqueue.message) + (select count(*) from pgqueue.dead_letter)") == 0
        )
        assert sweep(ann) == []
        with refused(UNKNOWN_QUEUE):
            ann.send("c")


@pytest.mark.parametrize("use", USES)
def test_a_queue_that_is_used_is_kept(database: Database, use: str) -> None:
    with Stage(database, auto_delete_on_idle=IDLE) as stage:
        ann = stage.session("ann")
        stage.passes(NEARLY)
        USES[use](ann)
        stage.passes(NEARLY)
        sweep(ann)
        assert exists(ann)
        stage.passes(NEARLY)
        sweep(ann)
        assert not exists(ann)


def test_a_queue_with_a_locked_message_is_kept(database: Database) -> None:
    with Stage(database, auto_delete_on_idle=IDLE) as stage:
        ann = stage.session("ann")
        ann.send("a")
        (received,) = ann.receive(lock_duration=2 * IDLE)
        stage.passes(IDLE)
        sweep(ann)
        ann.complete(received)
        sweep(ann)
        assert not exists(ann)


def test_a_queue_is_kept_while_a_transaction_that_has_sent_to_it_is_open(database: Database) -> None:
    with Stage(database, auto_delete_on_idle=IDLE) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.begin()
        ann.send("a")
        stage.passes(IDLE)
        assert sweep(bob) == []
        ann.commit()
        assert exists(bob)


def test_a_sweep_does_not_wait_for_a_change_of_the_queue(database: Database) -> None:
    with Stage(database, auto_delete_on_idle=IDLE) as stage:
        ann, bob = stage.sessions("ann", "bob")
        stage.passes(IDLE)
        ann.begin()
        ann.call("alter_queue", queue="q", lock_duration=IDLE)
        assert sweep(bob) == []
        ann.commit()
        assert sweep(bob) == []


def test_uses_do_not_wait_for_each_other(database: Database) -> None:
    with Stage(database, auto_delete_on_idle=IDLE) as stage:
        ann, bob = stage.sessions("ann", "bob")
        stage.passes(NEARLY)
        ann.begin()
        ann.send("a")
        bob.send("b")
        ann.commit()


def test_settings_are_changed_while_a_transaction_that_has_sent_is_open(database: Database) -> None:
    with Stage(database, auto_delete_on_idle=IDLE) as stage:
        ann, ben = stage.sessions("ann", "ben")
        stage.passes(IDLE / 2)
        ann.begin()
        ann.send("a")
        ben.call("alter_queue", queue="q", max_delivery_count=3)


def test_the_time_while_the_server_was_down_does_not_count(database: Database) -> None:
    with Stage(database, auto_delete_on_idle=timedelta(days=30_000)) as stage:
        ann = stage.session("ann")
        ann.rows("update pgqueue.queue_use set used_at = '-infinity'")
        assert sweep(ann) == []


def test_uses_in_quick_succession_write_once_and_readers_do_not_write(database: Database) -> None:
    with Stage(database, auto_delete_on_idle=IDLE) as stage:
        ann = stage.session("ann")
        stage.passes(NEARLY)
        peek = "select from pgqueue.peek('q')"
        ann.rows(f"begin read only; {peek}; commit")
        written = "select xmin::text from pgqueue.queue_use"
        before = ann.value(written)
        ann.rows(peek)
        after = ann.value(written)
        ann.rows(peek)
        assert before != after == ann.value(written)


def test_a_queue_that_does_not_ask_for_it_stays_and_is_not_recorded(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send("a")
        ann.receive()
        assert ann.rows("select from pgqueue.queue_use") == []
        ann.call("alter_queue", queue="q", auto_delete_on_idle=IDLE)
        ann.call("alter_queue", queue="q", auto_delete_on_idle=timedelta(0))
        stage.passes(100 * IDLE)
        sweep(ann)
        assert exists(ann)


@pytest.mark.parametrize("period", [timedelta(minutes=4, seconds=59), timedelta(days=40_000)])
def test_a_queue_is_not_deleted_sooner_than_after_five_minutes(database: Database, period: timedelta) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        with refused(INVALID_ARGUMENT):
            ann.call("alter_queue", queue="q", auto_delete_on_idle=period)


def test_recreating_a_queue_wakes_the_receivers_that_waited_for_the_dropped_one(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.rows("select from pgqueue._subscribe('{q}', '15 seconds')")
        ann.call("drop_queue", queue="q")
        ann.call("create_queue", queue="q")
        ann.call("create_queue", queue="another")
        awaited = "select awaited_until > pgqueue.clock() from pgqueue._upkeep where queue = %(name)s"
        assert ann.value(awaited, name="q")
        assert ann.value(awaited, name="another") is None
