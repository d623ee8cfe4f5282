"""A consumer takes messages claim by claim: a claim replays unchanged until it is settled, and is settled once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

import psycopg
import pytest
from psycopg.types.json import Jsonb

from pgqueue.testing import Database
from tests.sql.stage import (
    CONSUMER_IN_USE,
    FENCED,
    INVALID_ARGUMENT,
    LOCK_DURATION,
    LOCK_LOST,
    SECOND,
    UNKNOWN_QUEUE,
    Session,
    Stage,
    refused,
    told,
    turns_until,
)

pytestmark = pytest.mark.core

T = TypeVar("T")

HELD = "select sequence_number from pgqueue.locked_messages order by sequence_number"
ALL_SETTLED = "select claim, messages, completed from pgqueue.claim order by claim"

#: Whether a session is attached; one that was closed is detached some time later.
ATTACHED = "select pgqueue._is_attached(consumer) from pgqueue.consumer where name = 'ledger'"

#: The verbs of claims and their options, for the first claim where a verb concerns one.
ASKED: dict[str, dict[str, Any]] = {
    "claim_batch": {"after": 1, "max_messages": 10},
    "begin_claim": {"claim": 1},
    "renew_claim": {"claim": 1},
    "check_claim": {"claim": 1},
    "complete_claim": {"claim": 1},
    "release_claim": {"claim": 1},
    "drop_consumer": {},
}
ALL_ABOUT_CLAIMS = pytest.mark.parametrize("verb", ASKED)


def consumer(stage: Stage, name: str = "ledger", queue: str = "q") -> Session:
    session = stage.session(name)
    attach(session, name, queue)
    return session


def once_free(step: Callable[[], T]) -> T:
    """A session that was closed lets go in its own time."""
    while True:
        try:
            return step()
        except psycopg.Error as error:
            if error.sqlstate != CONSUMER_IN_USE:
                raise


def epoch_of(session: Session, consumer: str = "ledger") -> int:
    """The epoch in which the last session has attached."""
    return int(session.value("select epoch from pgqueue.consumers where consumer = %(consumer)s", consumer=consumer))


def says(session: Session, verb: str, *, consumer: str = "ledger", **arguments: Any) -> Any:
    """Calls a verb of claims in the epoch that is the current one."""
    return session.call(verb, consumer=consumer, epoch=epoch_of(session, consumer), **arguments)


def attach(session: Session, consumer: str = "ledger", queue: str = "q") -> int:
    """Returns the last claim that is settled."""
    ((settled, _),) = session.table("attach_consumer", consumer=consumer, queue=queue)
    return int(settled)


def claim(session: Session, after: int, max_messages: int = 10, **options: Any) -> int:
    return int(says(session, "claim_batch", after=after, max_messages=max_messages, **options))


def came_back(stage: Stage, other: Session, messages: int) -> None:
    """Locked messages were passed, their locks have run out, and a turn has put them back where others find them."""
    turns_until(stage, other, lambda: other.value("select count(*) from pgqueue.watch") == messages)
    stage.passes(LOCK_DURATION)
    assert other.call("take_turn", queue="q")
    assert set(other.values("select lane from pgqueue.message")) == {0}


def test_of_a_claim_only_what_it_holds_is_read_fresh_or_not(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        numbers = ann.send(*"abcd")
        for message in ann.receive(2):
            ann.abandon(message)
        bob.receive()
        attach(ann)
        assert claim(ann, 0, 2) == 1
        bob.receive()
        assert ann.values("select number from pgqueue._claimed_message order by 1") == numbers[1:3]

        def read(low: int, high: int) -> list[int]:
            share = "pgqueue._claimed_message where claim = 1 and number >= %(low)s and number < %(high)s"
            return ann.values(f"select sequence_number from {share} order by 1", low=low, high=high)

        assert read(numbers[0], numbers[-1] + 1) == numbers[1:3]
        assert read(numbers[0], numbers[2]) == numbers[1:2]
        assert read(numbers[2], numbers[-1] + 1) == numbers[2:3]


def test_a_claim_locks_messages_and_asking_for_the_next_completes_it(database: Database) -> None:
    with Stage(database) as stage:
        ledger = consumer(stage)
        one, two, three = ledger.send("a", "b", "c")
        assert claim(ledger, 0, 2) == 1
        assert ledger.values(HELD) == [one, two]
        assert claim(ledger, 1, 2) == 2
        assert ledger.values(HELD) == [three]
        assert claim(ledger, 2) == 2
        assert ledger.values("select sequence_number from pgqueue.messages") == []
        assert ledger.rows(ALL_SETTLED) == [(1, 2, 2), (2, 1, 1)]


def test_repeating_claim_batch_returns_the_same_claim(database: Database) -> None:
    with Stage(database) as stage:
        ledger = consumer(stage)
        ledger.send("a", "b")
        assert claim(ledger, 0, 1) == 1
        assert claim(ledger, 0, 1) == 1
        assert ledger.values("select delivery_count from pgqueue.locked_messages") == [1]


def test_another_session_continues_the_claim_of_a_lost_one(database: Database) -> None:
    with Stage(database) as stage:
        first = consumer(stage)
        (one,) = first.send("a")
        assert claim(first, 0) == 1
        first.connection.close()
        second = stage.session("again")
        assert once_free(lambda: attach(second)) == 0
        assert claim(second, 0) == 1
        assert second.values(HELD) == [one]


def test_an_expired_claim_is_whole_again_while_no_other_receiver_has_its_messages(
    database: Database,
) -> None:
    with Stage(database) as stage:
        ledger, other = consumer(stage), stage.session("other")
        numbers = ledger.send_many(3)
        assert claim(ledger, 0) == 1
        came_back(stage, other, 3)
        assert claim(ledger, 0) == 1
        assert ledger.values(HELD) == numbers
        assert other.receive(10) == []
        assert says(ledger, "complete_claim", claim=1)
        assert ledger.values("select sequence_number from pgqueue.messages") == []


def test_messages_that_others_have_received_are_reported_as_lost(database: Database) -> None:
    with Stage(database) as stage:
        ledger, other = consumer(stage), stage.session("other")
        said: list[str] = []
        ledger.connection.add_notice_handler(lambda notice: said.append(str(notice.message_primary)))
        one, _ = ledger.send("a", "b")
        assert claim(ledger, 0) == 1
        stage.passes(LOCK_DURATION)
        assert other.numbers(1, take_turn=False) == [one]
        assert claim(ledger, 1) == 1
        assert said == [
            "consumer 'ledger' has lost 1 of the 2 locks of claim 1: those messages are not its own any more"
        ]
        assert ledger.values(HELD) == [one]
        assert ledger.rows(ALL_SETTLED) == [(1, 2, 1)]


def test_returned_messages_that_others_have_received_are_lost_too(database: Database) -> None:
    with Stage(database) as stage:
        ledger, other = consumer(stage), stage.session("other")
        numbers = ledger.send_many(2)
        assert claim(ledger, 0) == 1
        came_back(stage, other, 2)
        assert other.numbers(1) == numbers[:1]
        assert claim(ledger, 1) == 1
        assert ledger.rows(ALL_SETTLED) == [(1, 2, 1)]
        assert ledger.values(HELD) == numbers[:1]


def test_the_locks_of_messages_that_others_have_received_are_not_renewed(database: Database) -> None:
    with Stage(database) as stage:
        ledger, other = consumer(stage), stage.session("other")
        ledger.send("a", "b")
        assert claim(ledger, 0) == 1
        stage.passes(LOCK_DURATION)
        other.receive(1, take_turn=False)
        assert says(ledger, "renew_claim", claim=1) == 1


def test_the_locks_of_returned_messages_that_others_have_received_are_not_renewed(database: Database) -> None:
    with Stage(database) as stage:
        ledger, other = consumer(stage), stage.session("other")
        ledger.send_many(2)
        assert claim(ledger, 0) == 1
        came_back(stage, other, 2)
        other.receive(1)
        assert says(ledger, "renew_claim", claim=1) == 1


def test_a_renewal_does_not_wait_for_returned_messages_that_an_open_transaction_holds(database: Database) -> None:
    with Stage(database) as stage:
        ledger, keeper = consumer(stage), stage.session("keeper")
        ledger.send_many(2)
        assert claim(ledger, 0) == 1
        came_back(stage, keeper, 2)
        ledger.begin()
        says(ledger, "complete_claim", claim=1)
        assert says(keeper, "renew_claim", claim=1) == 0
        ledger.commit()


def test_the_open_claim_is_completed_in_the_transaction_of_its_effects(database: Database) -> None:
    with Stage(database) as stage:
        ledger = consumer(stage)
        ledger.rows("create table effects (n integer)")
        ledger.send("a", "b")
        assert claim(ledger, 0) == 1
        for ends in (ledger.rollback, ledger.commit):
            ledger.begin()
            assert says(ledger, "complete_claim", claim=1) is True
            ledger.rows("insert into effects values (1)")
            ends()
        assert says(ledger, "complete_claim", claim=1) is False
        assert ledger.values("select n from effects") == [1]
        assert claim(ledger, 1) == 1


def test_consumers_do_not_settle_each_others_claims(database: Database) -> None:
    with Stage(database) as stage:
        ledger, other = consumer(stage), consumer(stage, "mail")
        one, two, three = ledger.send("a", "b", "c")
        assert claim(ledger, 0, 1) == 1
        assert says(other, "claim_batch", consumer="mail", after=0, max_messages=1) == 1
        assert claim(ledger, 1, 1) == 2
        settled = "select name, claim, settled_claim from pgqueue.consumer order by name"
        assert ledger.rows(settled) == [("ledger", 2, 1), ("mail", 1, 0)]
        assert ledger.values(HELD) == [two, three]
        assert says(other, "complete_claim", consumer="mail", claim=1)
        assert ledger.values(HELD) == [three]
        assert one < two


def test_a_batch_that_was_settled_long_ago_does_not_complete_what_is_open_now(database: Database) -> None:
    with Stage(database) as stage:
        ledger = consumer(stage)
        ledger.send("a", "b", "c")
        for after in range(3):
            assert claim(ledger, after, 1) == after + 1
        assert says(ledger, "begin_claim", claim=2) is False
        assert says(ledger, "complete_claim", claim=2) is False
        assert len(ledger.values(HELD)) == 1
        assert says(ledger, "begin_claim", claim=3) is True
        assert says(ledger, "complete_claim", claim=3) is True


def test_waiting_consumers_are_notified_of_released_messages(database: Database) -> None:
    with Stage(database) as stage:
        ledger, other = consumer(stage), stage.session("other")
        ledger.send("a")
        claim(ledger, 0)
        ((channel, _),) = other.table("_subscribe", queues=["q"], lasts=LOCK_DURATION)
        other.rows(f"listen {channel}")
        says(ledger, "release_claim", claim=1)
        assert [told.payload for told in other.connection.notifies(timeout=5, stop_after=1)] == ["q"]


def test_waiting_consumers_are_notified_of_a_shortened_claim(database: Database) -> None:
    with Stage(database) as stage:
        ledger = consumer(stage)
        ledger.send("a")
        claim(ledger, 0)
        with told(stage, ledger, times=1):
            assert says(ledger, "renew_claim", claim=1, lock_duration=SECOND) == 1


def test_a_claim_of_which_a_lock_is_lost_is_not_completed_with_its_effects(database: Database) -> None:
    with Stage(database) as stage:
        ledger, other = consumer(stage), stage.session("other")
        one, two = ledger.send("a", "b")
        assert claim(ledger, 0) == 1
        stage.passes(LOCK_DURATION)
        assert other.numbers(1) == [one]
        with refused(LOCK_LOST):
            says(ledger, "complete_claim", claim=1)
        assert says(ledger, "release_claim", claim=1) == 1
        assert other.numbers(10) == [two]


def test_locks_are_renewed_and_those_of_an_open_transaction_are_not_waited_for(database: Database) -> None:
    with Stage(database) as stage:
        ledger, keeper = consumer(stage), stage.session("keeper")
        ledger.send("a", "b", "c")
        assert claim(ledger, 0) == 1
        stage.passes(LOCK_DURATION - SECOND)
        assert says(keeper, "renew_claim", claim=1) == 3
        stage.passes(LOCK_DURATION - SECOND)
        assert keeper.receive(10) == []
        ledger.begin()
        says(ledger, "complete_claim", claim=1)
        assert says(keeper, "renew_claim", claim=1) == 0
        ledger.commit()
        assert says(keeper, "renew_claim", claim=1) == 0
        with refused(INVALID_ARGUMENT):
            says(keeper, "renew_claim", claim=1, lock_duration=-SECOND)


def test_released_messages_are_delivered_to_others_at_once_and_not_counted(database: Database) -> None:
    with Stage(database) as stage:
        ledger, other = consumer(stage), stage.session("other")
        numbers = ledger.send("a", "b")
        assert claim(ledger, 0) == 1
        assert says(ledger, "release_claim", claim=1) == 2
        assert says(ledger, "release_claim", claim=1) == 0
        received = other.receive(10)
        assert [message.sequence_number for message in received] == numbers
        assert [message.delivery_count for message in received] == [1, 1]
        assert claim(ledger, 1) == 1


def test_of_two_sessions_one_works_for_a_consumer(database: Database) -> None:
    with Stage(database) as stage:
        ledger, other = consumer(stage), stage.session("other")
        with refused(CONSUMER_IN_USE):
            other.call("attach_consumer", consumer="ledger", queue="q")
        with refused(CONSUMER_IN_USE):
            says(other, "drop_consumer")
        ledger.connection.close()
        assert once_free(lambda: attach(other)) == 0


def test_a_consumer_belongs_to_its_queue(database: Database) -> None:
    with Stage(database) as stage:
        consumer(stage).connection.close()
        other = stage.session("other")
        other.call("create_queue", queue="elsewhere")
        with refused(INVALID_ARGUMENT):
            once_free(lambda: attach(other, queue="elsewhere"))
        with refused(UNKNOWN_QUEUE):
            other.call("attach_consumer", consumer="new", queue="nowhere")
        with refused(INVALID_ARGUMENT):
            other.call("attach_consumer", consumer="", queue="q")
        for verb, asked in ASKED.items():
            with refused(UNKNOWN_QUEUE, verb):
                other.call(verb, consumer="nobody", epoch=1, **asked)


@pytest.mark.parametrize("after", [2, None])
def test_a_claim_that_was_never_made_cannot_be_settled(database: Database, after: int | None) -> None:
    with Stage(database) as stage:
        ledger = consumer(stage)
        ledger.send("a")
        assert claim(ledger, 0) == 1
        with refused(INVALID_ARGUMENT):
            says(ledger, "claim_batch", after=after, max_messages=1)


def test_settled_messages_are_not_claimed_again_from_an_older_checkpoint(database: Database) -> None:
    with Stage(database) as stage:
        ledger = consumer(stage)
        ledger.send("a", "b", "c")
        assert [claim(ledger, after, 1) for after in (0, 1)] == [1, 2]
        assert claim(ledger, 2, 1) == 3
        assert claim(ledger, 0, 1) == 3
        assert ledger.values("select settled_at is null from pgqueue.claim order by claim") == [False, False, True]


def test_messages_newer_than_the_mark_are_not_claimed(database: Database) -> None:
    with Stage(database) as stage:
        ledger, other = consumer(stage), stage.session("other")
        _, two = ledger.send("a", "b")
        assert claim(ledger, 0, 1, up_to=two) == 1
        (three,) = other.send("c")
        assert claim(ledger, 1, 1, up_to=two) == 2
        assert claim(ledger, 2, 1, up_to=two) == 2
        assert other.numbers(5) == [three]


def test_urgent_redelivered_and_late_messages_are_in_one_claim(database: Database) -> None:
    with Stage(database) as stage:
        ledger, other = consumer(stage), stage.session("other")
        other.send("back")
        other.send("fresh", "urgent", queue="q")
        other.send("first of all", priority=-5)
        other.abandon(other.receive()[0])
        other.abandon(other.receive()[0])
        assert claim(ledger, 0) == 1
        assert ledger.value("select messages from pgqueue.claim") == 4
        assert says(ledger, "complete_claim", claim=1) == 1
        assert ledger.values("select sequence_number from pgqueue.messages") == []


def test_the_view_shows_until_when_a_claim_is_held_whatever_it_holds(database: Database) -> None:
    with Stage(database) as stage:
        ledger, other = consumer(stage), stage.session("other")
        seen = "select open_claim, messages, locked_until - pgqueue.clock() from pgqueue.consumers"
        assert ledger.rows(seen) == [(None, None, None)]
        ledger.send("a")
        other.abandon(other.receive()[0])
        assert claim(ledger, 0) == 1
        assert ledger.rows(seen) == [(1, 1, LOCK_DURATION)]
        says(ledger, "complete_claim", claim=1)
        ledger.send("b")
        assert claim(ledger, 1) == 2
        assert ledger.rows(seen) == [(2, 1, LOCK_DURATION)]
        ledger.call("purge_queue", queue="q")
        assert ledger.rows(seen) == [(2, 1, None)]


def test_expired_messages_are_not_claimed_and_claimed_ones_do_not_expire(database: Database) -> None:
    with Stage(database) as stage:
        ledger = consumer(stage)
        ledger.send("late", time_to_live=SECOND)
        stage.passes(SECOND)
        (number,) = ledger.send("in time", time_to_live=SECOND)
        assert claim(ledger, 0) == 1
        stage.passes(2 * SECOND)
        assert ledger.values(HELD) == [number]
        assert claim(ledger, 1) == 1
        assert ledger.rows(ALL_SETTLED) == [(1, 1, 1)]


def test_a_dropped_queue_takes_its_consumers_along(database: Database) -> None:
    with Stage(database) as stage:
        ledger = consumer(stage)
        ledger.send("a")
        claim(ledger, 0)
        epoch = epoch_of(ledger)
        ledger.call("drop_queue", queue="q")
        assert ledger.values("select consumer from pgqueue.consumers") == []
        with refused(UNKNOWN_QUEUE):
            ledger.call("claim_batch", consumer="ledger", after=1, max_messages=1, epoch=epoch)
        ledger.call("create_queue", queue="q")


def test_claims_of_long_ago_are_forgotten(database: Database) -> None:
    with Stage(database) as stage:
        ledger = consumer(stage)
        ledger.values("select pgqueue.send_batch('q', %(bodies)s)", bodies=[Jsonb(number) for number in range(150)])
        for after in range(150):
            assert claim(ledger, after, 1) == after + 1
        assert ledger.value("select count(*) from pgqueue.claim") == 101


def overtaken(stage: Stage, first: Session) -> tuple[int, Session]:
    """A session has lost its connection, and another has taken over; the epoch of the first, and the other one."""
    epoch = epoch_of(first)
    first.connection.close()
    second = stage.session("second")
    once_free(lambda: attach(second))
    return epoch, second


@ALL_ABOUT_CLAIMS
def test_an_overtaken_session_settles_nothing_and_gets_an_error(database: Database, verb: str) -> None:
    with Stage(database) as stage:
        first = consumer(stage)
        one, two, three = first.send("a", "b", "c")
        assert claim(first, 0, 1) == 1
        epoch, second = overtaken(stage, first)
        assert claim(second, 0, 1) == 1
        late = stage.session("late")
        with refused(FENCED, verb):
            late.call(verb, consumer="ledger", epoch=epoch, **ASKED[verb])
        assert second.values(HELD) == [one]
        assert says(second, "complete_claim", claim=1)
        assert claim(second, 1, 1) == 2
        with refused(FENCED, verb):
            late.call(verb, consumer="ledger", epoch=epoch, **ASKED[verb])
        assert second.values(HELD) == [two]
        assert second.values("select sequence_number from pgqueue.messages order by 1") == [two, three]


@ALL_ABOUT_CLAIMS
def test_the_transaction_of_an_overtaken_session_does_not_commit(database: Database, verb: str) -> None:
    with Stage(database) as stage:
        first, late = consumer(stage), stage.session("late")
        first.rows("create table effects (n integer)")
        first.send("a")
        assert claim(first, 0) == 1
        late.begin()
        late.rows("insert into effects values (1)")
        epoch, second = overtaken(stage, first)
        with refused(FENCED, verb):
            late.call(verb, consumer="ledger", epoch=epoch, **ASKED[verb])
        late.commit()
        assert second.values("select n from effects") == []


@ALL_ABOUT_CLAIMS
def test_an_epoch_must_be_named(database: Database, verb: str) -> None:
    with Stage(database) as stage:
        ledger = consumer(stage)
        ledger.send("a")
        assert claim(ledger, 0) == 1
        with refused(INVALID_ARGUMENT, verb):
            ledger.call(verb, consumer="ledger", epoch=None, **ASKED[verb])
        assert len(ledger.values(HELD)) == 1


@pytest.mark.parametrize("verb", [verb for verb, asked in ASKED.items() if "claim" in asked])
def test_a_claim_must_be_named_that_was_made(database: Database, verb: str) -> None:
    with Stage(database) as stage:
        ledger = consumer(stage)
        ledger.send("a", "b")
        assert claim(ledger, 0, 1) == 1
        for wrong in (2, None):
            with refused(INVALID_ARGUMENT, verb):
                says(ledger, verb, claim=wrong)
        assert len(ledger.values(HELD)) == 1


def test_verbs_on_a_settled_claim_touch_no_other_claim(database: Database) -> None:
    with Stage(database) as stage:
        ledger = consumer(stage)
        _, two = ledger.send("a", "b")
        assert [claim(ledger, after, 1) for after in (0, 1)] == [1, 2]
        assert says(ledger, "complete_claim", claim=1) is False
        assert says(ledger, "begin_claim", claim=1) is False
        assert says(ledger, "release_claim", claim=1) == 0
        stage.passes(SECOND)
        assert says(ledger, "renew_claim", claim=1) == 0
        assert ledger.rows("select open_claim, locked_until - pgqueue.clock() from pgqueue.consumers") == [
            (2, LOCK_DURATION - SECOND)
        ]
        with refused(LOCK_LOST):
            says(ledger, "check_claim", claim=1)
        says(ledger, "check_claim", claim=2)
        assert ledger.values(HELD) == [two]


def test_a_claim_is_checked_while_a_transaction_completes_it(database: Database) -> None:
    with Stage(database) as stage:
        ledger, task = consumer(stage), stage.session("task")
        ledger.send("a")
        assert claim(ledger, 0) == 1
        ledger.begin()
        assert says(ledger, "complete_claim", claim=1)
        says(task, "check_claim", claim=1)
        ledger.commit()
        with refused(LOCK_LOST):
            says(task, "check_claim", claim=1)


def test_attaching_waits_for_the_transaction_that_completes_a_claim(database: Database) -> None:
    with Stage(database) as stage:
        first, driver, second = consumer(stage), stage.session("driver"), stage.session("second")
        first.send("a", "b")
        assert claim(first, 0, 1) == 1
        driver.begin()
        driver.rows("select from pgqueue.consumer for update")  # as the verb does first
        first.connection.close()
        while stage.prompter.value(ATTACHED):
            pass
        taking_over = second.starts(lambda: attach(second))
        assert says(driver, "complete_claim", claim=1)
        driver.commit()
        assert taking_over.result() == 1


def test_an_epoch_is_never_reused(database: Database) -> None:
    """Not while the clock stands still, not when it goes back, not for a consumer that was dropped."""
    with Stage(database) as stage:
        ledger = consumer(stage)
        epochs = [epoch_of(ledger)]
        for passes in (timedelta(0), SECOND, timedelta(hours=-1)):
            stage.passes(passes)
            attach(ledger)
            epochs.append(epoch_of(ledger))
        assert epochs == sorted(set(epochs))
        stage.passes(timedelta(hours=1))
        ledger.connection.close()
        dropping = stage.session("dropping")
        once_free(lambda: says(dropping, "drop_consumer"))
        stage.passes(SECOND)
        attach(dropping)
        assert epoch_of(dropping) > epochs[-1]


def test_the_messages_of_a_dropped_consumer_are_released(database: Database) -> None:
    with Stage(database) as stage:
        ledger, other = consumer(stage), stage.session("other")
        numbers = ledger.send("a", "b")
        assert claim(ledger, 0) == 1
        ledger.connection.close()
        once_free(lambda: says(other, "drop_consumer"))
        assert other.numbers(10) == numbers
