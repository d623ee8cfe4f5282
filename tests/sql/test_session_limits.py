"""Queues that require sessions, while they are paused, with a rate, and with settings that their order contradicts."""

from __future__ import annotations

from typing import Any

import pytest

from pgqueue.testing import Database
from tests.sql.sessions import accept, accepted, bodies, stage_of
from tests.sql.stage import INVALID_ARGUMENT, SECOND, refused


def test_a_paused_queue_hands_out_no_session_and_no_message(database: Database) -> None:
    with stage_of(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a", session_id="a")
        ann.send("b", session_id="b")
        held = accepted(ann, "a")
        ann.call("pause_queue", queue="q")
        assert accept(bob) is None
        assert bodies(ann, held) == []
        ann.call("resume_queue", queue="q")
        assert accepted(bob).session_id == "b"
        assert bodies(ann, held) == ["a"]


def test_a_rate_is_that_of_all_sessions(database: Database) -> None:
    with stage_of(database, max_receive_rate=1) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a1", "a2", session_id="a")
        ann.send("b1", session_id="b")
        first, second = accepted(ann, "a"), accepted(bob, "b")
        assert (bodies(ann, first), bodies(bob, second)) == (["a1"], [])
        stage.passes(SECOND)
        assert (bodies(bob, second), bodies(ann, first)) == (["b1"], [])
        stage.passes(SECOND)
        assert bodies(ann, first) == ["a2"]


@pytest.mark.parametrize("setting", [{"max_concurrent": 5}, {"priority_ageing": SECOND}, {"forward_to": "other"}])
def test_a_setting_that_contradicts_the_order_of_sessions_is_refused(
    database: Database, setting: dict[str, Any]
) -> None:
    with stage_of(database) as stage:
        ann = stage.session("ann")
        ann.call("create_queue", queue="other")
        with refused(INVALID_ARGUMENT):
            ann.call("alter_queue", queue="q", **setting)
        with refused(INVALID_ARGUMENT):
            ann.call("create_queue", queue="new", requires_session=True, **setting)
        assert ann.value("select count(*) from pgqueue.queue") == 2


def test_dead_letters_of_sessions_may_be_forwarded(database: Database) -> None:
    with stage_of(database) as stage:
        ann = stage.session("ann")
        ann.call("create_queue", queue="graveyard")
        ann.call("alter_queue", queue="q", forward_dead_lettered_messages_to="graveyard")
        ann.send("a", session_id="a")
        held = accepted(ann, "a")
        (message,) = ann.rows(
            "select sequence_number from pgqueue.receive_from_session('q', 'a', %(token)s, 1)", token=held.lock_token
        )
        ann.rows(
            "select pgqueue.dead_letter('q', %(number)s, %(token)s, 'Bad')", number=message[0], token=held.lock_token
        )
        (body,) = ann.values("select body from pgqueue.receive('graveyard')")
        assert body == "a"
        assert ann.rows("select * from pgqueue.broken_invariants()") == []
