"""Bodies of the types that handlers ask for: how they are made, and the errors for those that do not fit."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

import pydantic
import pydantic.dataclasses
import pytest

import pgqueue.aio
from pgqueue import DeadLetter, Message, PeekedMessage, ReceivedMessage
from pgqueue.errors import InvalidArgumentError
from pgqueue.model.bodies import InvalidBody, body_reader, read_as
from pgqueue.model.body_type import BodyType
from pgqueue.model.handler import Handler
from pgqueue.model.message import from_row
from pgqueue.model.row import COLUMNS

if TYPE_CHECKING:
    from somewhere import Unknown  # type: ignore[import-not-found]


class Colour(Enum):
    RED = "red"


class Level(Enum):
    LOW = 1

    @classmethod
    def _missing_(cls, value: object) -> Level:
        raise KeyError(value)


@dataclass
class Note:
    """It cannot be hashed."""

    text: str


@dataclass
class Secretive:
    number: int
    hidden: InitVar[int]


@dataclass(frozen=True)
class Item:
    name: str
    price: Decimal
    parts: list[Item] = field(default_factory=list)


@dataclass
class Order:
    number: int
    items: Sequence[Item] = ()
    placed_at: datetime | None = None
    due: date | None = None
    colour: Colour = Colour.RED
    kind: Literal["new", "old"] = "new"
    weight: float = 0.0
    labels: Mapping[str, int] = field(default_factory=dict)
    point: tuple[int, ...] = ()
    key: UUID | None = None
    anything: Any = None
    is_paid: bool = False
    level: Level = Level.LOW
    notes: set[Note] = field(default_factory=set)

    def __post_init__(self) -> None:
        if self.number < 0:
            raise ValueError("a number below 0")


class Model(pydantic.BaseModel):
    number: int = pydantic.Field(ge=0)
    placed_at: datetime | None = None


class Checked(pydantic.BaseModel):
    key: UUID
    name: str

    @pydantic.field_validator("name")
    @classmethod
    def refuse(cls, name: str) -> str:
        raise ValueError(f"there is no {name}")


@pydantic.dataclasses.dataclass
class Validated:
    number: int


@dataclass
class Odd:
    lasts: timedelta


def received(body: Any) -> PeekedMessage[Any]:
    values: dict[str, Any] = dict.fromkeys(COLUMNS)
    values["binary_body" if isinstance(body, bytes) else "body"] = body if isinstance(body, bytes) else json.dumps(body)
    return from_row(PeekedMessage, "q", tuple(values[name] for name in COLUMNS))


@dataclass
class Unreadable:
    unknown: Unknown


def takes_unreadable(message: ReceivedMessage[Unreadable]) -> None: ...


def takes_order(message: ReceivedMessage[Order], tx: Unknown) -> Any:
    return message.body


async def awaits_order(message: pgqueue.aio.ReceivedMessage[Order]) -> Any:
    return message.body


def takes_orders(message: pgqueue.ReceivedMessage[list[Order]]) -> Any:
    return message.body


def takes_model(message: ReceivedMessage[Model]) -> Any:
    return message.body


def takes_validated(message: Message[Validated]) -> Any:
    return message.body


@wraps(takes_order)
def decorated(*arguments: Any) -> Any:
    return takes_order(*arguments)


class Called:
    def __call__(self, message: ReceivedMessage[Order]) -> Any:
        return message.body

    def method(self, message: ReceivedMessage[Order]) -> Any:
        return message.body


def placed_first(number: int, message: ReceivedMessage[Order]) -> Any:
    return message.body


ALL = {
    "number": 7,
    "items": [{"name": "a", "price": "1.10", "parts": [{"name": "b", "price": 2}]}],
    "placed_at": "2026-01-31T08:00:00+00:00",
    "due": "2026-02-01",
    "colour": "red",
    "kind": "old",
    "weight": 1,
    "labels": {"x": 1},
    "point": [1, 2],
    "key": "12345678123456781234567812345678",
    "anything": {"a": [1]},
    "is_paid": True,
    "added by a newer sender": 1,
}


def test_a_dataclass_is_made_with_all_that_it_contains() -> None:
    order = Handler.of(takes_order)(received(ALL))
    assert order == Order(
        7,
        [Item("a", Decimal("1.10"), [Item("b", Decimal(2))])],
        datetime.fromisoformat("2026-01-31T08:00:00+00:00"),
        date(2026, 2, 1),
        Colour.RED,
        "old",
        1.0,
        {"x": 1},
        (1, 2),
        UUID("12345678123456781234567812345678"),
        {"a": [1]},
        True,
    )
    assert type(order.weight) is float


@pytest.mark.parametrize(
    "handler",
    [takes_order, awaits_order, decorated, Called(), Called().method, partial(placed_first, 1), partial(takes_order)],
    ids=lambda handler: getattr(handler, "__qualname__", type(handler).__qualname__),
)
def test_every_kind_of_function_may_ask_for_a_type(handler: Callable[..., Any]) -> None:
    read = body_reader(handler)
    assert read is not None
    assert read(received({"number": 1})) == Order(1)


def test_a_type_may_be_within_another() -> None:
    assert Handler.of(takes_orders)(received([{"number": 1}])) == [Order(1)]


def test_models_of_pydantic_are_made_too() -> None:
    model = Handler.of(takes_model)(received({"number": 1, "placed_at": "2026-01-31T08:00:00Z"}))
    assert isinstance(model, Model)
    assert model.placed_at is not None
    assert Handler.of(takes_validated)(received({"number": 1})) == Validated(1)


@pytest.mark.parametrize(
    ("handler", "body", "complaint"),
    [
        (takes_order, {}, "number: it is missing"),
        (takes_order, [1], "it is [1], not an object"),
        (takes_order, {"number": "7"}, "number: it is '7', not a whole number"),
        (takes_order, {"number": True}, "number: it is True, not a whole number"),
        (takes_order, {"number": 1, "items": [{"name": 1, "price": 1}]}, "items.0.name: it is 1, not a text"),
        (takes_order, {"number": 1, "items": [{"name": "a", "price": "x"}]}, "items.0.price: it is 'x', not a number"),
        (takes_order, {"number": 1, "items": [{"name": "a", "price": "sNaN"}]}, "it is 'sNaN', not a number"),
        (takes_order, {"number": 1, "placed_at": "noon"}, "placed_at: it is 'noon', not a time in ISO 8601, and it is"),
        (takes_order, {"number": 1, "colour": "blue"}, "colour: it is 'blue', not one of 'red'"),
        (takes_order, {"number": 1, "kind": "odd"}, "kind: it is 'odd', not one of 'new', 'old'"),
        (takes_order, {"number": 1, "labels": {"x": "y"}}, "labels.x: it is 'y', not a whole number"),
        (takes_order, {"number": 1, "is_paid": 1}, "is_paid: it is 1, not true or false"),
        (takes_order, {"number": 1, "weight": 10**400}, "weight: it is 1000"),
        (takes_order, {"number": 1, "level": True}, "level: it is True, not one of 1"),
        (takes_order, {"number": 1, "level": 1.0}, "level: it is 1.0, not one of 1"),
        (takes_order, {"number": 1, "level": 2}, "level: it is 2, not one of 1"),
        (takes_order, {"number": 1, "notes": [{"text": "a"}]}, "notes: it is [Note(text='a')], not items of a set"),
        (takes_order, {"number": -1}, "a number below 0"),
        (takes_order, b"{}", "it is bytes, not JSON"),
        (takes_order, {"number": "\x00" + "x" * 9_000}, "number: it is"),
        (takes_model, {"number": -1}, "greater than or equal to 0"),
        (takes_model, b"{}", "it is bytes, not JSON"),
    ],
    ids=lambda value: getattr(value, "__name__", None) or ascii(value)[:60],
)
def test_a_body_that_does_not_fit_is_dead_lettered_with_the_reason(
    handler: Callable[..., Any], body: Any, complaint: str
) -> None:
    with pytest.raises(DeadLetter) as verdict:
        Handler.of(handler)(received(body))
    assert verdict.value.reason == "InvalidBody"
    assert complaint in str(verdict.value.description)
    assert str(verdict.value.description).startswith("the body is not a tests.unit.test_bodies.")
    assert len(str(verdict.value.description)) <= 4_000


@pytest.mark.parametrize(
    ("handler", "body", "told"),
    [
        (takes_order, {"number": "4711"}, "number: it is not a whole number"),
        (takes_order, {"number": 1, "level": 4711}, "level: it is not one of 1"),
        (takes_order, {"number": -4711}, "refuses it"),
        (takes_model, {"number": -4711}, "number: Input should be greater than or equal to 0"),
        (takes_model, b"4711", "it is bytes, not JSON"),
    ],
)
def test_a_log_names_field_and_rule_and_no_value(handler: Callable[..., Any], body: Any, told: str) -> None:
    with pytest.raises(InvalidBody) as verdict:
        Handler.of(handler)(received(body))
    assert told in verdict.value.without_values
    assert "4711" not in verdict.value.without_values


def test_texts_of_pydantic_that_have_the_value_are_not_logged() -> None:
    with pytest.raises(InvalidBody) as verdict:
        read_as(BodyType(Checked), received({"key": "zz", "name": "4711"}))
    assert verdict.value.without_values == "key: uuid_parsing; name: value_error"


def test_each_attempt_has_a_body_of_its_own() -> None:
    message, handler = received({"number": 1, "labels": {"x": 1}}), Handler.of(takes_order)
    handler(message).labels.clear()
    assert handler(message).labels == {"x": 1}
    assert message.raw_body == '{"number": 1, "labels": {"x": 1}}'


@pytest.mark.parametrize(
    "handler", [print, len, lambda message: None, lambda message, tx: None, partial(print, 1)], ids=range(5)
)
def test_a_handler_without_a_type_gets_the_body_as_it_is(handler: Callable[..., Any]) -> None:
    assert body_reader(handler) is None


def test_types_that_need_not_be_made_are_for_the_type_checker_alone() -> None:
    def handler(message: ReceivedMessage[dict[str, int]]) -> Any:
        return message.body

    assert body_reader(handler) is None
    assert Handler.of(handler)(received({"a": "b"})) == {"a": "b"}


def test_an_annotation_that_cannot_be_read_is_refused() -> None:
    @dataclass
    class Local:
        number: int

    def local(message: ReceivedMessage[Local]) -> None: ...
    def unknown(message: ReceivedMessage[Unknown]) -> None: ...

    for handler in (local, unknown, takes_unreadable):
        with pytest.raises(InvalidArgumentError, match="cannot be read at run time"):
            Handler.of(handler)


def test_a_type_that_json_is_not_made_into_is_refused() -> None:
    def handler(message: ReceivedMessage[Odd]) -> None: ...

    with pytest.raises(InvalidArgumentError, match=r"not made into datetime\.timedelta here"):
        Handler.of(handler)


def test_a_dataclass_with_a_field_that_only_its_maker_gets_is_refused() -> None:
    def handler(message: ReceivedMessage[Secretive]) -> None: ...

    with pytest.raises(InvalidArgumentError, match="has the InitVar hidden"):
        Handler.of(handler)


def test_pydantic_is_loaded_only_when_it_is_used() -> None:
    program = (
        "import sys, dataclasses, pgqueue, pgqueue.aio\n"
        "@dataclasses.dataclass\nclass Order:\n    n: int\n"
        "def handler(message: pgqueue.ReceivedMessage[Order]): ...\n"
        "from pgqueue.model.handler import Handler; assert Handler.of(handler).read_body\n"
        "print('pydantic' in sys.modules)"
    )
    assert subprocess.check_output([sys.executable, "-c", program], text=True).strip() == "False"
