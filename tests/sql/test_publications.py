"""A publication of all tables: PostgreSQL then refuses updates and deletes in a table that cannot identify its rows."""

from __future__ import annotations

import pytest

from pgqueue.testing import Database
from tests.sql.sessions import accepted, received, release, stage_of
from tests.sql.stage import LOCK_DURATION, SECOND, Stage

PUBLISH = "create publication everything for all tables"

#: The tables without a primary key or another replica identity.
WITHOUT_IDENTITY = """
select relname
  from pg_class
 where relnamespace = any ('{pgqueue,pgqueue_history}'::regnamespace[])
   and relkind = any ('{r,p}')
   and relpersistence = 'p'
   and not (relreplident = 'f' or relreplident = 'd' and exists (
                select from pg_index where indrelid = pg_class.oid and indisprimary))
"""
NEITHER_UPDATED_NOR_DELETED = {
    "settled_message": "rows are inserted, and truncated with their day",
    **{f"settled_message_{day:02}": "as settled_message" for day in range(64)},
    "secret": "its row is inserted once",
    "sweep_lock": "has no rows",
    "sample_lock": "has no rows",
    "repair_lock": "has no rows",
}


def test_every_table_that_is_updated_identifies_its_rows(database: Database) -> None:
    with Stage(database) as stage:
        assert set(stage.session("ann").values(WITHOUT_IDENTITY)) == NEITHER_UPDATED_NOR_DELETED.keys()


@pytest.mark.parametrize("history", [None, 60 * LOCK_DURATION])
def test_a_queue_with_sessions_works_where_all_tables_are_published(database: Database, history: object) -> None:
    with stage_of(database, retain_history=history) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.rows(PUBLISH)
        ann.send("a", "b", session_id="s")
        held = accepted(bob)
        for message in received(bob, held, 2):
            bob.complete(message)
        release(bob, held)
        ann.send("c", session_id="s")
        stage.passes(2 * LOCK_DURATION)
        assert received(bob, accepted(bob))[0].body == "c"
        ann.rows("select * from pgqueue.sweep()")
        ann.call("drop_queue", queue="q")
        ann.rows("select * from pgqueue.sweep()")


def test_a_fair_queue_works_where_all_tables_are_published(database: Database) -> None:
    with Stage(database, fair=True) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.rows(PUBLISH)
        for group in "ab":
            ann.send(1, 2, session_id=group)
        for message in bob.receive(3):
            bob.complete(message)
        stage.passes(SECOND)
        (last,) = bob.receive(9)
        bob.abandon(last)
        assert bob.receive()
        ann.rows("select * from pgqueue.sweep()")
        ann.call("drop_queue", queue="q")
        ann.rows("select * from pgqueue.sweep()")


def test_any_queue_is_dropped_where_all_tables_are_published(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.rows(PUBLISH)
        ann.send("a")
        ann.complete(ann.receive()[0])
        ann.rows("select * from pgqueue.sweep()")
        ann.call("drop_queue", queue="q")
