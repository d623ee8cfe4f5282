"""The sequence goes back: set by hand, or left behind by a restore. Every message is still found, once."""

from __future__ import annotations

import pytest

from pgqueue.testing import Database
from tests.sql.stage import LOCK_DURATION, SECOND, Session, Stage, turns_until

GO_BACK = "select setval('pgqueue.sequence_number', %(number)s)"


def test_messages_below_the_cursors_are_found_when_the_sequence_went_back(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        consumed(stage, ann, 1000)
        ann.value(GO_BACK, number=500)
        numbers = bob.send("a", "b")
        assert numbers == [501, 502]
        assert received(stage, ann) == numbers
        assert received(stage, bob) == []


def test_a_message_that_is_still_being_sent_when_cursors_begin_again_is_found(database: Database) -> None:
    with Stage(database) as stage:
        ann, slow = stage.sessions("ann", "slow")
        consumed(stage, ann, 1000)
        ann.value(GO_BACK, number=500)
        slow.begin()
        late = slow.send("a")
        numbers = ann.send("b")
        assert received(stage, ann) == numbers
        slow.commit()
        assert received(stage, ann) == late


def test_no_number_in_use_is_handed_out_again(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        consumed(stage, ann, 100)
        (dead, put_off, _, _) = ann.send("dead", "put off", "locked", "waiting")
        ann.settle("dead_letter", ann.receive()[0], reason="r")
        ann.abandon(ann.receive()[0], delay=LOCK_DURATION)
        ann.abandon(ann.receive()[0])
        ann.receive()
        last = ann.value("select last_value from pgqueue.sequence_number")
        assert last > put_off > dead
        ann.value(GO_BACK, number=50)
        mend(stage, ann)
        assert ann.send("next")[0] > last


def test_the_place_of_a_deferred_message_is_not_handed_out_again(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        consumed(stage, ann, 100)
        (number,) = ann.send("a")
        ann.settle("defer", ann.receive()[0])
        ann.abandon(ann.receive_deferred(number)[0])
        last = ann.value("select last_value from pgqueue.sequence_number")
        ann.value(GO_BACK, number=50)
        mend(stage, ann)
        assert ann.send("next")[0] > last > number


def test_numbers_that_are_free_again_may_be_handed_out_again(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        consumed(stage, ann, 1000)
        ann.value(GO_BACK, number=1)
        for _ in range(3):
            numbers = ann.send_many(200)
            assert sorted(received(stage, ann)) == numbers


def test_a_number_that_was_handed_out_twice_stops_nothing(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send("old")
        ann.abandon(ann.receive()[0])
        ann.value("select setval('pgqueue.sequence_number', 1, false)")
        ann.send("new")
        old, new = ann.receive()[0], ann.receive()[0]
        assert (old.sequence_number, new.sequence_number) == (1, 1)
        for message in (new, old):
            ann.abandon(message, delay=SECOND)
        stage.passes(SECOND)
        for message in (ann.receive()[0], ann.receive()[0]):
            ann.settle("dead_letter", message, reason="r")
        assert ann.table("resubmit", queue="q") == [(1,), (1,)]
        assert len(ann.receive(9)) == 2
        for _ in range(3):
            stage.passes(LOCK_DURATION)
            assert ann.call("take_turn", queue="q") or len(ann.receive(9)) == 2
        stage.passes(LOCK_DURATION)
        old, new = ann.receive()[0], ann.receive()[0]
        ann.complete(old)
        assert ann.values("select body from pgqueue.messages") == [new.body]
        ann.complete(new)


def test_a_queue_without_receivers_is_repaired_by_the_receivers_of_another(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.call("create_queue", queue="quiet")
        ann.send("a", queue="quiet")
        bob.receive(queue="quiet")
        for _ in range(2):
            stage.passes(SECOND)
            bob.receive(queue="quiet")
        consumed(stage, ann, 1000)
        for _ in range(2):
            stage.passes(SECOND)
            bob.receive(queue="quiet")
        ann.value(GO_BACK, number=500)
        numbers = ann.send("b", queue="quiet")
        mend(stage, ann)
        assert received(stage, bob, queue="quiet") == numbers


def test_the_next_sweep_repairs_what_no_turn_can_notice(database: Database) -> None:
    """Sends elsewhere have caught up with the horizon before anybody takes a turn."""
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.call("create_queue", queue="elsewhere")
        consumed(stage, ann, 600)
        # Transactions of other tests are awaited, too: when one ends, a turn looks through all that was passed.
        ann.rows("update pgqueue.progress set awaited = '{}', awaited_above = '{}'")
        ann.value("select setval('pgqueue.sequence_number', 1, false)")
        numbers = bob.send_many(300)
        bob.send_many(400, queue="elsewhere")
        assert received(stage, ann) == []
        assert len(ann.values("select pgqueue.broken_invariants()")) == 300
        assert ann.rows("select queue, returned from pgqueue.sweep(dry_run => true)") == [("q", 300)]
        assert ann.rows("select queue, returned from pgqueue.sweep()") == [("q", 300)]
        assert ann.values("select pgqueue.broken_invariants()") == []
        assert sorted(received(stage, ann)) == numbers


def test_a_sweep_puts_the_sequence_above_every_number_in_use(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        consumed(stage, ann, 50)
        numbers = ann.send_many(100)
        ann.value(GO_BACK, number=min(numbers))
        while ann.values("select more from pgqueue.sweep()") == [True]:
            pass
        assert ann.value("select nextval('pgqueue.sequence_number')") > max(numbers)
        assert len(received(stage, ann)) == 100


def test_numbers_that_others_draw_during_a_repair_are_not_handed_out_again(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        consumed(stage, ann, 100)
        ann.value(GO_BACK, number=50)
        stage.rewrite(
            "_repair_sequence",
            "pgqueue._last_number_drawn()));",
            "pgqueue._last_number_drawn()) + (select 0 from pg_advisory_xact_lock_shared(1)));",
        )
        stage.passes(SECOND)
        ann.call("take_turn", queue="q")
        stage.passes(SECOND)
        bob.begin()
        bob.value("select pg_advisory_xact_lock(1)")
        mending = ann.starts(lambda: ann.call("take_turn", queue="q"))
        numbers = bob.send_many(500)
        bob.commit()
        mending.result()
        assert ann.value("select nextval('pgqueue.sequence_number')") > max(numbers)


def test_the_repair_of_an_unmoved_cursor_waits_for_open_sends(database: Database) -> None:
    with Stage(database) as stage:
        ann, slow, turns = stage.sessions("ann", "slow", "turns")
        ann.call("create_queue", queue="elsewhere")
        (first,) = ann.send("first")
        ann.send_many(10, queue="elsewhere")
        for _ in range(3):
            stage.passes(SECOND)
            turns.call("take_turn", queue="q")
        ann.value(GO_BACK, number=first)
        slow.begin()
        late = slow.send("late")
        assert received(stage, ann) == [first]
        turns_until(stage, ann, lambda: ann.value("select min(cursor) >= 11 from pgqueue.progress where queue_id = 1"))
        slow.commit()
        assert received(stage, ann) == late


def test_the_sequence_is_repaired_while_another_queue_is_busy(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.call("create_queue", queue="busy")
        consumed(stage, ann, 100)
        consumed(stage, ann, 100)
        ann.value(GO_BACK, number=1)
        for _ in range(5):
            stage.passes(SECOND)
            bob.send("a", queue="busy")
            bob.receive(queue="busy", take_turn=False)
            bob.call("take_turn", queue="busy")
            ann.call("take_turn", queue="q")
        assert ann.value("select nextval('pgqueue.sequence_number')") > 200


def test_a_repair_that_is_rolled_back_is_begun_again(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        consumed(stage, ann, 1000)
        ann.value(GO_BACK, number=500)
        numbers = bob.send("a")
        stage.passes(SECOND)
        for _ in range(3):
            ann.begin()
            for _ in range(3):
                ann.call("take_turn", queue="q")
            ann.rollback()
        assert received(stage, bob) == numbers


def test_two_sessions_repair_without_waiting_for_each_other(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.call("create_queue", queue="other")
        consumed(stage, ann, 500)
        consumed(stage, ann, 500, queue="other")
        ann.value(GO_BACK, number=200)
        numbers = ann.send("a"), ann.send("b", queue="other")
        stage.passes(SECOND)
        ann.begin()
        ann.call("take_turn", queue="q")
        bob.call("take_turn", queue="other")
        ann.commit()
        assert received(stage, bob) == numbers[0]
        assert received(stage, bob, queue="other") == numbers[1]


@pytest.mark.parametrize("jump", [32, 1_000_000_000_000])
def test_a_sequence_that_jumped_ahead_changes_nothing(database: Database, jump: int) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        consumed(stage, ann, 300)
        ann.value(GO_BACK, number=300 + jump)
        numbers = ann.send("a", "b")
        assert received(stage, ann) == numbers


def test_a_database_restored_into_a_cluster_with_lower_transaction_ids_goes_on(database: Database) -> None:
    with Stage(database) as stage:
        ann, slow = stage.sessions("ann", "slow")
        consumed(stage, ann, 300)
        ann.rows(
            "update pgqueue.progress set horizon_xid = '9000000000000000000', awaited = '{9000000000000000001}',"
            " awaited_above = '{100}'"
        )
        slow.begin()
        late = slow.send("late")
        numbers = ann.send("a")
        assert received(stage, ann) == numbers
        slow.commit()
        assert received(stage, ann) == late


def consumed(stage: Stage, session: Session, count: int, queue: str = "q") -> None:
    """So many messages come and go, and all cursors pass them."""
    numbers = session.send_many(count, queue=queue)
    messages = session.receive(count, queue=queue)
    assert [message.sequence_number for message in messages] == numbers
    tokens = [message.lock_token for message in messages]
    session.table("complete_batch", queue=queue, sequence_numbers=numbers, lock_tokens=tokens)
    (last,) = session.send("last", queue=queue)
    session.receive(queue=queue)
    turns_until(stage, session, lambda: session.value("select max(cursor) from pgqueue.progress") == last, queue=queue)
    session.call("purge_queue", queue=queue)


def received(stage: Stage, session: Session, queue: str = "q") -> list[int]:
    """The messages received within three seconds."""
    numbers = []
    for _ in range(3):
        while found := session.numbers(100, queue=queue):
            numbers += found
        stage.passes(SECOND)
    return numbers


def mend(stage: Stage, session: Session) -> None:
    for _ in range(2):
        stage.passes(SECOND)
        session.call("take_turn", queue="q")
