"""pgqueue.resolve trusts an id in the run of the server that assigned it, and otherwise the message."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from pgqueue.testing import Database
from tests.sql.sessions import accepted, received, release, stage_of
from tests.sql.stage import LOCK_DURATION, Received, Session, Stage

NOW = "select pgqueue.server_run()"
SOON = "select pgqueue.clock() + interval '1 hour'"


def test_a_crash_leaves_the_lock_as_proof(database: Database) -> None:
    """Until it expires, only its holder can have ended it, and the same server has not forgotten who has the lock."""
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        before = run(ann, is_same_timeline=True)
        committed, message = completed(ann)
        until = ann.value(SOON)
        assert resolved(bob, message, committed, ann.value(NOW)) == "committed"
        assert resolved(bob, message, committed, before, until) == "committed"
        assert resolved(bob, message, committed, before) == "gone"
        stage.passes(timedelta(hours=2))
        assert resolved(bob, message, committed, before, until) == "gone"


def test_a_failover_may_have_forgotten_the_lock(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        committed, message = completed(ann)
        before = run(ann, is_same_timeline=False)
        assert resolved(bob, message, committed, before, ann.value(SOON)) == "gone"


@pytest.mark.parametrize("is_same_timeline", [False, True])
def test_in_another_run_a_message_with_our_token_proves_no_commit(
    database: Database, *, is_same_timeline: bool
) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        before = run(ann, is_same_timeline=is_same_timeline)
        others = ann.value("select pg_current_xact_id()")
        ann.send("a")
        (message,) = ann.receive()
        assert resolved(bob, message, others, before) == "aborted"
        ann.begin()
        ann.complete(message)
        assert resolved(bob, message, others, before) == "in progress"
        ann.rollback()
        assert resolved(bob, message, others, before) == "aborted"


def test_in_another_run_an_id_that_was_rolled_back_committed_nothing(database: Database) -> None:
    """Had it committed, the server would know its id, and not give it out again."""
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a")
        (message,) = ann.receive()
        ann.begin()
        undone = ann.complete(message)
        ann.rollback()
        stage.passes(2 * LOCK_DURATION)
        (again,) = bob.receive()
        bob.complete(again)
        assert resolved(bob, message, undone, run(ann, is_same_timeline=False)) == "aborted"


@pytest.mark.parametrize(("verb", "options"), [("complete", {}), ("dead_letter", {"reason": "Bad"}), ("defer", {})])
def test_a_lock_that_lasts_was_ended_by_its_holder(database: Database, verb: str, options: dict[str, Any]) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a")
        (message,) = ann.receive()
        ann.settle(verb, message, **options)
        until = ann.value(SOON)
        assert resolved(bob, message, None, locked_until=until) == "committed"
        stage.passes(timedelta(hours=2))
        assert resolved(bob, message, None, locked_until=until) == "gone"


def test_a_message_that_is_there_without_the_lock_was_not_completed(database: Database) -> None:
    """A failover has forgotten the lock, and another receiver has the message."""
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a")
        (message,) = ann.receive()
        ann.abandon(message)
        assert resolved(bob, message, None, locked_until=ann.value(SOON)) == "gone"
        bob.receive()
        assert resolved(bob, message, None, locked_until=ann.value(SOON)) == "gone"


def test_a_session_that_was_released_proves_no_settlement(database: Database) -> None:
    """Another holder may have completed the message while the old lock would have lasted."""
    with stage_of(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send(1, 2, session_id="a")
        held = accepted(ann)
        lost, done = received(ann, held, 2)
        ann.complete(done)
        assert resolved(bob, done, None, locked_until=ann.value(SOON)) == "committed"
        assert release(ann, held)
        (again,) = received(bob, accepted(bob))
        bob.complete(again)
        assert resolved(bob, lost, None, locked_until=ann.value(SOON)) == "gone"


def test_a_settlement_counts_although_the_session_has_delivered_the_message_again(database: Database) -> None:
    """Both deliveries have the token of the session; the work of the first was committed with its deferral."""
    with stage_of(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send(1, session_id="a")
        held = accepted(ann)
        (message,) = received(ann, held)
        deferred = ann.settle("defer", message)
        (again,) = ann.receive_deferred(message.sequence_number, session_id="a", lock_token=held.lock_token)
        assert again.lock_token == message.lock_token
        assert resolved(bob, message, deferred, ann.value(NOW)) == "committed"


def test_a_settlement_in_a_session_that_a_savepoint_has_undone_is_not_committed_with_the_rest(
    database: Database,
) -> None:
    with stage_of(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send(1, session_id="a")
        (message,) = received(ann, accepted(ann))
        ann.begin()
        whole = ann.value("select pg_current_xact_id()")
        ann.rows("savepoint s")
        ann.complete(message)
        ann.rows("rollback to savepoint s")
        ann.commit()
        assert resolved(bob, message, whole, ann.value(NOW)) == "aborted"


def completed(session: Session) -> tuple[str, Received]:
    session.send("a")
    (message,) = session.receive()
    return session.complete(message), message


def run(session: Session, *, is_same_timeline: bool) -> str:
    """Another run of the server, before a crash or on another timeline."""
    timeline, _, rest = str(session.value(NOW)).partition(" ")
    return f"{timeline} {rest}0" if is_same_timeline else f"0000000A {rest}"


def resolved(
    session: Session,
    message: Received,
    transaction_id: str | None,
    server_run: str | None = None,
    locked_until: datetime | None = None,
) -> str:
    return str(
        session.settle(
            "resolve",
            message,
            transaction_id=transaction_id,
            server_run=server_run,
            locked_until=locked_until,
        )
    )
