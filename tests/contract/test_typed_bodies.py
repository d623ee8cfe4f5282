"""A queue with a type of bodies: a send refuses what does not fit, and a receive dead-letters it."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import psycopg
import pydantic
import pytest

from pgqueue import Message, Queue, ReceiveMode, SubQueue
from pgqueue.errors import InvalidArgumentError, MessageNotReadableError, MessageNotSerializableError
from tests.contract.world import MINUTE, World


class Colour(Enum):
    RED = "red"


@dataclass
class Item:
    name: str
    price: Decimal


@dataclass
class Order:
    number: int
    items: list[Item] = field(default_factory=list)
    placed_at: datetime | None = None
    colour: Colour = Colour.RED
    key: UUID | None = None
    labels: set[str] = field(default_factory=set)


@dataclass
class Refund:
    number: int
    amount: Decimal


@dataclass
class Strict(Refund):
    def __post_init__(self) -> None:
        raise ZeroDivisionError


class Model(pydantic.BaseModel):
    number: int = pydantic.Field(ge=0, alias="No")
    placed_at: datetime | None = None


ORDER = Order(7, [Item("a", Decimal("1.10"))], datetime(2026, 1, 31, 8, tzinfo=UTC), key=UUID(int=7), labels={"x"})
MODEL = Model(No=7, placed_at=datetime(2026, 1, 31, 8, tzinfo=UTC))

FITTING = [(Order, ORDER), (Model, MODEL), (list[Order], [ORDER]), (Order | Model, MODEL), (int, 7), (str, "7")]
FITTING += [(Order | Refund, Refund(7, Decimal(3))), (dict[str, int] | Order, {"number": 7})]


def typed(world: World, body_type: Any = Order) -> Queue[Any]:
    return world.client.queue(world.name, body_type=body_type)


def send_invalid_between(world: World) -> None:
    """Sends three messages without the type, of which the second does not fit."""
    world.send({"number": 1}, {"number": "two"}, {"number": 3})


def dead(world: World) -> list[tuple[Any, Any]]:
    return [(each.body, each.dead_letter_reason) for each in world.dead()]


@pytest.mark.parametrize(("body_type", "body"), FITTING, ids=str)
def test_a_body_comes_back_as_it_was_sent(either: World, body_type: Any, body: Any) -> None:
    orders = typed(either, body_type)
    orders.send(Message(body))
    orders.send_batch([Message(body, subject="batch")])
    with orders.sender() as sender:
        sender.send(Message(body))
    assert [each.body for each in orders.peek(max_messages=9)] == [body] * 3
    received = orders.receive(max_messages=9)
    assert [each.body for each in received] == [body] * 3
    assert all(each.is_settled for each in orders.complete_batch(received))


@pytest.mark.parametrize(
    ("body_type", "body", "complaint"),
    [
        (Order, {"number": 7}, "it is of the type dict"),
        (Order, Order("x"), "number: it is 'x', not a whole number"),  # type: ignore[arg-type]
        (Order, Order(7, [Item("a", Decimal("nan"))]), r"items\.0\.price: it is 'NaN', not a number"),
        (Order, b"{}", "it is of the type bytes"),
        (Model, {"number": 7}, "it is of the type dict"),
        (Model, Model.model_construct(number=-1), "greater than or equal to 0"),
        (Model, Model.model_construct(number="x"), "number"),
        (list[Order], [7], r"0: it is 7, not an object"),
    ],
    ids=str,
)
def test_a_send_refuses_what_does_not_fit(either: World, body_type: Any, body: Any, complaint: str) -> None:
    orders = typed(either, body_type)
    fitting = Message(next(good for kind, good in FITTING if kind == body_type))
    for send in (orders.send, lambda message: orders.send_batch([fitting, message])):
        with pytest.raises(MessageNotSerializableError, match=rf"(?s)body is not a .*{complaint}"):
            send(Message(body))
    with orders.sender() as sender, pytest.raises(MessageNotSerializableError, match=complaint):
        sender.send(Message(body))
    assert either.found() == []


def test_a_receive_hands_out_what_fits_and_dead_letters_the_rest(either: World) -> None:
    send_invalid_between(either)
    assert [each.body for each in typed(either).receive(max_messages=9)] == [Order(1), Order(3)]
    (letter,) = either.dead()
    assert (letter.body, letter.dead_letter_reason) == ({"number": "two"}, "InvalidBody")
    complaint = f"the body is not a {__name__}.Order: number: it is 'two', not a whole number"
    assert letter.dead_letter_error_description == complaint
    assert letter.last_error is not None
    assert letter.last_error.type.endswith("InvalidValueError")


def test_a_type_that_has_no_more_of_the_body_than_the_first_that_fits_is_not_made(either: World) -> None:
    either.send({"number": 7, "amount": "1", "note": "more than both have"})
    (received,) = typed(either, Refund | Strict).receive()
    assert received.body == Refund(7, Decimal(1))


def test_a_receive_waits_on_behind_an_invalid_message(either: World) -> None:
    either.send({})
    assert typed(either).receive() == []
    either.send(b"bytes")
    either.queue.schedule(Message({"number": 1}), at=datetime.now(UTC) + timedelta(seconds=1))
    (received,) = typed(either).receive(wait=MINUTE)
    assert received.body == Order(1)
    assert dead(either) == [({}, "InvalidBody"), (b"bytes", "InvalidBody")]


@pytest.mark.parametrize("prefetch", [0, 5])
def test_a_receiver_passes_over_what_does_not_fit(either: World, prefetch: int) -> None:
    send_invalid_between(either)
    with typed(either).receiver(prefetch=prefetch) as receiver:
        assert [message.body for _, message in zip(range(2), receiver, strict=False)] == [Order(1), Order(3)]
    assert dead(either) == [({"number": "two"}, "InvalidBody")]


def test_deferred_messages_are_checked_when_they_are_received(either: World) -> None:
    numbers = either.send({"number": 1}, {"number": "two"})
    for received in either.queue.receive(max_messages=2):
        received.defer()
    assert [each.body for each in typed(either).receive_deferred(numbers)] == [Order(1)]
    assert dead(either) == [({"number": "two"}, "InvalidBody")]


def test_a_session_goes_on_behind_an_invalid_message(either: World) -> None:
    name = f"{either.name}-steps"
    either.client.create_queue(name, requires_session=True)
    either.client.queue(name).send_batch([Message({"number": each}, session_id="s") for each in (1, "two", 3)])
    with either.client.queue(name, body_type=Order).accept_session("s") as session:
        assert [each.body for each in session.receive(max_messages=9)] == [Order(1), Order(3)]
    assert [each.body for each in either.client.queue(name).dead_letters.peek(max_messages=9)] == [{"number": "two"}]


def test_an_invalid_message_without_a_lock_raises_when_its_body_is_read(either: World) -> None:
    send_invalid_between(either)
    orders = typed(either)
    for messages in (orders.peek(max_messages=9), orders.receive_and_delete(max_messages=9)):
        first, invalid, last = messages
        assert (first.body, last.body) == (Order(1), Order(3))
        with pytest.raises(
            MessageNotReadableError, match=r"it is not a .*Order: number: it is 'two'.* raw_body has it"
        ):
            invalid.body  # noqa: B018 - asking raises
        assert invalid.raw_body == '{"number": "two"}'
        assert "cannot be shown" in repr(invalid)
        assert pickle.loads(pickle.dumps(first)).body == Order(1)


def test_a_receiver_that_deletes_hands_out_all(either: World) -> None:
    either.send({"number": 1})
    with typed(either).receiver(receive_mode=ReceiveMode.RECEIVE_AND_DELETE) as receiver:
        assert next(iter(receiver)).body == Order(1)


def test_dead_letters_stay_whether_they_fit_or_not(either: World) -> None:
    send_invalid_between(either)
    orders = typed(either)
    orders.receive(max_messages=9)
    (letter,) = orders.dead_letters.receive()
    with pytest.raises(MessageNotReadableError, match="it is no"):
        letter.body  # noqa: B018 - asking raises
    letter.abandon()
    with orders.receiver(sub_queue=SubQueue.DEAD_LETTER) as receiver:
        assert next(iter(receiver)).raw_body == '{"number": "two"}'


def test_a_postponed_body_is_of_the_type_too(either: World) -> None:
    orders = typed(either)
    orders.send(Message(Order(1)))
    (received,) = orders.receive()
    with pytest.raises(MessageNotSerializableError, match="it is of the type dict"):
        received.postpone(timedelta(0), body={"number": 2})
    received.postpone(timedelta(0), body=Order(2))
    assert orders.receive()[0].body == Order(2)


def test_a_topic_and_its_subscriptions_may_have_a_type(either: World) -> None:
    name = f"t-{either.name}"
    either.client.create_topic(name)
    either.client.create_subscription(name, "all")
    topic: Any
    topic, subscription = (
        either.client.topic(name, body_type=Order), either.client.subscription(name, "all", body_type=Order),
    )  # fmt: skip
    assert topic.send(Message(ORDER)) == 1
    assert topic.send_batch([Message(ORDER)]) == [1]
    with pytest.raises(MessageNotSerializableError, match="it is of the type dict"):
        topic.send(Message({"number": 1}))
    assert [each.body for each in subscription.receive(max_messages=9)] == [ORDER, ORDER]


def test_each_attempt_has_a_body_of_its_own(either: World) -> None:
    """Work without an annotation gets the type of the queue."""
    orders = typed(either)
    orders.send(Message(ORDER))
    (received,) = orders.receive()
    seen: list[Any] = []

    def work(message: Any, tx: Any) -> None:
        seen.append(message.body.number)
        message.body.number = 0
        if len(seen) == 1:
            raise psycopg.errors.SerializationFailure

    either.sources.process(received, work)
    assert seen == [7, 7]


def test_a_type_that_json_is_not_made_into_is_refused(either: World) -> None:
    with pytest.raises(InvalidArgumentError, match=r"not made into datetime\.timedelta here"):
        typed(either, timedelta)
