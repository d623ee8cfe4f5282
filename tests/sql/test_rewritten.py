"""Rows that are rewritten all the time do not wear out: while a transaction holds a snapshot, their old versions stay.

The old versions are made by the verbs that make them in production, behind a held snapshot, without autovacuum. Then
the pages that the scans of a verb read are counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import psycopg
import pytest

from pgqueue.testing import Database
from pgqueue.testing.clock import MOVE
from tests.quiet import QuietServer
from tests.sql.stage import SECOND, Session, Stage, told
from tests.sql.test_plans import FEW_PAGES, Explainer, Plan

VERSIONS = 5000
REWRITTEN = {
    "queue",
    "waiting_consumer",
    "progress",
    "flow",
    "slot",
    "scheduled_progress",
    "watch",
    "waiting_session",
    "registered_worker",
    "worker",
}

#: Each time in a transaction of its own; the clock goes on.
REPEATED = """
do $$
declare
    moved integer;
begin
    for nth in 1 .. {times} loop
        {move}
        {statements}
        commit;
    end loop;
end
$$
"""

SUBSCRIBED = "perform pgqueue._subscribe('{q}', '15 seconds');"
WITHDRAWN = SUBSCRIBED + "perform pgqueue._subscribe('{q}', null);"
CONSUMED = """
perform pgqueue.send('q', '1');
perform pgqueue.complete('q', sequence_number, lock_token) from pgqueue.receive('q');
"""


@pytest.fixture
def quiet_database(quiet_server: QuietServer) -> Iterator[Database]:
    with quiet_server.database() as database:
        yield database


@contextmanager
def behind_a_snapshot(database: Database, **settings: object) -> Iterator[Stage]:
    with Stage(database, **settings) as stage, psycopg.connect(database.dsn) as holder:
        holder.execute("set transaction isolation level repeatable read; select")
        yield stage


def repeat(stage: Stage, statements: str, passing: timedelta, times: int = VERSIONS) -> None:
    move = MOVE.replace("select", "perform").replace("%s", str(passing // timedelta(microseconds=1)))
    stage.prompter.rows("set statement_timeout = 0")
    stage.prompter.rows(REPEATED.format(times=times, move=f"{move};", statements=statements))


def pages(plan: Plan) -> int:
    """The pages that its scans of the rewritten tables looked at."""
    scans = [node for node in plan.nodes() if node.get("Relation Name") in REWRITTEN and "Scan" in node["Node Type"]]
    return sum(scan["Shared Hit Blocks"] + scan["Shared Read Blocks"] for scan in scans)


def assert_cheap(stage: Stage, *statements: str) -> None:
    """No scan of these statements reads many pages, in a session that has planned them."""
    explainer = Explainer(stage.session("reader"))
    for statement in statements:
        explainer.session.rows(statement)
        plans = explainer.plans(lambda: explainer.session.rows(statement))  # noqa: B023 - it is called at once
        read = "\n".join(f"{pages(plan)} pages: {' '.join(plan.text.split())}" for plan in plans if pages(plan) > 5)
        assert sum(map(pages, plans)) <= FEW_PAGES, f"{statement} reads\n{read}"


VERBS = [
    "select pgqueue.send('q', '1')",
    "select pgqueue.send_batch('q', '{1,2}')",
    "select pgqueue.complete('q', sequence_number, lock_token) from pgqueue.receive('q', 10)",
    "select pgqueue.take_turn('q')",
    "select pgqueue._due_in('q')",
    "select * from pgqueue._subscribe('{q}', '15 seconds')",
    "select * from pgqueue._upkeep",
    "select * from pgqueue.locked_messages",
]


def test_verbs_do_not_walk_over_old_subscriptions(quiet_database: Database) -> None:
    with behind_a_snapshot(quiet_database) as stage:
        repeat(stage, SUBSCRIBED, 10 * SECOND)
        assert_cheap(stage, *VERBS)


def test_verbs_do_not_walk_over_subscriptions_that_were_withdrawn(quiet_database: Database) -> None:
    with behind_a_snapshot(quiet_database) as stage:
        repeat(stage, WITHDRAWN, SECOND)
        assert_cheap(stage, *VERBS)


def test_verbs_do_not_walk_over_the_turns_of_a_day(quiet_database: Database) -> None:
    with behind_a_snapshot(quiet_database) as stage:
        repeat(stage, CONSUMED, SECOND)
        assert_cheap(stage, *VERBS)


def test_a_priority_that_two_senders_use_first_has_its_progress_once(database: Database) -> None:
    with Stage(database) as stage:
        ann, ben = stage.sessions("ann", "ben")
        ann.begin()
        ann.send("a", priority=1)
        second = ben.starts(lambda: ben.send("b", priority=1))
        ann.commit()
        second.result()
        assert ann.values("select lane from pgqueue.progress order by lane") == [0, 1, 2, 3]


@pytest.mark.parametrize("limit", [{"max_receive_rate": 10_000}, {"max_concurrent": 3}], ids=str)
def test_a_limited_receive_does_not_walk_over_those_before(quiet_database: Database, limit: dict[str, int]) -> None:
    with behind_a_snapshot(quiet_database, **limit) as stage:
        repeat(stage, CONSUMED, SECOND / 10)
        stage.prompter.send("a", "b")
        stage.prompter.receive()
        assert_cheap(stage, *VERBS)


def test_a_lock_that_lasts_keeps_few_slots_behind_it(quiet_database: Database) -> None:
    with behind_a_snapshot(quiet_database, max_concurrent=3) as stage:
        stage.prompter.send("a")
        (lasting,) = stage.prompter.receive(lock_duration=timedelta(days=1))
        repeat(stage, CONSUMED, SECOND / 10)
        assert_cheap(stage, *VERBS)
        stage.prompter.send_many(3)
        assert len(stage.prompter.receive(9)) == 2
        stage.prompter.complete(lasting)


@pytest.mark.parametrize("limit", [{"max_receive_rate": 10_000}, {"max_concurrent": 3}], ids=str)
def test_limits_take_no_multixact_ids(quiet_database: Database, limit: dict[str, int]) -> None:
    with Stage(quiet_database, **limit) as stage:
        ann = stage.session("ann")
        taken = "select mxid_age('1')"
        before = ann.value(taken)
        repeat(stage, CONSUMED, SECOND / 10, times=10)
        ann.rows("begin; select pgqueue.receive('q'); savepoint a; select pgqueue.receive('q'); commit")
        assert ann.value(taken) == before


BEATS = "perform pgqueue.heartbeat('6f1c9a52-34c5-4d8e-9d58-2f6a3f0b8a11', 'host', 1, '1', '{q}', 1);"


def test_the_heartbeats_of_a_day_are_not_walked_over(quiet_database: Database) -> None:
    with behind_a_snapshot(quiet_database) as stage:
        repeat(stage, BEATS, 15 * SECOND)
        assert_cheap(
            stage,
            BEATS.replace("perform", "select"),
            "select * from pgqueue.workers",
            "select pgqueue._forget_workers(false)",
        )


PASSED = """
perform pgqueue._pass_due_times(1, 'MESSAGE');
perform pgqueue._pass_due_times(1, 'WATCH');
"""


def test_verbs_do_not_walk_over_the_due_times_that_were_passed_in_a_day(quiet_database: Database) -> None:
    with behind_a_snapshot(quiet_database) as stage:
        repeat(stage, PASSED, SECOND)
        assert_cheap(stage, *VERBS, "select * from pgqueue.peek('q', 10)", "select * from pgqueue.scheduled_messages")


CYCLE = """
perform pgqueue.send('q', '1', session_id => 'a');
perform pgqueue.complete('q', message.sequence_number, message.lock_token)
   from pgqueue.accept_session('q') as held
  cross join lateral pgqueue.receive_from_session('q', held.session_id, held.lock_token) as message;
perform pgqueue.release_session('q', 'a', lock_token) from pgqueue.session where session_id = 'a';
"""


def test_the_cycles_of_a_session_leave_nothing_where_it_waits(quiet_database: Database) -> None:
    with behind_a_snapshot(quiet_database, requires_session=True) as stage:
        repeat(stage, CYCLE, SECOND / 10, times=2000)
        assert_cheap(
            stage,
            "select pgqueue.send('q', '1', session_id => 'a')",
            "select pgqueue.release_session('q', session_id, lock_token) from pgqueue.accept_session('q')",
            "select pgqueue.release_session('q', session_id, lock_token) from pgqueue.accept_session('q', 'a')",
        )


# --- subscriptions ---


def subscribed(session: Session, lasts: timedelta | None = 15 * SECOND) -> list[str]:
    return [queue for _, queue in session.table("_subscribe", queues=["q"], lasts=lasts)]


def test_a_subscription_rewrites_the_row_of_its_queue_once_in_ten_minutes(database: Database) -> None:
    with Stage(database) as stage:
        ann, ben = stage.sessions("ann", "ben")
        place = "select ctid from pgqueue.queue"
        assert subscribed(ann) == ["q"]
        first = ann.value(place)
        for _ in range(10):
            stage.passes(30 * SECOND)
            assert subscribed(ann) == subscribed(ben) == ["q"]
        assert ann.value(place) == first
        stage.passes(timedelta(minutes=10))
        assert subscribed(ann) == ["q"]
        assert ann.value(place) != first


def test_subscriptions_of_the_past_are_deleted(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        for _ in range(1000):
            subscribed(ann)
            stage.passes(10 * SECOND)
        assert ann.value("select count(*) from pgqueue.waiting_consumer") <= 130


@pytest.mark.parametrize(("waited", "times"), [(14, 1), (21, 0)])
def test_senders_notify_until_a_subscription_is_over(database: Database, waited: int, times: int) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        with told(stage, ann, times=times, awaited=False):
            subscribed(ann)
            stage.passes(waited * SECOND)
            ann.send("a")


def test_a_subscription_that_is_withdrawn_is_over(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        with told(stage, ann, times=0):
            subscribed(ann, None)
            ann.send("a")


def test_a_consumer_that_starts_to_wait_while_others_do_is_not_held_up_by_a_change(database: Database) -> None:
    with Stage(database) as stage:
        ann, ben = stage.sessions("ann", "ben")
        subscribed(ann)
        ann.begin()
        ann.call("alter_queue", queue="q", max_delivery_count=3)
        assert subscribed(ben) == ["q"]
        ann.commit()
