"""Queues that forward to others: where a message goes, what is refused on the way, and that nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from pgqueue.testing import Database
from tests.sql.forwarding import bodies, chain, dead, forward, one
from tests.sql.stage import (
    INVALID_ARGUMENT,
    LOCK_DURATION,
    MESSAGE_NOT_FOUND,
    QUEUE_DISABLED,
    QUEUE_FULL,
    SECOND,
    TOO_LARGE,
    Session,
    Stage,
    passed,
    refused,
    told,
)
from tests.sql.test_sweep import sweep

DAY = timedelta(days=1)
IDLE = timedelta(minutes=5)


@pytest.mark.parametrize("hops", [1, 2, 4])
def test_a_message_goes_to_the_end_of_the_chain(database: Database, hops: int) -> None:
    names = "abcd"[:hops]
    with chain(database, *names) as (_, ann):
        numbers = ann.send("one", "two", queue=names[-1])
        assert [message.sequence_number for message in ann.receive(9)] == numbers
        assert [ann.value("select count(*) from pgqueue.peek(%(name)s, 9)", name=name) for name in names] == [0] * hops


def test_a_fifth_hop_is_not_made(database: Database) -> None:
    with chain(database, "a", "b", "c", "d", "e") as (_, ann):
        ann.send("far", queue="e")
        ann.send("near", queue="d")
        assert bodies(ann) == ["near"]
        assert dead(ann, "a") == [("far", "MaxTransferHopCountExceeded")]
        ann.rows("select pgqueue.resubmit('a')")
        assert bodies(ann) == ["far", "near"]


def test_hops_count_until_the_message_is_settled(database: Database) -> None:
    with chain(database, "a", "b", "c") as (stage, ann):
        ann.send("x", queue="c")
        ann.abandon(one(ann, "q"), delay=SECOND)
        stage.passes(SECOND)
        ann.call("create_queue", queue="later")
        ann.call("create_queue", queue="last")
        forward(ann, "later", "last")
        forward(ann, "q", "later")
        sweep(ann)
        assert bodies(ann, "last") == []
        assert dead(ann, "later") == [("x", "MaxTransferHopCountExceeded")]


def test_it_is_sent_and_forwarded_by_one_transaction(database: Database) -> None:
    with chain(database, "a") as (stage, ann):
        bob = stage.session("bob")
        ann.begin()
        ann.send("x", queue="a")
        assert bob.receive() == []
        ann.rollback()
        assert bodies(bob) == [] == bodies(bob, "a")
        ann.send("y", queue="a")
        assert bodies(bob) == ["y"]


def test_a_replacement_is_forwarded_by_its_send(database: Database) -> None:
    with chain(database, "a") as (_, ann):
        later = ann.call("clock") + DAY
        key = {"queue": "a", "unique_key": "k", "on_conflict": "replace"}
        for priority in (0, 5):
            (number,) = ann.send("old", scheduled_enqueue_time=later, **key)
            assert ann.send("new", priority=priority, **key) == [number]
            assert bodies(ann) == ["new"]
            assert one(ann, "q").sequence_number == number
            ann.call("purge_queue", queue="q")
        ann.send("old", scheduled_enqueue_time=later, **key)
        ann.call("alter_queue", queue="q", status="SEND_DISABLED")
        with refused(QUEUE_DISABLED):
            ann.send("new", **key)


def test_a_batch_is_forwarded_in_its_order_with_its_priorities(database: Database) -> None:
    with chain(database, "a") as (_, ann):
        ann.rows("select pgqueue.send_batch('a', '{1,2,3,4}', priorities => '{0,-1,0,7}')")
        assert [message.body for message in ann.receive(9)] == [2, 1, 3, 4]
        numbers = ann.send_many(3000, queue="a")
        assert ann.numbers(5000) == numbers


def test_forwarding_notifies_receivers_of_the_target(database: Database) -> None:
    with chain(database, "a", "b") as (stage, ann), told(stage, ann, times=1):
        ann.send("x", queue="b")


@pytest.mark.parametrize("wake", [lambda ann: ann.receive(), sweep], ids=["turn", "sweep"])
def test_a_scheduled_message_waits_in_the_first_queue(database: Database, wake: Callable[[Session], Any]) -> None:
    with chain(database, "a", "b") as (stage, ann):
        at = ann.value("select pgqueue.clock()") + DAY
        first, second = ann.send("x", "y", queue="b", scheduled_enqueue_time=at)
        ann.rows("select pgqueue.cancel_scheduled('b', array[%(second)s])", second=second)
        assert ann.values("select queue from pgqueue.scheduled_messages") == ["b"]
        assert ann.call("_due_in", queue="q") == 1
        stage.passes(DAY)
        received = wake(ann)
        assert [message.sequence_number for message in (received if wake is not sweep else ann.receive())] == [first]


def test_a_mixed_batch_is_parted(database: Database) -> None:
    with chain(database, "a") as (_, ann):
        times = "array[pgqueue.clock() + interval '1 day', null]"
        ann.rows(f"select pgqueue.send_batch('a', '{{1,2}}', scheduled_enqueue_times => {times})")
        assert (bodies(ann, "a"), bodies(ann)) == ([1], [2])


def test_messages_that_wait_are_forwarded_before_the_fresh_ones(database: Database) -> None:
    with chain(database) as (_stage, ann):
        ann.call("create_queue", queue="a")
        numbers = ann.send_many(2500, queue="a")
        failed = one(ann, "a")
        ann.abandon(failed, queue="a", error=Jsonb({"type": "Oops"}))
        fresh = ann.send("fresh")
        forward(ann, "a")
        assert ann.receive(take_turn=False)[0].sequence_number == fresh[0]
        assert ann.call("take_turn", queue="q")
        assert ann.value("select count(*) from pgqueue.messages where queue = 'a'") == 1500
        while ann.call("take_turn", queue="q"):
            pass
        assert ann.value("select last_error from pgqueue.messages where last_error is not null") == "Oops"
        messages = ann.receive(5000)
        assert sorted(message.sequence_number for message in messages) == numbers
        assert {message.delivery_count for message in messages} == {1}
        assert bodies(ann, "a") == []


def test_locked_messages_are_forwarded_when_they_are_free(database: Database) -> None:
    with chain(database) as (stage, ann):
        ann.call("create_queue", queue="a")
        ann.send("completed", "abandoned", "expired", "deferred", queue="a")
        completed, abandoned, _, deferred = ann.receive(4, queue="a")
        ann.settle("defer", deferred, queue="a")
        forward(ann, "a")
        assert sweep(ann) == []
        ann.complete(completed, queue="a")
        ann.abandon(abandoned, queue="a")
        assert [message.body for message in ann.receive(9)] == ["abandoned"]
        stage.passes(LOCK_DURATION)
        for _ in range(3):
            sweep(ann)
            stage.passes(SECOND)
        assert sorted(bodies(ann)) == ["abandoned", "expired"]
        (again,) = ann._receive("receive_deferred", {"queue": "a", "sequence_numbers": [deferred.sequence_number]})
        ann.complete(again, queue="a")


def test_a_late_holder_loses_its_lock_to_the_forwarding(database: Database) -> None:
    with chain(database) as (stage, ann):
        ann.call("create_queue", queue="a")
        ann.send("x", queue="a")
        late = one(ann, "a")
        stage.passes(LOCK_DURATION)
        forward(ann, "a")
        sweep(ann)
        with refused("PQ001"):
            ann.complete(late, queue="a")
        assert bodies(ann) == ["x"]


def test_a_message_that_a_transaction_holds_is_skipped(database: Database) -> None:
    with chain(database) as (stage, ann):
        bob = stage.session("bob")
        ann.call("create_queue", queue="a")
        ann.send("held", "free", queue="a")
        bob.begin()
        bob.rows("select from pgqueue.receive_and_delete('a')")
        forward(ann, "a")
        sweep(ann)
        assert bodies(ann) == ["free"]
        bob.rollback()
        sweep(ann)
        assert sorted(bodies(ann)) == ["free", "held"]


def test_two_who_forward_what_waits_share_it(database: Database) -> None:
    with chain(database) as (stage, ann):
        bob = stage.session("bob")
        ann.call("create_queue", queue="a")
        ann.send("x", queue="a")
        forward(ann, "a")
        ann.begin()
        ann.call("take_turn", queue="q")
        bob.call("take_turn", queue="q")
        ann.commit()
        assert bodies(ann) == ["x"]


def test_a_sender_that_has_not_seen_the_setting_loses_nothing(database: Database) -> None:
    with chain(database) as (stage, ann):
        bob = stage.session("bob")
        ann.call("create_queue", queue="a")
        bob.begin()
        bob.send("x", queue="a")
        forward(ann, "a")
        assert ann.receive() == []
        bob.commit()
        for _ in range(3):
            stage.passes(SECOND)
            sweep(ann)
        assert bodies(ann) == ["x"]


def forward_sent(session: Session) -> None:
    """As a sender does it whose messages have numbers above 0."""
    session.rows("select pgqueue._forward_sent(queue, 0) from pgqueue.queue as queue where name = 'a'")


def test_messages_locked_by_others_are_not_forwarded_with_a_sent_message(database: Database) -> None:
    with chain(database) as (_, ann):
        ann.call("create_queue", queue="a")
        ann.send("locked", "free", queue="a")
        locked = one(ann, "a")
        forward(ann, "a")
        forward_sent(ann)
        assert bodies(ann) == ["free"]
        ann.complete(locked, queue="a")


def test_a_sender_does_not_wait_for_messages_that_others_hold(database: Database) -> None:
    with chain(database) as (stage, ann):
        bob = stage.session("bob")
        ann.call("create_queue", queue="a")
        ann.send("held", "free", queue="a")
        bob.begin()
        bob.rows("select from pgqueue.message where body = '\"held\"' for update")
        forward(ann, "a")
        forward_sent(ann)
        assert bodies(ann) == ["free"]
        bob.rollback()


def test_messages_that_wait_are_found_behind_the_cursor(database: Database) -> None:
    with chain(database) as (stage, ann):
        ann.call("create_queue", queue="a")
        numbers = ann.send("waits", queue="a")
        ann.complete(passed(stage, ann))
        forward(ann, "a")
        assert ann.call("take_turn", queue="q")
        assert ann.numbers(9) == numbers


def test_receiving_from_a_queue_that_forwards_is_refused(database: Database) -> None:
    with chain(database, "a") as (_, ann):
        for verb in ("receive", "receive_and_delete"):
            with refused(INVALID_ARGUMENT, verb):
                ann.table(verb, queue="a")
        assert ann.receive(queue="a/$deadletterqueue") == []
        ann.call("alter_queue", queue="a", forward_to="")
        assert ann.receive(queue="a") == []


@pytest.mark.parametrize(
    ("settings", "sqlstate"),
    [
        ({"status": "SEND_DISABLED"}, QUEUE_DISABLED),
        ({"status": "DISABLED"}, QUEUE_DISABLED),
        ({"max_message_size": 10}, TOO_LARGE),
        ({"max_queue_length": 1}, QUEUE_FULL),
    ],
    ids=str,
)
def test_a_refusal_of_the_target_is_raised_to_the_sender(
    database: Database, settings: dict[str, Any], sqlstate: str
) -> None:
    with chain(database, "a", "b", **{name: each for name, each in settings.items() if name != "status"}) as (_, ann):
        ann.send("first", queue="b")
        if "status" in settings:
            ann.call("alter_queue", queue="q", **settings)
        with refused(sqlstate):
            ann.send("this is too much", queue="b")
        assert [bodies(ann, name) for name in "abq"] == [[], [], ["first"]]
        assert dead(ann, "b") == []


def test_a_message_that_the_target_refuses_later_becomes_a_dead_letter_of_the_source(database: Database) -> None:
    with chain(database, max_message_size=10) as (_, ann):
        ann.call("create_queue", queue="a")
        ann.send(*range(5), "this is too much", *range(5, 8), queue="a")
        forward(ann, "a")
        sweep(ann)
        assert sorted(bodies(ann)) == list(range(8))
        assert dead(ann, "a") == [("this is too much", "ForwardingRefused")]
        description = ann.value("select dead_letter_error_description from pgqueue.dead_letters")
        assert "forwarded from queue a, has 18 bytes, and queue q takes at most 10" in description


def test_as_many_are_forwarded_as_the_target_takes(database: Database) -> None:
    with chain(database, max_queue_length=3) as (_, ann):
        ann.call("create_queue", queue="a")
        ann.send(*range(8), queue="a")
        forward(ann, "a")
        sweep(ann)
        assert (len(bodies(ann)), len(dead(ann, "a"))) == (3, 5)


def test_a_receive_does_not_wait_for_a_sender_of_an_id_that_is_being_forwarded(database: Database) -> None:
    with Stage(database, requires_duplicate_detection=True) as stage:
        ann, ben = stage.sessions("ann", "ben")
        ann.call("create_queue", queue="a")
        for message_id in ("m", "n"):
            ann.send(message_id, queue="a", message_id=message_id)
        forward(ann, "a")
        ben.begin()
        ben.send("sent", message_id="m")
        assert [message.body for message in ann.receive(9)] == ["n"]
        ben.rollback()
        stage.passes(2 * SECOND)
        assert [message.body for message in ann.receive(9)] == ["m"]


def test_each_queue_on_the_way_detects_duplicates(database: Database) -> None:
    with chain(database, "a", "b", requires_duplicate_detection=True) as (_, ann):
        ann.send("one", queue="b", message_id="m")
        ann.send("two", queue="a", message_id="m")
        ann.send("three", queue="a", message_id="n")
        ann.rows("select pgqueue.send_batch('b', '{4,5,6}', message_ids => '{o,m,o}')")
        assert bodies(ann) == ["one", "three", 4]
        assert bodies(ann, "a") == [] == bodies(ann, "b")


def test_the_shortest_time_to_live_on_the_way_counts(database: Database) -> None:
    with chain(database, "a", "b", default_message_time_to_live=2 * DAY) as (_, ann):
        ann.call("alter_queue", queue="a", default_message_time_to_live=DAY)
        ann.send("x", queue="b")
        ann.send("y", queue="b", time_to_live=DAY / 2)
        lives = "select expires_at - enqueued_time from pgqueue.peek('q', 9) order by sequence_number"
        assert ann.values(lives) == [DAY, DAY / 2]


def test_an_expired_or_exhausted_message_is_not_forwarded(database: Database) -> None:
    with chain(database) as (stage, ann):
        ann.call("create_queue", queue="a", max_delivery_count=2, dead_lettering_on_message_expiration=True)
        ann.send("expired", queue="a", time_to_live=SECOND)
        ann.send("exhausted", queue="a", priority=-1)
        ann.abandon(one(ann, "a"), queue="a")
        ann.call("alter_queue", queue="a", max_delivery_count=1)
        stage.passes(SECOND)
        forward(ann, "a")
        ann.call("take_turn", queue="q")
        assert bodies(ann) == []
        assert sorted(dead(ann, "a")) == [
            ("exhausted", "MaxDeliveryCountExceeded"),
            ("expired", "TTLExpiredException"),
        ]


def test_resubmitted_dead_letters_are_forwarded(database: Database) -> None:
    with chain(database) as (_, ann):
        ann.call("create_queue", queue="a")
        ann.send("x", queue="a")
        ann.settle("dead_letter", one(ann, "a"), queue="a", reason="Bad")
        forward(ann, "a")
        ann.call("alter_queue", queue="q", status="DISABLED")
        with refused(QUEUE_DISABLED):
            ann.rows("select pgqueue.resubmit('a')")
        ann.call("alter_queue", queue="q", status="ACTIVE")
        ann.rows("select pgqueue.resubmit('a')")
        assert bodies(ann) == ["x"]
        assert ann.value("select resubmitted_from ->> 'reason' from pgqueue.messages") == "Bad"


def test_staged_messages_are_forwarded(database: Database) -> None:
    with chain(database, "a") as (_, ann):
        table = ann.call("stage", queue="a", job="job", part="1", columns=["body", "priority"])
        ann.rows(f"insert into pgqueue.{table} select to_jsonb(n), n % 3 from generate_series(1, 2500) as n")
        ((sent, _),) = ann.table("publish", queue="a", staged=[table], rows=2500)
        assert sent == 2500 == ann.value("select count(*) from pgqueue.messages where queue = 'q'")
        assert [message.body for message in ann.receive(2)] == [3, 6]
        assert bodies(ann, "a") == []


def test_recurring_messages_are_forwarded(database: Database) -> None:
    with chain(database, "a") as (stage, ann):
        ann.call("create_schedule", schedule="s", queue="a", every=DAY, body=Jsonb("tick"))
        stage.passes(2 * DAY)
        assert one(ann, "q").body == "tick"


def test_a_message_that_was_forwarded_is_not_cancelled_in_the_first_queue(database: Database) -> None:
    with chain(database, "a") as (_, ann):
        numbers = ann.send("x", queue="a")
        with refused(MESSAGE_NOT_FOUND):
            ann.call("cancel_scheduled", queue="a", sequence_numbers=numbers)
