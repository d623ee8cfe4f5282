"""Dead letters go back to their queue: by number, by reason, by age, or all."""

from __future__ import annotations

from typing import Any

import pytest

from pgqueue.testing import Database
from tests.sql.stage import LOCK_DURATION, SECOND, Received, Session, Stage
from tests.sql.test_plans import Explainer


def test_a_resubmitted_message_keeps_its_number_and_counts_its_deliveries_from_zero(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send("a")
        ann.abandon(ann.receive()[0])
        (received,) = ann.receive()
        ann.settle("dead_letter", received, reason="r")
        sent = ann.value("select enqueued_time from pgqueue.dead_letters")
        stage.passes(LOCK_DURATION)
        assert resubmitted(ann) == [received.sequence_number]
        (again,) = ann.receive()
        assert (again.sequence_number, again.delivery_count, again.body) == (received.sequence_number, 1, "a")
        assert ann.value("select enqueued_time from pgqueue.messages") == sent
        assert ann.rows("select * from pgqueue.dead_letters") == []


def test_resubmitted_messages_come_in_the_order_they_were_sent_and_before_fresh_ones(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        numbers = buried(stage, ann, 5)
        fresh = ann.send("fresh")
        assert resubmitted(ann) == numbers
        assert ann.numbers(9) == numbers + fresh


def test_the_last_dead_letters_are_those_that_died_last(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send_many(2_000)
        received = ann.receive(2_000)
        ann.settle_batch("dead_letter_batch", received[200:], reason="r")
        stage.passes(SECOND)
        ann.settle_batch("dead_letter_batch", received[:200], reason="r")
        died = "select distinct pgqueue.clock() - died from pgqueue._upkeep, unnest(last_dead_letters) as died"
        assert ann.values(died) == [0 * SECOND]
        explainer = Explainer(ann)
        for statistics in ("select", "analyze pgqueue.dead_letter"):
            ann.rows(statistics)
            plans = explainer.plans(lambda: ann.values("select last_dead_letters from pgqueue._upkeep"))
            scans = [node for plan in plans for node in plan.nodes() if node.get("Relation Name") == "dead_letter"]
            assert [(scan.get("Index Name"), scan["Actual Rows"]) for scan in scans] == [("dead_letter_position", 100)]


CHOICES: list[tuple[dict[str, Any], list[int]]] = [
    ({}, [1, 2, 3, 4]),
    ({"sequence_numbers": [4, 2, 99]}, [2, 4]),
    ({"sequence_numbers": []}, []),
    ({"reason": "odd"}, [1, 3]),
    ({"reason": "unheard of"}, []),
    ({"older_than": 3 * SECOND}, [1, 2]),
    ({"older_than": 0 * SECOND}, [1, 2, 3, 4]),
    ({"max_messages": 3}, [1, 2, 3]),
    ({"sequence_numbers": [1, 2, 3], "reason": "odd", "older_than": 2 * SECOND, "max_messages": 1}, [1]),
]


@pytest.mark.parametrize(("choice", "expected"), CHOICES, ids=str)
def test_resubmission_takes_what_was_chosen(database: Database, choice: dict[str, Any], expected: list[int]) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        buried(stage, ann, 4)
        assert resubmitted(ann, **choice) == expected
        left = sorted({1, 2, 3, 4} - set(expected))
        assert ann.values("select sequence_number from pgqueue.dead_letters") == left


def test_a_resubmission_that_is_rolled_back_leaves_the_dead_letters(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        numbers = buried(stage, ann, 2)
        ann.begin()
        assert resubmitted(ann) == numbers
        ann.rollback()
        assert bob.receive(9) == []
        assert resubmitted(bob) == numbers
        assert bob.numbers(9) == numbers


def test_a_resubmitted_message_may_die_again(database: Database) -> None:
    with Stage(database, max_delivery_count=1) as stage:
        ann = stage.session("ann")
        ann.send("a")
        for _ in range(3):
            assert len(ann.receive()) == 1
            stage.passes(LOCK_DURATION)
            assert ann.receive() == []
            assert resubmitted(ann) == [1]


def test_poison_among_sound_messages_does_not_shorten_a_receive_to_nothing(database: Database) -> None:
    with Stage(database, max_delivery_count=1) as stage:
        ann = stage.session("ann")
        numbers = ann.send_many(10)
        ann.receive(6)
        stage.passes(LOCK_DURATION)
        received: list[Received] = []
        while more := ann.receive(4):
            received += more
        assert [message.sequence_number for message in received] == numbers[6:]
        assert ann.values("select sequence_number from pgqueue.dead_letters") == numbers[:6]


def buried(stage: Stage, session: Session, count: int) -> list[int]:
    """Messages 1, 2, 3…, buried a second apart with the reasons odd and even."""
    numbers = session.send_many(count)
    for message in session.receive(count):
        reason = "odd" if message.sequence_number % 2 else "even"
        session.settle("dead_letter", message, reason=reason)
        stage.passes(SECOND)
    return numbers


def resubmitted(session: Session, **choice: Any) -> list[int]:
    return [number for (number,) in session.table("resubmit", queue="q", **choice)]
