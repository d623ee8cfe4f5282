"""Several sessions at a time: received from, settled and released by one statement each, as a worker does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

from psycopg.types.json import Jsonb

from pgqueue.testing import Database
from tests.sql.sessions import (
    SESSION_LOST,
    Accepted,
    accept,
    accept_several,
    accepted,
    bodies,
    opened,
    received,
    said,
    stage_of,
)
from tests.sql.stage import LOCK_DURATION, LOCK_LOST, SECOND, Received, Session, Stage, refused


def received_from(session: Session, held: Sequence[Accepted], *most: int) -> list[Received]:
    return session._receive(
        "receive_from_session_batch", {"queue": "q", **locks(held), "max_messages_each": list(most)}
    )


def locks(held: Sequence[Accepted]) -> dict[str, list[Any]]:
    return {
        "session_ids": [each.session_id for each in held],
        "lock_tokens": [each.lock_token for each in held],
    }


def release_all(session: Session, held: Sequence[Accepted]) -> list[tuple[Any, ...]]:
    return session.table("release_session_batch", queue="q", **locks(held))


def two(stage: Stage, session: Session) -> list[Accepted]:
    """Two sessions with three messages each."""
    for name in "ab":
        session.send(*(f"{name}{number}" for number in (1, 2, 3)), session_id=name)
        stage.passes(SECOND)
    return accept_several(session, max_sessions=2)


def test_messages_of_several_sessions_come_each_in_its_order(database: Database) -> None:
    with stage_of(database) as stage:
        (ann,) = stage.sessions("ann")
        held = two(stage, ann)
        messages = received_from(ann, held, 2, 9)
        assert [message.body for message in messages] == ["a1", "a2", "b1", "b2", "b3"]
        assert [message.lock_token for message in messages] == [held[0].lock_token] * 2 + [held[1].lock_token] * 3
        assert [message.locked_until for message in messages] == [held[0].locked_until] * 5
        assert [message.body for message in received_from(ann, held[::-1], 9, 9)] == ["a3"]
        assert received_from(ann, held, 1, 1) == []


def test_of_no_session_a_message_is_received_if_one_is_lost(database: Database) -> None:
    with stage_of(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        first, second = two(stage, ann)
        release_all(ann, [second])
        accepted(bob, "b")
        with refused(SESSION_LOST, "a receive from a session that is lost was"):
            received_from(ann, [first, second], 9, 9)
        assert [message.delivery_count for message in received_from(ann, [first], 9)] == [1, 1, 1]


def test_a_session_in_which_a_transaction_holds_the_first_message_gives_none(database: Database) -> None:
    with stage_of(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        held = two(stage, ann)
        with opened(bob):
            bob.rows("select from pgqueue.message where session_id = 'a' order by position limit 1 for update")
            assert [message.body for message in received_from(ann, held, 9, 1)] == ["b1"]
        assert [message.body for message in received_from(ann, held, 9, 1)] == ["a1", "a2", "a3", "b2"]


def test_the_rate_of_a_queue_is_that_of_all_sessions_together(database: Database) -> None:
    with stage_of(database, max_receive_rate=4) as stage:
        (ann,) = stage.sessions("ann")
        held = two(stage, ann)
        assert [message.body for message in received_from(ann, held, 3, 3)] == ["a1", "a2", "a3", "b1"]
        assert received_from(ann, held, 3, 3) == []


def test_each_session_has_a_number_of_messages_and_a_token(database: Database) -> None:
    with stage_of(database) as stage:
        (ann,) = stage.sessions("ann")
        held = two(stage, ann)
        for most in ((1,), (1, 1, 1), (1, 0)):
            with said("max_messages_each must be a positive whole number for each session"):
                received_from(ann, held, *most)
        token = held[0].lock_token
        for sessions, tokens, what in (
            (["a", "b"], [token], "1 for 2"),
            ([["a", "b"]], [token], "1 for 2"),
            (["a"], None, "0 for 1"),
            (None, [token], "1 for 0"),
        ):
            given = {"queue": "q", "session_ids": sessions, "lock_tokens": tokens}
            with said(f"lock_tokens must be as many as the session_ids, not {what}"):
                ann.table("receive_from_session_batch", **given, max_messages_each=[1, 1])
            with said(f"lock_tokens must be as many as the session_ids, not {what}"):
                ann.table("release_session_batch", **given)


def test_a_session_that_is_given_twice_is_refused(database: Database) -> None:
    with stage_of(database) as stage:
        (ann,) = stage.sessions("ann")
        (first, _) = two(stage, ann)
        twice = [first, first]
        with said("session_ids must be different sessions, not {a,a}"):
            received_from(ann, twice, 1, 1)
        with said("session_ids must be different sessions, not {a,a}"):
            release_all(ann, twice)


def test_each_session_is_released_whose_lock_is_held(database: Database) -> None:
    with stage_of(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        held = two(stage, ann)
        lost = replace(held[0], lock_token=uuid4())
        assert release_all(ann, [lost, held[1], replace(held[1], session_id="c")]) == [
            ("a", False),
            ("b", True),
            ("c", False),
        ]
        assert accepted(bob).session_id == "b"
        assert accept(bob) is None


def test_empty_sessions_are_forgotten_and_others_wait_behind_those_that_wait_already(database: Database) -> None:
    with stage_of(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        held = two(stage, ann)
        for message in received_from(ann, held[:1], 9):
            ann.complete(message)
        ann.send("c", session_id="c")
        stage.passes(SECOND)
        release_all(ann, held)
        assert bob.rows("select session_id from pgqueue.session") == [("b",)]
        assert [each.session_id for each in accept_several(bob, max_sessions=3)] == ["c", "b"]


def test_a_batch_of_first_deliveries_proves_message_and_session(database: Database) -> None:
    with stage_of(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        held = two(stage, ann)
        messages = received_from(ann, held, 2, 1)
        forged = replace(messages[0], lock_token=uuid4())
        assert ann.settle_batch("complete_batch", [forged]) == [(forged.sequence_number, LOCK_LOST)]
        assert ann.settle_batch("complete_batch", messages[:1]) == [(messages[0].sequence_number, None)]
        stage.passes(LOCK_DURATION)
        (taken,) = accept_several(bob, max_sessions=1)
        assert taken.session_id == "a"
        assert ann.settle_batch("complete_batch", messages[1:]) == [
            (messages[1].sequence_number, LOCK_LOST),
            (messages[2].sequence_number, None),
        ]
        unreceived = replace(messages[1], lock_token=taken.lock_token)
        assert bob.settle_batch("complete_batch", [unreceived]) == [(unreceived.sequence_number, LOCK_LOST)]
        assert bodies(bob, taken) == ["a2", "a3"]


def test_a_session_cannot_be_accepted_while_a_transaction_completes_a_batch_of_it(database: Database) -> None:
    with stage_of(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        messages = received_from(ann, two(stage, ann)[:1], 2)
        with opened(ann):
            ann.settle_batch("complete_batch", messages)
            stage.passes(2 * LOCK_DURATION)
            assert accepted(bob).session_id == "b"
            assert accept(bob) is None
        stage.passes(SECOND)
        assert bodies(bob, accepted(bob)) == ["a3"]


def test_a_batch_forgets_what_went_wrong_and_enters_the_history(database: Database) -> None:
    with stage_of(database, retain_errors=3) as stage:
        (ann,) = stage.sessions("ann")
        ann.send("work", session_id="a")
        held = accepted(ann)
        ann.abandon(*received(ann, held), error=Jsonb({"type": "E"}))
        ann.settle_batch("complete_batch", received(ann, held))
        assert ann.rows("select count(*) from pgqueue.failed_message") == [(0,)]
        ann.call("alter_queue", queue="q", retain_history=timedelta(days=1))
        ann.send("more", session_id="a")
        ann.settle_batch("complete_batch", received(ann, held))
        assert ann.values("select outcome from pgqueue.history") == ["COMPLETED"]
