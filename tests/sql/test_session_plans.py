"""The plans of sessions: each verb goes by the indexes made for it, however many messages and sessions there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from pgqueue.testing.plugin import SharedServer
from tests.sql import test_several_sessions as several
from tests.sql.sessions import Accepted, accepted, received, release, renew, set_state, stage_of, state
from tests.sql.stage import Received, Session, Stage
from tests.sql.test_plans import Explainer, Plan, assert_cheap

#: A million messages in one session, and then one in each of ten thousand others; their statistics are the tests'.
FILL = """
with sent as (
    insert into pgqueue.message (sequence_number, position, enqueued_time, queue_id, lane, body, session_id)
    select n, n, pgqueue.clock(), id, 2000, '1', case when n <= 1000000 then 'long' else 'session ' || n end
      from pgqueue.queue, generate_series(1, 1010000) as n
    returning queue_id, session_id)
insert into pgqueue.waiting_session select distinct queue_id, session_id, pgqueue.clock() from sent;
select setval('pgqueue.sequence_number', 1010000);
alter table pgqueue.message set (autovacuum_enabled = off);
alter table pgqueue.session set (autovacuum_enabled = off);
alter table pgqueue.waiting_session set (autovacuum_enabled = off);
"""
LAST = "session 1010000"

BELIEVED = """
update pg_class set reltuples = {}, relpages = {} where oid in (
    select unnest(array[indrelid, indexrelid]) from pg_index
     where indrelid = any ('{{pgqueue.message,pgqueue.session,pgqueue.waiting_session}}'::regclass[]))
"""
#: Statistics of the tables for the planner; the last of them cannot be undone, so it comes last.
STATISTICS = {
    "never analyzed": BELIEVED.format(-1, 0),
    "a few in many pages": BELIEVED.format(3, "pg_relation_size(oid) / 8192"),
    "analyzed": "analyze pgqueue.message, pgqueue.session, pgqueue.waiting_session",
}


@pytest.fixture(scope="module")
def filled(database_server: SharedServer) -> Iterator[Stage]:
    """A large queue, for tests that undo what they do."""
    with database_server.database(database_server.template) as database, stage_of(database) as stage:
        stage.prompter.connection.execute(f"set statement_timeout = 0; {FILL}".encode())
        yield stage
        stage.prompter.rows("analyze")


@pytest.fixture(scope="module", params=[*STATISTICS.values()], ids=[*STATISTICS])
def large(request: pytest.FixtureRequest, filled: Stage) -> Stage:
    filled.prompter.rows(request.param)
    return filled


def ways(plans: list[Plan]) -> set[str]:
    """How messages and sessions are reached, but for the turn, which looks for messages in all lanes."""
    tables = {"message", "session", "waiting_session"}
    return {
        node.get("Index Name", node["Node Type"])
        for plan in plans
        for node in plan.nodes()
        if node.get("Relation Name") in tables
        and node["Node Type"] not in ("ModifyTable", "Tid Scan")
        and "progress" not in plan.text
    }


#: The operations on a session, and the indexes that each uses.
OF_A_SESSION: dict[str, tuple[Callable[[Session, Accepted], object], set[str]]] = {
    "accept the next": (
        lambda ann, held: accepted(ann),
        {"waiting_session_available", "session_pkey", "message_session"},
    ),
    "accept another": (lambda ann, held: accepted(ann, "new"), {"session_pkey"}),
    "receive": (lambda ann, held: received(ann, held, 10), {"session_pkey", "message_session"}),
    "receive from several": (
        lambda ann, held: several.received_from(ann, [held], 10),
        {"session_pkey", "message_session"},
    ),
    "renew": (renew, {"session_pkey"}),
    "set the state": (lambda ann, held: set_state(ann, held, 1), {"session_pkey"}),
    "get the state": (lambda ann, held: state(ann, held.session_id), {"session_pkey"}),
    "release": (release, {"session_pkey", "message_session", "waiting_session_by_id"}),
    "release several": (
        lambda ann, held: several.release_all(ann, [held]),
        {"session_pkey", "message_session", "waiting_session_by_id"},
    ),
    "send": (lambda ann, held: ann.send(1, session_id=held.session_id), {"waiting_session_by_id"}),
    "send to a new one": (lambda ann, held: ann.send(1, session_id="new"), {"waiting_session_by_id"}),
}  # fmt: skip


@pytest.mark.parametrize("session_id", ["long", LAST])
@pytest.mark.parametrize(("step", "indexes"), OF_A_SESSION.values(), ids=OF_A_SESSION)
def test_a_verb_of_a_session_goes_by_its_indexes(
    large: Stage, step: Callable[[Session, Accepted], object], indexes: set[str], session_id: str
) -> None:
    explainer = Explainer(large.session("ann"))
    ann = explainer.session
    ann.begin()
    held = accepted(ann, session_id)
    plans = explainer.plans(lambda: step(ann, held))
    ann.rollback()
    assert ways(plans) == indexes
    assert_cheap(plans)


SETTLEMENTS: dict[str, Callable[[Session, Received], object]] = {
    "complete": lambda ann, message: ann.complete(message),
    "complete_batch": lambda ann, message: ann.settle_batch("complete_batch", [message]),
    "abandon": lambda ann, message: ann.abandon(message),
    "defer": lambda ann, message: ann.settle("defer", message),
    "dead_letter": lambda ann, message: ann.settle("dead_letter", message, reason="r"),
    "renew_lock": lambda ann, message: ann.settle("renew_lock", message),
    "pin": lambda ann, message: ann.settle("pin", message),
}


@pytest.mark.parametrize("settle", SETTLEMENTS.values(), ids=SETTLEMENTS)
def test_a_settlement_goes_by_the_numbers_of_messages_and_the_key_of_their_session(
    large: Stage, settle: Callable[[Session, Received], object]
) -> None:
    explainer = Explainer(large.session("ann"))
    ann = explainer.session
    ann.begin()
    (message,) = received(ann, accepted(ann, LAST))
    plans = explainer.plans(lambda: settle(ann, message))
    ann.rollback()
    assert ways(plans) <= {"message_pkey", "returned_message", "session_pkey"}
    assert "session_pkey" in ways(plans)
    assert_cheap(plans)


def test_a_receive_begins_at_the_cursor_of_its_session_and_not_at_the_front(large: Stage) -> None:
    explainer = Explainer(large.session("ann"))
    ann = explainer.session
    ann.begin()
    held = accepted(ann, "long")
    ann.rows("update pgqueue.session set cursor = 500000 where session_id = 'long'")
    plans = explainer.plans(lambda: received(ann, held, 10))
    ann.rollback()
    assert_cheap(plans)
