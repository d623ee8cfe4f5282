"""Bodies as handlers want them: a handler of ``ReceivedMessage[Order]`` gets an ``Order``, made of the JSON text.

Order is a dataclass or a model of pydantic. pydantic is imported only for a handler that wants one of its models.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import typing
from collections.abc import Callable
from functools import partial
from typing import Any

from pgqueue.errors import DeadLetter, InvalidArgumentError
from pgqueue.model.json_text import JsonText, decode
from pgqueue.model.message import Message, PeekedMessage
from pgqueue.model.readers import InvalidValueError, name_of, reader

#: The reason of dead letters whose body is not what the handler wants.
INVALID_BODY = "InvalidBody"
LONGEST_DESCRIPTION = 4_000

OF_A_MESSAGE = re.compile(r"\w*Message\[")


def body_reader(function: Callable[..., Any]) -> Callable[[PeekedMessage], Any] | None:
    """How to make the body that a handler's first argument is annotated with; None if it takes any.

    Raises:
        InvalidArgumentError: the annotation names what is not known at run time, or what JSON cannot be made into.
    """
    kind = _wanted(function)
    if kind is None:
        return None
    read = _text_reader(kind)

    def read_body(message: PeekedMessage) -> Any:
        held = message._read("body")  # noqa: SLF001 - always from the row: a former attempt may have changed the body
        try:
            if not isinstance(held, JsonText):
                raise InvalidValueError("it is bytes, not JSON")
            return read(held.text)
        except ValueError as error:
            description = f"the body is no {name_of(kind)}: {error}"[:LONGEST_DESCRIPTION]
            raise DeadLetter(INVALID_BODY, description) from error

    return read_body


def _wanted(function: Callable[..., Any]) -> Any:
    """The type of the body in the annotation of the first parameter, if values of that type have to be made."""
    annotation = _annotation(function)
    origin = typing.get_origin(annotation)
    if not (isinstance(origin, type) and issubclass(origin, Message)):
        return None
    (kind,) = typing.get_args(annotation)
    return kind if _mentions(kind, _is_of_pydantic) or _mentions(kind, dataclasses.is_dataclass) else None


def _annotation(function: Callable[..., Any]) -> Any:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except ValueError:  # a function of C
        return None
    annotation = parameters[0].annotation if parameters else None
    if not isinstance(annotation, str) or not OF_A_MESSAGE.search(annotation):
        return annotation
    try:
        return eval(annotation, _namespace(function))  # noqa: S307 - what the application itself has written
    except Exception as error:
        raise InvalidArgumentError(
            f"the annotation {annotation} of a handler cannot be read at run time: {error}. Import its names outside of"
            " `if TYPE_CHECKING`, and define its types in a module"
        ) from error


def _namespace(function: Any) -> dict[str, Any]:
    while isinstance(function, partial) or hasattr(function, "__wrapped__"):
        function = function.func if isinstance(function, partial) else function.__wrapped__
    if not hasattr(function, "__globals__"):
        function = type(function).__call__
    namespace: dict[str, Any] = getattr(function, "__globals__", {})
    return namespace


def _mentions(kind: Any, test: Callable[[Any], bool]) -> bool:
    return test(kind) or any(_mentions(each, test) for each in typing.get_args(kind))


def _is_of_pydantic(kind: Any) -> bool:
    return isinstance(kind, type) and hasattr(kind, "__pydantic_validator__")


def _text_reader(kind: Any) -> Callable[[str], Any]:
    if _mentions(kind, _is_of_pydantic):
        from pydantic import TypeAdapter

        return TypeAdapter(kind).validate_json
    read = reader(kind)
    return lambda text: read(decode(text))
