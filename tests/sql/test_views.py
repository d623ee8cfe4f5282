"""The views in deep queues: the first page reads a few pages, in the promised order, and fits into a terminal."""

from __future__ import annotations

import subprocess
from functools import partial
from itertools import product
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from pgqueue.testing import Database
from tests.sql.stage import LOCK_DURATION, SECOND, Session, Stage
from tests.sql.test_plans import FEW_PAGES, Explainer, Plan, assert_cheap
from tests.sql.test_psql import program

#: Each view that bears depth, and the last column of its front, which is shown within 120 columns.
FRONTS = {
    "queues": "oldest_age",
    "messages": "enqueued_time",
    "dead_letters": "delivery_count",
    "deferred_messages": "enqueued_time",
    "scheduled_messages": "enqueued_time",
    "locked_messages": "delivery_count",
    "expired_locks": "delivery_count",
    "delivery_log": "error_type",
    "history": "settled_at",
    "notifications": "next_ready_at",
    "consumers": "claimed_at",
}
DEEP = sorted(FRONTS.keys() - {"queues", "history", "consumers"})
HELD = ("locked_messages", "expired_locks")
HELD_MESSAGES, CAME_BACK, READY = 520, 2500, 20_000
NUMBERS = "select sequence_number from pgqueue.{}"
COLUMNS = """
select attname from pg_attribute
 where attrelid = format('pgqueue.%%I', %(view)s::text)::regclass and attnum > 0 order by attnum
"""
NOTIFICATION = "application/vnd.pgqueue.notification+json"

#: Statements that set the statistics before most messages arrive, before those that wait arrive, and after all of them.
STATISTICS = {
    "up to date": ("", "", "analyze"),
    "none": ("", "", "update pg_class set reltuples = -1, relpages = 0 where relnamespace = 'pgqueue'::regnamespace"),
    "from when all queues were alike": ("analyze", "", ""),
    "from before most messages waited": ("", "analyze", ""),
}
NO_AUTOVACUUM = """
select format('alter table %s set (autovacuum_enabled = off)', oid::regclass)
  from pg_class where relnamespace = 'pgqueue'::regnamespace and relkind = 'r'
"""


@pytest.mark.parametrize("statistics", STATISTICS)
def test_the_first_page_of_a_view_reads_a_few_pages(database: Database, statistics: str) -> None:
    before, between, after = STATISTICS[statistics]
    with Stage(database) as stage:
        explainer = Explainer(stage.session("ann"))
        ann = explainer.session
        for alter in ann.values(NO_AUTOVACUUM):
            ann.rows(alter)
        for number in range(20):
            ann.call("create_queue", queue=f"other-{number}")
            ann.rows(f"select pgqueue.send_batch('other-{number}', array_fill('1'::jsonb, array[40]))")
        ann.rows(before)
        put_aside(stage, ann)
        ann.rows(between)
        put_in_line(stage, ann)
        ann.rows(after)
        for view, condition in product(DEEP, ("", "where queue = 'q'", "where queue = 'other-7'")):
            plans = explainer.plans(partial(ann.rows, f"select * from pgqueue.{view} {condition} limit 10"))
            if view in HELD:
                assert sum(map(messages_read, plans)) < 3 * (HELD_MESSAGES + CAME_BACK) + 100 * 21
            else:
                assert_cheap(plans, FEW_PAGES + 3 * 22)  # the record of each queue: where to search for its messages
            assert not [plan for plan in plans for node in plan.nodes() if is_read_through(node)], view


def test_messages_come_in_the_order_of_delivery_and_the_deferred_ones_last(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_queue", queue="a")
        ann.rows("select pgqueue.send('a', '1')")
        (deferred,) = ann.send("deferred", priority=-2)
        ann.settle_batch("defer_batch", ann.receive())
        again, fresh = ann.send("again", "fresh")
        (urgent,) = ann.send("urgent", priority=-1)
        (late,) = ann.send("late", priority=1)
        first, second = ann.receive(2)
        ann.abandon(first)
        ann.abandon(second)
        numbers = ann.values("select sequence_number from pgqueue.messages where queue = 'q'")
        assert numbers == [urgent, again, fresh, late, deferred]
        assert ann.values("select queue from pgqueue.messages") == ["a", *["q"] * 5]


@pytest.mark.parametrize("turns", [0, 1, 3])
def test_locks_are_found_wherever_the_messages_are(database: Database, turns: int) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        (deferred,) = ann.send("deferred")
        ann.settle_batch("defer_batch", ann.receive())
        (back,) = ann.send("back")
        ann.settle_batch("abandon_batch", ann.receive())
        urgent, *numbers = ann.send("urgent", priority=-1) + ann.send_many(500)
        ann.receive(200)
        bob.begin()
        bob.receive(90)
        ann.receive(1)
        bob.rollback()
        ann.receive_deferred(deferred)
        for _ in range(turns):
            stage.passes(SECOND)
            ann.call("take_turn", queue="q")
        expected = sorted([deferred, back, urgent, *numbers[:198], numbers[288]])
        assert sorted(ann.values(NUMBERS.format("locked_messages"))) == expected
        assert ann.values(NUMBERS.format("expired_locks")) == []
        stage.passes(LOCK_DURATION)
        assert sorted(ann.values(NUMBERS.format("expired_locks"))) == expected
        assert ann.values(NUMBERS.format("locked_messages")) == []


def test_a_lock_beyond_a_hundred_free_messages_is_seen_when_those_were_received(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        numbers = ann.send_many(300)
        bob.begin()
        bob.receive(150)
        ann.receive(1)
        bob.rollback()
        assert ann.values(NUMBERS.format("locked_messages")) == []
        bob.receive(60)
        assert ann.values(NUMBERS.format("locked_messages")) == [*numbers[:60], numbers[150]]


@pytest.mark.parametrize("view", [*HELD, "sessions"])
def test_the_right_to_see_all_locks_is_checked_once_for_all_queues(database: Database, view: str) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        for number in range(20):
            ann.call("create_queue", queue=f"other-{number}")
        ann.rows("set track_functions = 'all'")
        ann.begin()
        ann.rows(f"select * from pgqueue.{view}")
        assert ann.value("select pg_stat_get_xact_function_calls('pgqueue._may_see_locks(text[])'::regprocedure)") == 1
        ann.commit()


def test_notifications_are_looked_for_in_queues_that_begin_with_one(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        for queue, others in {"news": 4, "letters": 5}.items():
            ann.call("create_queue", queue=queue)
            ann.rows(f"select pgqueue.send_batch('{queue}', array_fill('1'::jsonb, array[{others}]))")
            ann.rows(f"select pgqueue.send('{queue}', %(body)s, content_type => '{NOTIFICATION}')", body=Jsonb({}))
        assert ann.values("select queue from pgqueue.notifications") == ["news"]
        at = "scheduled_enqueue_time => pgqueue.clock() + interval '1 hour'"
        ann.rows(f"select pgqueue.send('letters', '{{}}', content_type => '{NOTIFICATION}', {at})")
        assert ann.values("select queue from pgqueue.notifications") == ["letters", "news"]


def test_the_first_columns_of_a_view_fit_into_a_terminal(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_queue", queue="orders/eu/customers", retain_history="7 days")
        ann.rows("select setval('pgqueue.sequence_number', 1000000000)")
        of_every_kind(stage, ann, "orders/eu/customers")
        ann.call("attach_consumer", consumer="ledger-of-the-month", queue="orders/eu/customers")
        for view, last in FRONTS.items():
            columns = ann.values(COLUMNS, view=view)
            front = ", ".join(columns[: columns.index(last) + 1])
            query = f"select {front} from pgqueue.{view} order by {'name' if view == 'queues' else 1} desc limit 50"
            shown = aligned(database, query)
            assert len(shown) > 2, view
            assert max(map(len, shown)) < 120, view
            assert columns[-3:] == ["application_properties", "body", "binary_body"] or "body" not in columns


def of_every_kind(stage: Stage, session: Session, queue: str = "q") -> None:
    """Thousands of messages: scheduled, deferred, dead, failed, locked and ready, and some with an expired lock."""
    put_aside(stage, session, queue)
    put_in_line(stage, session, queue)


def put_aside(stage: Stage, session: Session, queue: str = "q") -> None:
    """Scheduled, deferred, dead, settled and failed messages."""
    verbs: dict[str, dict[str, Any]] = {
        "dead_letter_batch": {"reason": "MaxDeliveryCountExceeded"},
        "defer_batch": {},
        "complete_batch": {},
        "abandon_batch": {"error": Jsonb({"type": "ValueError", "text": "no such customer"})},
    }
    for verb, options in verbs.items():
        count = CAME_BACK - 2000 if verb == "abandon_batch" else 2000
        session.send_many(count, queue)
        session.settle_batch(verb, session.receive(count, queue), queue, **options)
    hour = "array_fill(pgqueue.clock() + interval '1 hour', array[2000])"
    bodies = "array_fill('1'::jsonb, array[2000])"
    session.rows(f"select pgqueue.send_batch('{queue}', {bodies}, scheduled_enqueue_times => {hour})")


def put_in_line(stage: Stage, session: Session, queue: str = "q") -> None:
    """Notifications, and messages that are ready, locked, or whose lock expired."""
    session.send_many(READY, queue)
    session.receive(20, queue, lock_duration=SECOND)
    session.call("create_queue", queue="notifications")
    send = f"pgqueue.send('notifications', '{{}}', content_type => '{NOTIFICATION}')"
    session.rows(f"select count({send}) from generate_series(1, 2000)")
    stage.passes(2 * SECOND)
    session.receive(CAME_BACK - 2000 + HELD_MESSAGES, queue, locked_by="worker-17@host-22-b")


def is_read_through(node: dict[str, Any]) -> bool:
    deep = ("message", "scheduled_message", "dead_letter", "failed_message")
    return node["Node Type"] == "Seq Scan" and node["Relation Name"] in deep


def messages_read(plan: Plan) -> int:
    scans = [node for node in plan.nodes() if node.get("Relation Name") == "message"]
    return sum((node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"] for node in scans)


def aligned(database: Database, query: str) -> list[str]:
    """The lines of psql's output for a person."""
    command = [program(), database.dsn, "-X", "-c", query]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
