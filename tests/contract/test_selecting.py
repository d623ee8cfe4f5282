"""One message, or those that match: found, deleted, cancelled, moved and rescheduled, whatever their state."""

from __future__ import annotations

from datetime import timedelta

import pytest

from pgqueue import Message, ReceiveState
from pgqueue.errors import (
    InvalidArgumentError,
    LockLostError,
    MessageNotFoundError,
    QueueFullError,
    QueueNotFoundError,
)
from tests.contract.world import MINUTE, SECOND, World

HOUR = timedelta(hours=1)


def numbers(world: World, queue: str | None = None) -> list[int]:
    found = world.client.queue(queue or world.name).find_messages()
    return [message.sequence_number for message in found]


def other(world: World, **settings: object) -> str:
    name = f"{world.name}-other"
    world.client.create_queue(name, **settings)  # type: ignore[arg-type]  # what the test gives
    return name


def test_messages_are_found_by_what_they_are(either: World) -> None:
    queue = either.queue
    first, second = either.send("a", "b")
    queue.receive()
    ((now,),) = either.look("select pgqueue.clock()")
    message = Message("c", subject="s", application_properties={"n": 1})
    later = queue.schedule(message, at=now + HOUR)
    found = queue.find_messages()
    assert [(message.sequence_number, message.state) for message in found] == [
        (first, "LOCKED"),
        (second, "READY"),
        (later, "SCHEDULED"),
    ]
    assert [message.body for message in found] == ['"a"', '"b"', '"c"']
    assert [message.sequence_number for message in queue.find_messages(state="READY")] == [second]
    assert [message.sequence_number for message in queue.find_messages(subject="s")] == [later]
    assert [message.sequence_number for message in queue.find_messages(application_properties={"n": 1})] == [later]
    assert [message.sequence_number for message in queue.find_messages(after=first, max_messages=1)] == [second]
    assert queue.find_messages(older_than=HOUR) == []
    assert queue.find_messages(session_id="x") == []


def test_more_messages_are_found_than_one_statement_reads(either: World) -> None:
    either.queue.send_batch([Message(n, subject="s" if n == 5999 else None) for n in range(6000)])
    (found,) = either.queue.find_messages(subject="s")
    assert found.body == "5999"
    assert len(either.queue.find_messages(max_messages=5500)) == 5500


def test_messages_are_deleted_with_the_transaction(world: World) -> None:
    first, second, third = world.send("a", "b", "c")
    received = world.receive()
    with world.transaction() as transaction:
        assert world.queue.delete_messages([first, second, 0], transaction=transaction.handle) == 1
        if not world.is_own:
            assert second in numbers(world)
        transaction.commit()
    assert numbers(world) == [first, third]
    received.complete()


def test_a_rollback_undoes_a_deletion(caller: World) -> None:
    sent = caller.send("a", "b")
    with caller.transaction() as transaction:
        assert caller.queue.delete_messages(sent, transaction=transaction.handle) == 2
        transaction.rollback()
    assert numbers(caller) == sent


def test_messages_that_match_are_deleted(own: World) -> None:
    own.queue.send_batch([Message(n, subject="mail", application_properties={"n": n % 2}) for n in range(4)])
    kept = own.send("kept")
    assert own.queue.delete_matching(subject="mail", application_properties={"n": 1}) == 2
    assert own.queue.delete_matching(state="READY", subject="mail", max_messages=1) == 1
    assert own.queue.delete_matching(older_than=MINUTE) == 0
    own.move_clock(MINUTE)
    assert own.queue.delete_matching(older_than=MINUTE, subject="mail") == 1
    assert numbers(own) == kept


def test_many_messages_that_match_are_deleted_in_several_transactions(
    either: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgqueue.flows.selecting.AT_ONCE", 3)
    either.send(*range(10))
    assert either.queue.delete_matching(max_messages=7) == 7
    assert either.queue.delete_matching() == 3
    either.client.update_queue(either.name, retain_history=HOUR)
    either.send(*range(7))
    assert either.queue.delete_matching() == 7
    deletions = "select count(distinct transaction_id) from pgqueue.history where queue = %s and outcome = 'DELETED'"
    assert either.look(deletions, either.name) == [(3,)]


def test_a_waiting_message_is_cancelled(own: World) -> None:
    first, second = own.send("a", "b")
    assert own.queue.cancel(first) is True
    assert own.queue.cancel(second, reason="sent by mistake") is True
    assert own.queue.cancel(second) is False
    assert numbers(own) == []
    (dead,) = own.dead()
    assert (dead.dead_letter_reason, dead.dead_letter_error_description) == ("Cancelled", "sent by mistake")


def test_a_message_that_is_being_worked_on_is_cancelled(own: World) -> None:
    received = own.locked()
    assert not received.lock_lost.is_set()
    assert own.queue.cancel(received.sequence_number, reason="stuck") is True
    with pytest.raises(LockLostError):
        received.complete()
    assert received.lock_lost.is_set()
    assert received.state is ReceiveState.FAULTED
    own.move_clock(2 * MINUTE)
    assert own.queue.receive() == []


def test_a_cancelled_message_aborts_the_transaction_that_completes_it(caller: World) -> None:
    received = caller.locked()
    assert caller.queue.cancel(received.sequence_number)
    with caller.transaction() as transaction:
        transaction.execute(caller.note("work"))
        with pytest.raises(LockLostError):
            received.complete(transaction=transaction.handle)
        with caller.forgiving():
            transaction.rollback()
    assert caller.effects() == []


def test_a_message_that_a_transaction_completes_is_not_cancelled(caller: World) -> None:
    received = caller.locked()
    with caller.transaction() as transaction:
        received.complete(transaction=transaction.handle)
        assert caller.queue.cancel(received.sequence_number, reason="too late") is False
        transaction.commit()
    assert caller.queue.cancel(received.sequence_number, reason="too late") is False
    assert caller.dead() == []


def test_messages_are_moved_with_the_transaction(world: World) -> None:
    first, second = world.send("a", "b")
    name = other(world)
    with world.transaction() as transaction:
        assert world.queue.move_messages([first, second, 0], to=name, transaction=transaction.handle) == 2
        transaction.commit()
    assert numbers(world) == []
    received = world.client.queue(name).receive(max_messages=9)
    assert [(message.sequence_number, message.body) for message in received] == [(first, "a"), (second, "b")]


def test_a_rollback_undoes_a_move(caller: World) -> None:
    sent = caller.send("a")
    name = other(caller)
    with caller.transaction() as transaction:
        assert caller.queue.move_messages(sent, to=name, transaction=transaction.handle) == 1
        transaction.rollback()
    assert numbers(caller) == sent
    assert numbers(caller, name) == []


def test_a_moved_message_keeps_its_deliveries(either: World) -> None:
    either.locked().abandon()
    name = other(either)
    assert either.queue.move_messages(numbers(either), to=name) == 1
    (received,) = either.client.queue(name).receive()
    assert received.delivery_count == 2


def test_a_scheduled_message_gets_another_time(own: World) -> None:
    ((now,),) = own.look("select pgqueue.clock()")
    number = own.queue.schedule(Message("later"), at=now + HOUR)
    own.queue.reschedule(number, at=now)
    own.move_clock(SECOND)
    assert own.receive().sequence_number == number
    with pytest.raises(MessageNotFoundError, match=f"no scheduled message {number}"):
        own.queue.reschedule(number, at=now)


def test_impossible_calls_are_refused_by_name(either: World) -> None:
    queue = either.queue
    (number,) = either.send("a")
    topic = f"{either.name}-topic"
    either.client.create_topic(topic)
    with pytest.raises(InvalidArgumentError, match=f'to must be .*, not the topic "{topic}"'):
        queue.move_messages([number], to=topic)
    with pytest.raises(InvalidArgumentError, match="to must be another queue"):
        queue.move_messages([number], to=either.name)
    with pytest.raises(QueueNotFoundError):
        queue.move_messages([number], to="nowhere")
    with pytest.raises(InvalidArgumentError, match=f"session_id of message {number} must be given"):
        queue.move_messages([number], to=other(either, requires_session=True))
    with pytest.raises(InvalidArgumentError, match="state must be READY, SCHEDULED"):
        queue.delete_matching(state="LOCKED")
    with pytest.raises(InvalidArgumentError, match="application_properties must be a mapping"):
        queue.find_messages(application_properties=[1])  # type: ignore[arg-type]  # on purpose
    with pytest.raises(InvalidArgumentError, match="max_messages must be 1 or more"):
        queue.delete_matching(max_messages=0)
    with pytest.raises(InvalidArgumentError, match="sequence_number"):
        queue.cancel("7")  # type: ignore[arg-type]  # on purpose
    with pytest.raises(InvalidArgumentError, match="at must be a time"):
        queue.reschedule(number, at=None)  # type: ignore[arg-type]  # on purpose
    with pytest.raises(InvalidArgumentError, match="reason must be a text that is not empty"):
        queue.cancel(number, reason="")
    with pytest.raises(InvalidArgumentError, match="dead letters are received"):
        queue.dead_letters.delete_messages([number])
    full = f"{either.name}-full"
    either.client.create_queue(full, max_queue_length=1)
    either.client.queue(full).send(Message("b"))
    with pytest.raises(QueueFullError):
        queue.move_messages([number], to=full)
    assert numbers(either) == [number]
