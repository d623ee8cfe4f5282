"""JSON that Python cannot read: SQL may store it, and it affects only callers that read it."""

from __future__ import annotations

import copy
import pickle
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from pgqueue import Message, PeekedMessage, ReceivedMessage, ReceiveMode
from pgqueue.errors import MessageNotReadableError, MessageNotSerializableError
from tests.contract.interpreter import meant
from tests.contract.world import World

#: Python 3.11 follows no nesting of 1000; what later ones follow depends on the machine.
deep = pytest.mark.skipif(sys.version_info >= (3, 12), reason="may be read by this Python")

UNREADABLE = [
    pytest.param("'1e5000'::jsonb", "digits", id="a number without end"),
    pytest.param("(repeat('9', 309) || '.5')::jsonb", "too large for a float", id="a number beyond floats"),
    pytest.param("(repeat('[', 3000) || repeat(']', 3000))::jsonb", "nested too deeply", id="depth", marks=deep),
]

ENDLESS = "'1e5000'::jsonb"


def send_by_sql(world: World, body: str, properties: str = "null") -> int:
    statement = "select pgqueue.send(%s, {}, application_properties => {})"
    ((number,),) = world.look(statement.format(body, properties), world.name)
    return int(number)


def send_unreadable_among_others(world: World, body: str = ENDLESS) -> int:
    """Between two that can be read."""
    world.send("before")
    number = send_by_sql(world, body)
    world.send("behind")
    return number


def assert_one_cannot_be_read(messages: list[Any], number: int, what: str = "digits") -> None:
    first, unreadable, last = messages
    assert (first.body, last.body) == ("before", "behind")
    assert unreadable.sequence_number == number
    with pytest.raises(MessageNotReadableError) as error:
        unreadable.body  # noqa: B018 - asking raises
    told = str(error.value)
    assert f"the body of message {number} of {unreadable.queue} cannot be read" in told
    assert what in told
    assert "raw_body" in told
    assert len(unreadable.raw_body) > 300


@pytest.mark.parametrize(("body", "what"), UNREADABLE)
def test_a_body_that_cannot_be_read_is_handed_out_beside_its_neighbours(own: World, body: str, what: str) -> None:
    number = send_unreadable_among_others(own, body)
    received = own.queue.receive(max_messages=20)
    assert_one_cannot_be_read(received, number, what)
    assert all(result.is_settled for result in own.queue.complete_batch(received))
    assert own.found() == []


def test_properties_that_cannot_be_read_leave_the_body_alone(own: World) -> None:
    number = send_by_sql(own, "'7'::jsonb", f"jsonb_build_object('of', {ENDLESS})")
    received = own.receive()
    assert received.body == 7
    with pytest.raises(MessageNotReadableError, match=f"the application_properties of message {number} of {own.name}"):
        received.application_properties  # noqa: B018 - asking raises
    assert str(received.raw_application_properties).startswith('{"of": 1000')
    received.complete()


def test_an_unreadable_message_is_peeked_and_deleted_like_any_other(world: World) -> None:
    number = send_unreadable_among_others(world)
    assert_one_cannot_be_read(world.found(), number)
    with world.transaction() as transaction:
        taken = world.queue.receive_and_delete(max_messages=20, transaction=transaction.handle)
        transaction.commit()
    assert_one_cannot_be_read(taken, number)
    assert world.found() == []


@pytest.mark.parametrize("mode", ReceiveMode)
def test_a_receiver_hands_it_out_in_its_turn(own: World, mode: ReceiveMode) -> None:
    number = send_unreadable_among_others(own)
    prefetch = 5 if mode is ReceiveMode.PEEK_LOCK else 0
    with own.queue.receiver(receive_mode=mode, prefetch=prefetch) as receiver:
        arriving = iter(receiver)
        assert_one_cannot_be_read([next(arriving) for _ in range(3)], number)


SETTLEMENTS: dict[str, Callable[[ReceivedMessage, Any], None]] = {
    "complete": lambda message, tx: message.complete(transaction=tx),
    "abandon": lambda message, tx: message.abandon(transaction=tx),
    "abandon with properties": lambda message, tx: message.abandon(properties={"seen": True}, transaction=tx),
    "postpone": lambda message, tx: message.postpone(timedelta(0), transaction=tx),
    "postpone with another body": lambda message, tx: message.postpone(timedelta(0), body="readable", transaction=tx),
    "defer": lambda message, tx: message.defer(transaction=tx),
    "dead-letter": lambda message, tx: message.dead_letter("Unreadable", transaction=tx),
}


@pytest.mark.parametrize("settle", SETTLEMENTS.values(), ids=SETTLEMENTS)
def test_it_is_settled_like_any_other(world: World, settle: Callable[[ReceivedMessage, Any], None]) -> None:
    number = send_by_sql(world, ENDLESS, f"jsonb_build_object('of', {ENDLESS})")
    received = world.receive()
    received.renew_lock()
    with world.transaction() as transaction:
        settle(received, transaction.handle)
        transaction.commit()
    assert [message.sequence_number for message in (*world.found(), *world.dead())] in ([], [number])


def test_it_is_received_again_deferred_and_dead(own: World) -> None:
    number = send_by_sql(own, ENDLESS)
    own.receive().defer()
    (deferred,) = own.queue.receive_deferred([number])
    deferred.dead_letter("Unreadable")
    (dead,) = own.queue.dead_letters.receive()
    for message in (deferred, dead, *own.dead()):
        with pytest.raises(MessageNotReadableError):
            message.body  # noqa: B018 - asking raises
    dead.abandon()
    assert own.queue.dead_letters.resubmit() == [number]


def test_work_that_asks_for_it_fails_and_the_message_is_given_back(either: World) -> None:
    send_by_sql(either, ENDLESS)
    received = either.receive()
    with pytest.raises(MessageNotReadableError):
        either.sources.process(received, lambda message, tx: message.body)
    (message,) = either.found()
    assert message.locked_until is None


def test_it_can_be_printed_and_compared(either: World) -> None:
    number = send_unreadable_among_others(either)
    first, unreadable, last = either.found()
    assert f"sequence_number={number}" in repr(unreadable)
    assert len(repr(unreadable)) < 2000
    assert "body='before'" in repr(first)
    assert either.found() == [first, unreadable, last]
    assert unreadable != either.found()[0]
    assert isinstance(first, PeekedMessage)


def test_it_can_be_copied_and_sent_to_another_process(either: World) -> None:
    number = send_unreadable_among_others(either)
    found = either.found()
    assert_one_cannot_be_read(copy.deepcopy(found), number)
    assert found[0].body == "before"
    assert_one_cannot_be_read(pickle.loads(pickle.dumps(found)), number)


def test_a_message_nested_too_deeply_to_be_shown_can_be_printed(either: World) -> None:
    send_by_sql(either, "(repeat('[', 900) || repeat(']', 900))::jsonb")
    (message,) = either.found()
    assert f"queue='{either.name}'" in frames_down(200, lambda: repr(message))


def frames_down(depth: int, call: Callable[[], Any]) -> Any:
    return call() if depth == 0 else frames_down(depth - 1, call)


def nested(depth: int) -> list[Any]:
    outer: list[Any] = []
    for _ in range(depth - 1):
        outer = [outer]
    return outer


@pytest.mark.parametrize("depth", [200, 900])
def test_a_body_that_python_can_read_is_read_at_any_depth_of_the_stack(either: World, depth: int) -> None:
    text = "[" * depth + "]" * depth
    properties = f'{{"of": {text}}}'
    send_by_sql(either, f"'{text}'::jsonb", f"'{properties}'::jsonb")
    received = meant(either.receive())
    innermost = frames_down(800, lambda: received.body)
    properties_read = frames_down(800, lambda: received.application_properties)
    assert properties_read["of"] is not innermost
    for _ in range(depth - 1):
        (innermost,) = innermost
    assert innermost == []
    assert received.raw_body == text


def test_a_sent_body_has_the_same_limit_of_nesting_at_any_depth_of_the_stack(world: World) -> None:
    with world.transaction() as transaction:

        def send(body: Any) -> None:
            world.queue.send(Message(body), transaction=transaction.handle)

        frames_down(800, lambda: send(nested(200)))
        for frames in (0, 800):
            with pytest.raises(MessageNotSerializableError, match=r"nested too deeply.* 200 levels are the most"):
                frames_down(frames, lambda: send(nested(201)))
        transaction.commit()
    assert len(world.found()) == 1


def test_a_number_is_refused_whatever_the_sender_could_write(either: World) -> None:
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        with pytest.raises(MessageNotSerializableError, match=r"body\['of'\] has more than 4300 digits"):
            either.queue.send(Message({"of": -(10**4300)}))
    finally:
        sys.set_int_max_str_digits(limit)
    either.send(10**4300 - 1)
    assert either.receive().body == 10**4300 - 1


def test_metadata_that_cannot_be_read_leave_the_queues_alone(own: World) -> None:
    own.look(f"select pgqueue.alter_queue(%s, user_metadata => {ENDLESS})", own.name)
    properties = own.client.get_queue(own.name)
    assert properties.max_delivery_count == 10
    assert own.name in repr(own.client.list_queues())
    with pytest.raises(MessageNotReadableError, match=f"the user_metadata of queue {own.name} cannot be read"):
        properties.user_metadata  # noqa: B018 - asking raises
    assert str(properties.raw_user_metadata).startswith("1000")
    own.client.update_queue(own.name, user_metadata=None)  # other tests compare all queues of this database


def test_the_result_of_an_effect_that_cannot_be_read_leaves_the_others_alone(own: World) -> None:
    received = own.locked()
    received.record_effect("mailed", result={"id": 7})
    record = f"select pgqueue.record_effect(%s, %s, 'paid', {ENDLESS})"
    own.look(record, own.name, f"#{received.sequence_number}")
    mailed, paid = received.recorded_effects()
    assert mailed.result == {"id": 7}
    with pytest.raises(MessageNotReadableError, match="the result of the effect paid cannot be read"):
        paid.result  # noqa: B018 - asking raises
    assert str(paid.raw_result).startswith("1000")
