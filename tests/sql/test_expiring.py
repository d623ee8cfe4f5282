"""Time to live: what has expired is never delivered; what is locked does not expire."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from pgqueue.testing import Database
from tests.sql.stage import INVALID_ARGUMENT, LOCK_DURATION, LOCK_LOST, SECOND, Session, Stage, passed, refused

DEAD_LETTERS = "select sequence_number, dead_letter_reason from pgqueue.dead_letters"
EXPIRED = "TTLExpiredException"


@pytest.mark.parametrize("verb", ["receive", "receive_and_delete"])
def test_an_expired_message_is_never_delivered(database: Database, verb: str) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        first, *_, last = ann.send("a") + ann.send("b", "c", time_to_live=SECOND) + ann.send("d")
        stage.passes(SECOND)
        numbers = ann.values(f"select sequence_number from pgqueue.{verb}('q', 9)")
        assert numbers == [first, last]
        assert ann.rows(DEAD_LETTERS) == []


def test_a_message_is_received_until_the_moment_it_expires(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        early, _ = ann.send("a", "b", time_to_live=SECOND)
        stage.passes(SECOND - timedelta(microseconds=1))
        assert ann.numbers() == [early]
        stage.passes(timedelta(microseconds=1))
        assert ann.receive() == []
        assert ann.value("select count(*) from pgqueue.message") == 1


def test_a_time_to_live_is_a_hundred_years_at_most(database: Database) -> None:
    longest = timedelta(days=36_500)
    with Stage(database, default_message_time_to_live=longest) as stage:
        ann = stage.session("ann")
        ann.send("a", time_to_live=longest)
        with refused(INVALID_ARGUMENT):
            ann.send("b", time_to_live=longest + SECOND)
        with refused(INVALID_ARGUMENT):
            ann.call("alter_queue", queue="q", default_message_time_to_live=longest + SECOND)


def test_a_message_that_came_back_expires_too(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send("a", time_to_live=SECOND)
        ann.abandon(ann.receive()[0])
        stage.passes(SECOND)
        assert ann.receive() == []
        assert ann.value("select count(*) from pgqueue.message") == 0


def test_a_message_that_was_put_off_beyond_its_time_expires(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send("a", time_to_live=SECOND)
        ann.abandon(ann.receive()[0], delay=2 * SECOND)
        stage.passes(2 * SECOND)
        assert ann.receive() == []
        assert ann.value("select count(*) from pgqueue.message") == 0


def test_an_expired_message_goes_to_the_dead_letters_where_the_queue_asks_for_that(database: Database) -> None:
    with Stage(database, dead_lettering_on_message_expiration=True) as stage:
        ann = stage.session("ann")
        mortal, immortal = ann.send("a", time_to_live=SECOND) + ann.send("b")
        stage.passes(SECOND)
        assert ann.numbers(9) == [immortal]
        assert ann.rows(DEAD_LETTERS) == [(mortal, EXPIRED)]


def test_the_time_to_live_of_the_queue_is_the_default_and_the_ceiling(database: Database) -> None:
    with Stage(database, default_message_time_to_live=2 * SECOND) as stage:
        ann = stage.session("ann")
        ann.send("default")
        ann.send("shorter", time_to_live=SECOND)
        ann.send("longer", time_to_live=3 * SECOND)
        ann.send("urgent", priority=-1)
        ann.send_many(1)
        left = "select extract(epoch from expires_at - pgqueue.clock())::integer from pgqueue.messages"
        assert ann.values(f"{left} order by sequence_number") == [2, 1, 2, 2, 2]


def test_each_message_of_a_batch_has_its_own_time_to_live(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        bodies = [Jsonb("a"), Jsonb("b"), Jsonb("c")]
        times = [SECOND, None, 2 * SECOND]
        numbers = ann.table("send_batch", queue="q", bodies=bodies, times_to_live=times)
        stage.passes(SECOND)
        assert [(number,) for number in ann.numbers(9)] == numbers[1:]


def test_a_queue_that_changes_its_time_to_live_changes_it_for_new_messages(database: Database) -> None:
    with Stage(database, default_message_time_to_live=SECOND) as stage:
        ann = stage.session("ann")
        ann.send("old")
        ann.call("alter_queue", queue="q", default_message_time_to_live=timedelta(0))
        (immortal,) = ann.send("new")
        stage.passes(timedelta(days=365))
        assert ann.numbers(9) == [immortal]


def test_the_time_to_live_of_a_scheduled_message_runs_from_its_activation(database: Database) -> None:
    with Stage(database, default_message_time_to_live=10 * SECOND) as stage:
        ann = stage.session("ann")
        due = ann.call("clock") + LOCK_DURATION
        ann.call("schedule", queue="q", body=Jsonb("a"), at=due)
        ann.call("schedule", queue="q", body=Jsonb("b"), at=due, time_to_live=SECOND)
        lifetimes = (
            "select expires_at - scheduled_enqueue_time from pgqueue.scheduled_messages order by sequence_number"
        )
        assert ann.values(lifetimes) == [10 * SECOND, SECOND]
        stage.passes(LOCK_DURATION)
        ann.call("take_turn", queue="q")
        stage.passes(SECOND)
        assert [message.body for message in ann.receive(9)] == ["a"]


@pytest.mark.parametrize("verb", ["complete", "abandon", "renew_lock", "pin", "defer", "release_batch"])
def test_a_locked_message_does_not_expire_and_its_holder_may_settle_it_after_its_time(
    database: Database, verb: str
) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a", time_to_live=SECOND)
        (received,) = ann.receive()
        stage.passes(2 * SECOND)
        assert ann.value("select state from pgqueue.messages") == "LOCKED"
        assert bob.receive() == []
        assert bob.table("sweep") == []
        if verb == "release_batch":
            assert ann.settle_batch(verb, [received]) == [(received.sequence_number, None)]
        else:
            ann.settle(verb, received)
        assert bob.receive() == []


def test_a_renewed_lock_keeps_a_message_from_expiring(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a", time_to_live=SECOND)
        (received,) = ann.receive()
        for _ in range(5):
            stage.passes(LOCK_DURATION - SECOND)
            ann.settle("renew_lock", received)
            assert bob.receive() == []
            assert bob.table("sweep") == []
        ann.complete(received)


def test_a_message_expires_at_a_receive_after_its_lock_has_expired(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a", "b", time_to_live=SECOND)
        first, second = ann.receive(2)
        stage.passes(LOCK_DURATION)
        ann.complete(first)
        assert bob.receive() == []
        with refused(LOCK_LOST):
            ann.complete(second)


def test_a_message_that_the_cursors_have_passed_expires_as_well(database: Database) -> None:
    with Stage(database, default_message_time_to_live=SECOND) as stage:
        ann = stage.session("ann")
        received = passed(stage, ann)
        stage.passes(LOCK_DURATION)
        assert ann.receive() == []
        with refused(LOCK_LOST):
            ann.complete(received)
        assert ann.value("select count(*) from pgqueue.message") == 0


def test_a_message_being_completed_does_not_expire(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a", time_to_live=SECOND)
        (received,) = ann.receive()
        ann.begin()
        ann.complete(received)
        stage.passes(LOCK_DURATION)
        assert bob.receive() == []
        assert bob.table("sweep") == []
        ann.rollback()
        assert bob.table("sweep") == [("q", 1, 0, 0, 0, 0, 0, 0, 0, False)]


@pytest.mark.parametrize("dead_letters", [[], [(1, EXPIRED), (2, EXPIRED)]], ids=["dropped", "dead-lettered"])
def test_a_sweep_removes_expired_messages(database: Database, dead_letters: list[tuple[int, str]]) -> None:
    with Stage(database, dead_lettering_on_message_expiration=bool(dead_letters)) as stage:
        ann = stage.session("ann")
        ann.send("a", "b", time_to_live=SECOND)
        (immortal,) = ann.send("c")
        assert ann.table("sweep") == []
        stage.passes(SECOND)
        assert ann.rows("select state, count(*) from pgqueue.messages group by state order by state") == [
            ("EXPIRED", 2),
            ("READY", 1),
        ]
        assert ann.rows("select ready, expired from pgqueue.queues") == [(1, 2)]
        assert ann.table("sweep", dry_run=True) == [("q", 2, 0, 0, 0, 0, 0, 0, 0, False)]
        assert ann.table("sweep") == [("q", 2, 0, 0, 0, 0, 0, 0, 0, False)]
        assert ann.rows(DEAD_LETTERS) == dead_letters
        assert ann.values("select sequence_number from pgqueue.message") == [immortal]


def test_a_sweep_leaves_messages_that_have_not_expired(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send("a", time_to_live=SECOND)
        (later,) = ann.send("b", time_to_live=2 * SECOND)
        stage.passes(SECOND)
        assert ann.table("sweep") == [("q", 1, 0, 0, 0, 0, 0, 0, 0, False)]
        assert ann.numbers(9) == [later]


def test_a_sweep_removes_a_deferred_message_that_has_expired(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send("a", time_to_live=SECOND)
        ann.settle("defer", ann.receive()[0])
        stage.passes(SECOND)
        assert ann.table("sweep") == [("q", 1, 0, 0, 0, 0, 0, 0, 0, False)]
        assert ann.rows("select * from pgqueue.messages") == []


def test_an_expired_message_is_not_dead_lettered_for_its_deliveries(database: Database) -> None:
    with Stage(database, dead_lettering_on_message_expiration=True) as stage:
        ann = stage.session("ann")
        ann.send("a", "b", time_to_live=SECOND)
        for message in ann.receive(2):
            ann.abandon(message)
        ann.call("alter_queue", queue="q", max_delivery_count=1)
        stage.passes(SECOND)
        assert ann.table("sweep", dry_run=True) == [("q", 2, 0, 0, 0, 0, 0, 0, 0, False)]
        assert ann.table("sweep") == [("q", 2, 0, 0, 0, 0, 0, 0, 0, False)]
        assert ann.rows(DEAD_LETTERS) == [(1, EXPIRED), (2, EXPIRED)]


def test_a_dry_run_foresees_what_expires_in_every_state(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        received = passed(stage, ann)
        ann.rows("update pgqueue.message set expires_at = pgqueue.clock() + interval '1 second'")
        ann.send("put off", "scheduled", time_to_live=SECOND)
        ann.abandon(ann.receive()[0], delay=SECOND)
        ann.call("alter_queue", queue="q", max_delivery_count=1)
        ann.call("schedule", queue="q", body=Jsonb("a"), at=ann.call("clock") + SECOND, time_to_live=SECOND)
        stage.passes(LOCK_DURATION)
        foreseen = ann.table("sweep", dry_run=True)
        assert foreseen == ann.table("sweep") == [("q", 4, 0, 0, 2, 0, 0, 0, 0, False)]
        with refused(LOCK_LOST):
            ann.complete(received)


def test_a_sweep_of_expired_messages_is_bounded(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send("a", "b", "c", time_to_live=SECOND)
        stage.passes(SECOND)
        assert ann.table("sweep", max_messages=2) == [("q", 2, 0, 0, 0, 0, 0, 0, 0, True)]
        assert ann.table("sweep", max_messages=2) == [("q", 1, 0, 0, 0, 0, 0, 0, 0, False)]


def test_a_sweep_skips_what_a_receiver_is_removing(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a", time_to_live=SECOND)
        stage.passes(SECOND)
        ann.begin()
        assert ann.receive(take_turn=False) == []
        assert bob.table("sweep") == []
        ann.rollback()
        assert bob.table("sweep") == [("q", 1, 0, 0, 0, 0, 0, 0, 0, False)]


def test_thousands_that_have_expired_do_not_keep_a_receiver_from_the_next_message(database: Database) -> None:
    with Stage(database, default_message_time_to_live=SECOND) as stage:
        ann = stage.session("ann")
        ann.send_many(20_000)
        stage.passes(SECOND)
        (sound,) = ann.send("sound")
        assert ann.numbers() == [sound]
        assert ann.value("select count(*) from pgqueue.message") == 1


def test_a_rolled_back_receive_removes_nothing(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send("a", time_to_live=SECOND)
        stage.passes(SECOND)
        ann.begin()
        assert ann.receive() == []
        ann.rollback()
        assert ann.value("select count(*) from pgqueue.message") == 1


def test_an_expired_message_is_shown_until_a_receive_meets_it(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        (number,) = ann.send("a", time_to_live=SECOND)
        stage.passes(SECOND)
        assert peeked(ann) == [number]
        assert ann.values("select state from pgqueue.messages") == ["EXPIRED"]
        ann.receive()
        assert peeked(ann) == []


@pytest.mark.parametrize("time_to_live", [timedelta(0), -SECOND])
def test_a_time_to_live_that_is_not_positive_is_refused(database: Database, time_to_live: timedelta) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        with refused(INVALID_ARGUMENT):
            ann.send("a", time_to_live=time_to_live)
        with refused(INVALID_ARGUMENT):
            ann.call("schedule", queue="q", body=Jsonb("a"), at=ann.call("clock"), time_to_live=time_to_live)
        with refused(INVALID_ARGUMENT):
            ann.table("send_batch", queue="q", bodies=[Jsonb("a")], times_to_live=[time_to_live])


def peeked(session: Session) -> list[Any]:
    return session.values("select sequence_number from pgqueue.peek('q', 9)")
