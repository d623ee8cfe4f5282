from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import psycopg
import pytest

from pgqueue import Message, PeekedMessage, Queue, QueueClient
from pgqueue.errors import InvalidArgumentError
from pgqueue.testing import Database
from tests.contract.world import MINUTE, World


def test_messages_are_taken_out_in_the_order_they_were_sent(world: World) -> None:
    numbers = world.send(*range(5))
    with world.transaction() as transaction:
        first = world.queue.receive_and_delete(transaction=transaction.handle)
        rest = world.queue.receive_and_delete(max_messages=10, transaction=transaction.handle)
        assert world.queue.receive_and_delete(max_messages=10, transaction=transaction.handle) == []
        transaction.commit()
    assert [message.sequence_number for message in [*first, *rest]] == numbers
    assert [message.body for message in [*first, *rest]] == [0, 1, 2, 3, 4]
    assert all(type(message) is PeekedMessage for message in rest)
    assert world.found() == []


def test_a_received_and_deleted_message_was_delivered_once(world: World) -> None:
    world.send("once")
    with world.transaction() as transaction:
        (received,) = world.queue.receive_and_delete(transaction=transaction.handle)
        transaction.commit()
    assert received.delivery_count == 1
    assert received.enqueued_time is not None


def test_messages_locked_by_others_are_not_taken(world: World) -> None:
    held = world.locked("held")
    world.send("free")
    with world.transaction() as transaction:
        taken = world.queue.receive_and_delete(max_messages=10, transaction=transaction.handle)
        transaction.commit()
    assert [message.body for message in taken] == ["free"]
    assert world.is_ours(held)


def test_a_message_taken_in_a_callers_transaction_is_hidden_until_it_ends(caller: World) -> None:
    caller.send("a", "b")
    with caller.transaction() as transaction:
        caller.queue.receive_and_delete(transaction=transaction.handle)
        assert [message.body for message in caller.queue.receive(max_messages=10)] == ["b"]
        transaction.commit()
    assert caller.bodies() == ["b"]


def test_a_commit_takes_the_messages_out_together_with_the_work(caller: World) -> None:
    caller.send("a", "b")
    with caller.transaction() as transaction:
        transaction.execute(caller.note("work"))
        caller.queue.receive_and_delete(max_messages=2, transaction=transaction.handle)
        transaction.commit()
    assert caller.found() == []
    assert caller.effects() == ["work"]


def test_an_abort_puts_the_messages_back_for_anyone(caller: World) -> None:
    numbers = caller.send("a", "b")
    with caller.transaction() as transaction:
        transaction.execute(caller.note("work"))
        caller.queue.receive_and_delete(max_messages=2, transaction=transaction.handle)
        transaction.rollback()
    again = caller.queue.receive(max_messages=2)
    assert [message.sequence_number for message in again] == numbers
    assert caller.effects() == []


def test_a_message_that_another_transaction_gives_up_is_found_behind_the_cursor(database: Database) -> None:
    """The connection's own cursor has gone far beyond it, and turns are taken on other connections."""
    with (
        QueueClient(database.dsn) as client,
        psycopg.connect(database.dsn) as taking,
        psycopg.connect(database.dsn) as giving_up,
    ):
        client.create_queue("q")
        queue = client.queue("q")
        numbers = queue.send_batch([Message(number) for number in range(600)])
        taken = passing(queue, taking, 200)
        undone = queue.receive_and_delete(max_messages=5, transaction=giving_up)
        taken += passing(queue, taking, 600 - 200 - len(undone))
        giving_up.rollback()
        while len(taken) < len(numbers):
            taken += queue.receive_and_delete(max_messages=20, wait=MINUTE, transaction=taking)
            taking.commit()
    assert sorted(message.sequence_number for message in taken) == numbers


def test_a_message_that_is_given_up_is_found_while_the_queue_never_runs_empty(database: Database) -> None:
    with (
        QueueClient(database.dsn) as client,
        psycopg.connect(database.dsn) as taking,
        psycopg.connect(database.dsn) as giving_up,
    ):
        client.create_queue("q")
        queue = client.queue("q")
        queue.send_batch([Message(number) for number in range(600)])
        passing(queue, taking, 200)
        undone = {
            message.sequence_number for message in queue.receive_and_delete(max_messages=5, transaction=giving_up)
        }
        passing(queue, taking, 200)
        giving_up.rollback()
        while undone:
            queue.send_batch([Message(number) for number in range(20)])
            undone -= {message.sequence_number for message in passing(queue, taking, 20)}


def test_where_no_dead_letter_waits_none_is_taken_out(own: World) -> None:
    assert own.queue.dead_letters.receive_and_delete(wait=timedelta(milliseconds=30)) == []


def passing(queue: Queue, transaction: psycopg.Connection, count: int) -> list[PeekedMessage]:
    """Takes out so many messages, twenty in a transaction."""
    taken: list[PeekedMessage] = []
    while len(taken) < count:
        taken += queue.receive_and_delete(max_messages=min(20, count - len(taken)), transaction=transaction)
        transaction.commit()
    return taken


def test_a_savepoint_puts_back_what_was_taken_in_it(caller: World) -> None:
    caller.send("a", "b")
    with caller.transaction() as transaction:
        caller.queue.receive_and_delete(transaction=transaction.handle)
        with transaction.savepoint():
            caller.queue.receive_and_delete(transaction=transaction.handle)
            transaction.undo()
        transaction.commit()
    assert caller.bodies() == ["b"]


def test_an_expired_or_delayed_message_is_taken_when_its_time_has_come(world: World) -> None:
    world.locked("ran out")
    world.locked("put off").abandon(delay=MINUTE)
    world.move_clock(2 * MINUTE)
    with world.transaction() as transaction:
        taken = world.queue.receive_and_delete(max_messages=1, transaction=transaction.handle)
        taken += world.queue.receive_and_delete(max_messages=1, transaction=transaction.handle)
        transaction.commit()
    assert {message.body for message in taken} == {"ran out", "put off"}


def test_a_message_delivered_too_often_is_not_taken(world: World) -> None:
    world.client.update_queue(world.name, max_delivery_count=1)
    world.locked("poison").abandon()
    with world.transaction() as transaction:
        assert world.queue.receive_and_delete(transaction=transaction.handle) == []
        transaction.commit()
    assert [message.dead_letter_reason for message in world.dead()] == ["MaxDeliveryCountExceeded"]


def test_patience_ends_as_soon_as_a_message_comes(world: World) -> None:
    def send_in_time() -> None:
        world.wait_until_somebody_looked()
        world.send("at last")

    with ThreadPoolExecutor(1) as threads, world.transaction() as transaction:
        sending = threads.submit(send_in_time)
        taken = world.queue.receive_and_delete(wait=timedelta(hours=1), transaction=transaction.handle)
        assert [message.body for message in taken] == ["at last"]
        sending.result()
        transaction.commit()
    assert world.found() == []


def test_patience_ends_with_nothing_when_nothing_came(own: World) -> None:
    assert own.queue.receive_and_delete(wait=timedelta(milliseconds=30)) == []


def test_sent_and_taken_in_one_transaction_it_was_never_there(caller: World) -> None:
    with caller.transaction() as transaction:
        caller.queue.send(Message("brief"), transaction=transaction.handle)
        (taken,) = caller.queue.receive_and_delete(transaction=transaction.handle)
        assert taken.body == "brief"
        transaction.commit()
    assert caller.found() == []


def test_a_bad_argument_is_named_and_nothing_is_taken(either: World) -> None:
    either.send("there")
    with pytest.raises(InvalidArgumentError, match="max_messages must be"):
        either.queue.receive_and_delete(max_messages=0)
    with pytest.raises(InvalidArgumentError, match="wait must be a timedelta"):
        either.queue.receive_and_delete(wait=5)  # type: ignore[arg-type]
    assert either.bodies() == ["there"]
