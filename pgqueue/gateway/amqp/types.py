"""The type system of AMQP 1.0: values from bytes, and bytes from values. See part 1 of the specification.

A value is decoded as what Python has: integers of all widths are ``int``. Where the width matters, it is in
:func:`type_at`. Values are encoded by their class; :data:`ENCODERS`
make :class:`Encoded` values of other types.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)

LARGEST_INT = 2**31 - 1
LARGEST_LONG = 2**63 - 1


class DecodeError(ValueError):
    """These bytes are not AMQP."""


class Symbol(str):
    """A text of ASCII that names something."""

    __slots__ = ()


class Timestamp(int):
    """Milliseconds since 1970."""

    __slots__ = ()

    def as_datetime(self) -> datetime:
        """The time. Raises OverflowError for years that Python does not have."""
        return EPOCH + self * MILLISECOND


class Encoded(bytes):
    """A value that is encoded already."""

    __slots__ = ()


class Described(NamedTuple):
    """A value with a descriptor, which gives it a meaning."""

    descriptor: Any
    value: Any


def decode(buffer: bytes, position: int = 0) -> tuple[Any, int]:
    """The value at a position, and the position after it. Raises DecodeError."""
    try:
        return _decode(buffer, position)
    except DecodeError:
        raise
    except (ArithmeticError, LookupError, TypeError, ValueError, RecursionError, struct.error) as error:
        raise DecodeError(f"no value of AMQP begins at byte {position}: {type(error).__name__}") from None


def decode_whole(buffer: bytes) -> Any:
    """The value that the bytes are. Raises DecodeError."""
    value, end = decode(buffer)
    if end != len(buffer):
        raise DecodeError(f"{len(buffer) - end} bytes follow the value")
    return value


def end_of(buffer: bytes, position: int) -> int:
    """Where the value that begins at a position ends, without decoding it. Raises DecodeError."""
    try:
        while (code := buffer[position]) == DESCRIBED:
            position = end_of(buffer, position + 1)
        end = position + 1 + _width(buffer, code, position + 1)
    except (IndexError, KeyError, RecursionError, struct.error):
        raise DecodeError(f"no value of AMQP begins at byte {position}") from None
    if end > len(buffer):
        raise DecodeError(f"the value at byte {position} is cut off")
    return end


def type_at(buffer: bytes, position: int) -> str:
    """The name of the type of a value. Raises DecodeError."""
    try:
        return NAMES[buffer[position]]
    except (IndexError, KeyError):
        raise DecodeError(f"no value of AMQP begins at byte {position}") from None


def entries_of(buffer: bytes, position: int) -> list[tuple[Any, int, int]]:
    """The entries of a map: each key, and where its value begins and ends. Raises DecodeError."""
    try:
        code = buffer[position]
        if code not in (MAP8, MAP32):
            raise DecodeError(f"a {type_at(buffer, position)} stands where a map belongs")
        count, position, end = _compound(buffer, position + 1, 1 if code == MAP8 else 4)
    except (IndexError, struct.error):
        raise DecodeError("a map is cut off") from None
    entries = []
    for _ in range(count // 2):
        key, begin = decode(buffer, position)
        position = end_of(buffer, begin)
        entries.append((key, begin, position))
    if position != end or count % 2:
        raise DecodeError("the size of a map is wrong")
    return entries


def encode(value: Any) -> bytes:
    """The bytes of a value. Raises TypeError for what AMQP has no type for."""
    kind = type(value)
    encoder = BY_CLASS.get(kind)
    if encoder is None:
        encoder = next((BY_CLASS[base] for base in kind.__mro__ if base in BY_CLASS), None)
        if encoder is None:
            raise TypeError(f"AMQP has no type for {kind.__name__}")
    return encoder(value)


# -- decoding ----------------------------------------------------------------------------------------------------------

DESCRIBED, LIST0, MAP8, MAP32 = 0x00, 0x45, 0xC1, 0xD1

#: The types that keys of maps may have.
KEYS = (str, int, bytes)

_Decoder = Callable[[bytes, int], tuple[Any, int]]


def _decode(buffer: bytes, position: int) -> tuple[Any, int]:
    return DECODERS[buffer[position]](buffer, position + 1)


def _fixed(layout: str, make: Callable[[Any], Any] | None = None) -> _Decoder:
    unpack, size = struct.Struct(layout).unpack_from, struct.calcsize(layout)
    if make is None:
        return lambda buffer, position: (unpack(buffer, position)[0], position + size)
    return lambda buffer, position: (make(unpack(buffer, position)[0]), position + size)


def _constant(value: Any) -> _Decoder:
    return lambda _, position: (value, position)


def _text(size: int, make: Callable[[bytes], Any]) -> _Decoder:
    def read(buffer: bytes, position: int) -> tuple[Any, int]:
        begin = position + size
        end = begin + int.from_bytes(buffer[position:begin], "big")
        if end > len(buffer) or begin > len(buffer):
            raise DecodeError(f"the value at byte {position} is cut off")
        return make(buffer[begin:end]), end

    return read


def _symbol(data: bytes) -> Symbol:
    return Symbol(data.decode("ascii"))


def _compound(buffer: bytes, position: int, size: int) -> tuple[int, int, int]:
    """How many values follow, where they begin and where they end."""
    length = int.from_bytes(buffer[position : position + size], "big")
    count = int.from_bytes(buffer[position + size : position + 2 * size], "big")
    end = position + size + length
    if end > len(buffer) or length < size:
        raise DecodeError(f"the value at byte {position} is cut off")
    return count, position + 2 * size, end


def _values(size: int) -> Callable[[bytes, int], tuple[list[Any], int]]:
    def read(buffer: bytes, position: int) -> tuple[list[Any], int]:
        count, position, end = _compound(buffer, position, size)
        values = []
        for _ in range(count):
            value, position = DECODERS[buffer[position]](buffer, position + 1)
            values.append(value)
        if position != end:
            raise DecodeError("the size of a list or map is wrong")
        return values, end

    return read


def _mapping(size: int) -> _Decoder:
    read = _values(size)

    def read_mapping(buffer: bytes, position: int) -> tuple[dict[Any, Any], int]:
        values, end = read(buffer, position)
        if not all(isinstance(key, KEYS) for key in values[::2]):  # the hashes of others can be made to collide
            raise DecodeError("a key of a map is neither a text nor an integer nor binary")
        return dict(zip(values[::2], values[1::2], strict=True)), end

    return read_mapping


def _array(size: int) -> _Decoder:
    def read(buffer: bytes, position: int) -> tuple[list[Any], int]:
        count, position, end = _compound(buffer, position, size)
        descriptor = None
        if is_described := buffer[position] == DESCRIBED:
            descriptor, position = _descriptor(buffer, position + 1)
        decoder, position = DECODERS[buffer[position]], position + 1
        if count > end - position:  # values without bytes of their own, thousands of millions perhaps
            raise DecodeError("an array claims more values than it has bytes")
        values = []
        for _ in range(count):
            value, position = decoder(buffer, position)
            values.append(Described(descriptor, value) if is_described else value)
        if position != end:
            raise DecodeError("the size of an array is wrong")
        return values, end

    return read


def _descriptor(buffer: bytes, position: int) -> tuple[Any, int]:
    descriptor, position = _decode(buffer, position)
    if not isinstance(descriptor, int | str):  # others mean nothing, and perhaps have no hash
        raise DecodeError("a descriptor is neither a number nor a symbol")
    return descriptor, position


def _described(buffer: bytes, position: int) -> tuple[Described, int]:
    descriptor, position = _descriptor(buffer, position)
    value, position = _decode(buffer, position)
    return Described(descriptor, value), position


def _opaque(size: int) -> _Decoder:
    """A decimal, which stays as it is: its code and its bytes."""
    return lambda buffer, position: (Encoded(buffer[position - 1 : position + size]), position + size)


#: For each code of the type system its type, and how to decode what follows the code.
CODES: Mapping[int, tuple[str, _Decoder]] = {
    DESCRIBED: ("described", _described),
    0x40: ("null", _constant(None)),
    0x41: ("boolean", _constant(value=True)),
    0x42: ("boolean", _constant(value=False)),
    0x43: ("uint", _constant(0)),
    0x44: ("ulong", _constant(0)),
    LIST0: ("list", lambda _, position: ([], position)),
    0x50: ("ubyte", _fixed(">B")),
    0x51: ("byte", _fixed(">b")),
    0x52: ("uint", _fixed(">B")),
    0x53: ("ulong", _fixed(">B")),
    0x54: ("int", _fixed(">b")),
    0x55: ("long", _fixed(">b")),
    0x56: ("boolean", _fixed(">?")),
    0x60: ("ushort", _fixed(">H")),
    0x61: ("short", _fixed(">h")),
    0x70: ("uint", _fixed(">I")),
    0x71: ("int", _fixed(">i")),
    0x72: ("float", _fixed(">f")),
    0x73: ("char", _fixed(">I", chr)),
    0x74: ("decimal32", _opaque(4)),
    0x80: ("ulong", _fixed(">Q")),
    0x81: ("long", _fixed(">q")),
    0x82: ("double", _fixed(">d")),
    0x83: ("timestamp", _fixed(">q", Timestamp)),
    0x84: ("decimal64", _opaque(8)),
    0x94: ("decimal128", _opaque(16)),
    0x98: ("uuid", _fixed(">16s", lambda data: UUID(bytes=data))),
    0xA0: ("binary", _text(1, bytes)),
    0xA1: ("string", _text(1, bytes.decode)),
    0xA3: ("symbol", _text(1, _symbol)),
    0xB0: ("binary", _text(4, bytes)),
    0xB1: ("string", _text(4, bytes.decode)),
    0xB3: ("symbol", _text(4, _symbol)),
    0xC0: ("list", _values(1)),
    MAP8: ("map", _mapping(1)),
    0xD0: ("list", _values(4)),
    MAP32: ("map", _mapping(4)),
    0xE0: ("array", _array(1)),
    0xF0: ("array", _array(4)),
}
NAMES = {code: name for code, (name, _) in CODES.items()}
DECODERS = {code: decoder for code, (_, decoder) in CODES.items()}

#: By the upper half of a code: how many bytes follow it, or of how many bytes the number of them is.
FIXED_WIDTHS = {0x4: 0, 0x5: 1, 0x6: 2, 0x7: 4, 0x8: 8, 0x9: 16}
SIZE_WIDTHS = {0xA: 1, 0xB: 4, 0xC: 1, 0xD: 4, 0xE: 1, 0xF: 4}


def _width(buffer: bytes, code: int, position: int) -> int:
    if (fixed := FIXED_WIDTHS.get(code >> 4)) is not None:
        return fixed
    size = SIZE_WIDTHS[code >> 4]
    if position + size > len(buffer):
        raise IndexError
    return size + int.from_bytes(buffer[position : position + size], "big")


# -- encoding ----------------------------------------------------------------------------------------------------------


def _small_or(small: int, zero: int | None, code: int, layout: str) -> Callable[[int], Encoded]:
    """An encoder of integers, which take one byte where they fit."""
    pack = struct.Struct(layout).pack
    low, high = (-128, 127) if layout in (">i", ">q") else (0, 255)

    def write(value: int) -> Encoded:
        if value == 0 and zero is not None:
            return Encoded((zero,))
        if low <= value <= high:
            return Encoded((small, value & 0xFF))
        return Encoded(bytes((code,)) + pack(value))

    return write


def _packed(code: int, layout: str) -> Callable[[Any], Encoded]:
    pack = struct.Struct(">B" + layout).pack
    return lambda value: Encoded(pack(code, value))


def _sized(short: int, long: int, data: bytes) -> Encoded:
    size = len(data)
    return Encoded((bytes((short, size)) if size < 256 else struct.pack(">BI", long, size)) + data)


def binary(data: bytes) -> Encoded:
    return _sized(0xA0, 0xB0, data)


def string(text: str) -> Encoded:
    return _sized(0xA1, 0xB1, text.encode())


def symbol(text: str) -> Encoded:
    return _sized(0xA3, 0xB3, text.encode("ascii", "replace"))


def boolean(value: object) -> Encoded:
    return Encoded(b"\x41" if value else b"\x42")


uint = _small_or(0x52, 0x43, 0x70, ">I")
ulong = _small_or(0x53, 0x44, 0x80, ">Q")
int_ = _small_or(0x54, None, 0x71, ">i")
long = _small_or(0x55, None, 0x81, ">q")
ushort = _packed(0x60, "H")
ubyte = _packed(0x50, "B")


def timestamp(moment: datetime | int) -> Encoded:
    milliseconds = moment if isinstance(moment, int) else (moment - EPOCH) // MILLISECOND
    return Encoded(struct.pack(">Bq", 0x83, milliseconds))


def integer(value: int) -> Encoded:
    """An int where it fits, else a long, else an ulong. Raises TypeError for larger ones."""
    if -LARGEST_INT - 1 <= value <= LARGEST_INT:
        return int_(value)
    if -LARGEST_LONG - 1 <= value <= LARGEST_LONG:
        return long(value)
    if 0 < value < 2**64:
        return ulong(value)
    raise TypeError(f"AMQP has no integer as large as {value}")


def _assembled(short: int, large: int, parts: Sequence[bytes]) -> Encoded:
    data = b"".join(parts)
    if len(data) < 255 and len(parts) < 256:
        return Encoded(bytes((short, len(data) + 1, len(parts))) + data)
    return Encoded(struct.pack(">BII", large, len(data) + 4, len(parts)) + data)


def assembled_list(parts: Sequence[bytes]) -> Encoded:
    """A list of values that are encoded already."""
    return _assembled(0xC0, 0xD0, parts) if parts else Encoded((LIST0,))


def list_(values: Sequence[Any]) -> Encoded:
    return assembled_list([encode(value) for value in values])


def map_(values: Mapping[Any, Any]) -> Encoded:
    return _assembled(MAP8, MAP32, [encode(part) for entry in values.items() for part in entry])


def described(value: Described) -> Encoded:
    return Encoded(b"\0" + encode(value.descriptor) + encode(value.value))


def array(name: str, values: Sequence[Any]) -> Encoded:
    """An array of values of one type, each in the widest form of it."""
    code, write = ARRAYS[name]
    data = bytes((code,)) + b"".join(write(value) for value in values)
    return Encoded(struct.pack(">BII", 0xF0, len(data) + 4, len(values)) + data)


ARRAYS: Mapping[str, tuple[int, Callable[[Any], bytes]]] = {
    "long": (0x81, struct.Struct(">q").pack),
    "timestamp": (0x83, lambda moment: timestamp(moment)[1:]),
    "uuid": (0x98, lambda token: token.bytes),
    "string": (0xB1, lambda text: struct.pack(">I", len(text.encode())) + text.encode()),
    "symbol": (0xB3, lambda text: struct.pack(">I", len(text)) + text.encode("ascii")),
}

#: Encoders by the names of types; each takes what the decoder of the type returns.
ENCODERS: Mapping[str, Callable[[Any], bytes]] = {
    "null": lambda _: b"\x40",
    "boolean": boolean,
    "ubyte": ubyte,
    "ushort": ushort,
    "uint": uint,
    "ulong": ulong,
    "byte": _packed(0x51, "b"),
    "short": _packed(0x61, "h"),
    "int": int_,
    "long": long,
    "float": _packed(0x72, "f"),
    "double": _packed(0x82, "d"),
    "char": lambda text: struct.pack(">BI", 0x73, ord(text)),
    "timestamp": timestamp,
    "uuid": lambda value: b"\x98" + value.bytes,
    "binary": binary,
    "string": string,
    "symbol": symbol,
    "list": list_,
    "map": map_,
}

#: Encoders by the classes of values.
BY_CLASS: dict[type, Callable[[Any], bytes]] = {
    Encoded: bytes,
    type(None): ENCODERS["null"],
    bool: boolean,
    int: integer,
    float: ENCODERS["double"],
    Timestamp: timestamp,
    datetime: timestamp,
    UUID: ENCODERS["uuid"],
    Symbol: symbol,
    str: string,
    bytes: binary,
    bytearray: binary,
    memoryview: lambda view: binary(bytes(view)),
    Described: described,
    list: list_,
    tuple: list_,
    dict: map_,
}
