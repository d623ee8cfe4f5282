"""Lower priorities are served first, and what came back before what is fresh."""

from __future__ import annotations

from pgqueue.testing import Database
from tests.sql.stage import INVALID_ARGUMENT, SECOND, Stage, refused, scan


def test_lower_priorities_are_served_first(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        sent = {priority: ann.send("a", priority=priority)[0] for priority in (0, 5, -3, 100, -100)}
        assert ann.numbers(9) == [sent[priority] for priority in (-100, -3, 0, 5, 100)]


def test_within_a_priority_redelivered_messages_come_before_fresh_ones(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        (usual,) = ann.send("usual")
        ann.abandon(ann.receive()[0])
        (fresh,) = ann.send("fresh")
        (urgent,) = ann.send("urgent", priority=-1)
        (later,) = ann.send("later", priority=1)
        assert ann.numbers(9) == [urgent, usual, fresh, later]


def test_a_priority_survives_a_delay_a_redelivery_and_the_dead_letters(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        priority = "select priority from pgqueue.{}"
        ann.send("a", priority=-7)
        ann.abandon(ann.receive()[0])
        assert ann.value(priority.format("messages")) == -7
        ann.abandon(ann.receive()[0], delay=SECOND)
        assert ann.value(priority.format("scheduled_messages")) == -7
        stage.passes(SECOND)
        ann.settle("dead_letter", ann.receive()[0], reason="r")
        assert ann.value(priority.format("dead_letters")) == -7
        ann.table("resubmit", queue="q")
        assert ann.value(priority.format("messages")) == -7


def test_a_new_priority_is_seen_by_a_session_that_remembers_fewer_lanes(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send_many(300)
        ann.receive(300)
        stage.passes(3 * SECOND)
        ann.receive()
        urgent, second = bob.send("urgent", "second", priority=-5)
        assert ann.numbers() == [urgent]
        assert ann.value("select count(*) from pgqueue.message where lane % 2 = 0") == 0
        stage.passes(3 * SECOND)
        assert ann.numbers() == [second]


def test_cursors_are_not_mistaken_for_those_of_lanes_that_were_opened_since(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        bob.begin()
        urgent = bob.send("urgent", priority=-5)
        for _ in range(4):
            ann.receive(len(ann.send_many(50)))
            stage.passes(2 * SECOND)
        assert scan(ann) > urgent[0]
        bob.commit()
        stage.passes(2 * SECOND)
        assert ann.numbers() == urgent
        assert ann.value("select lane from pgqueue.message where sequence_number = 1") == -9


def test_the_lanes_of_a_new_priority_are_undone_with_the_send(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.begin()
        ann.send("a", priority=3)
        opening = bob.starts(lambda: bob.send("b", priority=3))
        ann.rollback()
        numbers = opening.result()
        assert stage.session("carl").numbers(9) == numbers


def test_a_priority_out_of_range_is_refused(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        for priority in (-101, 101, 20_000, None):
            with refused(INVALID_ARGUMENT, priority):
                ann.send("a", priority=priority)
