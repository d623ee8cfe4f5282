"""Bodies as handlers want them: a handler of ``ReceivedMessage[Order]`` gets an ``Order``, made of the JSON text."""

from __future__ import annotations

import dataclasses
import re
import typing
from collections.abc import Callable
from functools import partial
from typing import Any

from pgqueue.errors import DeadLetter, InvalidArgumentError
from pgqueue.model.body_type import INVALID_BODY, WITHHELD, BodyType, is_of_pydantic, mentions, without_values
from pgqueue.model.calls import annotation_of, evaluated
from pgqueue.model.message import Message, PeekedMessage, body_type_of

LONGEST_DESCRIPTION = 4_000

#: How messages are stored in a queue without a type.
ANY = BodyType(None)

OF_A_MESSAGE = re.compile(r"\w*Message\[")


class InvalidBody(DeadLetter):
    """A body does not fit the type that is wanted; ``without_values`` is the text for a log."""

    def __init__(self, description: str, without_values: str) -> None:
        super().__init__(INVALID_BODY, description)
        self.without_values = without_values


def body_reader(function: Callable[..., Any]) -> Callable[[PeekedMessage], Any] | None:
    """How to make the body that a handler's first argument is annotated with; None if it takes any.

    Raises:
        InvalidArgumentError: the annotation names what is not known at run time, or what JSON cannot be made into.
    """
    kind = _wanted(function)
    return None if kind is None else partial(read_as, BodyType(kind))


def read_as(body_type: BodyType, message: PeekedMessage) -> Any:
    """Decode the body of a message again: a former attempt may have changed it.

    Raises:
        InvalidBody: it does not fit.
    """
    stored = body_type_of(message) or ANY
    try:
        raw = stored.decrypted(message.raw_body)
    except ValueError as error:
        raise InvalidBody(f"the body cannot be read: {error}", str(error)) from None
    try:
        return body_type.make(raw)
    except ValueError as error:
        if stored.cipher is None:
            description = f"the body is not a {body_type.name}: {error}"[:LONGEST_DESCRIPTION]
            raise InvalidBody(description, without_values(error)) from error
    description = f"the body is not a {body_type.name}{WITHHELD}"
    raise InvalidBody(description, description)


def _wanted(function: Callable[..., Any]) -> Any:
    """The type of the body in the annotation of the first parameter, if values of that type have to be made."""
    annotation = annotation_of(function, 0)
    if isinstance(annotation, str) and OF_A_MESSAGE.search(annotation):
        _refuse(annotation, function)
    origin = typing.get_origin(annotation)
    if not (isinstance(origin, type) and issubclass(origin, Message)):
        return None
    (kind,) = typing.get_args(annotation)
    return kind if mentions(kind, is_of_pydantic) or mentions(kind, dataclasses.is_dataclass) else None


def _refuse(annotation: str, function: Callable[..., Any]) -> None:
    try:
        evaluated(annotation, function)
    except Exception as error:
        raise InvalidArgumentError(
            f"the annotation {annotation} of a handler cannot be read at run time: {error}. Import its names outside of"
            " `if TYPE_CHECKING`, and define its types in a module"
        ) from error
