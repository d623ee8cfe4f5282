"""What cursors have passed comes back: rolled back, expired, or aborted, by no process but those that receive."""

from __future__ import annotations

from pgqueue.testing import Database
from tests.sql.stage import LOCK_DURATION, SECOND, Session, Stage, overtaken, recorded, scan, turns_until


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


def came_back(stage: Stage, session: Session, count: int) -> list[int]:
    """What is received within a second, in the order it comes."""
    numbers = session.numbers(count)
    stage.passes(SECOND)
    while received := session.numbers(count):
        numbers += received
    return numbers
