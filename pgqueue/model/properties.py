"""Application properties: JSON, in which a value of a type that JSON lacks is an object with one key, its type."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from pgqueue.model.json_text import decode_jsonb

#: Values of these types are JSON already, or cannot be written.
PLAIN: Final = frozenset({str, int, float, bool, type(None), list, tuple, dict})


def _decimal(text: str) -> Decimal:
    """A finite number, as it is written: one that is none is not even equal to itself."""
    number = Decimal(text)
    if not number.is_finite():
        raise ValueError(text)
    return number


READ: Final[Mapping[str, Callable[[str], Any]]] = {
    "$bytes": lambda text: base64.b64decode(text, validate=True),
    "$datetime": datetime.fromisoformat,
    "$decimal": _decimal,
    "$uuid": UUID,
}


def as_json(properties: Any) -> Any:
    """The properties, if they are a mapping, with an object in place of each datetime, UUID, Decimal, and of bytes."""
    if not isinstance(properties, Mapping):
        return properties
    if PLAIN.issuperset(map(type, properties.values())):
        return properties if isinstance(properties, dict) else dict(properties)
    return {name: _written(value) for name, value in properties.items()}


def decode_properties(text: str | None) -> Any:
    """The properties in a jsonb column. Raises ValueError, with the reason, for what Python cannot read."""
    properties = decode_jsonb(text)
    return from_json(properties) if text is not None and '{"$' in text else properties


def from_json(properties: Any) -> Any:
    """The reverse of :func:`as_json`."""
    return {name: _read(value) for name, value in properties.items()} if isinstance(properties, dict) else properties


def _written(value: Any) -> Any:
    match value:
        case bytes() | bytearray() | memoryview():
            return {"$bytes": base64.b64encode(bytes(value)).decode()}
        case datetime():
            return {"$datetime": value.isoformat()}
        case Decimal() if value.is_finite():
            return {"$decimal": str(value)}
        case UUID():
            return {"$uuid": str(value)}
    return value


def _read(value: Any) -> Any:
    """The value of an object whose only key is a type; an object that cannot be read, perhaps from SQL, as it is."""
    if isinstance(value, dict) and len(value) == 1:
        ((kind, text),) = value.items()
        if kind in READ and isinstance(text, str):
            try:
                return READ[kind](text)
            except (ValueError, ArithmeticError):
                return value
    return value
