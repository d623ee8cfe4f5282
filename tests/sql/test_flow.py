"""Queues that are paused, or limit how many messages they hand out: a second, and at a time."""

from __future__ import annotations

from datetime import timedelta
from math import inf

import pytest
from psycopg.errors import SerializationFailure

from pgqueue.testing import Database
from tests.sql.stage import (
    DEAD,
    INVALID_ARGUMENT,
    LOCK_DURATION,
    LOCK_LOST,
    MESSAGE_NOT_FOUND,
    SECOND,
    UNKNOWN_QUEUE,
    Received,
    Session,
    Stage,
    not_held_up_by_other_tests,
    passed,
    refused,
    told,
    turns_until,
)

TENTH = SECOND / 10


def due_in(session: Session) -> float | None:
    due: float | None = session.call("_due_in", queue="q")
    return due


def held(session: Session) -> int:
    return int(session.value("select count(*) from pgqueue.locked_messages"))


# --- pausing ---


def test_a_paused_queue_hands_out_nothing_until_it_is_resumed(database: Database) -> None:
    with Stage(database) as stage:
        ann, ben = stage.sessions("ann", "ben")
        (first,) = ann.send("a")
        deferred = ann.receive()
        ann.settle("defer", deferred[0])
        ben.call("pause_queue", queue="q")
        (second,) = ann.send("b")
        assert ann.receive(9) == []
        assert ann.table("receive_and_delete", queue="q") == []
        assert ann.receive_deferred(first) == []
        ben.call("resume_queue", queue="q")
        assert ann.numbers(9) == [second]
        assert [each.sequence_number for each in ann.receive_deferred(first)] == [first]


def test_messages_locked_before_a_pause_are_settled_as_usual(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send("a", "b", "c")
        completed, dead, renewed = ann.receive(3)
        ann.call("pause_queue", queue="q")
        ann.complete(completed)
        ann.settle("dead_letter", dead, reason="r")
        ann.call("renew_lock", queue="q", sequence_number=renewed.sequence_number, lock_token=renewed.lock_token)
        (letter,) = ann.receive(queue=DEAD)
        assert letter.sequence_number == dead.sequence_number


def test_a_queue_is_paused_since_it_was_paused_first(database: Database) -> None:
    with Stage(database, status="SEND_DISABLED") as stage:
        ann = stage.session("ann")
        paused_at = "select paused_at from pgqueue.queue_settings('q')"
        assert ann.value(paused_at) is None
        since = ann.call("clock")
        for _ in range(2):
            ann.call("pause_queue", queue="q")
            stage.passes(SECOND)
        assert ann.value(paused_at) == since == ann.value("select paused_at from pgqueue.queues")
        for _ in range(2):
            ann.call("resume_queue", queue="q")
        assert ann.rows("select paused_at, status from pgqueue.queue_settings('q')") == [(None, "SEND_DISABLED")]


@pytest.mark.parametrize("verb", ["pause_queue", "resume_queue"])
def test_an_unknown_queue_is_not_paused(database: Database, verb: str) -> None:
    with Stage(database) as stage, refused(UNKNOWN_QUEUE):
        stage.session("ann").call(verb, queue="another")


def test_waiting_receivers_are_notified_of_pause_and_resume(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        for verb in ("pause_queue", "resume_queue"):
            with told(stage, ann, times=1):
                ann.call(verb, queue="q")
            with told(stage, ann, times=0, awaited=False):
                ann.call(verb, queue="q")


def test_consumers_know_that_a_queue_is_paused(database: Database) -> None:
    with Stage(database, max_receive_rate=1) as stage:
        ann = stage.session("ann")
        ann.send("a")
        ann.call("pause_queue", queue="q")
        assert due_in(ann) == inf


def test_senders_and_receivers_do_not_wait_for_a_pause(database: Database) -> None:
    with Stage(database) as stage:
        ann, ben = stage.sessions("ann", "ben")
        ann.begin()
        ann.call("pause_queue", queue="q")
        (number,) = ben.send("a")
        assert ben.numbers() == [number]
        ann.commit()


# --- a rate ---


def test_a_second_brings_as_many_messages_as_the_rate_allows(database: Database) -> None:
    with Stage(database, max_receive_rate=10) as stage:
        ann, ben = stage.sessions("ann", "ben")
        numbers = ann.send_many(30)
        assert ann.numbers(99) == numbers[:10]
        assert ben.numbers(99) == []
        stage.passes(TENTH * 0.99)
        assert ben.numbers(99) == []
        stage.passes(TENTH * 0.01)
        assert ben.numbers(99) == numbers[10:11]
        stage.passes(TENTH * 3)
        assert ann.numbers(2) == numbers[11:13]
        assert ben.numbers(2) == numbers[13:14]
        stage.passes(SECOND * 30)
        assert ben.numbers(99) == numbers[14:24]


def test_a_rate_below_one_hands_out_single_messages(database: Database) -> None:
    with Stage(database, max_receive_rate=0.1) as stage:
        ann = stage.session("ann")
        numbers = ann.send_many(3)
        assert ann.numbers(9) == numbers[:1]
        stage.passes(SECOND * 9)
        assert ann.numbers(9) == []
        stage.passes(SECOND)
        assert ann.numbers(9) == numbers[1:2]


def test_all_ways_of_receiving_take_tokens(database: Database) -> None:
    with Stage(database, max_receive_rate=3) as stage:
        ann = stage.session("ann")
        numbers = ann.send_many(9)
        for message in ann.receive(3):
            ann.settle("defer", message)
        stage.passes(SECOND)
        assert len(ann.receive_deferred(*numbers[:2])) == 2
        assert len(ann.table("receive_and_delete", queue="q", max_messages=9)) == 1
        assert ann.receive_deferred(numbers[2]) == []
        stage.passes(SECOND)
        epoch = ann.value("select epoch from pgqueue.attach_consumer('c', 'q')")
        ann.call("claim_batch", consumer="c", after=0, max_messages=9, epoch=epoch)
        assert ann.values("select messages from pgqueue.claim") == [3]


def test_messages_that_are_not_handed_out_take_no_tokens(database: Database) -> None:
    with Stage(database, max_receive_rate=2, max_delivery_count=1) as stage:
        ann = stage.session("ann")
        ann.send("expired", time_to_live=SECOND)
        stage.passes(SECOND)
        exhausted = ann.send("exhausted", "exhausted")
        assert ann.numbers(2) == exhausted
        stage.passes(LOCK_DURATION)
        fresh = ann.send("fresh", "fresh")
        assert ann.numbers(2) == fresh


@pytest.mark.parametrize("verb", ["receive", "receive_and_delete"])
@pytest.mark.parametrize("is_altered", [False, True], ids=["created with a rate", "altered"])
def test_a_rollback_gives_no_tokens_back(database: Database, verb: str, is_altered: bool) -> None:
    with Stage(database, **{} if is_altered else {"max_receive_rate": 2}) as stage:
        ann = stage.session("ann")
        if is_altered:
            ann.call("alter_queue", queue="q", max_receive_rate=2)
        numbers = ann.send_many(9)
        ann.begin()
        assert len(ann.table(verb, queue="q", max_messages=9)) == 2
        ann.rollback()
        assert ann.table(verb, queue="q", max_messages=9) == []
        stage.passes(SECOND)
        assert ann.numbers(9) == numbers[:2]


def test_messages_that_are_received_and_rolled_back_keep_the_rate(database: Database) -> None:
    with Stage(database, max_receive_rate=1) as stage:
        ann, ben = stage.sessions("ann", "ben")
        ann.send_many(9)
        handed_out = 0
        for _ in range(200):
            for session in (ann, ben):
                session.begin()
                handed_out += len(session.table("receive_and_delete", queue="q"))
                session.rollback()
            stage.passes(SECOND / 100)
        assert handed_out == 2


def test_a_bucket_that_is_missing_is_full(database: Database) -> None:
    """As on a logical replica, which has the rows but not the sequences."""
    with Stage(database, max_receive_rate=2) as stage:
        ann = stage.session("ann")
        numbers = ann.send_many(9)
        ann.receive()
        stage.prompter.rows("drop sequence pgqueue.full_at_1")
        assert due_in(ann) == 0.1
        assert ann.numbers(9) == numbers[1:3]
        assert ann.numbers(9) == []


def test_a_bucket_goes_with_its_queue_at_the_next_sweep(database: Database) -> None:
    with Stage(database, max_receive_rate=2) as stage:
        ann = stage.session("ann")
        ann.call("create_queue", queue="another", max_receive_rate=2)
        ann.call("drop_queue", queue="q")
        buckets = "select relname from pg_class where relname like 'full_at%' order by relname"
        ann.table("sweep", dry_run=True)
        assert ann.values(buckets) == ["full_at_1", "full_at_2"]
        ann.table("sweep")
        assert ann.values(buckets) == ["full_at_2"]


@pytest.mark.parametrize("limit", [{"max_receive_rate": 2}, {"max_concurrent": 2}], ids=str)
def test_an_old_snapshot_hands_out_no_more(database: Database, limit: dict[str, int]) -> None:
    with Stage(database, **limit) as stage:
        ann, ben = stage.sessions("ann", "ben")
        ann.send_many(9)
        ben.begin("repeatable read")
        ben.rows("select")
        assert len(ann.receive(9)) == 2
        try:
            assert ben.receive(9) == []
        except SerializationFailure:
            assert "max_concurrent" in limit


def test_an_open_receive_keeps_no_other_receive_waiting(database: Database) -> None:
    with Stage(database, max_receive_rate=9) as stage:
        ann, ben = stage.sessions("ann", "ben")
        numbers = ann.send("a", "b")
        ann.begin()
        assert len(ann.table("receive_and_delete", queue="q")) == 1
        ben.rows("set lock_timeout = 0; set statement_timeout = '5s'")
        assert ben.receive() == []
        ann.commit()
        assert ben.numbers() == numbers[1:]


def test_a_receive_that_stays_open_does_not_keep_settings_from_being_changed(database: Database) -> None:
    with Stage(database, max_concurrent=1) as stage:
        ann, ben = stage.sessions("ann", "ben")
        ann.send("a")
        ann.begin()
        assert ann.receive()
        ben.call("alter_queue", queue="q", max_concurrent=2)


def test_a_third_of_a_token_is_not_lost(database: Database) -> None:
    with Stage(database, max_receive_rate=3) as stage:
        ann = stage.session("ann")
        numbers = ann.send_many(6)
        ann.receive(3)
        stage.passes(SECOND)
        assert ann.numbers(2) == numbers[3:5]
        assert ann.numbers(2) == numbers[5:]


def test_many_small_receives_do_not_gain_time(database: Database) -> None:
    with Stage(database, max_receive_rate=7000) as stage:
        ann = stage.session("ann")
        ann.send_many(1000)
        ann.rows("select pgqueue.receive('q') from generate_series(1, 700)")
        left = "select extract(epoch from pgqueue._full_at(1) - pgqueue.clock())"
        assert ann.value(left) >= 0.1


def test_a_clock_that_goes_back_does_not_stop_the_queue(database: Database) -> None:
    with Stage(database, max_receive_rate=2) as stage:
        ann = stage.session("ann")
        numbers = ann.send_many(6)
        ann.receive(2)
        stage.passes(-LOCK_DURATION)
        assert ann.numbers(9) == numbers[2:4]
        assert ann.numbers(9) == []


def test_a_rate_is_changed_and_removed(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        numbers = ann.send_many(9)
        ann.receive()
        ann.call("alter_queue", queue="q", max_receive_rate=2)
        assert ann.numbers(9) == numbers[1:3]
        ann.call("alter_queue", queue="q", max_receive_rate=4)
        stage.passes(SECOND / 2)
        assert ann.numbers(9) == numbers[3:5]
        ann.call("alter_queue", queue="q", max_receive_rate=0)
        assert ann.numbers(9) == numbers[5:]


# --- a number at a time ---


def test_so_many_messages_are_handed_out_at_a_time(database: Database) -> None:
    with Stage(database, max_concurrent=3) as stage:
        ann, ben = stage.sessions("ann", "ben")
        numbers = ann.send_many(9)
        mine, theirs = ann.receive(2), ben.receive(2)
        assert [each.sequence_number for each in mine + theirs] == numbers[:3]
        assert ann.receive() == []
        ann.complete(mine[0])
        assert ben.numbers(9) == numbers[3:4]
        ben.abandon(theirs[0])
        assert ann.numbers(9) == [theirs[0].sequence_number]
        ann.settle("defer", mine[1])
        assert [each.sequence_number for each in ann.receive_deferred(mine[1].sequence_number)] == numbers[1:2]
        assert ann.receive() == []


def test_a_completion_that_is_not_committed_keeps_its_slot(database: Database) -> None:
    with Stage(database, max_concurrent=1) as stage:
        ann, ben = stage.sessions("ann", "ben")
        numbers = ann.send("a", "b")
        (message,) = ann.receive()
        ann.begin()
        ann.complete(message)
        stage.passes(LOCK_DURATION)
        assert ben.receive() == []
        ann.commit()
        assert ben.numbers() == numbers[1:]


def test_two_receives_at_once_take_no_slot_twice(database: Database) -> None:
    with Stage(database, max_concurrent=1) as stage:
        ann, ben = stage.sessions("ann", "ben")
        ann.send_many(2)
        ann.begin()
        assert len(ann.receive()) == 1
        assert ben.receive() == []
        ann.commit()
        assert ben.receive() == []


def test_a_slot_of_a_priority_that_is_new_is_not_free(database: Database) -> None:
    with Stage(database, max_concurrent=1) as stage:
        ann, ben, cho = stage.sessions("ann", "ben", "cho")
        stage.rewrite("_allowance", "'100ms'", "'1min'")
        ann.send("a")
        cho.begin()
        cho.rows("select from pgqueue.flow for no key update")
        found = ben.starts(ben.receive)
        cho.send("urgent", priority=-1)
        assert len(cho.receive()) == 1
        cho.commit()
        assert found.result() == []


def test_slots_of_messages_that_are_held_are_looked_up_without_a_lock(database: Database) -> None:
    with Stage(database, max_concurrent=2) as stage:
        ann, ben = stage.sessions("ann", "ben")
        held = _sent_and_received(ann)
        ann.send("b")
        ben.begin()
        assert len(ben.receive(2)) == 1
        ann.complete(held)
        ben.commit()


def test_a_held_message_is_not_polled_for(database: Database) -> None:
    with Stage(database, max_concurrent=2) as stage:
        ann = stage.session("ann")
        _sent_and_received(ann)
        assert due_in(ann) == 1


@pytest.mark.parametrize("is_put_back", [False, True])
def test_a_lock_whose_time_is_over_frees_its_slot_and_is_lost(database: Database, is_put_back: bool) -> None:
    with Stage(database, max_concurrent=1) as stage:
        ann, ben = stage.sessions("ann", "ben")
        late = passed(stage, ann) if is_put_back else _sent_and_received(ann)
        (urgent,) = ann.send("urgent", priority=-1)
        stage.passes(LOCK_DURATION)
        if is_put_back:
            ben.call("take_turn", queue="q")
        assert ben.numbers(2) == [urgent]
        with refused(LOCK_LOST):
            ann.call("renew_lock", queue="q", sequence_number=late.sequence_number, lock_token=late.lock_token)
        with refused(LOCK_LOST):
            ann.complete(late)


def _sent_and_received(session: Session) -> Received:
    session.send("a")
    (received,) = session.receive()
    return received


def test_a_renewed_lock_keeps_its_slot(database: Database) -> None:
    with Stage(database, max_concurrent=1) as stage:
        ann, ben = stage.sessions("ann", "ben")
        message = _sent_and_received(ann)
        ann.send("b")
        for _ in range(3):
            stage.passes(LOCK_DURATION * 0.9)
            ann.call("renew_lock", queue="q", sequence_number=message.sequence_number, lock_token=message.lock_token)
            assert ben.receive() == []
        ann.complete(message)


def test_a_late_lock_can_be_renewed_until_its_slot_is_taken(database: Database) -> None:
    with Stage(database, max_concurrent=2) as stage:
        ann, ben = stage.sessions("ann", "ben")
        message = _sent_and_received(ann)
        stage.passes(LOCK_DURATION)
        ann.call("renew_lock", queue="q", sequence_number=message.sequence_number, lock_token=message.lock_token)
        ben.send_many(2)
        assert len(ben.receive(2)) == 1
        ann.complete(message)


def test_a_message_that_is_lost_and_received_again_takes_one_slot(database: Database) -> None:
    with Stage(database, max_concurrent=2) as stage:
        ann, ben = stage.sessions("ann", "ben")
        message = _sent_and_received(ann)
        stage.passes(LOCK_DURATION)
        assert ben.numbers() == [message.sequence_number]
        ben.send("b")
        assert len(ben.receive(9)) == 1


def test_messages_received_and_deleted_count_until_the_transaction_ends(database: Database) -> None:
    with Stage(database, max_concurrent=2) as stage:
        ann = stage.session("ann")
        ann.send_many(9)
        ann.begin()
        assert len(ann.table("receive_and_delete", queue="q", max_messages=9)) == 2
        ann.commit()
        assert len(ann.table("receive_and_delete", queue="q", max_messages=9)) == 2


def test_dead_letters_are_not_limited(database: Database) -> None:
    with Stage(database, max_concurrent=1, max_receive_rate=0.001) as stage:
        ann = stage.session("ann")
        for _ in range(3):
            stage.passes(SECOND * 1000)
            ann.settle("dead_letter", _sent_and_received(ann), reason="r")
        assert len(ann.receive(9, queue=DEAD)) == 3


def test_slots_go_with_their_queue(database: Database) -> None:
    with Stage(database, max_concurrent=1) as stage:
        ann = stage.session("ann")
        _sent_and_received(ann)
        ann.call("drop_queue", queue="q")
        assert ann.rows("select from pgqueue.slot") == ann.rows("select from pgqueue.flow") == []


def test_an_unknown_deferred_message_is_refused_whatever_the_limits(database: Database) -> None:
    with Stage(database, max_concurrent=1) as stage, refused(MESSAGE_NOT_FOUND):
        stage.session("ann").receive_deferred(7)


# --- when to poll again ---


def test_it_is_known_when_the_next_token_comes(database: Database) -> None:
    with Stage(database, max_receive_rate=0.5) as stage:
        ann = stage.session("ann")
        ann.send_many(2)
        ann.receive()
        assert due_in(ann) == pytest.approx(2, abs=1e-5)
        stage.passes(SECOND)
        assert due_in(ann) == pytest.approx(1, abs=1e-5)
        stage.passes(SECOND)
        assert due_in(ann) == 0.1
        ann.call("alter_queue", queue="q", max_receive_rate=1000)
        ann.receive()
        assert due_in(ann) is None or due_in(ann) == 1


def test_slots_are_polled_the_less_often_the_longer_none_is_free(database: Database) -> None:
    with Stage(database, max_concurrent=1) as stage:
        ann = stage.session("ann")
        ann.send_many(2)
        ann.receive()
        for waited, due in ((0, 0.1), (2, 0.2), (3, 0.5), (60, 1)):
            stage.passes(SECOND * waited)
            assert due_in(ann) == pytest.approx(due)


def test_limits_of_a_queue_without_ready_messages_let_consumers_pause(database: Database) -> None:
    with Stage(database, max_concurrent=1, lock_duration=timedelta(hours=1)) as stage:
        ann = stage.session("ann")
        not_held_up_by_other_tests(stage)
        _sent_and_received(ann)
        turns_until(stage, ann, lambda: due_in(ann) != 1)
        assert (due_in(ann) or 0) > 3000


# --- settings ---


@pytest.mark.parametrize(
    ("setting", "value"),
    [("max_receive_rate", -1), ("max_receive_rate", 10_001), ("max_receive_rate", 1e-9), ("max_receive_rate", "NaN"),
     ("max_concurrent", -1), ("max_concurrent", 10_001)],
)  # fmt: skip
def test_a_limit_has_its_bounds(database: Database, setting: str, value: object) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        with refused(INVALID_ARGUMENT):
            ann.call("alter_queue", queue="q", **{setting: value})


def test_a_queue_without_limits_records_nothing(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send_many(3)
        ann.receive(3)
        assert ann.rows("select from pgqueue.slot") == ann.rows("select from pgqueue.flow") == []


# --- the rate that is reached ---


@pytest.mark.parametrize("rate", [0.7, 3, 50, 1000])
@pytest.mark.parametrize(("consumers", "max_messages"), [(1, 10_000), (3, 7)])
def test_consumers_that_poll_when_due_reach_the_rate(
    database: Database, rate: float, consumers: int, max_messages: int
) -> None:
    with Stage(database, max_receive_rate=rate, lock_duration=timedelta(hours=1)) as stage:
        sessions = stage.sessions(*"abc"[:consumers])
        seconds = max(4, 20 / rate)
        sessions[0].send_many(int(rate * (seconds + 2)) + 2)
        handed_out = polls = 0
        elapsed = -1.0  # the burst is no achievement
        while elapsed < seconds:
            found = [session.numbers(max_messages) for session in sessions]
            polls += len(found)
            handed_out += sum(map(len, found)) if elapsed >= 0 else 0
            if any(len(numbers) == max_messages for numbers in found):
                continue
            pause = due_in(sessions[0])
            assert pause is not None
            pause = max(pause + 0.01, 1 if elapsed < 0 else 0)
            stage.passes(SECOND * pause)
            elapsed += pause
        assert 0.9 * rate * seconds <= handed_out <= rate * (elapsed + 1) + 1
        assert polls <= consumers * (10 * (seconds + 2)) + handed_out / max_messages + 100
