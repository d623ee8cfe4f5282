from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from pgqueue import Message, ReceiveMode, ReceiveState
from pgqueue.errors import QueueNotFoundError
from tests.contract.world import MINUTE, SECOND, World

#: So long that a test would not end, were it waited for to its end.
LONG = timedelta(hours=1)


def test_messages_come_in_the_order_they_were_sent_up_to_as_many_as_asked_for(own: World) -> None:
    numbers = own.send(*range(7))
    first = own.queue.receive(max_messages=3)
    second = own.queue.receive(max_messages=3)
    rest = own.queue.receive(max_messages=3)
    assert [len(first), len(second), len(rest)] == [3, 3, 1]
    assert [message.sequence_number for message in [*first, *second, *rest]] == numbers
    assert own.queue.receive(max_messages=3) == []


def test_one_message_is_received_by_default(own: World) -> None:
    own.send("a", "b")
    assert [message.body for message in own.queue.receive()] == ["a"]


def test_a_received_message_stays_in_the_queue_hidden_from_others(own: World) -> None:
    received = own.locked("work")
    assert own.queue.receive(max_messages=10) == []
    assert own.queue.receive_and_delete(max_messages=10) == []
    assert own.bodies() == ["work"]
    assert own.is_ours(received)


def test_a_delivery_has_its_holder_and_the_end_of_its_lock(own: World) -> None:
    before = own.database.clock.now()
    received = own.locked()
    after = own.database.clock.now()
    assert received.state is ReceiveState.RECEIVED
    assert received.delivery_count == 1
    assert received.locked_until is not None
    assert before + MINUTE <= received.locked_until <= after + MINUTE
    assert received.locked_by is not None
    assert received.locked_by.endswith(f":{os.getpid()}")
    (browsed,) = own.found()
    assert (browsed.locked_by, browsed.locked_until) == (received.locked_by, received.locked_until)
    assert (received.dead_letter_reason, received.dead_lettered_at) == (None, None)


def test_a_receive_may_lock_for_longer_or_shorter_than_the_queues_lock_duration(own: World) -> None:
    own.send("a", "b")
    (short,) = own.queue.receive(lock_duration=SECOND)
    (long,) = own.queue.receive(lock_duration=10 * MINUTE)
    own.move_clock(2 * SECOND)
    (again,) = own.queue.receive(max_messages=2)
    assert again.sequence_number == short.sequence_number
    own.move_clock(5 * MINUTE)
    assert [message.sequence_number for message in own.queue.receive(max_messages=2)] == [short.sequence_number]
    assert own.is_ours(long)


def test_every_delivery_has_a_token_of_its_own(own: World) -> None:
    tokens = set()
    own.send("work")
    for _ in range(3):
        received = own.receive()
        tokens.add(received.lock_token)
        received.abandon()
    assert len(tokens) == 3


def test_without_patience_an_empty_queue_answers_at_once(own: World) -> None:
    for wait in (None, timedelta(0), -SECOND):
        assert own.queue.receive(max_messages=10, wait=wait) == []


def test_patience_ends_with_nothing_when_nothing_came(own: World) -> None:
    began = time.monotonic()
    assert own.queue.receive(wait=timedelta(milliseconds=300)) == []
    assert time.monotonic() - began >= 0.3


def test_a_receive_does_not_wait_for_more_than_is_there_already(own: World) -> None:
    own.send("there")
    assert len(own.queue.receive(max_messages=10, wait=LONG)) == 1


def test_patience_ends_as_soon_as_a_message_comes(own: World) -> None:
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(own.queue.receive, max_messages=10, wait=LONG)
        own.wait_until_somebody_looked()
        assert not waiting.done()
        own.send("at last")
        assert [message.body for message in waiting.result()] == ["at last"]


def test_a_message_that_was_given_back_is_waited_for_too(either: World) -> None:
    received = either.locked()
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(either.queue.receive, wait=LONG)
        either.wait_until_somebody_looked()
        received.abandon()
        (again,) = waiting.result()
        assert again.delivery_count == 2


def test_a_waiting_receive_holds_no_transaction(own: World) -> None:
    """Neither one that is open from one look to the next, nor a statement that waits in the database."""
    held = """select pid, state, query
                from pg_stat_activity
               where datname = current_database() and pid <> pg_backend_pid()
                 and (state like 'idle in transaction%' or wait_event = 'PgSleep'
                      or state = 'idle' and backend_xmin is not null)"""
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(own.queue.receive, wait=timedelta(milliseconds=800))
        samples = 0
        with own.database.connect(autocommit=True) as observer:
            while not waiting.done():
                assert observer.execute(held).fetchall() == []
                samples += 1
        assert samples > 0
        assert waiting.result() == []


@pytest.mark.parametrize("source", ["pool", "engine"])
def test_a_waiting_receive_holds_no_connection(either: World, source: str) -> None:
    with either.sources.narrow_client(source) as client, ThreadPoolExecutor(1) as threads:
        queue = client.queue(either.name)
        waiting = threads.submit(queue.receive, wait=LONG)
        either.wait_until_somebody_looked()
        queue.send(Message("over the only connection"))
        assert len(waiting.result()) == 1


def test_returned_messages_come_before_fresh_ones_and_those_in_the_order_sent(own: World) -> None:
    own.send("a", "b", "c", "d", "e")
    a, b, c = own.queue.receive(max_messages=3)
    c.abandon()
    a.abandon()
    received = own.queue.receive(max_messages=5)
    assert [message.body for message in received[2:]] == ["d", "e"]
    assert {message.body for message in received[:2]} == {"a", "c"}
    assert [message.delivery_count for message in received] == [2, 2, 1, 1]
    assert {a.sequence_number, c.sequence_number} == {message.sequence_number for message in received[:2]}
    assert own.is_ours(b)


def test_a_batch_that_is_given_back_comes_again_in_the_order_sent(own: World) -> None:
    numbers = own.send(*range(5))
    own.send("fresh")
    own.queue.abandon_batch(own.queue.receive(max_messages=5)[::-1])
    again = own.queue.receive(max_messages=6)
    assert [message.sequence_number for message in again[:5]] == numbers
    assert again[5].body == "fresh"


def test_no_message_is_given_to_two_of_many_receivers(either: World) -> None:
    numbers = either.send(*range(200))

    def receive_all(_: int) -> list[int]:
        received: list[int] = []
        while batch := either.queue.receive(max_messages=7):
            received += [message.sequence_number for message in batch]
        return received

    with ThreadPoolExecutor(6) as threads:
        received = [number for numbers in threads.map(receive_all, range(6)) for number in numbers]
    assert sorted(received) == numbers


def test_a_receiver_iterates_over_what_comes(either: World) -> None:
    either.send(*"abc")
    bodies = []
    with either.queue.receiver() as receiver:
        for received in receiver:
            assert hasattr(received, "complete")
            bodies.append(received.body)
            received.complete()
            if received.body == "c":
                break
    assert bodies == ["a", "b", "c"]
    assert either.found() == []


def test_a_receiver_takes_one_message_at_a_time(either: World) -> None:
    either.send("a", "b")
    with either.queue.receiver() as receiver:
        next(iter(receiver))
        assert [message.locked_by is None for message in either.found()] == [False, True]


def test_a_receiver_waits_for_what_has_not_come_yet(either: World) -> None:
    with ThreadPoolExecutor(1) as threads, either.queue.receiver() as receiver:
        waiting = threads.submit(lambda: next(iter(receiver)))
        either.wait_until_somebody_looked()
        either.send("late")
        assert waiting.result().body == "late"


def test_a_receiver_that_deletes_at_once_leaves_nothing(either: World) -> None:
    either.send("a", "b")
    with either.queue.receiver(receive_mode=ReceiveMode.RECEIVE_AND_DELETE) as receiver:
        arrivals = iter(receiver)
        assert [next(arrivals).body, next(arrivals).body] == ["a", "b"]
    assert either.found() == []


def test_a_closed_receiver_ends_its_iteration(either: World) -> None:
    either.send("never received")
    with either.queue.receiver() as receiver:
        pass
    assert list(receiver) == []
    assert either.receive().delivery_count == 1


@pytest.mark.parametrize("source", ["pool", "engine"])
def test_a_refusal_gives_the_connection_back_in_good_order(either: World, source: str) -> None:
    received = either.locked()
    received.complete()
    with either.sources.narrow_client(source) as client:
        queue = client.queue(either.name)
        for _ in range(3):
            with pytest.raises(QueueNotFoundError):
                client.queue("no-such-queue").receive()
            assert queue.renew_lock_batch([]) == []
        queue.send(Message("over the same connection"))
        assert [message.body for message in queue.receive()] == ["over the same connection"]
