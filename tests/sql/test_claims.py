"""A consumer takes messages claim by claim: a claim replays unchanged until it is settled, and is settled once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import psycopg
import pytest
from psycopg.types.json import Jsonb

from pgqueue.testing import Database
from tests.sql.stage import (
    CONSUMER_IN_USE,
    INVALID_ARGUMENT,
    LOCK_DURATION,
    LOCK_LOST,
    SECOND,
    UNKNOWN_QUEUE,
    Session,
    Stage,
    refused,
    turns_until,
)

T = TypeVar("T")

HELD = "select sequence_number from pgqueue.locked_messages order by sequence_number"
ALL_SETTLED = "select claim, messages, completed from pgqueue.claim order by claim"


def consumer(stage: Stage, name: str = "ledger", queue: str = "q") -> Session:
    session = stage.session(name)
    session.call("attach_consumer", consumer=name, queue=queue)
    return session


def once_free(step: Callable[[], T]) -> T:
    """A session that was closed lets go in its own time."""
    while True:
        try:
            return step()
        except psycopg.Error as error:
            if error.sqlstate != CONSUMER_IN_USE:
                raise


def claim(session: Session, after: int, max_messages: int = 10, **options: Any) -> int:
    return int(session.call("claim_batch", consumer="ledger", after=after, max_messages=max_messages, **options))


def came_back(stage: Stage, other: Session, messages: int) -> None:
    """Locked messages were passed, their locks have run out, and a turn has put them back where others find them."""
    turns_until(stage, other, lambda: other.value("select count(*) from pgqueue.watch") == messages)
    stage.passes(LOCK_DURATION)
    assert other.call("take_turn", queue="q")
    assert set(other.values("select lane from pgqueue.message")) == {0}


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


def test_what_is_asked_for_again_is_the_same_claim(database: Database) -> None:
    with Stage(database) as stage:
        ledger = consumer(stage)
        ledger.send("a", "b")
        assert claim(ledger, 0, 1) == 1
        assert claim(ledger, 0, 1) == 1
        assert ledger.values("select delivery_count from pgqueue.locked_messages") == [1]


def test_a_claim_survives_its_session_and_another_goes_on_with_it(database: Database) -> None:
    with Stage(database) as stage:
        first = consumer(stage)
        (one,) = first.send("a")
        assert claim(first, 0) == 1
        first.connection.close()
        second = stage.session("again")
        assert once_free(lambda: second.call("attach_consumer", consumer="ledger", queue="q")) == 0
        assert claim(second, 0) == 1
        assert second.values(HELD) == [one]


def test_a_claim_whose_locks_ran_out_is_whole_again_while_nobody_else_has_taken_its_messages(
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
        assert ledger.call("complete_claim", consumer="ledger") == 1
        assert ledger.values("select sequence_number from pgqueue.messages") == []


def test_what_others_have_taken_meanwhile_is_lost_and_said(database: Database) -> None:
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


def test_what_came_back_and_others_have_taken_is_lost_too(database: Database) -> None:
    with Stage(database) as stage:
        ledger, other = consumer(stage), stage.session("other")
        numbers = ledger.send_many(2)
        assert claim(ledger, 0) == 1
        came_back(stage, other, 2)
        assert other.numbers(1) == numbers[:1]
        assert claim(ledger, 1) == 1
        assert ledger.rows(ALL_SETTLED) == [(1, 2, 1)]
        assert ledger.values(HELD) == numbers[:1]


def test_what_others_have_taken_is_not_renewed(database: Database) -> None:
    with Stage(database) as stage:
        ledger, other = consumer(stage), stage.session("other")
        ledger.send("a", "b")
        assert claim(ledger, 0) == 1
        stage.passes(LOCK_DURATION)
        other.receive(1, take_turn=False)
        assert ledger.call("renew_claim", consumer="ledger") == 1


def test_what_came_back_and_others_have_taken_is_not_renewed(database: Database) -> None:
    with Stage(database) as stage:
        ledger, other = consumer(stage), stage.session("other")
        ledger.send_many(2)
        assert claim(ledger, 0) == 1
        came_back(stage, other, 2)
        other.receive(1)
        assert ledger.call("renew_claim", consumer="ledger") == 1


def test_what_came_back_and_an_open_transaction_holds_is_not_waited_for(database: Database) -> None:
    with Stage(database) as stage:
        ledger, keeper = consumer(stage), stage.session("keeper")
        ledger.send_many(2)
        assert claim(ledger, 0) == 1
        came_back(stage, keeper, 2)
        ledger.begin()
        ledger.call("complete_claim", consumer="ledger")
        assert keeper.call("renew_claim", consumer="ledger") == 0
        ledger.commit()


def test_the_open_claim_is_completed_in_the_transaction_of_its_effects(database: Database) -> None:
    with Stage(database) as stage:
        ledger = consumer(stage)
        ledger.rows("create table effects (n integer)")
        ledger.send("a", "b")
        assert claim(ledger, 0) == 1
        for ends in (ledger.rollback, ledger.commit):
            ledger.begin()
            assert ledger.call("complete_claim", consumer="ledger") == 1
            ledger.rows("insert into effects values (1)")
            ends()
        assert ledger.call("complete_claim", consumer="ledger") is None
        assert ledger.values("select n from effects") == [1]
        assert claim(ledger, 1) == 1


def test_consumers_do_not_settle_each_others_claims(database: Database) -> None:
    with Stage(database) as stage:
        ledger, other = consumer(stage), consumer(stage, "mail")
        one, two, three = ledger.send("a", "b", "c")
        assert claim(ledger, 0, 1) == 1
        assert other.call("claim_batch", consumer="mail", after=0, max_messages=1) == 1
        assert claim(ledger, 1, 1) == 2
        settled = "select name, claim, settled_claim from pgqueue.consumer order by name"
        assert ledger.rows(settled) == [("ledger", 2, 1), ("mail", 1, 0)]
        assert ledger.values(HELD) == [two, three]
        assert other.call("complete_claim", consumer="mail") == 1
        assert ledger.values(HELD) == [three]
        assert one < two


def test_a_batch_that_was_settled_long_ago_does_not_complete_what_is_open_now(database: Database) -> None:
    with Stage(database) as stage:
        ledger = consumer(stage)
        ledger.send("a", "b", "c")
        for after in range(3):
            assert claim(ledger, after, 1) == after + 1
        ledger.call("begin_claim", consumer="ledger", claim=2)
        assert ledger.call("complete_claim", consumer="ledger") is None
        assert len(ledger.values(HELD)) == 1
        ledger.call("begin_claim", consumer="ledger", claim=3)
        assert ledger.call("complete_claim", consumer="ledger") == 3
        for wrong in (4, None):
            with refused(INVALID_ARGUMENT):
                ledger.call("begin_claim", consumer="ledger", claim=wrong)


def test_who_waits_is_told_of_what_is_released(database: Database) -> None:
    with Stage(database) as stage:
        ledger, other = consumer(stage), stage.session("other")
        ledger.send("a")
        claim(ledger, 0)
        ((channel, _),) = other.table("_attend", queues=["q"], lasts=LOCK_DURATION)
        other.rows(f"listen {channel}")
        ledger.call("release_claim", consumer="ledger")
        assert [told.payload for told in other.connection.notifies(timeout=5, stop_after=1)] == ["q"]


def test_a_claim_of_which_a_lock_is_lost_is_not_completed_with_its_effects(database: Database) -> None:
    with Stage(database) as stage:
        ledger, other = consumer(stage), stage.session("other")
        one, two = ledger.send("a", "b")
        assert claim(ledger, 0) == 1
        stage.passes(LOCK_DURATION)
        assert other.numbers(1) == [one]
        with refused(LOCK_LOST):
            ledger.call("complete_claim", consumer="ledger")
        assert ledger.call("release_claim", consumer="ledger") == 1
        assert other.numbers(10) == [two]


def test_locks_are_renewed_and_those_of_an_open_transaction_are_not_waited_for(database: Database) -> None:
    with Stage(database) as stage:
        ledger, keeper = consumer(stage), stage.session("keeper")
        ledger.send("a", "b", "c")
        assert keeper.call("renew_claim", consumer="ledger") is None
        assert claim(ledger, 0) == 1
        stage.passes(LOCK_DURATION - SECOND)
        assert keeper.call("renew_claim", consumer="ledger") == 3
        stage.passes(LOCK_DURATION - SECOND)
        assert keeper.receive(10) == []
        ledger.begin()
        ledger.call("complete_claim", consumer="ledger")
        assert keeper.call("renew_claim", consumer="ledger") == 0
        ledger.commit()
        with refused(INVALID_ARGUMENT):
            keeper.call("renew_claim", consumer="ledger", lock_duration=-SECOND)


def test_what_is_released_is_delivered_to_others_at_once_and_was_not_counted(database: Database) -> None:
    with Stage(database) as stage:
        ledger, other = consumer(stage), stage.session("other")
        numbers = ledger.send("a", "b")
        assert claim(ledger, 0) == 1
        assert ledger.call("release_claim", consumer="ledger") == 2
        assert ledger.call("release_claim", consumer="ledger") is None
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
            other.call("drop_consumer", consumer="ledger")
        ledger.connection.close()
        assert once_free(lambda: other.call("attach_consumer", consumer="ledger", queue="q")) == 0


def test_a_consumer_belongs_to_its_queue(database: Database) -> None:
    with Stage(database) as stage:
        consumer(stage).connection.close()
        other = stage.session("other")
        other.call("create_queue", queue="elsewhere")
        with refused(INVALID_ARGUMENT):
            once_free(lambda: other.call("attach_consumer", consumer="ledger", queue="elsewhere"))
        with refused(UNKNOWN_QUEUE):
            other.call("attach_consumer", consumer="new", queue="nowhere")
        with refused(INVALID_ARGUMENT):
            other.call("attach_consumer", consumer="", queue="q")
        with refused(UNKNOWN_QUEUE):
            other.call("claim_batch", consumer="nobody", after=0, max_messages=1)


@pytest.mark.parametrize("after", [2, None])
def test_a_claim_that_was_never_made_cannot_be_settled(database: Database, after: int | None) -> None:
    with Stage(database) as stage:
        ledger = consumer(stage)
        ledger.send("a")
        assert claim(ledger, 0) == 1
        with refused(INVALID_ARGUMENT):
            ledger.call("claim_batch", consumer="ledger", after=after, max_messages=1)


def test_from_an_older_checkpoint_what_was_settled_is_not_taken_again(database: Database) -> None:
    with Stage(database) as stage:
        ledger = consumer(stage)
        ledger.send("a", "b", "c")
        assert [claim(ledger, after, 1) for after in (0, 1)] == [1, 2]
        assert claim(ledger, 2, 1) == 3
        assert claim(ledger, 0, 1) == 3
        assert ledger.values("select settled_at is null from pgqueue.claim order by claim") == [False, False, True]


def test_what_is_newer_than_the_mark_is_left(database: Database) -> None:
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
        assert ledger.call("complete_claim", consumer="ledger") == 1
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
        ledger.call("complete_claim", consumer="ledger")
        ledger.send("b")
        assert claim(ledger, 1) == 2
        assert ledger.rows(seen) == [(2, 1, LOCK_DURATION)]
        ledger.call("purge_queue", queue="q")
        assert ledger.rows(seen) == [(2, 1, None)]


def test_what_has_expired_is_not_claimed_and_what_is_claimed_does_not_expire(database: Database) -> None:
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
        ledger.call("drop_queue", queue="q")
        assert ledger.values("select consumer from pgqueue.consumers") == []
        with refused(UNKNOWN_QUEUE):
            claim(ledger, 1)
        ledger.call("create_queue", queue="q")


def test_claims_of_long_ago_are_forgotten(database: Database) -> None:
    with Stage(database) as stage:
        ledger = consumer(stage)
        ledger.values("select pgqueue.send_batch('q', %(bodies)s)", bodies=[Jsonb(number) for number in range(150)])
        for after in range(150):
            assert claim(ledger, after, 1) == after + 1
        assert ledger.value("select count(*) from pgqueue.claim") == 101
