"""JSON as the database holds it, decoded on first access: Python cannot read all that jsonb can hold."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from typing import Any, TypeVar

from pgqueue.errors import MessageNotReadableError

T = TypeVar("T")
V = TypeVar("V")

#: The version byte before the text in the binary form of jsonb.
VERSION = "\x01"

#: jsonb writes no exponents: a number that is too large for a float has more digits than this.
DIGITS_OF_A_FLOAT = 308


class LazyField:
    """An attribute that is read from what its holder was made of on first access, and then cached."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, holder: LazyHolder | None, owner: type) -> Any:
        if holder is None:
            return self
        try:
            value = holder._read(self._name)  # noqa: SLF001 - a holder and its fields belong together
        except ValueError as error:
            title = holder._title()  # noqa: SLF001 - the same
            raise MessageNotReadableError(
                f"the {self._name} of {title} cannot be read: {error}. raw_{self._name} has it as text"
            ) from None
        vars(holder)[self._name] = value  # the holder may be frozen
        return value


class LazyHolder(ABC):
    """A dataclass with lazy fields. It can be printed even if these cannot be decoded."""

    @abstractmethod
    def _title(self) -> str:
        """The message, queue or effect that this is, for error texts."""

    @abstractmethod
    def _read(self, name: str) -> Any:
        """The value of a lazy field. Raises ValueError if it cannot be decoded."""

    def _shown(self, name: str) -> str:
        try:
            return repr(getattr(self, name))
        except (MessageNotReadableError, RecursionError) as error:
            return f"<JSON that cannot be shown: {error}>"

    def __repr__(self) -> str:
        shown = [f"{each.name}={self._shown(each.name)}" for each in fields(self) if each.repr]  # type: ignore[arg-type]  # a dataclass
        return f"{type(self).__qualname__}({', '.join(shown)})"


class JsonHolder(LazyHolder):
    """A record of which one field is JSON; if it is made by :func:`undecoded`, that is lazy."""

    def _read(self, name: str) -> Any:
        return decode_jsonb(vars(self)[f"_{name}_text"])

    def _raw(self, name: str) -> Any:
        """The JSON as text, or the value that was set instead."""
        return without_version(vars(self).get(f"_{name}_text", vars(self).get(name)))


HolderT = TypeVar("HolderT", bound=JsonHolder)


def undecoded(holder: HolderT, name: str) -> HolderT:
    """The same, in which the field with this name has JSON text that is still to be decoded."""
    values = vars(holder)
    values[f"_{name}_text"] = values.pop(name)
    return holder


def lazy_fields(*names: str) -> Callable[[type[T]], type[T]]:
    """A decorator for a dataclass in which the fields with these names are lazy, unless they are set."""

    def add(kind: type[T]) -> type[T]:
        for each in fields(kind):  # type: ignore[arg-type]  # a dataclass
            if each.name in names:
                setattr(kind, each.name, LazyField(each.name))
        return kind

    return add


def without_version(text: Any) -> Any:
    """The text of a jsonb column; any other value unchanged."""
    return text.removeprefix(VERSION) if isinstance(text, str) else text


def decode_jsonb(text: str | None) -> Any:
    """The value of a jsonb column. Raises ValueError, with the reason, for what Python cannot read.

    Slightly faster than :func:`decode`, because jsonb writes nothing before the value or after it.
    """
    if text is None:
        return None
    text = text.removeprefix(VERSION)
    try:
        value, end = _decoder(text).raw_decode(text)
    except RecursionError:
        return decode(text)
    return value if end == len(text) else decode(text)


def decode(text: str) -> Any:
    """Decode JSON. Raises ValueError, with the reason, for text that is not JSON or cannot be read."""
    try:
        return on_any_stack(_decoder(text).decode, text)
    except RecursionError:
        raise ValueError("it is nested too deeply for Python") from None


def on_any_stack(function: Callable[[V], T], value: V) -> T:
    """Call the function; if the stack is too short for nested values, call it again in a new thread."""
    try:
        return function(value)
    except RecursionError:
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(function, value).result()


def _decoder(text: str) -> json.JSONDecoder:
    return DECODER if len(text) <= DIGITS_OF_A_FLOAT else STRICT_DECODER


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError("it has a number that is too large for a float")
    return number


DECODER = json.JSONDecoder()
STRICT_DECODER = json.JSONDecoder(parse_float=_finite)
