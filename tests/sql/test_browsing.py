"""Looking without touching: peek, and the views a person with psql sees."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from pgqueue.testing import Database
from tests.sql.stage import DEAD, LOCK_DURATION, SECOND, Session, Stage, passed, put_back, recorded

SOMEDAY = datetime(2099, 1, 1, tzinfo=UTC)


def test_peek_shows_what_waits_is_locked_or_is_scheduled_by_sequence_number(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        everything = of_every_kind(ann)
        assert peeked(ann, 99) == everything
        assert peeked(ann, 3) == everything[:3]
        assert peeked(ann, 99, everything[2]) == everything[2:]
        assert peeked(ann, 1, everything[-1] + 1) == []


def test_peek_touches_nothing_and_shows_no_token(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        of_every_kind(ann)
        before = ann.values("select message from pgqueue.message order by sequence_number")
        rows = ann.rows(
            "select lock_token, locked_until is null, scheduled_enqueue_time is null from pgqueue.peek('q', 99)"
        )
        assert ann.values("select message from pgqueue.message order by sequence_number") == before
        assert {token for token, *_ in rows} == {None}
        assert sorted((unlocked, unscheduled) for _, unlocked, unscheduled in rows) == [
            (False, True),
            (True, False),
            (True, True),
            (True, True),
            (True, True),
        ]


def test_receives_and_peeks_return_the_priority_and_whether_a_message_is_deferred(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        for priority in (-3, 0, 7):
            ann.send(priority, "deferred", "dead", priority=priority)
        for message in ann.receive(9):
            if message.body == "deferred":
                ann.settle("defer", message)
            elif message.body == "dead":
                ann.settle("dead_letter", message, reason="r")
            else:
                ann.abandon(message)
        columns = "priority, is_deferred, scheduled_enqueue_time, dead_letter_reason"
        ann.send("later", priority=5, scheduled_enqueue_time=SOMEDAY)
        plain, deferred, dead = (
            [(priority, *rest) for priority in (-3, 0, 7)]
            for rest in ((False, None, None), (True, None, None), (False, None, "r"))
        )
        scheduled = (5, False, SOMEDAY, None)
        assert set(ann.rows(f"select {columns} from pgqueue.peek('q', 99)")) == {*plain, *deferred, scheduled}
        assert ann.rows(f"select {columns} from pgqueue.peek_dead_letters('q', 9)") == dead
        assert ann.rows(f"select {columns} from pgqueue.peek('{DEAD}', 9)") == dead
        assert ann.rows(f"select {columns} from pgqueue.receive('{DEAD}', 2)") == dead[:2]
        assert ann.rows(f"select {columns} from pgqueue.receive_and_delete('{DEAD}', 9)") == dead[2:]
        numbers = ann.values("select sequence_number from pgqueue.deferred_messages")
        received = ann.rows(f"select {columns} from pgqueue.receive_deferred('q', %(numbers)s)", numbers=numbers)
        assert sorted(received) == deferred
        assert ann.rows(f"select {columns} from pgqueue.receive('q', 2)") == plain[:2]
        assert ann.rows(f"select {columns} from pgqueue.receive_and_delete('q', 9)") == plain[2:]


@pytest.mark.parametrize(
    "look",
    [
        "select sequence_number from pgqueue.peek('q', 99)",
        "select sequence_number from pgqueue.find_messages('q')",
        "select sequence_number from pgqueue.messages order by sequence_number",
        "with received as (select * from pgqueue.receive('q', 99)) select sequence_number from received order by 1",
    ],
)
@pytest.mark.parametrize("is_passed", [False, True], ids=["ahead of the cursor", "behind it"])
def test_fresh_messages_of_each_priority_are_seen(database: Database, look: str, is_passed: bool) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        priorities = (-100, -3, -1, 0, 1, 7, 100)
        for priority in priorities:
            ann.send("before", priority=priority)
        senders = [stage.session(f"sender of {priority}") for priority in priorities]
        for sender, priority in zip(senders, priorities, strict=True):
            sender.begin()
            sender.send(priority, priority=priority)
            if is_passed:
                ann.send("after", priority=priority)
        for message in ann.receive(99):
            ann.settle("complete", message)
        for sender in senders:
            sender.commit()
        sent = ann.values("select sequence_number from pgqueue.message order by sequence_number")
        assert len(sent) == len(priorities)
        assert ann.values(look) == sent


def test_peek_shows_what_others_are_completing_and_waits_for_no_one(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        (number,) = ann.send("a")
        (received,) = ann.receive()
        ann.begin()
        ann.complete(received)
        assert peeked(bob, 9) == [number]
        ann.commit()
        assert peeked(bob, 9) == []


def test_peek_dead_letters_shows_them_by_sequence_number(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        numbers = ann.send("a", "b", "c")
        for message in ann.receive(3)[::-1]:
            ann.settle("dead_letter", message, reason="r")
        peek = "select sequence_number from pgqueue.peek_dead_letters('q', {}, {})"
        assert ann.values(peek.format(9, 0)) == numbers
        assert ann.values(peek.format(1, numbers[1])) == [numbers[1]]


def test_the_queues_are_counted(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_queue", queue="empty")
        ann.send("dead", "scheduled", "expired", "locked", "waiting")
        dead, scheduled, _ = ann.receive(3)
        ann.settle("dead_letter", dead, reason="r")
        ann.abandon(scheduled, delay=timedelta(days=1))
        stage.passes(LOCK_DURATION)
        ann.receive(1, take_turn=False)
        counts = "select name, ready, locked, scheduled, dead_letters, oldest_age from pgqueue.queues order by name"
        assert ann.rows(counts) == [("empty", 0, 0, 0, 0, None), ("q", 2, 1, 1, 1, LOCK_DURATION)]


def test_peek_shows_the_holder_of_each_lock_and_its_end(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        first, second = ann.send("a", "b")
        ann.receive()
        bob.receive(locked_by="worker 7", lock_duration=SECOND)
        held = (
            "select queue, sequence_number, locked_by, remaining, delivery_count, priority from pgqueue.locked_messages"
        )
        process = ann.connection.info.backend_pid
        assert ann.rows(held) == [
            ("q", first, f"ann:{process}", LOCK_DURATION, 1, 0),
            ("q", second, "worker 7", SECOND, 1, 0),
        ]
        stage.passes(LOCK_DURATION)
        assert ann.rows(held) == []
        assert ann.values("select sequence_number from pgqueue.expired_locks") == [first, second]


@pytest.mark.parametrize("state", ["passed", "put back"])
def test_an_expired_lock_is_shown_until_the_message_is_received_again(database: Database, state: str) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        received = passed(stage, ann) if state == "passed" else put_back(stage, ann)
        if state == "passed":
            stage.passes(LOCK_DURATION)
        expired = "select sequence_number, locked_by is not null, delivery_count from pgqueue.expired_locks"
        assert ann.rows(expired) == [(received.sequence_number, True, 1)]
        assert len(ann.receive()) == 1
        assert ann.rows(expired) == []


def test_messages_are_seen_with_their_state(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send({"id": 1}, subject="s", priority=4)
        ann.call("send", queue="q", binary_body=b"\x00\xff")
        ann.receive()
        assert ann.rows("select queue, state, priority, subject, body, binary_body from pgqueue.messages") == [
            ("q", "LOCKED", 0, None, None, b"\x00\xff"),
            ("q", "READY", 4, "s", {"id": 1}, None),
        ]


def test_peek_shows_scheduled_messages_with_their_times(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        later, sooner = ann.send("a", "b")
        for message, delay in zip(ann.receive(2), (2 * SECOND, SECOND), strict=True):
            ann.abandon(message, delay=delay)
        waiting = (
            "select queue, sequence_number, scheduled_enqueue_time - pgqueue.clock() from pgqueue.scheduled_messages"
        )
        assert ann.rows(waiting) == [("q", sooner, SECOND), ("q", later, 2 * SECOND)]


def of_every_kind(session: Session) -> list[int]:
    """A returned, a scheduled and a locked message, and fresh ones of two priorities; in the order they were sent."""
    numbers = session.send("returned", "scheduled", "locked", "fresh") + session.send("less urgent", priority=1)
    returned, scheduled, _ = session.receive(3)
    session.abandon(returned)
    session.abandon(scheduled, delay=SECOND)
    return numbers


def peeked(session: Session, max_messages: int, start: int = 0) -> list[int]:
    statement = "select sequence_number from pgqueue.peek('q', %(count)s, %(start)s)"
    return session.values(statement, count=max_messages, start=start)


PEEKED = "select sequence_number from pgqueue.peek('q', 9)"
SHOWN = "select sequence_number from pgqueue.messages"


def test_a_message_that_the_cursor_has_passed_is_peeked(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        number = passed(stage, ann).sequence_number
        assert ann.values(PEEKED) == ann.values(SHOWN) == [number]


def test_a_message_that_is_committed_behind_the_cursor_is_peeked(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.begin()
        (late,) = ann.send("late")
        bob.send("locked")
        bob.receive()
        while recorded(bob) < late:
            stage.passes(SECOND)
            bob.receive()
        ann.commit()
        assert late in bob.values(PEEKED)
        assert late in bob.values(SHOWN)
