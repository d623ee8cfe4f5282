"""The types of bodies: a dataclass, a model of pydantic, or what contains them; made of JSON text, and made into JSON.

pydantic is imported only for a type that has one of its models.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Mapping
from datetime import date, time
from decimal import Decimal
from enum import Enum
from typing import Any, Self
from uuid import UUID

from pgqueue.model.cipher import NO_KEYS, Cipher, is_encrypted
from pgqueue.model.json_text import decode
from pgqueue.model.readers import InvalidValueError, name_of, reader

#: The reason of dead letters whose body is not of the type that is wanted.
INVALID_BODY = "InvalidBody"

#: Ends an error about an encrypted body: what is wrong in it would show a part of it.
WITHHELD = "; the reason is withheld, because it is encrypted"

Make = Callable[[str], Any]
Write = Callable[[Any], Any]


class BodyType:
    """A type of bodies: it makes them of JSON text, and writes them as values that JSON can hold.

    Without a ``kind``, bodies are any JSON, or bytes. With a ``cipher``, the queue holds them encrypted.

    Raises:
        InvalidArgumentError: JSON is not made into such values here.
    """

    def __init__(self, kind: Any, cipher: Cipher | None = None) -> None:
        self.kind = kind
        self.cipher = cipher
        if kind is not None:
            self._make, self._write = (_of_pydantic if mentions(kind, is_of_pydantic) else _of_dataclasses)(kind)

    @classmethod
    def of(cls, kind: Any, cipher: Cipher | None = None) -> Self | None:
        """The type, or None if none is wanted and nothing is encrypted."""
        return None if kind is None and cipher is None else cls(kind, cipher)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.kind,)  # without the keys

    @property
    def name(self) -> str:
        """The name of the type, for people."""
        return "JSON value" if self.kind is None else name_of(self.kind)

    def decrypted(self, raw: str | bytes) -> str | bytes:
        """The body that the queue holds, as it was before it was encrypted. Raises ValueError if that is not known."""
        if self.cipher is not None:
            return self.cipher.decrypt(raw)
        if is_encrypted(raw):
            raise InvalidValueError(NO_KEYS)
        return raw

    def make(self, raw: str | bytes) -> Any:
        """Make a value of a body that is not encrypted. Raises ValueError if it does not fit."""
        if self.kind is None:
            return raw if isinstance(raw, bytes) else decode(raw)
        if isinstance(raw, bytes):
            raise InvalidValueError("it is bytes, not JSON")
        return self._make(raw)

    def read(self, raw: str | bytes) -> Any:
        """Make a value of what the queue holds. Raises ValueError, with the name of the type, if it does not fit."""
        plain = self.decrypted(raw)
        try:
            return self.make(plain)
        except ValueError as error:
            if self.kind is None:
                raise
            if self.cipher is None:
                raise ValueError(f"it is not a {self.name}: {error}") from error
        raise ValueError(f"it is not a {self.name}{WITHHELD}")

    def write(self, body: Any) -> Any:
        """Return the body as a value that JSON can hold. Raises ValueError if it is of another type."""
        if isinstance(self.kind, type) and not typing.get_args(self.kind) and not isinstance(body, self.kind):
            raise InvalidValueError(f"it is of the type {type(body).__qualname__}")
        return self._write(body)


def without_values(error: ValueError) -> str:
    """The defects of a body, for a log: the fields and the rules that they break, but no value."""
    if isinstance(error, InvalidValueError):
        return error.without_value
    if hasattr(error, "errors"):  # of pydantic
        return "; ".join(map(_rule_of_pydantic, error.errors(include_input=False)))
    return "it cannot be read"


def _rule_of_pydantic(error: Mapping[str, Any]) -> str:
    """The field and pydantic's text, or the name of the rule where the text is an application's or has a value."""
    quotes = "url" not in error or {"error", "tag"} & error.get("ctx", {}).keys()
    rule = error["type"] if quotes else error["msg"]
    return ": ".join([".".join(map(str, error["loc"])), rule]) if error["loc"] else rule


def mentions(kind: Any, test: Callable[[Any], bool]) -> bool:
    """Whether a type, or one that it contains, passes a test."""
    return test(kind) or any(mentions(each, test) for each in typing.get_args(kind))


def is_of_pydantic(kind: Any) -> bool:
    """Whether a type is a model of pydantic."""
    return isinstance(kind, type) and hasattr(kind, "__pydantic_validator__")


def _of_pydantic(kind: Any) -> tuple[Make, Write]:
    from pydantic import TypeAdapter

    adapter = TypeAdapter(kind)

    def write(body: Any) -> Any:
        return adapter.dump_python(body, mode="json", by_alias=True, round_trip=True, warnings="error")

    return adapter.validate_json, write


def _of_dataclasses(kind: Any) -> tuple[Make, Write]:
    read = reader(kind)
    return lambda text: read(decode(text)), _plain


def _plain(value: Any) -> Any:
    """The JSON value that :func:`reader` makes such a value of."""
    if dataclasses.is_dataclass(value):
        return {each.name: _plain(getattr(value, each.name)) for each in dataclasses.fields(value) if each.init}
    write = next((write for kinds, write in WRITERS.items() if isinstance(value, kinds)), None)
    return value if write is None else write(value)


WRITERS: Mapping[Any, Write] = {
    Enum: lambda member: member.value,
    (date, time): lambda moment: moment.isoformat(),
    (UUID, Decimal): str,
    Mapping: lambda mapping: {key: _plain(each) for key, each in mapping.items()},
    (list, tuple, set, frozenset): lambda items: [_plain(each) for each in items],
}
