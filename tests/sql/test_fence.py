"""The fence: every settlement proves the token, and a row is held while its owner's transaction is open."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from pgqueue.testing import Database
from tests.sql.stage import LOCK_DURATION, LOCK_LOST, SECOND, UNKNOWN_QUEUE, Received, Session, Stage, put_back, refused

pytestmark = pytest.mark.core


def test_a_late_worker_cannot_complete_a_redelivered_message(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a")
        (late,) = ann.receive()
        stage.passes(LOCK_DURATION)
        (redelivered,) = bob.receive(take_turn=False)
        with refused(LOCK_LOST):
            ann.complete(late)
        bob.complete(redelivered)


def test_a_late_worker_cannot_complete_a_message_that_came_back_and_was_redelivered(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a")
        bob.abandon(bob.receive()[0])
        (late,) = ann.receive()
        stage.passes(LOCK_DURATION)
        (redelivered,) = bob.receive()
        with refused(LOCK_LOST):
            ann.complete(late)
        bob.complete(redelivered)


def test_a_late_batch_cannot_complete_a_redelivered_message(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a")
        (late,) = ann.receive()
        stage.passes(LOCK_DURATION)
        (redelivered,) = bob.receive(take_turn=False)
        assert ann.settle_batch("complete_batch", [late]) == [(late.sequence_number, LOCK_LOST)]
        bob.complete(redelivered)


def test_a_late_worker_cannot_renew_a_redelivered_message(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a")
        (late,) = ann.receive()
        stage.passes(LOCK_DURATION)
        (redelivered,) = bob.receive(take_turn=False)
        stage.passes(SECOND)
        assert ann.settle_batch("renew_lock_batch", [late]) == [(late.sequence_number, LOCK_LOST, None)]
        assert locked_until(bob, redelivered) == redelivered.locked_until


def test_a_late_worker_cannot_renew_a_message_that_came_back_and_was_redelivered(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a")
        bob.abandon(bob.receive()[0])
        (late,) = ann.receive()
        stage.passes(LOCK_DURATION)
        (redelivered,) = bob.receive()
        stage.passes(SECOND)
        assert ann.settle_batch("renew_lock_batch", [late]) == [(late.sequence_number, LOCK_LOST, None)]
        assert locked_until(bob, redelivered) == redelivered.locked_until


def test_a_renewal_that_meets_a_redelivery_half_way_does_not_renew_it(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob, gate = stage.sessions("ann", "bob", "gate")
        ann.send("a", priority=1)
        (late,) = ann.receive()
        stage.passes(LOCK_DURATION)
        # Ann has found her message, and stops before she locks its row.
        stage.rewrite("_find_by_token", "\nend\n", "\nperform pg_advisory_xact_lock_shared(1);\nend\n")
        gate.value("select pg_advisory_lock(1)")
        renewal = ann.starts(lambda: ann.settle_batch("renew_lock_batch", [late], lock_duration=SECOND))
        (redelivered,) = bob.receive(take_turn=False)
        gate.value("select pg_advisory_unlock(1)")
        assert renewal.result() == [(late.sequence_number, LOCK_LOST, None)]
        assert locked_until(bob, redelivered) == redelivered.locked_until


SETTLEMENTS: list[tuple[str, dict[str, Any]]] = [
    ("complete", {}),
    ("abandon", {}),
    ("dead_letter", {"reason": "r"}),
    ("renew_lock", {}),
    ("pin", {}),
]


@pytest.mark.parametrize(("verb", "options"), SETTLEMENTS, ids=[verb for verb, _ in SETTLEMENTS])
def test_no_verb_finds_a_message_under_the_name_of_another_queue(
    database: Database, verb: str, options: dict[str, Any]
) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_queue", queue="another")
        ann.send("a")
        (received,) = ann.receive()
        stage.passes(SECOND)
        with refused(LOCK_LOST):
            ann.settle(verb, received, queue="another", **options)
        with refused(UNKNOWN_QUEUE):
            ann.settle(verb, received, queue="nowhere", **options)
        assert locked_until(ann, received) == received.locked_until
        ann.complete(received)


@pytest.mark.parametrize("verb", ["complete_batch", "abandon_batch", "renew_lock_batch", "pin_batch"])
def test_no_batch_finds_a_message_under_the_name_of_another_queue(database: Database, verb: str) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_queue", queue="another")
        ann.send("a")
        (received,) = ann.receive()
        stage.passes(SECOND)
        assert [row[:2] for row in ann.settle_batch(verb, [received], queue="another")] == [
            (received.sequence_number, LOCK_LOST)
        ]
        with refused(UNKNOWN_QUEUE):
            ann.settle_batch(verb, [received], queue="nowhere")
        assert locked_until(ann, received) == received.locked_until
        ann.complete(received)


@pytest.mark.parametrize(("verb", "options"), SETTLEMENTS, ids=[verb for verb, _ in SETTLEMENTS])
def test_no_verb_accepts_a_token_that_was_never_given(database: Database, verb: str, options: dict[str, Any]) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send("a")
        (received,) = ann.receive()
        with refused(LOCK_LOST):
            ann.settle(verb, replace(received, lock_token=uuid4()), **options)
        with refused(LOCK_LOST):
            ann.settle(verb, replace(received, sequence_number=received.sequence_number + 1), **options)
        ann.complete(received)


@pytest.mark.parametrize("verb", ["complete_batch", "abandon_batch", "renew_lock_batch", "pin_batch"])
def test_no_batch_accepts_a_token_that_was_never_given(database: Database, verb: str) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send("a")
        (received,) = ann.receive()
        stage.passes(SECOND)
        outcomes = ann.settle_batch(verb, [replace(received, lock_token=uuid4())])
        assert [row[:2] for row in outcomes] == [(received.sequence_number, LOCK_LOST)]
        ann.complete(received)


@pytest.mark.parametrize(("verb", "options"), SETTLEMENTS, ids=[verb for verb, _ in SETTLEMENTS])
def test_no_verb_accepts_a_lock_that_was_settled(database: Database, verb: str, options: dict[str, Any]) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send("a", "b", "c")
        completed, abandoned, dead = ann.receive(3)
        ann.complete(completed)
        ann.abandon(abandoned)
        ann.settle("dead_letter", dead, reason="r")
        for settled in (completed, abandoned, dead):
            with refused(LOCK_LOST):
                ann.settle(verb, settled, **options)


@pytest.mark.parametrize(("verb", "options"), SETTLEMENTS, ids=[verb for verb, _ in SETTLEMENTS])
def test_the_token_is_valid_after_expiry_until_the_message_is_received_again(
    database: Database, verb: str, options: dict[str, Any]
) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a")
        (received,) = ann.receive()
        stage.passes(2 * LOCK_DURATION)
        ann.settle(verb, received, **options)
        if verb == "renew_lock":
            assert bob.receive() == []


@pytest.mark.parametrize(("verb", "options"), SETTLEMENTS, ids=[verb for verb, _ in SETTLEMENTS])
def test_the_token_counts_even_when_the_message_was_put_back_for_redelivery(
    database: Database, verb: str, options: dict[str, Any]
) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        received = put_back(stage, ann)
        ann.settle(verb, received, **options)
        if verb == "renew_lock":
            assert ann.receive() == []


def test_a_lost_lock_aborts_the_transaction_even_when_the_error_is_swallowed(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.rows("create table shipped (body jsonb)")
        ann.send("a")
        (late,) = ann.receive()
        stage.passes(LOCK_DURATION)
        bob.receive()
        ann.begin()
        ann.rows("insert into shipped values ('\"a\"')")
        with refused(LOCK_LOST):
            ann.complete(late)
        ann.commit()
        assert ann.rows("select * from shipped") == []


def test_after_an_abort_the_lock_is_still_ours(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a")
        (received,) = ann.receive()
        ann.begin()
        ann.complete(received)
        ann.rollback()
        assert bob.receive() == []
        ann.begin()
        ann.complete(received)
        ann.commit()
        assert ann.rows("select * from pgqueue.message") == []


@pytest.mark.parametrize("verb", ["pin", "pin_batch"])
@pytest.mark.parametrize("priority", [0, 1])
@pytest.mark.parametrize("came_back", [False, True], ids=["fresh", "came back"])
def test_a_pinned_message_cannot_be_taken_over_while_the_transaction_is_open(
    database: Database, came_back: bool, priority: int, verb: str
) -> None:
    with Stage(database) as stage:
        a_pinned_message_cannot_be_taken_over(stage, came_back=came_back, priority=priority, verb=verb)


def a_pinned_message_cannot_be_taken_over(
    stage: Stage, *, came_back: bool = False, priority: int = 0, verb: str = "pin"
) -> None:
    ann, bob = stage.sessions("ann", "bob")
    ann.send("a", priority=priority)
    if came_back:
        ann.abandon(ann.receive()[0])
    (received,) = ann.receive()
    ann.begin()
    if verb == "pin":
        ann.settle(verb, received)
    else:
        assert ann.settle_batch(verb, [received]) == [(received.sequence_number, None)]
    for _ in range(5):
        stage.passes(LOCK_DURATION)
        assert bob.receive() == []
    ann.complete(received)
    ann.commit()
    assert bob.receive() == []


def test_a_pin_is_refused_before_any_work_is_done(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a")
        (late,) = ann.receive()
        stage.passes(LOCK_DURATION)
        bob.receive()
        ann.begin()
        with refused(LOCK_LOST):
            ann.settle("pin", late)
        ann.rollback()


def locked_until(session: Session, message: Received) -> object:
    return session.value(
        "select locked_until from pgqueue.message where sequence_number = %(number)s", number=message.sequence_number
    )
