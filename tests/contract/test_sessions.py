"""Sessions, through every source: messages in order, one receiver at a time, state that agrees with the completions."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import pgqueue
import pgqueue.aio
from pgqueue import Message, ReceiveState
from pgqueue.errors import (
    InvalidArgumentError,
    InvalidStateError,
    LockLostError,
    MessageNotFoundError,
    MessageNotSerializableError,
    MessageSizeExceededError,
    QueueNotFoundError,
    SessionCannotBeLockedError,
    SessionLockLostError,
)
from tests.contract.interpreter import meant
from tests.contract.world import MINUTE, SECOND, World
from tests.patience import eventually


def steps_of(world: World, *session_ids: str, **settings: Any) -> Any:
    """The queue of this world, recreated so that it requires sessions, with a message for each of these sessions."""
    world.client.delete_queue(world.name)
    world.client.create_queue(world.name, requires_session=True, **settings)
    world.queue.send_batch([Message(number, session_id=name) for number, name in enumerate(session_ids)])
    return world.queue


def test_a_session_is_received_in_order_and_settled_with_its_state(world: World) -> None:
    steps = steps_of(world, "a", "b", "a")
    with steps.accept_session("a") as session:
        assert (session.session_id, session.queue) == ("a", world.name)
        first, second = session.receive(max_messages=9)
        assert (first.body, second.body, first.session_id, first.locked_until) == (0, 2, "a", session.locked_until)
        for received in (first, second):
            with world.transaction() as transaction:
                session.set_state({"last": received.body}, transaction=transaction.handle)
                received.complete(transaction=transaction.handle)
                transaction.commit()
            received.resolve()
            assert received.state is ReceiveState.COMPLETED
        assert session.get_state() == {"last": 2}
        assert session.receive() == []
    with steps.accept_session() as session:
        assert session.session_id == "b"
    with steps.accept_session("a") as session:
        assert session.get_state() == {"last": 2}


def test_a_session_is_iterated_until_nothing_is_left(either: World) -> None:
    steps = steps_of(either, "a", "b", "a")
    with steps.accept_session("a") as session:
        bodies = []
        for received in session:
            bodies.append(received.body)
            received.complete()
    assert bodies == [0, 2]


def test_a_peek_shows_a_session_and_changes_nothing(either: World) -> None:
    steps = steps_of(either, "a", "b", "a", "a")
    with steps.accept_session("a") as session:
        locked, deferred = session.receive(max_messages=2)
        deferred.defer()
        seen = session.peek(max_messages=9)
        assert [(each.body, each.is_deferred) for each in seen] == [(0, False), (2, True), (3, False)]
        assert [each.body for each in session.peek(from_sequence_number=locked.sequence_number + 1)] == [2]
        locked.complete()
        (waiting,) = session.receive()
        assert (waiting.body, waiting.delivery_count) == (3, 1)
    with pytest.raises(SessionLockLostError):
        session.peek()


def test_a_rollback_undoes_both_the_completion_and_the_session_state(caller: World) -> None:
    steps = steps_of(caller, "a")
    with steps.accept_session("a") as session:
        (received,) = session.receive()
        with caller.transaction() as transaction:
            session.set_state(b"\0bytes", transaction=transaction.handle)
            received.complete(transaction=transaction.handle)
            assert session.get_state(transaction=transaction.handle) == b"\0bytes"
            transaction.rollback()
        received.resolve()
        assert session.get_state() is None
        assert received.state is ReceiveState.RECEIVED
        received.complete()


def test_a_session_that_is_held_cannot_be_locked_and_is_not_the_next(own: World) -> None:
    steps = steps_of(own, "a")
    with steps.accept_session() as session:
        with pytest.raises(SessionCannotBeLockedError, match=r"'a' .* holds it until") as refusal:
            steps.accept_session("a")
        assert refusal.value.is_transient
        assert steps.accept_session() is None
        assert session.renew_lock(lock_duration=5 * MINUTE) == session.locked_until
    assert steps.accept_session("a").session_id == "a"


def test_accepting_waits_for_a_message_and_for_a_release(either: World) -> None:
    steps = steps_of(either)
    found: list[str] = []

    def accept(*session_id: str) -> None:
        with steps.accept_session(*session_id, wait=MINUTE) as session:
            found.append(session.session_id)

    acceptor = threading.Thread(target=accept)
    acceptor.start()
    either.wait_until_somebody_looked()
    steps.send(Message(1, session_id="late"))
    acceptor.join(10)
    assert found == ["late"]
    with steps.accept_session("late"):
        acceptor = threading.Thread(target=accept, args=["late"])
        acceptor.start()
        either.wait_until_somebody_looked()
        assert found == ["late"]
    acceptor.join(10)
    assert found == ["late", "late"]


def test_receiving_waits_for_the_next_message_of_the_session(either: World) -> None:
    steps = steps_of(either)
    found: list[Any] = []
    with steps.accept_session("a") as session:
        receiver = threading.Thread(target=lambda: found.extend(session.receive(wait=MINUTE)))
        receiver.start()
        either.wait_until_somebody_looked()
        steps.send(Message("other", session_id="b"))
        steps.send(Message("ours", session_id="a"))
        receiver.join(10)
        assert [message.body for message in found] == ["ours"]


def test_a_lost_session_settles_nothing(world: World) -> None:
    steps = steps_of(world, "a")
    lost = steps.accept_session("a")
    (received,) = lost.receive()
    expire = "update pgqueue.session set locked_until = pgqueue.clock() where lock_token = %s"
    world.run(expire, lost.lock.lock_token)
    with steps.accept_session("a") as session:
        with world.transaction() as transaction, pytest.raises(SessionLockLostError):
            received.complete(transaction=transaction.handle)
        assert received.state is ReceiveState.FAULTED
        for call in (lost.receive, lost.renew_lock, lost.get_state, lambda: lost.set_state(1)):
            with pytest.raises(LockLostError, match=r"the lock on session 'a' .* is lost"):
                call()
        lost.release()
        assert session.receive()[0].delivery_count == 2


def test_messages_that_were_not_settled_come_again_after_a_release(own: World) -> None:
    steps = steps_of(own, "a", "a")
    with steps.accept_session("a") as session:
        first, second = session.receive(max_messages=2)
        second.complete()
    with steps.accept_session("a") as session:
        (again,) = session.receive(max_messages=2)
        assert (again.sequence_number, again.delivery_count) == (first.sequence_number, 2)


def test_a_renewal_of_a_message_renews_its_session(own: World) -> None:
    steps = steps_of(own, "a")
    with steps.accept_session("a") as session:
        (received,) = session.receive()
        until = received.renew_lock(lock_duration=9 * MINUTE)
        assert until == received.locked_until > session.locked_until
        assert session.renew_lock() < until


def test_a_renewer_renews_a_session_until_it_is_released_or_lost(either: World) -> None:
    steps = steps_of(either, "a", lock_duration=SECOND)
    lost = threading.Event()
    renewer = pgqueue.AutoLockRenewer if either.mode.face == "sync" else pgqueue.aio.AutoLockRenewer
    kept = renewer(on_lock_renew_failure=lambda session, error: lost.set())
    session = steps.accept_session("a")
    until = session.locked_until
    kept.register(meant(session))
    eventually(lambda: session.locked_until != until, "the lock was not renewed")
    either.run(
        "update pgqueue.session set lock_token = gen_random_uuid() where lock_token = %s", session.lock.lock_token
    )
    assert session.lock_lost.wait(60)
    assert lost.wait(60)
    steps.accept_session("b").release()
    session.release()
    with pytest.raises(InvalidStateError, match="was released"):
        kept.register(meant(session))
    kept._keeper.close()


def test_a_session_whose_release_is_refused_is_not_released(caller: World) -> None:
    session = steps_of(caller, "a").accept_session("a")
    caller.client.delete_queue(caller.name)
    with caller.transaction() as transaction, pytest.raises(QueueNotFoundError):
        session.release(transaction=transaction.handle)
    assert not meant(session).is_released


def test_sessions_are_listed(own: World) -> None:
    steps = steps_of(own, "a", "a", "b")
    with steps.accept_session("a") as session:
        now = own.database.clock.now()
        session.set_state("four")
        held, free = steps.list_sessions()
        assert (held.session_id, held.is_locked, held.messages, held.state_size) == ("a", True, 2, 6)
        assert held.state_set_at is not None
        assert now <= held.state_set_at <= own.database.clock.now()
        assert (free.session_id, free.is_locked, free.locked_by, free.messages) == ("b", False, None, 1)
        assert free.state_set_at is None
        session.set_state(None)
        assert steps.list_sessions()[0].state_set_at is None


def test_a_deferred_message_is_received_by_who_holds_the_session(own: World) -> None:
    steps = steps_of(own, "a", "a", "b")
    with steps.accept_session("a") as session:
        first, _ = session.receive(max_messages=2)
        first.defer()
        with pytest.raises(InvalidArgumentError, match="requires sessions"):
            steps.receive_deferred([first.sequence_number])
        (again,) = session.receive_deferred([first.sequence_number])
        assert (again.body, again.session_id, again.delivery_count) == (0, "a", 1)
        assert again.locked_by == first.locked_by
        again.abandon()
    with steps.accept_session("b") as other, pytest.raises(MessageNotFoundError):
        other.receive_deferred([first.sequence_number])
    with steps.accept_session("a") as session:
        (again,) = session.receive_deferred([first.sequence_number])
        again.complete()


def test_invalid_calls_raise_errors_that_name_the_mistake(own: World) -> None:
    steps = steps_of(own)
    with pytest.raises(InvalidArgumentError, match="requires sessions: accept one with accept_session"):
        steps.receive()
    with pytest.raises(InvalidArgumentError, match="requires sessions"):
        steps.receive_and_delete()
    with pytest.raises(InvalidArgumentError, match="session_id of the message must be a text of 1 to 128 characters"):
        steps.send(Message(1))
    with pytest.raises(InvalidArgumentError, match="session_id must be a str"):
        steps.send(Message(1, session_id=7))  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="priority of the message must be left out"):
        steps.send(Message(1, session_id="a", priority=1))
    with pytest.raises(InvalidArgumentError, match="session_id must be a text of 1 to 128 characters"):
        steps.accept_session("")
    with pytest.raises(InvalidArgumentError, match="requires_session must be that of the creation of the queue"):
        own.client.update_queue(own.name, requires_session=False)
    with steps.accept_session("a") as session:
        with pytest.raises(MessageSizeExceededError, match="at most 262144"):
            session.set_state("x" * 262144)
        with pytest.raises(MessageNotSerializableError, match="state"):
            session.set_state({1, 2})
    assert own.client.get_queue(own.name).requires_session


def test_a_queue_without_sessions_has_them_as_a_property_only(own: World) -> None:
    own.queue.send(Message(1, session_id="a", priority=3))
    assert own.receive().session_id == "a"
    assert own.found()[0].session_id == "a"
    with pytest.raises(InvalidArgumentError, match="does not require sessions"):
        own.queue.accept_session(wait=SECOND)
