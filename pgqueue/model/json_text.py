"""JSON as the database holds it, decoded on first access: Python cannot read all that jsonb can hold."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeVar

from pgqueue.errors import MessageNotReadableError
from pgqueue.model.stack import on_any_stack

T = TypeVar("T")

#: The version byte before the text in the binary form of jsonb.
VERSION = "\x01"

#: jsonb writes no exponents: a number that is too large for a float has more digits than this.
DIGITS_OF_A_FLOAT = 308

#: A value that no JSON text decodes to; the same in every process.
NOT_DECODED = ...


class JsonText:
    """A JSON value that is decoded on first access. It equals the same text, and the value it stands for."""

    __slots__ = ("_text", "_value")
    __hash__ = None  # type: ignore[assignment]  # as lists and dictionaries

    def __init__(self, text: str) -> None:
        self._text = text
        self._value: Any = NOT_DECODED

    @property
    def text(self) -> str:
        """The JSON text."""
        return self._text.removeprefix(VERSION)

    def decoded(self) -> Any:
        """The decoded value; decoded at the first call."""
        if self._value is NOT_DECODED:
            self._value = _decode_what_jsonb_wrote(self.text)
        return self._value

    def __eq__(self, other: object) -> bool:
        if isinstance(other, JsonText):
            return self.text == other.text
        try:
            return bool(self.decoded() == other)
        except ValueError:
            return False

    def __repr__(self) -> str:
        try:
            return repr(self.decoded())
        except (ValueError, RecursionError) as error:
            return f"<JSON that cannot be shown: {error}>"


class JsonHolder(ABC):
    """A dataclass with JSON fields. It can be printed even if these cannot be decoded."""

    @abstractmethod
    def _title(self) -> str:
        """The message, queue or effect that this is, for error texts."""

    def _read(self, name: str) -> Any:
        """The value of a field that was never set, where there is something to read it from."""
        raise AttributeError(f"{name} is not set")

    def _raw(self, name: str) -> Any:
        """The content of a field, as text if it is JSON."""
        value = held_in(self, name)
        return value.text if isinstance(value, JsonText) else value

    def __repr__(self) -> str:
        shown = [f"{each.name}={held_in(self, each.name)!r}" for each in fields(self) if each.repr]  # type: ignore[arg-type]  # a dataclass
        return f"{type(self).__qualname__}({', '.join(shown)})"


def held_in(holder: JsonHolder, name: str) -> Any:
    """The content of a field, not decoded."""
    field = getattr(type(holder), name, None)
    return field.held_by(holder) if isinstance(field, JsonField) else getattr(holder, name)


class JsonField:
    """An attribute that takes :class:`JsonText` and returns the decoded value. It returns any other value unchanged."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._place = f"_held_{name}"

    def __get__(self, holder: JsonHolder | None, owner: type) -> Any:
        if holder is None:
            return self
        held = self.held_by(holder)
        if not isinstance(held, JsonText):
            return held
        try:
            return held.decoded()
        except ValueError as error:
            title = holder._title()  # noqa: SLF001 - a holder and its fields belong together
            raise MessageNotReadableError(
                f"the {self._name} of {title} cannot be read: {error}. raw_{self._name} has it as text"
            ) from None

    def __set__(self, holder: JsonHolder, value: Any) -> None:
        object.__setattr__(holder, self._place, value)  # it may be frozen, and this is its construction

    def held_by(self, holder: JsonHolder) -> Any:
        """The content, not decoded."""
        held = getattr(holder, self._place, NOT_DECODED)
        if held is NOT_DECODED:
            held = holder._read(self._name)  # noqa: SLF001 - a holder and its fields belong together
            self.__set__(holder, held)
        return held


def json_fields(*names: str) -> Callable[[type[T]], type[T]]:
    """A decorator for a dataclass whose fields with these names may be given as :class:`JsonText`."""

    def add(kind: type[T]) -> type[T]:
        for name in names:
            setattr(kind, name, JsonField(name))
        return kind

    return add


def json_text(text: str | None) -> JsonText | None:
    """Wrap a jsonb column."""
    return None if text is None else JsonText(text)


def decode(text: str) -> Any:
    """Decode JSON. Raises ValueError, with the reason, for text that is not JSON or cannot be read."""
    try:
        return on_any_stack(_decoder(text).decode, text)
    except RecursionError:
        raise ValueError("it is nested too deeply for Python") from None


def _decode_what_jsonb_wrote(text: str) -> Any:
    """As :func:`decode`, but slightly faster: expects nothing before the value or after it."""
    try:
        value, end = _decoder(text).raw_decode(text)
    except RecursionError:
        return decode(text)
    return value if end == len(text) else decode(text)


def _decoder(text: str) -> json.JSONDecoder:
    return DECODER if len(text) <= DIGITS_OF_A_FLOAT else STRICT_DECODER


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError("it has a number that is too large for a float")
    return number


DECODER = json.JSONDecoder()
STRICT_DECODER = json.JSONDecoder(parse_float=_finite)
