"""At most once by itself; in the caller's transaction, the traditional transacted receive."""

from __future__ import annotations

from pgqueue.testing import Database
from tests.sql.stage import LOCK_DURATION, LOCK_LOST, SECOND, Session, Stage, refused


def test_received_and_deleted_messages_are_gone(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        numbers = ann.send_many(5)
        assert taken(ann, 3) == numbers[:3]
        assert taken(ann, 9) == numbers[3:]
        assert taken(ann) == []
        assert ann.value("select count(*) from pgqueue.message") == 0


def test_messages_that_came_back_are_received_and_deleted_as_well(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        numbers = ann.send("a", "b", "c")
        ann.abandon(ann.receive()[0])
        assert taken(ann, 2) == numbers[:2]
        assert ann.values("select sequence_number from pgqueue.message") == numbers[2:]


def test_a_commit_takes_the_message_out_and_an_abort_puts_it_back_uncounted(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        (number,) = ann.send("a")
        ann.begin()
        assert taken(ann) == [number]
        assert bob.receive() == []
        ann.rollback()
        (received,) = bob.receive(take_turn=False)
        assert (received.sequence_number, received.delivery_count) == (number, 1)
        bob.abandon(received)
        ann.begin()
        assert taken(ann) == [number]
        ann.commit()
        assert bob.receive() == []


def test_a_locked_message_is_not_taken_out(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a")
        (received,) = ann.receive()
        assert taken(bob) == []
        stage.passes(LOCK_DURATION)
        assert taken(bob) == [received.sequence_number]
        with refused(LOCK_LOST):
            ann.complete(received)


def test_a_receiver_that_only_deletes_takes_turns(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        (number,) = ann.send("a")
        ann.abandon(ann.receive()[0], delay=SECOND)
        stage.passes(SECOND)
        assert taken(bob) == []
        assert bob.call("take_turn", queue="q")
        assert taken(bob) == [number]
        assert not bob.call("take_turn", queue="q")


def taken(session: Session, max_messages: int = 1) -> list[int]:
    statement = "select sequence_number from pgqueue.receive_and_delete('q', %(count)s)"
    return session.values(statement, count=max_messages)
