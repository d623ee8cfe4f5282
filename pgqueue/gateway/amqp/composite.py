"""Composite values: lists of fields with a descriptor, decoded and encoded by their classes.

See section 1.4 of the specification.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, ClassVar, Self, TypeAlias, TypeVar, dataclass_transform

from pgqueue.gateway.amqp import types
from pgqueue.gateway.amqp.types import DecodeError, Described, Symbol

#: The roles of links, and the mode of a sender that settles at once.
SENDER, RECEIVER = False, True
SETTLED_BY_SENDER = 1

#: By the type that a field is declared with: how it is encoded, and what it may be when it is decoded.
FIELDS: dict[str, tuple[Any, tuple[type, ...]]] = {
    "str": (types.string, (str,)),
    "Symbol": (types.symbol, (str,)),
    "Symbols": (types.encode, (list, str)),
    "UInt": (types.uint, (int,)),
    "ULong": (types.ulong, (int,)),
    "UShort": (types.ushort, (int,)),
    "UByte": (types.ubyte, (int,)),
    "bool": (types.boolean, (bool,)),
    "bytes": (types.binary, (bytes,)),
    "Map": (types.encode, (dict,)),
    "Any": (types.encode, (bool, object)),
}

#: The largest numbers of the types.
BOUNDS = {"UByte": 2**8 - 1, "UShort": 2**16 - 1, "UInt": 2**32 - 1, "ULong": 2**64 - 1}

UInt: TypeAlias = int
ULong: TypeAlias = int
UShort: TypeAlias = int
UByte: TypeAlias = int
Symbols: TypeAlias = list[Symbol] | Symbol
Map: TypeAlias = dict[Any, Any]


class Composite:
    """A list of fields with a descriptor. Fields that are None are left out."""

    __slots__ = ()

    prefix: ClassVar[bytes]
    layout: ClassVar[Sequence[tuple[Callable[[Any], bytes], tuple[type, ...]]]]
    mandatory: ClassVar[Sequence[int]]
    bounds: ClassVar[Sequence[int | None]]
    values_of: ClassVar[Callable[[Any], tuple[Any, ...]]]

    def encode(self) -> bytes:
        """Its bytes."""
        values = type(self).values_of(self)
        last = len(values)
        while last and values[last - 1] is None:
            last -= 1
        parts = [
            b"\x40" if value is None else write(value)
            for value, (write, _) in zip(values[:last], self.layout, strict=False)
        ]
        return self.prefix + types.assembled_list(parts)

    @classmethod
    def of(cls, values: list[Any]) -> Self:
        """Made of the decoded values of its fields. Raises DecodeError."""
        name = cls.__name__.lower()
        if len(values) > len(cls.layout):
            raise DecodeError(f"{name} has more than {len(cls.layout)} fields")
        for value, (_, kinds) in zip(values, cls.layout, strict=False):
            if value is not None and type(value) not in kinds and (type(value) is bool or not isinstance(value, kinds)):
                raise DecodeError(f"a field of {name} is of the type {type(value).__name__}")
        for value, bound in zip(values, cls.bounds, strict=False):
            if bound is not None and value is not None and not 0 <= value <= bound:
                raise DecodeError(f"a number of {name} is out of its bounds")
        if any(place >= len(values) or values[place] is None for place in cls.mandatory):
            raise DecodeError(f"{name} lacks a field that it must have")
        return cls(*values, *[None] * (len(cls.layout) - len(values)))


#: The classes, by their numbers and by their symbols.
KINDS: dict[Any, type[Composite]] = {}

P = TypeVar("P", bound=type[Composite])


@dataclass_transform()
def composite(code: int, name: str) -> Callable[[P], P]:
    """Make a class of a list of fields that AMQP describes with this code, and with the symbol of this name."""

    def make(declared: P) -> P:
        made: Any = dataclass(slots=True)(declared)
        names = {field.name: field.type for field in fields(made)}
        kinds = [kind.removesuffix(" | None") for kind in names.values()]
        made.prefix = b"\0" + types.ulong(code)
        made.layout = [FIELDS[kind] for kind in kinds]
        made.mandatory = [place for place, kind in enumerate(names.values()) if kind == kinds[place]]
        made.bounds = [BOUNDS.get(kind) for kind in kinds]
        made.values_of = attrgetter(*names) if len(names) > 1 else lambda one: tuple(getattr(one, key) for key in names)
        KINDS[code] = KINDS[f"amqp:{name}:list"] = made
        types.BY_CLASS[made] = made.encode
        return made  # type: ignore[no-any-return]  # the class with slots

    return make


def performative_of(value: Any) -> Any:
    """The performative that a described list is. Raises DecodeError."""
    if not isinstance(value, Described) or not isinstance(value.value, list) or value.descriptor not in KINDS:
        raise DecodeError("this is no performative of AMQP")
    return KINDS[value.descriptor].of(value.value)


def part_of(value: Any) -> Any:
    """A performative within another one, such as a source or a state; None stays None. Raises DecodeError."""
    return None if value is None else performative_of(value)
