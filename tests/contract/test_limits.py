"""How much, how long and how large: refused before anything is stored."""

from __future__ import annotations

import pytest
import tenacity

from pgqueue import Message, QueueStatus
from pgqueue.errors import InvalidArgumentError, QueueDisabledError, QueueFullError
from pgqueue.model.columns import TEXTS
from tests.contract.world import World


def test_a_full_queue_takes_no_more_until_something_is_gone(world: World) -> None:
    world.client.update_queue(world.name, max_queue_length=2)
    world.send("a", "b")
    with (
        pytest.raises(QueueFullError, match="is full: it holds 2 of 2 messages") as refusal,
        world.transaction() as own,
    ):
        world.queue.send(Message("c"), transaction=own.handle)
    assert refusal.value.is_transient
    assert world.bodies() == ["a", "b"]
    world.receive().complete()
    world.send("c")
    assert world.bodies() == ["b", "c"]


def test_a_batch_that_does_not_fit_is_refused_whole(own: World) -> None:
    own.client.update_queue(own.name, max_queue_length=2)
    own.send("a")
    with pytest.raises(QueueFullError):
        own.send("b", "c")
    assert own.bodies() == ["a"]
    own.client.update_queue(own.name, max_queue_length=None)
    own.send("b", "c")


def test_a_full_queue_takes_a_duplicate_for_which_it_stores_nothing(own: World) -> None:
    own.client.update_queue(own.name, max_queue_length=1, requires_duplicate_detection=True)
    first = own.queue.send(Message("a", message_id="7"))
    assert own.queue.send(Message("a", message_id="7")) == first
    with pytest.raises(QueueFullError):
        own.queue.send(Message("b", message_id="8"))
    assert own.bodies() == ["a"]


def test_of_overlapped_sends_those_that_fit_are_stored(either: World) -> None:
    either.client.update_queue(either.name, max_queue_length=5)
    retry = tenacity.Retrying(stop=tenacity.stop_after_attempt(1))
    with either.queue.sender(max_in_flight=20, retry=retry) as sender:
        pending = [sender.send(Message(n)) for n in range(20)]
        refused = 0
        for send in pending:
            try:
                send.result()
            except QueueFullError:
                refused += 1
    assert refused == 15
    assert len(either.found()) == 5


def test_what_a_transaction_has_sent_itself_counts(caller: World) -> None:
    caller.client.update_queue(caller.name, max_queue_length=1)
    with caller.transaction() as transaction:
        caller.queue.send(Message("a"), transaction=transaction.handle)
        with pytest.raises(QueueFullError):
            caller.queue.send(Message("b"), transaction=transaction.handle)
        transaction.rollback()
    assert caller.found() == []


def test_a_status_holds_for_a_transaction_that_is_open_already(caller: World) -> None:
    with caller.transaction() as transaction:
        caller.queue.send(Message("a"), transaction=transaction.handle)
        caller.client.update_queue(caller.name, status=QueueStatus.SEND_DISABLED)
        with pytest.raises(QueueDisabledError):
            caller.queue.send(Message("b"), transaction=transaction.handle)
        transaction.rollback()
    assert caller.found() == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *((column.name, "ä" * ((column.most or 0) + 1)) for column in TEXTS),
        ("application_properties", {"x": "y" * 70_000}),
    ],
)
def test_a_field_that_is_too_long_is_named_and_nothing_stored(either: World, field: str, value: object) -> None:
    with pytest.raises(InvalidArgumentError, match=f"the {field} of the message must be at most"):
        either.queue.send(Message("never", **{field: value}))  # type: ignore[arg-type]  # by name
    with pytest.raises(InvalidArgumentError, match=f"the {field} of message 2 must be at most"):
        either.queue.send_batch([Message("first"), Message("never", **{field: value})])  # type: ignore[arg-type]
    assert either.found() == []


def test_a_field_may_be_as_long_as_that(own: World) -> None:
    own.queue.send(
        Message(
            "all",
            **{column.name: "ä" * (column.most or 0) for column in TEXTS},  # type: ignore[arg-type]  # by name
            application_properties={"x": "y" * 65_000},
        )
    )
    assert own.receive().subject == "ä" * 260


@pytest.mark.parametrize("setting", ["lock_time", "name"])
def test_a_setting_that_does_not_exist_is_named(either: World, setting: str) -> None:
    with pytest.raises(TypeError, match=setting):
        either.client.update_queue(either.name, **{setting: 1})  # type: ignore[arg-type]  # that is the mistake
