"""Messages that cursors have passed come back after a rollback, an expiry or an abort, through receives alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pgqueue.testing import Database
from tests.sql.stage import (
    LOCK_DURATION,
    SECOND,
    Session,
    Stage,
    not_held_up_by_other_tests,
    overtaken,
    recorded,
    scan,
    turns_until,
)

pytestmark = pytest.mark.core


def test_a_claim_that_is_rolled_back_behind_the_cursors_of_others_is_found(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a")
        ann.begin()
        (undone,) = ann.numbers(take_turn=False)
        for _ in range(3):
            numbers = bob.send("b")
            assert bob.numbers(9) == numbers
            stage.passes(SECOND)
        assert recorded(bob) > undone
        ann.rollback()
        stage.passes(SECOND)
        assert bob.numbers(9) == [undone]


def test_a_transacted_receive_that_is_aborted_puts_the_message_back_for_anyone(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        (number,) = ann.send("a")
        ann.begin()
        assert ann.values("select sequence_number from pgqueue.receive_and_delete('q')") == [number]
        for _ in range(3):
            stage.passes(SECOND)
            assert bob.receive() == []
        ann.rollback()
        stage.passes(SECOND)
        (received,) = bob.receive()
        assert (received.sequence_number, received.delivery_count) == (number, 1)


@pytest.mark.parametrize("mode", ["receive_and_delete", "receive"])
def test_an_abandoned_message_is_found_by_a_session_past_it_that_takes_no_turns(database: Database, mode: str) -> None:
    """Turns are taken in another session, which has overtaken nothing."""
    verb = {"receive_and_delete": "receive_and_delete('q', 20)", "receive": "receive('q', 20, take_turn => false)"}[
        mode
    ]
    with Stage(database) as stage:
        ann, bob, turns = stage.sessions("ann", "bob", "turns")
        not_held_up_by_other_tests(stage)
        sent = ann.send_many(1000)
        taken = settled(ann, lambda: taken_by(ann, verb), sent)
        bob.begin()
        undone = bob.values("select sequence_number from pgqueue.receive_and_delete('q', 5)")
        while found := taken_by(ann, verb):
            taken += found
        assert scan(ann) > max(undone)
        bob.rollback()
        for _ in range(3):
            stage.passes(SECOND)
            turns.call("take_turn", queue="q")
            taken += taken_by(ann, verb)
        assert sorted(taken) == sent


def test_a_session_that_has_passed_nothing_does_not_hide_abandoned_messages(database: Database) -> None:
    """It takes a turn first in each second, and receives nothing."""
    with Stage(database) as stage:
        ann, bob, turns = stage.sessions("ann", "bob", "turns")
        not_held_up_by_other_tests(stage)
        settled(ann, lambda: ann.numbers(10, take_turn=False), ann.send_many(1000))
        bob.begin()
        undone = bob.numbers(5, take_turn=False)
        while ann.receive(10, take_turn=False):
            pass
        assert scan(ann) > max(undone)
        bob.rollback()
        for _ in range(3):
            stage.passes(SECOND)
            turns.call("take_turn", queue="q")
        assert ann.numbers(9) == undone


def test_an_abandoned_message_is_found_at_once_by_a_receive_that_finds_nothing_else(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob, turns = stage.sessions("ann", "bob", "turns")
        not_held_up_by_other_tests(stage)
        settled(ann, lambda: ann.numbers(10, take_turn=False), ann.send_many(1000))
        bob.begin()
        undone = bob.numbers(5, take_turn=False)
        while ann.receive(10, take_turn=False):
            pass
        turns.call("take_turn", queue="q")
        stage.passes(SECOND)
        bob.rollback()
        assert ann.numbers(9) == undone


def test_expired_locks_that_a_session_has_overtaken_come_back_to_it_without_a_sweeper(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        numbers = overtaken(ann)
        ann.receive()
        assert scan(ann) > 128
        stage.passes(LOCK_DURATION)
        assert came_back(stage, ann, len(numbers)) == numbers


def test_expired_locks_that_all_cursors_have_passed_come_back_within_a_second(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        numbers = overtaken(ann)
        for _ in range(3):
            stage.passes(SECOND)
            assert bob.receive() == []
        assert recorded(bob) >= max(numbers)
        stage.passes(LOCK_DURATION - 3 * SECOND)
        assert sorted(came_back(stage, bob, len(numbers))) == numbers


def test_a_message_that_expires_again_and_again_comes_back_again_and_again(database: Database) -> None:
    with Stage(database, max_delivery_count=10) as stage:
        ann = stage.session("ann")
        (number,) = ann.send("a")
        for delivery in range(1, 11):
            (received,) = ann.receive()
            assert (received.sequence_number, received.delivery_count) == (number, delivery)
            for _ in range(3):
                stage.passes(LOCK_DURATION / 4)
                assert ann.receive() == []
            stage.passes(LOCK_DURATION / 4)
        assert ann.receive() == []
        assert ann.values("select sequence_number from pgqueue.dead_letters") == [number]


def test_a_long_purged_range_is_passed_and_forgotten(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        for _ in range(4):
            ann.send_many(5000)
        assert ann.call("purge_queue", queue="q") == 20000
        (number,) = ann.send("a")
        assert ann.numbers() == [number]
        turns_until(stage, ann, lambda: recorded(bob) >= number)
        assert bob.receive() == []
        assert scan(bob) >= number


def test_a_turn_passes_much_that_is_in_flight_in_bounded_steps(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        numbers = ann.send_many(6000)
        assert ann.numbers(6000) == numbers
        stage.passes(SECOND)
        ann.receive()
        assert recorded(ann) == numbers[4999]
        stage.passes(SECOND)
        ann.receive()
        assert recorded(ann) == numbers[-1]


def test_a_turn_in_an_idle_queue_writes_nothing(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send("a")
        ann.complete(ann.receive()[0])
        for _ in range(3):
            stage.passes(SECOND)
            ann.receive()
        stage.passes(SECOND)
        ann.begin()
        assert ann.receive() == []
        assert ann.value("select pg_current_xact_id_if_assigned()") is None
        ann.commit()


def settled(session: Session, take: Callable[[], list[int]], sent: list[int]) -> list[int]:
    """The messages a session takes until its cursor may pass all that was sent so far: that waits for transactions that
    are open anywhere on the server, of other tests too. Messages sent meanwhile are added to `sent`."""
    all_taken = taken = take()
    while scan(session) == 0:
        sent += session.send_many(len(taken))
        taken = take()
        all_taken = all_taken + taken
    return all_taken


def taken_by(session: Session, verb: str) -> list[int]:
    """The messages one call takes, in a transaction of its own."""
    return session.values(f"select sequence_number from pgqueue.{verb}")


def test_a_turn_does_not_pass_what_is_free(database: Database) -> None:
    with Stage(database) as stage:
        ann, turns = stage.sessions("ann", "turns")
        first, *_ = ann.send_many(3)
        for _ in range(3):
            stage.passes(SECOND)
            turns.call("take_turn", queue="q")
        assert recorded(ann) == first - 1
        assert ann.value("select count(*) from pgqueue.watch") == 0


def came_back(stage: Stage, session: Session, count: int) -> list[int]:
    """The messages received within a second, in order of arrival."""
    numbers = session.numbers(count)
    stage.passes(SECOND)
    while received := session.numbers(count):
        numbers += received
    return numbers
