"""Nothing is skipped for ever: senders commit out of order, receivers roll back, and cursors go by."""

from __future__ import annotations

import pytest

from pgqueue.testing import Database
from tests.sql.stage import LOCK_DURATION, SECOND, Session, Stage, overtaken, scan


def test_a_message_sent_before_and_committed_after_others_is_received_at_once(database: Database) -> None:
    with Stage(database) as stage:
        ann, slow = stage.sessions("ann", "slow")
        overtaken(ann)
        slow.begin()
        (late,) = slow.send("late")
        ann.send_many(500)
        while ann.receive(10, take_turn=False):
            pass
        slow.commit()
        assert ann.numbers(take_turn=False) == [late]


def test_a_sender_that_is_open_long_does_not_stop_the_queue(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob, slow = stage.sessions("ann", "bob", "slow")
        slow.begin()
        (late,) = slow.send("late")
        for _ in range(5):
            numbers = bob.send("a", "b")
            assert ann.numbers(9) == numbers
            stage.passes(SECOND)
        assert recorded(ann) > late
        slow.commit()
        stage.passes(SECOND)
        assert ann.numbers(9) == [late]


def test_what_a_long_sender_brings_is_found_by_a_session_that_was_never_there(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob, slow = stage.sessions("ann", "bob", "slow")
        slow.begin()
        (late,) = slow.send("late")
        bob.send("a")
        for _ in range(3):
            ann.receive(9)
            stage.passes(SECOND)
        ann.connection.close()
        slow.commit()
        assert recorded(bob) > late
        assert bob.numbers() == [late]


def test_a_sender_newer_than_all_that_have_ended_is_waited_for_too(database: Database) -> None:
    """Its transaction is not below the end of the snapshot in which its number is the last."""
    with Stage(database) as stage:
        ann, slow = stage.sessions("ann", "slow")
        (first,) = ann.send("first")
        slow.begin()
        (late,) = slow.send("late")
        # Nothing has ended since; this turn takes the horizon.
        assert ann.numbers() == [first]
        for _ in range(3):
            stage.passes(SECOND)
            assert ann.receive() == []
        assert recorded(ann) >= late
        slow.commit()
        stage.passes(SECOND)
        assert ann.numbers() == [late]


def test_one_long_transaction_does_not_hide_what_another_brings(database: Database) -> None:
    with Stage(database) as stage:
        ann, slow, slower = stage.sessions("ann", "slow", "slower")
        slower.begin()
        (much_later,) = slower.send("much later")
        slow.begin()
        (late,) = slow.send("late")
        ann.send("a")
        for _ in range(3):
            ann.receive(9)
            stage.passes(SECOND)
        slow.commit()
        assert ann.numbers(9) == [late]
        stage.passes(SECOND)
        slower.commit()
        stage.passes(SECOND)
        assert ann.numbers(9) == [much_later]


def test_long_transactions_that_overlap_without_end_hide_nothing(database: Database) -> None:
    with Stage(database) as stage:
        ann, *relay = stage.sessions("ann", "first", "second")
        sent, received = [], []
        relay[0].begin()
        sent += relay[0].send(0)
        for step in range(1, 12):
            sent += ann.send("between")
            relay[step % 2].begin()
            sent += relay[step % 2].send(step)
            stage.passes(2 * SECOND)
            received += ann.numbers(99)
            relay[(step - 1) % 2].commit()
            stage.passes(2 * SECOND)
            received += ann.numbers(99)
        relay[1].commit()
        stage.passes(2 * SECOND)
        received += ann.numbers(99)
        assert sorted(received) == sorted(sent)


def test_a_long_sender_may_send_again_when_cursors_have_passed_its_first_message(database: Database) -> None:
    with Stage(database) as stage:
        ann, slow = stage.sessions("ann", "slow")
        slow.begin()
        late = slow.send("late")
        for _ in range(4):
            ann.send("a")
            stage.passes(2 * SECOND)
            ann.receive(9)
            late += slow.send("later")
        slow.commit()
        stage.passes(2 * SECOND)
        found = ann.numbers(9)
        stage.passes(2 * SECOND)
        assert sorted(found + ann.numbers(9)) == late


def test_a_long_sender_that_takes_a_turn_itself_finds_what_it_sent(database: Database) -> None:
    with Stage(database) as stage:
        ann, slow = stage.sessions("ann", "slow")
        slow.begin()
        (late,) = slow.send("late")
        ann.send("a")
        for _ in range(3):
            ann.receive(9)
            stage.passes(SECOND)
        assert slow.numbers() == [late]
        slow.rollback()
        slow.begin()
        slow.call("take_turn", queue="q")
        (later,) = slow.send("later")
        slow.commit()
        stage.passes(SECOND)
        assert ann.numbers(9) == [later]


def test_a_turn_in_a_transaction_that_has_an_id_already_proves_as_much(database: Database) -> None:
    with Stage(database) as stage:
        ann, slow = stage.sessions("ann", "slow")
        ann.send("first")
        ann.begin()
        ann.value("select pg_current_xact_id()")
        slow.begin()
        (late,) = slow.send("late")
        ann.receive(9)
        ann.commit()
        for _ in range(3):
            stage.passes(SECOND)
            ann.receive(9)
        slow.commit()
        stage.passes(SECOND)
        assert ann.numbers(9) == [late]


@pytest.mark.parametrize("many", [False, True], ids=["send", "send_batch"])
def test_a_number_is_drawn_by_a_transaction_that_has_an_id(database: Database, many: bool) -> None:
    with Stage(database) as stage:
        a_number_is_drawn_by_a_transaction_that_has_an_id(stage, many=many)


def a_number_is_drawn_by_a_transaction_that_has_an_id(stage: Stage, *, many: bool) -> None:
    """A sender that stops between its number and its row is known to those who go by."""
    ann, slow, gate = stage.sessions("ann", "slow", "gate")
    # The first number of all brings its transaction an id by itself, because it is logged.
    (first,) = ann.send("first")
    assert ann.numbers() == [first]
    stop_when_the_time_is_asked_for(stage, "slow")
    gate.value("select pg_advisory_lock(1)")
    sending = slow.starts(lambda: slow.send_many(1) if many else slow.send("late"))
    for _ in range(3):
        ann.send("a")
        ann.receive(9)
        stage.passes(2 * SECOND)
    gate.value("select pg_advisory_unlock(1)")
    late = sending.result()
    assert recorded(ann) > late[0]
    stage.passes(SECOND)
    assert ann.numbers(9) == late


def test_an_old_view_moves_no_cursor_and_loses_nothing(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob, slow = stage.sessions("ann", "bob", "slow")
        slow.begin()
        (late,) = slow.send("late")
        numbers = bob.send_many(300)
        ann.begin("repeatable read")
        received = ann.numbers(100)
        slow.commit()
        stage.passes(2 * SECOND)
        received += ann.numbers(100) + ann.numbers(100) + ann.numbers(100)
        assert received == numbers
        ann.commit()
        assert bob.numbers(9) == [late]


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


def test_a_clock_that_went_back_stops_no_turn(database: Database) -> None:
    with Stage(database) as stage:
        ann, slow = stage.sessions("ann", "slow")
        slow.begin()
        (late,) = slow.send("late")
        ann.send("a")
        for _ in range(3):
            ann.receive(9)
            stage.passes(SECOND)
        stage.passes(-3600 * SECOND)
        ann.receive(9)
        slow.commit()
        stage.passes(2 * SECOND)
        assert ann.numbers(9) == [late]


def test_a_long_purged_range_is_passed_and_forgotten(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        for _ in range(4):
            ann.send_many(5000)
        assert ann.call("purge_queue", queue="q") == 20000
        (number,) = ann.send("a")
        assert ann.numbers() == [number]
        for _ in range(2):
            stage.passes(SECOND)
            assert ann.receive() == []
        assert recorded(bob) >= number
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


def recorded(session: Session) -> int:
    """The recorded cursor of the fresh lane."""
    return int(session.value("select cursor from pgqueue.progress where lane = 1"))


def came_back(stage: Stage, session: Session, count: int) -> list[int]:
    """What is received within a second, in the order it comes."""
    numbers = session.numbers(count)
    stage.passes(SECOND)
    while received := session.numbers(count):
        numbers += received
    return numbers


def stop_when_the_time_is_asked_for(stage: Stage, name: str) -> None:
    """Make the session of this name wait for the advisory lock 1 wherever it reads the clock."""
    stage.prompter.rows("alter function pgqueue.clock() rename to moment")
    stage.prompter.rows(f"""
        create function pgqueue.clock()
        returns timestamptz
        language plpgsql volatile
        as $$
        begin
            if current_setting('application_name') = '{name}' then
                perform pg_advisory_xact_lock_shared(1);
            end if;
            return pgqueue.moment();
        end
        $$
    """)
