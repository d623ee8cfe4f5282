"""Groups that take turns: senders, receivers and settlements at the same moment, and what is promised of the order."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from psycopg.types.json import Jsonb

from pgqueue.testing import Database
from tests.sql.sessions import opened, said, waiting
from tests.sql.stage import LOCK_DURATION, LOCK_LOST, SECOND, SERIALIZATION_FAILURE, Session, Stage, refused

HOUR = timedelta(hours=1)


def fair(database: Database, **settings: Any) -> Stage:
    return Stage(database, fair=True, **settings)


def bodies(session: Session, max_messages: int = 99, **options: Any) -> list[Any]:
    return [message.body for message in session.receive(max_messages, **options)]


def test_groups_take_turns_however_deep_one_of_them_is(database: Database) -> None:
    with fair(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send(*[f"deep {n}" for n in range(5)], session_id="deep")
        ann.send("first", session_id="other")
        assert [bodies(bob, 1) for _ in range(4)] == [["deep 0"], ["first"], ["deep 1"], ["deep 2"]]


def test_a_backlog_delays_the_first_message_of_another_group_by_no_more_than_a_round(database: Database) -> None:
    with fair(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.table("send_batch", queue="q", bodies=[Jsonb(0)] * 20_000, session_ids=["deep"] * 20_000)
        for group in "abcdefgh":
            ann.send(*range(9), session_id=group)
        bodies(bob, 40)
        ann.send("first", session_id="new")
        assert "first" in bodies(bob, 2 * 9 + 1)
        ann.send("first", session_id="newer")
        assert "first" in [body for _ in range(11) for body in bodies(bob, 1)]


def test_each_group_gives_an_equal_part_and_the_others_what_one_does_not_have(database: Database) -> None:
    with fair(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send(*range(10), session_id="a")
        ann.send(*range(10, 12), session_id="b")
        ann.send(*range(20, 30), session_id="c")
        assert sorted(bodies(bob, 10)) == [0, 1, 2, 3, 10, 11, 20, 21, 22, 23]
        assert len(bodies(bob)) == 12
        assert bodies(bob) == []


def test_a_group_keeps_its_order_and_what_came_back_comes_first(database: Database) -> None:
    with fair(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send(*range(4), session_id="a")
        zero, one = bob.receive(2)
        bob.abandon(zero)
        assert bodies(bob, 1) == [0]
        stage.passes(LOCK_DURATION)
        assert bodies(bob) == [0, 1, 2, 3]
        assert one.body == 1


def test_messages_of_one_group_are_in_work_at_several_receivers(database: Database) -> None:
    with fair(database) as stage:
        ann, bob, cho = stage.sessions("ann", "bob", "cho")
        ann.send(1, 2, session_id="a")
        (first,) = bob.receive()
        (second,) = cho.receive()
        cho.complete(second)
        bob.complete(first)
        assert bodies(ann) == []


def test_a_message_abandoned_with_a_delay_does_not_hold_up_its_successors(database: Database) -> None:
    with fair(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send(1, 2, session_id="a")
        (first,) = bob.receive()
        bob.abandon(first, delay=5 * SECOND)
        assert bodies(bob) == [2]
        assert bodies(bob) == []
        stage.passes(5 * SECOND)
        assert bodies(bob) == [1]


def test_a_group_is_found_whose_first_message_rests_beyond_its_expiry(database: Database) -> None:
    with fair(database) as stage:
        ann = stage.session("ann")
        ann.send(1, session_id="a", time_to_live=2 * SECOND)
        (first,) = ann.receive()
        ann.abandon(first, delay=20 * SECOND)
        stage.passes(3 * SECOND)
        for _ in range(3):
            assert bodies(ann) == []
            for _ in range(2):
                stage.passes(2 * SECOND)
                ann.call("_pass_due_times", queue_id=1, kind="SESSION")
        assert ann.rows("select * from pgqueue.broken_invariants()") == []
        ann.send(2, session_id="a")
        assert bodies(ann) == [2]


def test_a_delay_that_ends_before_the_locks_of_the_group_is_noticed(database: Database) -> None:
    with fair(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send(1, 2, session_id="a")
        first, _ = bob.receive(2)
        assert bodies(bob) == []
        bob.abandon(first, delay=5 * SECOND)
        assert bodies(bob) == []
        stage.passes(5 * SECOND)
        assert bodies(bob) == [1]


def test_a_group_whose_messages_are_in_work_gets_another_one(database: Database) -> None:
    with fair(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send(1, session_id="a")
        assert (bodies(bob), bodies(bob)) == ([1], [])
        ann.send(2, session_id="a")
        assert bodies(bob) == [2]


def test_a_sender_does_not_wait_for_a_receive_that_sets_its_group_aside(database: Database) -> None:
    with fair(database) as stage:
        ann, bob, cho = stage.sessions("ann", "bob", "cho")
        ann.send(1, session_id="a")
        assert bodies(bob) == [1]
        with opened(bob):
            assert bodies(bob) == []
            ann.send(2, session_id="a")
        assert bodies(cho) == [2]


def test_a_sender_does_not_wait_for_a_transaction_that_receives_twice(database: Database) -> None:
    with fair(database) as stage:
        ann, bob, cho = stage.sessions("ann", "bob", "cho")
        ann.send(1, session_id="a")
        with opened(bob):
            assert (bodies(bob, 1), bodies(bob)) == ([1], [])
            ann.send(2, session_id="a")
            assert bodies(cho) == [2]


def test_a_receive_does_not_set_a_group_aside_while_a_sender_is_open(database: Database) -> None:
    with fair(database) as stage:
        ann, bob, cho = stage.sessions("ann", "bob", "cho")
        ann.send(1, session_id="a")
        with opened(ann):
            ann.send(2, session_id="a")
            assert bodies(bob) == [1]
            assert bodies(bob) == []
            assert bodies(cho) == []
        assert bodies(cho) == [2]


def test_a_group_that_is_forgotten_while_a_sender_is_open_is_announced_by_it(database: Database) -> None:
    with fair(database) as stage:
        ann, bob, cho = stage.sessions("ann", "bob", "cho")
        ann.send(1, session_id="a")
        bob.complete(bob.receive()[0])
        with opened(bob):
            assert bodies(bob) == []
            ann.send(2, session_id="a")
        assert bodies(cho) == [2]


def test_two_senders_to_a_group_that_is_set_aside_do_not_wait_for_each_other(database: Database) -> None:
    with fair(database) as stage:
        ann, bob, cho = stage.sessions("ann", "bob", "cho")
        ann.send(1, session_id="a")
        assert (bodies(cho), bodies(cho)) == ([1], [])
        ann.begin()
        ann.send(2, session_id="a")
        with opened(bob):
            bob.send(3, session_id="a")
        assert bodies(cho) == [3]
        ann.commit()
        assert bodies(cho) == [2]
        assert bodies(cho) == []


def test_a_sender_that_is_rolled_back_leaves_the_group_as_it_was(database: Database) -> None:
    with fair(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send(1, session_id="a")
        ann.begin()
        ann.send(2, session_id="a")
        ann.rollback()
        assert (bodies(bob), bodies(bob)) == ([1], [])


def test_an_abandoned_message_is_found_by_others_while_a_receive_sets_its_group_aside(database: Database) -> None:
    with fair(database) as stage:
        ann, bob, cho = stage.sessions("ann", "bob", "cho")
        ann.send(1, session_id="a")
        (held,) = bob.receive()
        with opened(cho):
            assert bodies(cho) == []
            bob.abandon(held)
        assert bodies(ann) == [1]


def test_messages_are_looked_for_once_more_before_a_group_is_set_aside(database: Database) -> None:
    with fair(database) as stage:
        ann, bob, cho = stage.sessions("ann", "bob", "cho")
        ann.send(1, session_id="a")
        stage.rewrite(
            "_set_aside",
            "    if current_setting",
            "    perform pg_advisory_xact_lock(1);\n    if current_setting",
        )
        assert bodies(bob, 1) == [1]
        cho.rows("select pg_advisory_lock(1)")
        finding = bob.starts(lambda: bodies(bob))
        ann.send(2, session_id="a")
        cho.rows("select pg_advisory_unlock(1)")
        assert finding.result() == []
        assert bodies(cho) == [2]


def test_while_another_receive_holds_the_only_group_its_messages_are_received(database: Database) -> None:
    with fair(database) as stage:
        ann, bob, cho = stage.sessions("ann", "bob", "cho")
        ann.send(1, 2, 3, session_id="a")
        with opened(bob):
            assert bodies(bob, 1) == [1]
            assert bodies(cho, 1) == [2]
        assert bodies(cho) == [3]


def test_a_receive_that_is_rolled_back_gives_its_messages_back(database: Database) -> None:
    with fair(database) as stage:
        ann, bob, cho = stage.sessions("ann", "bob", "cho")
        ann.send(1, 2, session_id="a")
        bob.begin()
        assert bodies(bob) == [1, 2]
        assert bodies(cho) == []
        bob.rollback()
        assert bodies(cho) == [1, 2]


def test_a_transaction_that_holds_an_expired_message_does_not_hide_it_for_long(database: Database) -> None:
    with fair(database) as stage:
        ann, bob, cho = stage.sessions("ann", "bob", "cho")
        ann.send(1, session_id="a")
        (held,) = bob.receive()
        bob.begin()
        bob.settle("pin", held)
        stage.passes(LOCK_DURATION)
        assert bodies(cho) == []
        bob.rollback()
        assert bodies(cho) == [1]


def test_a_renewed_lock_is_waited_for(database: Database) -> None:
    with fair(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send(1, session_id="a")
        (held,) = bob.receive()
        assert bodies(bob) == []
        stage.passes(LOCK_DURATION / 2)
        bob.settle("renew_lock", held)
        stage.passes(LOCK_DURATION / 2)
        assert bodies(bob) == []
        stage.passes(LOCK_DURATION / 2)
        assert bodies(bob) == [1]


def test_a_receive_hands_out_no_message_twice_however_short_its_locks(database: Database) -> None:
    with fair(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        for group in "ab":
            ann.send(group, session_id=group)
        stage.rewrite("clock", "timestamptz '2030-01-01 00:00+00'", "clock_timestamp() + interval '9 years'")
        assert bodies(bob, 3, lock_duration=timedelta(microseconds=1)) == ["a", "b"]


def test_several_rows_of_a_group_are_merged(database: Database) -> None:
    with fair(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        for number in range(9):
            with opened(ann, "repeatable read"):
                ann.send(number, session_id="a")
        ann.send("b", session_id="b")
        assert waiting(ann) == ["a"] * 9 + ["b"]
        assert bodies(bob, 3) == [0, 1, 2]
        assert sorted(waiting(ann)) == ["a", "b"]
        assert len(bodies(bob)) == 7


def test_a_row_that_a_sender_holds_is_not_merged(database: Database) -> None:
    with fair(database) as stage:
        ann, bob, cho = stage.sessions("ann", "bob", "cho")
        for number in range(9):
            with opened(ann, "repeatable read"):
                ann.send(number, session_id="a")
        with opened(cho):
            cho.send(9, session_id="a")
            assert bodies(bob, 3) == [0, 1, 2]
            assert waiting(ann) == ["a", "a"]
        assert len(bodies(bob)) == 7


def test_a_first_delivery_is_completed_by_its_token_alone(database: Database) -> None:
    with fair(database) as stage:
        ann = stage.session("ann")
        ann.send(1, session_id="a")
        (received,) = ann.receive()
        with refused(LOCK_LOST):
            ann.complete(replace(received, lock_token=uuid4()))
        ann.complete(received)


def test_at_repeatable_read_nothing_is_set_aside_and_a_sender_does_not_fail(database: Database) -> None:
    with fair(database) as stage:
        ann, bob, cho = stage.sessions("ann", "bob", "cho")
        ann.send(1, session_id="a")
        assert bodies(bob) == [1]
        ann.begin("repeatable read")
        assert ann.values("select count(*) from pgqueue.waiting_session") == [1]
        assert bodies(bob) == []
        ann.send(2, session_id="a")
        ann.commit()
        with opened(bob, "repeatable read"):
            bob.values("select 1")
            ann.send(3, session_id="b")
            assert bodies(bob) == [2]
            assert bodies(bob) == []
        assert bodies(cho) == [3]


def test_expired_and_exhausted_messages_leave_the_group(database: Database) -> None:
    with fair(database, max_delivery_count=1) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("expires", session_id="a", time_to_live=SECOND)
        ann.send("exhausted", session_id="a")
        stage.passes(SECOND)
        assert bodies(bob) == ["exhausted"]
        ann.send("next", session_id="a")
        stage.passes(LOCK_DURATION)
        assert bodies(bob) == ["next"]
        assert bodies(bob, queue="q/$deadletterqueue") == ["exhausted"]


def test_a_message_needs_a_group_and_has_no_priority(database: Database) -> None:
    with fair(database) as stage:
        ann = stage.session("ann")
        with said(
            r"group_id \(session_id\) of the message must be a text of 1 to 128 characters, because the queue is fair"
        ):
            ann.send(1)
        with said("priority of the message must be left out"):
            ann.send(1, session_id="a", priority=1)


def test_a_fair_queue_refuses_settings_and_verbs_that_contradict_it(database: Database) -> None:
    with fair(database) as stage:
        ann = stage.session("ann")
        with said("does not require sessions"):
            ann.table("accept_session", queue="q")
        with said("fair must be that of the creation of the queue, not f"):
            ann.call("alter_queue", queue="q", fair=False)
        ann.call("create_queue", queue="plain")
        with said("fair must be that of the creation of the queue, not t"):
            ann.call("alter_queue", queue="plain", fair=True)
        with said("requires_session must be left out, because queue two is fair"):
            ann.call("create_queue", queue="two", fair=True, requires_session=True)
        with said("forward_to must be left out"):
            ann.call("alter_queue", queue="q", forward_to="plain")
        with said("priority_ageing must be left out"):
            ann.call("alter_queue", queue="q", priority_ageing=SECOND)
        with said("to must be a queue that requires sessions or is fair"):
            ann.call("move_messages", queue="q", sequence_numbers=ann.send(1, session_id="a"), to="plain")


def test_deferred_scheduled_moved_and_resubmitted_messages_come_to_their_groups(database: Database) -> None:
    with fair(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.call("create_queue", queue="plain")
        moved = ann.send("moved", queue="plain", session_id="a")
        ann.send(
            "scheduled", session_id="a", scheduled_enqueue_time=stage.prompter.value("select pgqueue.clock()") + SECOND
        )
        ann.send("deferred", session_id="a")
        (deferred,) = bob.receive()
        bob.settle("defer", deferred)
        assert bodies(bob) == []
        assert ann.call("move_messages", queue="plain", sequence_numbers=moved, to="q") == 1
        assert bodies(bob) == ["moved"]
        stage.passes(SECOND)
        (held,) = bob.receive()
        bob.settle("dead_letter", held, reason="Broken")
        assert bodies(bob) == []
        ann.call("resubmit", queue="q", sequence_numbers=[held.sequence_number])
        assert bodies(bob) == ["scheduled"]
        assert [message.body for message in bob.receive_deferred(deferred.sequence_number)] == ["deferred"]


def test_limits_of_the_queue_hold_beside_its_groups(database: Database) -> None:
    with fair(database, max_concurrent=2) as stage:
        ann, bob = stage.sessions("ann", "bob")
        for group in "abc":
            ann.send(1, 2, session_id=group)
        first, _ = bob.receive(9)
        assert bodies(bob) == []
        bob.complete(first)
        assert len(bodies(bob)) == 1


def test_the_cursor_of_a_group_passes_what_was_settled(database: Database) -> None:
    with fair(database) as stage:
        ann, bob, cho = stage.sessions("ann", "bob", "cho")
        with opened(cho, "repeatable read"):
            cho.values("select count(*) from pgqueue.message")
            ann.table("send_batch", queue="q", bodies=[Jsonb(n) for n in range(5000)], session_ids=["a"] * 5000)
            bob.settle_batch("complete_batch", bob.receive(4990))
            for _ in range(2):
                bob.settle_batch("release_batch", bob.receive(1))
            assert bob.value("select cursor from pgqueue.waiting_session") > 4000
        assert bodies(bob) == list(range(4990, 5000))


@pytest.mark.parametrize("within", [False, True], ids=["in a transaction of its own", "in one that is older"])
def test_a_cursor_stops_before_what_an_open_transaction_may_have_sent(database: Database, within: bool) -> None:
    with fair(database) as stage:
        ann, bob, cho = stage.sessions("ann", "bob", "cho")
        ann.send("first", session_id="a")
        if within:
            bob.begin()
            bob.values("select pg_current_xact_id()")
        with opened(cho):
            cho.send("late", session_id="a")
            ann.table("send_batch", queue="q", bodies=[Jsonb(n) for n in range(5000)], session_ids=["a"] * 5000)
            held = bob.receive(4991)
            if within:
                bob.commit()
            bob.settle_batch("complete_batch", held)
            for _ in range(2):
                bob.settle_batch("release_batch", bob.receive(1))
        assert bodies(bob, 1) == ["late"]


def test_a_transaction_that_stays_open_is_awaited(database: Database) -> None:
    with fair(database) as stage:
        ann, bob, cho = stage.sessions("ann", "bob", "cho")
        ann.send("first", session_id="a")
        with opened(cho):
            cho.send("late", session_id="a")
            ann.table("send_batch", queue="q", bodies=[Jsonb(n) for n in range(5000)], session_ids=["a"] * 5000)
            bob.settle_batch("complete_batch", bob.receive(4991))
            stage.passes(SECOND)
            bob.settle_batch("release_batch", bob.receive(1))
            assert bob.value("select cursor from pgqueue.waiting_session") > 4000
            assert bob.values("select from pgqueue.broken_invariants()") == []
            bob.settle_batch("release_batch", bob.receive(1))
        assert bodies(bob, 1) == ["late"]
        assert bodies(bob) == list(range(4990, 5000))


def test_an_empty_group_keeps_its_cursor_for_an_hour(database: Database) -> None:
    with fair(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        for number in range(2):
            ann.send(number, session_id="a")
            bob.complete(bob.receive()[0])
            assert bodies(bob) == []
        assert bob.value("select cursor from pgqueue.waiting_session") > 0
        stage.passes(HOUR)
        assert bodies(bob) == []
        assert waiting(bob) == []


def test_no_more_messages_of_a_group_are_in_work_than_its_limit(database: Database) -> None:
    with Stage(database, max_concurrent_per_group=2) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send(*range(5), session_id="a")
        ann.send("b", session_id="b")
        held = bob.receive(9)
        assert sorted(str(message.body) for message in held) == ["0", "1", "b"]
        assert bodies(bob) == []
        bob.complete(next(message for message in held if message.body == 0))
        assert bodies(bob) == [2]
        assert bodies(bob) == []


SETTLEMENTS: dict[str, dict[str, Any]] = {
    "complete": {},
    "abandon": {},
    "defer": {},
    "dead_letter": {"reason": "Broken"},
    "complete_batch": {},
    "release_batch": {},
}


@pytest.mark.parametrize("verb", SETTLEMENTS)
def test_a_settlement_frees_the_slot_of_its_group_at_once(database: Database, verb: str) -> None:
    with Stage(database, max_concurrent_per_group=1) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send(1, 2, session_id="a")
        (held,) = bob.receive(9)
        assert bodies(bob) == []
        if verb.endswith("batch"):
            bob.settle_batch(verb, [held])
        else:
            bob.settle(verb, held, **SETTLEMENTS[verb])
        assert len(bodies(bob)) == 1


def test_a_settlement_that_is_open_while_the_group_is_set_aside_frees_its_slot_when_it_commits(
    database: Database,
) -> None:
    with Stage(database, max_concurrent_per_group=1) as stage:
        ann, bob, cho = stage.sessions("ann", "bob", "cho")
        ann.send(1, 2, session_id="a")
        (held,) = bob.receive()
        with opened(bob):
            bob.complete(held)
            assert bodies(cho) == []
        assert bodies(cho) == [2]


def test_a_slot_that_becomes_free_before_the_group_is_set_aside_is_noticed(database: Database) -> None:
    with Stage(database, max_concurrent_per_group=1) as stage:
        ann, bob, cho = stage.sessions("ann", "bob", "cho")
        ann.send(1, 2, session_id="a")
        (held,) = cho.receive()
        stage.rewrite(
            "_set_aside", "    if current_setting", "    perform pg_advisory_xact_lock(1);\n    if current_setting"
        )
        cho.rows("select pg_advisory_lock(1)")
        finding = bob.starts(lambda: bodies(bob))
        cho.complete(held)
        cho.rows("select pg_advisory_unlock(1)")
        assert finding.result() == []
        assert bodies(cho) == [2]


def test_the_slot_of_an_expired_lock_is_given_to_another_message_and_the_lock_is_lost(database: Database) -> None:
    with Stage(database, max_concurrent_per_group=1) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send(1, 2, session_id="a")
        (held,) = bob.receive()
        stage.passes(LOCK_DURATION)
        assert bodies(bob) == [1]
        with refused(LOCK_LOST):
            bob.settle("renew_lock", held)
        assert bodies(bob) == []


def test_a_renewed_lock_keeps_its_slot(database: Database) -> None:
    with Stage(database, max_concurrent_per_group=1) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send(1, 2, session_id="a")
        (held,) = bob.receive()
        for _ in range(3):
            stage.passes(LOCK_DURATION / 2)
            bob.settle("renew_lock", held)
            assert bodies(bob) == []
        bob.complete(held)
        assert bodies(bob) == [2]


def test_a_message_that_a_transaction_holds_keeps_its_slot_when_its_lock_expires(database: Database) -> None:
    with Stage(database, max_concurrent_per_group=1) as stage:
        ann, bob, cho = stage.sessions("ann", "bob", "cho")
        ann.send(1, 2, session_id="a")
        (held,) = bob.receive()
        with opened(bob):
            bob.settle("pin", held)
            stage.passes(LOCK_DURATION)
            assert bodies(cho) == []
            bob.complete(held)
        assert bodies(cho) == [2]


def test_two_receives_at_a_time_do_not_exceed_the_limit(database: Database) -> None:
    with Stage(database, max_concurrent_per_group=1) as stage:
        ann, bob, cho = stage.sessions("ann", "bob", "cho")
        ann.send(1, 2, session_id="a")
        with opened(bob):
            assert bodies(bob) == [1]
            assert bodies(cho) == []
        assert bodies(cho) == []


def test_a_receive_does_not_wait_for_another_one_of_a_group_with_limits(database: Database) -> None:
    with Stage(database, max_concurrent_per_group=3) as stage:
        ann, bob, cho = stage.sessions("ann", "bob", "cho")
        ann.send(1, 2, 3, session_id="a")
        assert bodies(bob, 1) == [1]
        with opened(bob):
            assert bodies(bob, 1) == [2]
            assert bodies(cho, 1) == []
        assert bodies(cho, 1) == [3]


def test_a_receive_at_repeatable_read_does_not_exceed_the_limit(database: Database) -> None:
    with Stage(database, max_concurrent_per_group=2) as stage:
        ann, bob, cho = stage.sessions("ann", "bob", "cho")
        ann.send(1, 2, 3, 4, session_id="a")
        bob.receive()
        bob.begin("repeatable read")
        bob.values("select count(*) from pgqueue.message")
        assert bodies(cho) == [2]
        with refused(SERIALIZATION_FAILURE):
            bob.receive(9)
        bob.rollback()
        assert bodies(cho) == []


def test_a_receive_that_is_rolled_back_frees_its_slots_and_its_tokens(database: Database) -> None:
    with Stage(database, max_concurrent_per_group=1, max_receive_rate_per_group=1) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send(1, 2, session_id="a")
        bob.begin()
        assert bodies(bob) == [1]
        bob.rollback()
        assert bodies(bob) == [1]


@pytest.mark.parametrize("before", ["    select array_agg(place)", "    with gone as ("])
def test_a_sweep_does_not_forget_the_slots_of_a_group_in_use(database: Database, before: str) -> None:
    with Stage(database, max_concurrent_per_group=1) as stage:
        ann, bob, gate = stage.sessions("ann", "bob", "gate")
        ann.send(0, session_id="a")
        bob.complete(*bob.receive())
        stage.rewrite("_forget_sessions", before, f"    perform pg_advisory_xact_lock_shared(7);\n{before}")
        gate.rows("select pg_advisory_lock(7)")
        swept = ann.starts(lambda: ann.rows("select from pgqueue.sweep(thorough => true)"))
        gate.send(1, 2, session_id="a")
        found = bodies(bob)
        gate.rows("select pg_advisory_unlock(7)")
        swept.result()
        gate.send(3, session_id="a")
        assert found + bodies(bob) + bodies(bob) == [1]


def test_receive_and_delete_takes_no_slot_for_long(database: Database) -> None:
    with Stage(database, max_concurrent_per_group=1) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send(1, 2, session_id="a")
        for number in (1, 2):
            assert [m.body for m in bob._receive("receive_and_delete", {"queue": "q", "max_messages": 9})] == [number]


def test_a_group_gets_no_more_messages_a_second_than_its_rate(database: Database) -> None:
    with Stage(database, max_receive_rate_per_group=2) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send(*range(9), session_id="a")
        ann.send("b", session_id="b")
        assert sorted(str(body) for body in bodies(bob)) == ["0", "1", "b"]
        assert bodies(bob) == []
        stage.passes(SECOND / 2)
        assert bodies(bob) == [2]
        stage.passes(10 * SECOND)
        assert bodies(bob) == [3, 4]


def test_limits_of_one_group_replace_those_of_the_queue(database: Database) -> None:
    with Stage(database, max_concurrent_per_group=1) as stage:
        ann, bob = stage.sessions("ann", "bob")
        for group in "abc":
            ann.send(*range(4), session_id=group)
        ann.call("set_group_limits", queue="q", group_id="a", max_concurrent=2)
        ann.call("set_group_limits", queue="q", group_id="b", max_concurrent=0)
        assert len(bodies(bob)) == 2 + 4 + 1
        assert bodies(bob) == []
        ann.call("set_group_limits", queue="q", group_id="a", max_concurrent=3)
        assert bodies(bob) == [2]
        ann.call("set_group_limits", queue="q", group_id="c", max_receive_rate=1)
        assert bodies(bob) == []
        ann.call("alter_queue", queue="q", max_concurrent_per_group=2)
        assert bodies(bob) == [1]


def test_of_two_that_set_the_limits_of_a_group_the_last_one_counts(database: Database) -> None:
    with fair(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.begin()
        ann.call("set_group_limits", queue="q", group_id="a", max_concurrent=1)
        setting = bob.starts(lambda: bob.call("set_group_limits", queue="q", group_id="a", max_concurrent=2))
        ann.commit()
        setting.result()
        assert ann.values("select max_concurrent from pgqueue.groups") == [2]


def test_limits_of_a_group_are_checked(database: Database) -> None:
    with fair(database) as stage:
        ann = stage.session("ann")
        for arguments, why in (
            ({"group_id": ""}, "group_id must be a text of 1 to 128 characters"),
            ({"group_id": "a", "max_concurrent": 1001}, "max_concurrent must be from 0 to 1000"),
            ({"group_id": "a", "max_receive_rate": 10001.0}, "max_receive_rate must be from 0.001 to 10000"),
        ):
            with said(why):
                ann.call("set_group_limits", queue="q", **arguments)
        ann.call("create_queue", queue="plain")
        with said("the queue must be one that is fair"):
            ann.call("set_group_limits", queue="plain", group_id="a", max_concurrent=1)
        with said("max_concurrent_per_group must be left out, because queue plain is not fair"):
            ann.call("alter_queue", queue="plain", max_concurrent_per_group=1)
        with said("max_concurrent_per_group must be left out, because queue unfair is not fair"):
            ann.call("create_queue", queue="unfair", max_concurrent_per_group=1, fair=False)


def test_the_explanation_of_a_message_names_its_group(database: Database) -> None:
    with fair(database) as stage:
        ann = stage.session("ann")
        (number,) = ann.send(1, session_id="a")
        assert "when its group 'a' has a turn" in ann.call("explain_message", queue="q", sequence_number=number)
        ann.abandon(ann.receive()[0], delay=SECOND)
        assert "rests after a delivery until" in ann.call("explain_message", queue="q", sequence_number=number)


def test_the_view_shows_what_each_group_has(database: Database) -> None:
    with Stage(database, max_concurrent_per_group=2) as stage:
        ann = stage.session("ann")
        ann.send(1, 2, 3, session_id="a")
        ann.call("set_group_limits", queue="q", group_id="b", max_receive_rate=1)
        ann.receive(9)
        shown = "select group_id, waiting, locked, max_concurrent, max_receive_rate from pgqueue.groups order by 1"
        assert ann.rows(shown) == [("a", 1, 2, 2, None), ("b", 0, 0, 2, 1)]


@pytest.mark.parametrize("senders", [1, 3])
def test_locks_and_their_ends_are_shown_as_those_of_other_queues(database: Database, senders: int) -> None:
    with fair(database) as stage:
        ann, *others = stage.sessions("ann", *"abc"[:senders])
        for sender in others:  # each adds the group to those that wait
            sender.begin()
            sender.send(1, session_id="a")
        for sender in others:
            sender.commit()
        ann.send("deferred", "rests", "locked", session_id="b")
        deferred = next(message for message in ann.receive(99) if message.body == "deferred")
        ann.settle("defer", deferred)
        ann.receive_deferred(deferred.sequence_number)
        rests = ann.value("select sequence_number from pgqueue.messages where body = '\"rests\"'")
        known = ann.values("select sequence_number from pgqueue.message order by sequence_number")
        ann.rows(
            "select pgqueue.abandon('q', %(number)s, lock_token, delay => '1 day')"
            " from pgqueue.message where sequence_number = %(number)s",
            number=rests,
        )
        known.remove(rests)
        held = "select sequence_number from pgqueue.{} where queue = 'q' order by sequence_number"
        assert ann.values(held.format("locked_messages")) == known
        assert ann.values(held.format("expired_locks")) == []
        stage.passes(LOCK_DURATION)
        assert ann.values(held.format("locked_messages")) == []
        assert ann.values(held.format("expired_locks")) == known
