"""Forwarding as both faces show it: settings, dead letters and errors."""

from __future__ import annotations

from typing import Any

import pytest

from pgqueue import Message
from pgqueue.errors import InvalidArgumentError, QueueDisabledError, QueueFullError
from tests.contract.world import World


def test_a_send_arrives_at_the_end_of_the_chain_in_the_callers_transaction(world: World) -> None:
    source = f"{world.name}-source"
    world.client.create_queue(source, forward_to=world.name)
    with world.transaction() as transaction:
        number = world.client.queue(source).send(Message("work"), transaction=transaction.handle)
        if not world.is_own:
            assert world.queue.receive() == []
        transaction.commit()
    received = world.receive()
    assert (received.sequence_number, received.body, received.dead_letter_source) == (number, "work", None)
    world.client.delete_queue(source)


def test_a_forwarded_dead_letter_arrives_with_its_reason_and_errors(own: World) -> None:
    graveyard = f"{own.name}-graveyard"
    own.client.create_queue(graveyard)
    own.client.update_queue(own.name, forward_dead_lettered_messages_to=graveyard, retain_errors=3)
    received = own.locked("work")
    try:
        raise ValueError("no such street")
    except ValueError as error:
        received.dead_letter("AddressUnknown", "really", error=error)
    assert own.dead() == []
    (peeked,) = own.client.queue(graveyard).peek()
    (again,) = own.client.queue(graveyard).receive()
    for message in (peeked, again):
        assert message.sequence_number == received.sequence_number
        assert message.dead_letter_source == own.name
        assert message.dead_letter_reason == "AddressUnknown"
        assert message.dead_letter_error_description == "really"
        assert message.dead_lettered_at is not None
        assert message.dead_lettered_at >= message.enqueued_time
        assert message.last_error is not None
        assert message.last_error.text == "no such street"
        assert len(message.delivery_log) == 1
    again.dead_letter("Worse")
    (dead,) = own.client.queue(graveyard).dead_letters.peek()
    assert (dead.dead_letter_reason, dead.dead_letter_error_description) == ("Worse", None)
    assert dead.dead_letter_source == own.name


def test_settings_are_set_kept_and_removed(own: World) -> None:
    source = f"{own.name}-source"
    created = own.client.create_queue(source, forward_to=own.name, forward_dead_lettered_messages_to=own.name)
    assert (created.forward_to, created.forward_dead_lettered_messages_to) == (own.name, own.name)
    kept = own.client.update_queue(source, max_delivery_count=3)
    assert (kept.forward_to, kept.forward_dead_lettered_messages_to) == (own.name, own.name)
    removed = own.client.update_queue(source, forward_to=None)
    assert (removed.forward_to, removed.forward_dead_lettered_messages_to) == (None, own.name)


@pytest.mark.parametrize("value", ["", 7, "\0"], ids=repr)
def test_a_bad_target_is_named(either: World, value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="forward_to must be"):
        either.client.update_queue(either.name, forward_to=value)


def test_forwarding_mistakes_raise_errors_that_name_the_queue(own: World) -> None:
    source = f"{own.name}-source"
    own.client.create_queue(source, forward_to=own.name)
    queue = own.client.queue(source)
    with pytest.raises(InvalidArgumentError, match=f'"?{source}"? forwards its messages to queue "?{own.name}'):
        queue.receive()
    with pytest.raises(InvalidArgumentError, match=f'others forward to it: "?{source}'):
        own.client.delete_queue(own.name)
    with pytest.raises(InvalidArgumentError, match="forward_to must be another queue"):
        own.client.update_queue(own.name, forward_to=source)
    own.client.update_queue(own.name, status="SEND_DISABLED")
    with pytest.raises(QueueDisabledError):
        queue.send(Message("work"))
    own.client.update_queue(own.name, status="ACTIVE", max_queue_length=1)
    queue.send(Message("work"))
    with pytest.raises(QueueFullError):
        queue.send_batch([Message("too"), Message("many")])
