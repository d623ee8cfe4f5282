"""The pin and the completion of a message that a handler works on."""

from __future__ import annotations

import pytest

from pgqueue.testing import Database
from tests.sql.stage import LOCK_LOST, PINNED_ELSEWHERE, Received, Session, Stage, refused

pytestmark = pytest.mark.core


def pin(session: Session, message: Received, *, release: bool = False) -> str:
    session.begin()
    return str(session.settle("_pin_delivery", message, release_advisory_locks=release))


def received(session: Session) -> Received:
    session.send("a")
    (message,) = session.receive()
    return message


def complete(session: Session, message: Received, pinned_in: str | None) -> str:
    return str(session.settle("_complete_delivery", message, pinned_in=pinned_in))


def test_a_pin_returns_the_transaction_and_the_run(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        message = received(ann)
        transaction, run = pin(ann, message).split(" ", 1)
        assert transaction == ann.value("select pg_current_xact_id()::text")
        assert run == ann.call("server_run") == bob.call("server_run")
        ann.rows("savepoint within")
        complete(ann, message, transaction)
        ann.commit()
        assert (
            bob.call("resolve", queue="q", sequence_number=1, lock_token=None, transaction_id=transaction)
            == "committed"
        )


def test_a_lost_lock_is_not_pinned(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        message = received(ann)
        ann.complete(message)
        with refused(LOCK_LOST):
            pin(ann, message)
        ann.rollback()


@pytest.mark.parametrize("release", [False, True])
def test_a_pin_releases_the_advisory_locks_of_the_session_if_it_is_asked_to(database: Database, release: bool) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        message = received(ann)
        ann.rows("select pg_advisory_lock(81)")
        pin(ann, message, release=release)
        assert bob.value("select pg_try_advisory_lock(81)") is release
        ann.rollback()


def test_a_message_is_completed_only_in_the_transaction_that_it_is_pinned_in(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        message = received(ann)
        transaction, _ = pin(ann, message).split(" ", 1)
        with refused(PINNED_ELSEWHERE):
            complete(ann, message, None)
        ann.rollback()
        for work in ("select 1", "select pg_current_xact_id()"):
            ann.begin()
            ann.rows(work)
            with refused(PINNED_ELSEWHERE):
                complete(ann, message, transaction)
            ann.rollback()
        assert ann.complete(message)
