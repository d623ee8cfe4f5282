"""Handlers: functions of an application that work on a message, called as handler(message) or handler(message, tx)."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from pgqueue.errors import InvalidArgumentError
from pgqueue.model.arguments import shown
from pgqueue.model.bodies import body_reader, read_as
from pgqueue.model.calls import annotation_of, is_coroutine_function, must_finish
from pgqueue.model.message import PeekedMessage, body_type_of

#: The kinds of transactions that a worker begins by itself, named by the packages whose classes they are.
KINDS = ("psycopg", "sqlalchemy")


class TakesArguments:
    """A task: it is called with the arguments that a message has, where a handler is called with the message."""


@dataclass(frozen=True)
class Handler:
    """A function that works on a message, and whether it takes the transaction beside it."""

    function: Callable[..., Any]
    takes_transaction: bool
    #: The kind that the annotation of its transaction asks for, if it can be read and is of one of ``KINDS``.
    transaction_kind: str | None
    #: The class of messages that the annotation of its first argument names, if any.
    message_type: type | None
    #: Whether a call makes a coroutine, as far as can be known.
    is_coroutine: bool
    #: How to make the body that it wants, if it wants one of a type of its own.
    read_body: Callable[[PeekedMessage], Any] | None
    #: After how many deliveries a message that fails is dead-lettered, if that is sooner than the worker's policy does.
    max_attempts: int | None = None

    @classmethod
    def of(
        cls,
        function: Callable[..., Any],
        name: str = "the handler",
        *,
        asynchronous: bool = True,
        remedy: str = "use pgqueue.aio, which awaits it",
    ) -> Self:
        """Check a function and wrap it.

        Raises:
            InvalidArgumentError: it takes other arguments, or is a generator function, or is a coroutine function where
                none is awaited.
        """
        if not callable(function):
            raise InvalidArgumentError(f"{name} must be callable, not {shown(function)}")
        if isinstance(function, TakesArguments):
            raise InvalidArgumentError(
                f"{name} is called with a message, and {function!r} with arguments: give a Worker its Tasks, others its"
                " handler()"
            )
        must_finish(function, name, asynchronous=asynchronous, remedy=remedy)
        takes_transaction = _takes_transaction(function, name)
        kind = _transaction_kind(function) if takes_transaction else None
        is_coroutine = is_coroutine_function(function)
        return cls(function, takes_transaction, kind, _message_type(function), is_coroutine, body_reader(function))

    def check_takes(self, message_type: type) -> None:
        """Check that the handler is written for messages of this class: those of the two faces differ in their calls.

        Raises:
            InvalidArgumentError: its annotation names the other face's class.
        """
        if self.message_type is not None and not issubclass(message_type, self.message_type):
            wrong, right = (f"{kind.__module__}.{kind.__qualname__}" for kind in (self.message_type, message_type))
            raise InvalidArgumentError(
                f"{self.name} takes a {wrong}, and gets a {right} here, whose methods are"
                f" {'awaited' if '.aio.' in right else 'not awaited'}: annotate the message with that class"
            )

    @property
    def name(self) -> str:
        """The function's name, for people."""
        named = getattr(self.function, "func", self.function)  # a partial has none of its own
        name = getattr(named, "__qualname__", type(named).__qualname__)
        return f"{getattr(named, '__module__', None) or type(named).__module__}.{name}"

    def describe(self) -> str:
        """How the function is called, for people."""
        arguments = "(message, tx)" if self.takes_transaction else "(message)"
        return f"{'async ' if self.is_coroutine else ''}{self.name}{arguments}"

    def __call__(self, message: PeekedMessage, transaction: object = None) -> Any:
        """Call the function with what it takes.

        Raises:
            DeadLetter: the body is not what the handler wants.
        """
        if self.read_body is not None:
            message.body = self.read_body(message)
        elif (body_type := body_type_of(message)) is not None:
            message.body = read_as(body_type, message)
        return self.function(message, transaction) if self.takes_transaction else self.function(message)


def _takes_transaction(function: Callable[..., Any], name: str) -> bool:
    try:
        signature = inspect.signature(function)
    except ValueError:  # a function of C without a signature
        return False
    for arguments in ((None, None), (None,)):
        try:
            signature.bind(*arguments)
        except TypeError:
            continue
        return len(arguments) == 2
    raise InvalidArgumentError(f"{name} takes (message) or (message, tx), not {signature}")


def _transaction_kind(function: Callable[..., Any]) -> str | None:
    package = getattr(annotation_of(function, 1), "__module__", "").partition(".")[0]
    return package if package in KINDS else None


def _message_type(function: Callable[..., Any]) -> type | None:
    annotation = annotation_of(function, 0)
    kind = typing.get_origin(annotation) or annotation
    return kind if isinstance(kind, type) and issubclass(kind, PeekedMessage) else None
