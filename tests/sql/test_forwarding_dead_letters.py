"""Dead letters that are forwarded: which deaths, what goes along, and what a target refuses."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from psycopg.types.json import Jsonb

from pgqueue.testing import Database
from tests.sql.forwarding import bodies, chain, dead, one
from tests.sql.stage import (
    LOCK_DURATION,
    Session,
    Stage,
    refused,
)
from tests.sql.test_sweep import sweep

DAY = timedelta(days=1)
IDLE = timedelta(minutes=5)


def die_by_hand(stage: Stage, ann: Session) -> None:
    ann.settle("dead_letter", one(ann, "a"), queue="a", reason="Bad", description="very")


def die_by_abandon(stage: Stage, ann: Session) -> None:
    ann.abandon(one(ann, "a"), queue="a")


def die_by_lock(stage: Stage, ann: Session) -> None:
    one(ann, "a")
    stage.passes(LOCK_DURATION)
    assert ann.receive(queue="a") == []


def die_by_sweep(stage: Stage, ann: Session) -> None:
    one(ann, "a")
    stage.passes(LOCK_DURATION)
    sweep(ann)


def die_by_age(stage: Stage, ann: Session) -> None:
    stage.passes(DAY)
    assert ann.receive(queue="a") == []


def die_by_unlock(stage: Stage, ann: Session) -> None:
    ann.call("unlock", queue="a", sequence_number=one(ann, "a").sequence_number)


@pytest.mark.parametrize(
    ("death", "reason"),
    [
        (die_by_hand, "Bad"),
        (die_by_abandon, "MaxDeliveryCountExceeded"),
        (die_by_lock, "MaxDeliveryCountExceeded"),
        (die_by_sweep, "MaxDeliveryCountExceeded"),
        (die_by_unlock, "MaxDeliveryCountExceeded"),
        (die_by_age, "TTLExpiredException"),
    ],
)
def test_a_message_that_dies_is_forwarded(
    database: Database, death: Callable[[Stage, Session], None], reason: str
) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call(
            "create_queue", queue="a", forward_dead_lettered_messages_to="q", max_delivery_count=1,
            default_message_time_to_live=DAY, dead_lettering_on_message_expiration=True, retain_history=DAY,
        )  # fmt: skip
        (number,) = ann.send("x", queue="a", message_id="m")
        death(stage, ann)
        assert dead(ann, "a") == []
        assert ann.rows("select outcome, reason from pgqueue.history where queue = 'a'") == [("DEAD_LETTERED", reason)]
        assert ann.rows("select sequence_number, message_id, dead_letter_source, expires_at from pgqueue.messages") == [
            (number, "m", "a", None)
        ]
        ((failures, expires_at),) = ann.rows("select failures, expires_at from pgqueue.peek('q')")
        assert (failures["forwarded_from"]["reason"], expires_at) == (reason, None)
        message = one(ann, "q")
        assert (message.sequence_number, message.delivery_count) == (number, 1)
        ann.complete(message)
        assert ann.value("select count(*) from pgqueue.failed_message") == 0


def test_a_dead_letter_keeps_the_errors_of_its_deliveries(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_queue", queue="a", forward_dead_lettered_messages_to="q", retain_errors=5)
        ann.send("x", queue="a")
        ann.abandon(one(ann, "a"), queue="a", error=Jsonb({"type": "First"}))
        ann.settle("dead_letter", one(ann, "a"), queue="a", reason="Bad", error=Jsonb({"type": "Second"}))
        assert ann.values("select error_type from pgqueue.delivery_log where queue = 'q'") == ["First", "Second"]
        ann.settle("dead_letter", one(ann, "q"), reason="Worse")
        assert ann.rows("select dead_letter_reason, dead_letter_source from pgqueue.dead_letters") == [("Worse", "a")]
        ann.rows("select pgqueue.resubmit('q')")
        assert ann.values("select dead_letter_source from pgqueue.messages") == ["a"]


def test_a_dead_letter_is_forwarded_by_the_transaction_that_settles_it(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.call("create_queue", queue="a", forward_dead_lettered_messages_to="q")
        ann.send("x", queue="a")
        message = one(ann, "a")
        ann.begin()
        ann.settle("dead_letter", message, queue="a", reason="Bad")
        assert bob.receive() == []
        ann.rollback()
        ann.settle("dead_letter", message, queue="a", reason="Bad")
        assert one(bob, "q").body == "x"
        with refused("PQ001"):
            ann.complete(message, queue="a")


def test_dead_letters_go_on_from_their_target(database: Database) -> None:
    with chain(database, "graveyard") as (_, ann):
        ann.call("create_queue", queue="a", forward_dead_lettered_messages_to="graveyard")
        ann.send("x", "y", "z", queue="a")
        ann.settle_batch("dead_letter_batch", ann.receive(3, queue="a"), queue="a", reason="Bad")
        assert [message.body for message in ann.receive(9)] == ["x", "y", "z"]
        assert ann.values("select distinct dead_letter_source from pgqueue.messages") == ["a"]


def test_hops_of_dead_letters_count_too(database: Database) -> None:
    with chain(database, "a", "b", "c") as (_, ann):
        ann.call("create_queue", queue="fourth")
        ann.call("create_queue", queue="fifth")
        ann.call("alter_queue", queue="q", forward_dead_lettered_messages_to="fourth")
        ann.call("alter_queue", queue="fourth", forward_dead_lettered_messages_to="fifth")
        ann.send("x", queue="c")
        ann.settle("dead_letter", one(ann, "q"), reason="Bad")
        ann.settle("dead_letter", one(ann, "fourth"), queue="fourth", reason="Worse", description="much")
        assert bodies(ann, "fifth") == []
        assert dead(ann, "fourth") == [("x", "MaxTransferHopCountExceeded")]
        assert "died of Worse: much" in ann.value("select dead_letter_error_description from pgqueue.dead_letters")


@pytest.mark.parametrize("queue", ["q", "graveyard"])
def test_a_dead_letter_that_a_queue_refuses_stays(database: Database, queue: str) -> None:
    with chain(database, "graveyard") as (_, ann):
        ann.call("create_queue", queue="a", forward_dead_lettered_messages_to="graveyard")
        ann.call("alter_queue", queue=queue, max_message_size=10)
        ann.send("small", "this is too much", "tiny", queue="a")
        ann.settle_batch("dead_letter_batch", ann.receive(3, queue="a"), queue="a", reason="Bad", description="it is")
        assert sorted(bodies(ann)) == ["small", "tiny"]
        assert dead(ann, "a") == [("this is too much", "Bad")]
        description = ann.value("select dead_letter_error_description from pgqueue.dead_letters")
        assert description.startswith("it is; not forwarded: message ")


def test_a_dead_letter_is_no_duplicate_of_another(database: Database) -> None:
    with Stage(database, requires_duplicate_detection=True) as stage:
        ann = stage.session("ann")
        ann.call("create_queue", queue="a", forward_dead_lettered_messages_to="q")
        ann.send("x", "y", queue="a", message_id="m")
        ann.settle_batch("dead_letter_batch", ann.receive(2, queue="a"), queue="a", reason="Bad")
        assert bodies(ann) == ["x", "y"]


def test_a_dead_letter_that_goes_on_is_no_duplicate(database: Database) -> None:
    with Stage(database, requires_duplicate_detection=True) as stage:
        ann = stage.session("ann")
        for name, target in (("c", "q"), ("b", "c")):
            ann.call("create_queue", queue=name, forward_to=target)
        ann.call("create_queue", queue="a", forward_dead_lettered_messages_to="b")
        ann.send("x", "y", queue="a", message_id="m")
        ann.settle_batch("dead_letter_batch", ann.receive(2, queue="a"), queue="a", reason="Bad")
        assert bodies(ann) == ["x", "y"]


def test_a_deferred_message_dies_as_others_do(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_queue", queue="graveyard")
        ann.call("alter_queue", queue="q", forward_dead_lettered_messages_to="graveyard")
        ann.send("x", priority=3)
        message = one(ann, "q")
        ann.settle("defer", message)
        (message,) = ann.receive_deferred(message.sequence_number)
        ann.settle("dead_letter", message, reason="Bad")
        assert ann.values("select priority from pgqueue.messages where state = 'READY'") == [3]
        assert one(ann, "graveyard").body == "x"
