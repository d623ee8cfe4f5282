"""Work that has to wait for something gives its message back, as it stands, without that being counted."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from pgqueue import Message, ReceiveState
from pgqueue.errors import InvalidArgumentError, MessageNotSerializableError, MessageSizeExceededError
from tests.contract.world import MINUTE, SECOND, World


def test_a_postponed_message_comes_back_later_uncounted_with_its_new_body(world: World) -> None:
    received = world.locked({"tries": 0})
    with world.transaction() as transaction:
        received.postpone(MINUTE, body={"tries": 1}, transaction=transaction.handle)
        transaction.commit()
    assert received.context.state is ReceiveState.ABANDONED
    assert world.queue.receive() == []
    world.move_clock(MINUTE + 2 * SECOND)
    again = world.receive()
    assert (again.sequence_number, again.body, again.delivery_count) == (received.sequence_number, {"tries": 1}, 1)


def test_at_once_and_as_it_was(own: World) -> None:
    own.locked("same").postpone(timedelta(0))
    again = own.receive()
    assert (again.body, again.delivery_count) == ("same", 1)


def test_a_body_may_become_bytes_and_null(own: World) -> None:
    own.locked("text").postpone(timedelta(0), body=b"bytes")
    received = own.receive()
    assert received.body == b"bytes"
    received.postpone(timedelta(0), body=None)
    assert own.receive().body is None


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"delay": -SECOND}, InvalidArgumentError),
        ({"delay": 60}, InvalidArgumentError),
        ({"delay": SECOND, "body": object()}, MessageNotSerializableError),
        ({"delay": SECOND, "body": "x" * 100}, MessageSizeExceededError),
    ],
    ids=["negative", "no timedelta", "not JSON", "too large"],
)
def test_a_refused_postponement_leaves_the_message_locked_by_us(
    own: World, arguments: dict[str, Any], error: type[Exception]
) -> None:
    own.client.update_queue(own.name, max_message_size=50)
    own.queue.send(Message("small"))
    received = own.receive()
    with pytest.raises(error):
        received.postpone(**arguments)
    assert received.state is ReceiveState.RECEIVED
    assert own.is_ours(received)
