"""Nothing is skipped for ever: senders commit in any order, and however late."""

from __future__ import annotations

import pytest

from pgqueue.testing import Database
from tests.sql.stage import SECOND, Stage, not_held_up_by_other_tests, overtaken, recorded, turns_until


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


def test_messages_committed_between_a_scan_and_its_proof_are_not_passed(database: Database) -> None:
    with Stage(database) as stage:
        ann, slow, other, gate = stage.sessions("ann", "slow", "other", "gate")
        overtaken(ann)
        not_held_up_by_other_tests(stage)
        ann.send_many(800)
        other.begin()
        other.value("select pg_current_xact_id()")
        ann.receive(150, take_turn=False)  # remembers an id above the other's
        slow.begin()
        (late,) = slow.send("late")
        ann.send_many(500)
        ann.receive(150, take_turn=False)  # sees the late number, and the other
        other.rollback()
        ann.receive(150, take_turn=False)  # remembers an id above the late sender's
        stage.rewrite("_move_scan", "begin\n", "begin\n    perform pg_advisory_xact_lock(1);\n")
        gate.begin()
        gate.value("select pg_advisory_xact_lock(1)")
        paused = ann.starts(lambda: ann.receive(800, take_turn=False))
        slow.commit()
        gate.commit()
        assert len(paused.result()) > 350
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


def test_a_message_sent_in_a_savepoint_is_found_like_any_other(database: Database) -> None:
    with Stage(database) as stage:
        ann, slow = stage.sessions("ann", "slow")
        slow.begin()
        slow.rows("savepoint undone")
        slow.send("undone")
        slow.rows("rollback to undone")
        slow.rows("savepoint kept")
        (late,) = slow.send("late")
        slow.rows("release kept")
        ann.send("a")
        for _ in range(3):
            ann.receive(9)
            stage.passes(2 * SECOND)
        assert recorded(ann) > late
        slow.commit()
        stage.passes(2 * SECOND)
        assert ann.numbers(9) == [late]


def test_the_messages_of_a_long_sender_are_found_by_a_new_session(database: Database) -> None:
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


STOPPED_AFTER_A_NUMBER = """
create function pgqueue.stopped_after_a_number()
returns bigint
language plpgsql
as $$
declare
    number bigint := nextval('pgqueue.sequence_number');
begin
    if current_setting('application_name') = 'slow' then
        perform pg_advisory_xact_lock_shared(1);
    end if;
    return number;
end
$$
"""


def test_a_number_is_drawn_by_a_transaction_that_has_an_id_when_a_message_is_abandoned(database: Database) -> None:
    with Stage(database) as stage:
        ann, slow, gate = stage.sessions("ann", "slow", "gate")
        slow.send("abandoned", "first")
        (received,) = slow.receive()
        ann.receive()
        stage.prompter.rows(STOPPED_AFTER_A_NUMBER)
        drawn = "nextval('pgqueue.sequence_number')"
        stage.rewrite("abandon", drawn, "pgqueue.stopped_after_a_number()")
        gate.value("select pg_advisory_lock(1)")
        abandoning = slow.starts(lambda: slow.abandon(received))
        (late,) = ann.values("select last_value from pgqueue.sequence_number")
        for _ in range(3):
            ann.send("a")
            ann.receive(9)
            stage.passes(2 * SECOND)
        gate.value("select pg_advisory_unlock(1)")
        abandoning.result()
        assert ann.value("select cursor from pgqueue.progress where lane = 0") > late
        stage.passes(SECOND)
        assert ann.numbers(9) == [received.sequence_number]


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


def test_a_busy_session_takes_turns_when_the_clock_went_back(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        bob.send("late")
        (late,) = bob.receive()
        overtaken(ann)
        ann.send_many(9)
        ann.receive()
        stage.passes(-3600 * SECOND)
        bob.settle("renew_lock", late, lock_duration=SECOND)
        received = []
        for _ in range(4):
            stage.passes(SECOND)
            received += ann.numbers()
        assert late.sequence_number in received


def test_messages_watched_before_the_clock_went_back_are_found(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        bob.send("a")
        bob.begin()
        undone = bob.numbers(take_turn=False)
        turns_until(stage, ann, lambda: ann.value("select count(*) from pgqueue.watch") == 1)
        stage.passes(-3600 * SECOND)
        bob.rollback()
        assert ann.numbers() == undone


def test_all_that_was_put_under_watch_before_the_clock_went_back_is_found(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        stage.rewrite("_advance_cursors", "_repair_watch(queue.id, 5000) = 5000", "_repair_watch(queue.id, 2) = 2")
        bob.send_many(9)
        bob.begin()
        undone = bob.numbers(9, take_turn=False)
        turns_until(stage, ann, lambda: ann.value("select count(*) from pgqueue.watch") == 9)
        stage.passes(-3600 * SECOND)
        bob.rollback()
        found = []
        while received := ann.numbers(9):
            found += received
        assert sorted(found) == undone


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
