"""The parameters of tasks: how they get their values from a message, and which of them are refused."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from pydantic import BaseModel
from sqlalchemy.orm import Session

import pgqueue.aio
from pgqueue import Handlers, Message, QueueClient, ReceivedMessage, Tasks, Worker
from pgqueue.errors import InvalidArgumentError, MessageNotSerializableError
from pgqueue.model.body_type import BodyType
from pgqueue.model.task import Arguments
from pgqueue.testing import drain

if TYPE_CHECKING:
    from somewhere import Unknown  # type: ignore[import-not-found]


class Customer(BaseModel):
    name: str


@dataclasses.dataclass
class Line:
    article: str
    count: int = 1


def stored(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The arguments as JSON has them, after they were written as a body and read again."""
    arguments = Arguments(function)
    kind = BodyType(arguments.kind)
    written = kind.write(arguments.body(*args, **kwargs))
    assert arguments.values(kind.make(json.dumps(written))) == arguments.values(arguments.body(*args, **kwargs))
    return written


def test_arguments_are_named_in_the_body() -> None:
    def ship(order: int, city: str = "Basel", *, express: bool = False) -> None: ...

    assert stored(ship, 7, express=True) == {"order": 7, "city": "Basel", "express": True}
    assert stored(ship, city="Bern", order=8) == {"order": 8, "city": "Bern", "express": False}


def test_arguments_are_written_and_read_by_their_annotations() -> None:
    def bill(on: date, total: Decimal, lines: list[Line], note: str | None = None) -> None: ...

    assert stored(bill, date(2026, 1, 2), Decimal("1.50"), [Line("a", 2)]) == {
        "on": "2026-01-02",
        "total": "1.50",
        "lines": [{"article": "a", "count": 2}],
        "note": None,
    }


def test_a_model_of_pydantic_is_an_argument() -> None:
    def greet(customer: Customer, times: int = 1) -> None: ...

    assert stored(greet, Customer(name="Ann")) == {"customer": {"name": "Ann"}, "times": 1}
    with pytest.raises(MessageNotSerializableError, match="greet: "):
        Arguments(greet).body("Ann")


def test_an_argument_without_an_annotation_is_any_json() -> None:
    def note(what, where=None):  # type: ignore[no-untyped-def]
        ...

    assert stored(note, {"a": [1]}) == {"what": {"a": [1]}, "where": None}


def test_a_mutable_default_is_new_for_each_call() -> None:
    def collect(into: list[int] = []) -> list[int]:  # noqa: B006 - what an application may have written
        into.append(1)
        return into

    arguments = Arguments(collect)
    kind = BodyType(arguments.kind)
    for _ in range(2):
        assert arguments.call(Message(kind.make("{}"))) == [1]


def test_the_message_and_the_transaction_are_found_by_annotation() -> None:
    def by_name(order: int, message, tx) -> None:  # type: ignore[no-untyped-def]
        ...

    def by_annotation(db: psycopg.Connection[Any], order: int, received: ReceivedMessage[Any]) -> None: ...

    def in_a_session(order: int, session: Session) -> None: ...

    def a_text_called_message(message: str, tx: int) -> None: ...

    def unknown_at_run_time(order: int, tx: Unknown) -> None: ...

    for function, message, transaction in (
        (by_name, "message", "tx"),
        (by_annotation, "received", "db"),
        (in_a_session, None, "session"),
        (a_text_called_message, None, None),
        (unknown_at_run_time, None, "tx"),
    ):
        arguments = Arguments(function)
        assert (arguments.message, arguments.transaction) == (message, transaction)


def test_a_task_is_called_with_all_that_it_takes() -> None:
    def ship(db: psycopg.Connection[Any], order: int, received: ReceivedMessage[Any]) -> Any:
        return db, order, received

    arguments = Arguments(ship)
    received = Message(arguments.body(7))
    assert arguments.call(received, "a transaction") == ("a transaction", 7, received)


def positional(order: int, /) -> None: ...
def several(*orders: int) -> None: ...
def named(**orders: int) -> None: ...
def option(priority: int) -> None: ...
def unknown(order: Unknown) -> None: ...
def unreadable(order: complex) -> None: ...
def two_transactions(tx: psycopg.Connection[Any], session: Session) -> None: ...
def generator() -> Any:
    yield 1


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (positional, "positional takes order, which is positional-only: arguments of a task have names"),
        (several, "several takes orders, which is variadic positional: arguments"),
        (named, "named takes orders, which is variadic keyword: arguments"),
        (option, "option takes priority, which is an option of send: give the argument another name"),
        (unknown, "the annotation Unknown of unknown cannot be read at run time"),
        (unreadable, "JSON is not made into builtins.complex here"),
        (two_transactions, "one message and one transaction, not both tx and session"),
        (generator, "generator function"),
    ],
)
def test_a_parameter_that_a_message_cannot_have_is_refused_when_the_task_is_made(
    function: Callable[..., Any], why: str
) -> None:
    with QueueClient("") as client, pytest.raises(InvalidArgumentError, match=why):
        Tasks(client).task(queue="q")(function)


def test_a_call_with_other_arguments_is_refused_when_it_is_sent() -> None:
    with QueueClient("") as client:

        @Tasks(client).task(queue="q")
        def ship(order: int) -> None: ...

        for given in ([], [1, 2]):
            with pytest.raises(InvalidArgumentError, match=r"ship\(order\): "):
                ship.send(*given)
        with pytest.raises(InvalidArgumentError, match=r"ship\(order\): .*city"):
            ship.send(1, city="Basel")


def test_other_misuse_is_refused_by_name() -> None:
    with QueueClient("") as client:
        tasks = Tasks(client)

        @tasks.task(queue="q")
        def ship(order: int) -> None: ...

        with pytest.raises(InvalidArgumentError, match=r"queue q has a handler for the subject 'ship' already"):
            tasks.task(queue="q", name="ship")(lambda: None)
        with pytest.raises(InvalidArgumentError, match=r"ship needs arguments, which"):
            tasks.periodic(cron="0 0 * * *")(ship)
        with pytest.raises(InvalidArgumentError, match=r"periodic decorates a task: put @tasks\.task"):
            tasks.periodic(cron="0 0 * * *")(lambda: None)  # type: ignore[arg-type]
        for wrong, why in (
            ({"cron": "0 0 * *"}, "cron must be five fields"),
            ({"cron": "0 0 * * *", "timezone": "Europe/Basel"}, "timezone must be the name of a time zone"),
            ({"every": 30}, "every must be a timedelta, not 30"),
        ):
            options: dict[str, Any] = wrong
            with pytest.raises(InvalidArgumentError, match=why):
                tasks.periodic(**options)(tasks.task(queue="q", name=why)(lambda: None))
        with pytest.raises(InvalidArgumentError, match=r"max_attempts must be 1 or more"):
            tasks.task(queue="q", max_attempts=0)(lambda: None)
        with pytest.raises(InvalidArgumentError, match=r"delay must be a timedelta, not 30"):
            ship.send(7, delay=30)  # type: ignore[arg-type]
        for other in ("postgresql://localhost/shop", pgqueue.aio.QueueClient("")):
            with pytest.raises(InvalidArgumentError, match=r"Tasks takes a client of pgqueue, not"):
                Tasks(other)  # type: ignore[arg-type]


def test_a_task_is_no_handler() -> None:
    with QueueClient("") as client:
        tasks = Tasks(client)

        @tasks.task(queue="q")
        def ship(order: int) -> None: ...

        @tasks.task(queue="q")
        def move(order: int, place: str) -> None: ...

        queue: Any = client.queue("q")
        for task in (ship, move):
            for use in (
                lambda task: Worker(queue, task),
                lambda task: drain(queue, task),
                Handlers().handler("q"),
            ):
                with pytest.raises(InvalidArgumentError, match=rf"Task\('{task.name}', queue='q'\) with arguments"):
                    use(task)
            assert Worker(queue, task.handler()).tally.received == 0
        assert repr(tasks) == "Tasks('q')"


@pytest.mark.parametrize("kind", [int, Customer], ids=["dataclass", "pydantic"])
@pytest.mark.parametrize("name", ["self", "_private", "__double", "model_config", "model_dump", "json", "cls", "field"])
def test_an_argument_may_have_a_name_that_means_something_elsewhere(name: str, kind: Any) -> None:
    namespace: dict[str, Any] = {}
    exec(f"def ship({name}, other): return {name}", namespace)
    ship = namespace["ship"]
    ship.__annotations__ = {name: int, "other": kind}
    other = 1 if kind is int else Customer(name="Ada")
    assert stored(ship, **{name: 7, "other": other})[name] == 7


def test_a_type_may_be_named_by_text_within_another() -> None:
    def bill(lines: list[Line], more: list[Line], last: Line | None = None) -> None: ...

    bill.__annotations__ = {"lines": "list['Line']", "more": list["Line"], "last": "Line | None"}
    assert stored(bill, [Line("a")], [Line("b")])["more"] == [{"article": "b", "count": 1}]
