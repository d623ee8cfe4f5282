"""The performatives of AMQP 1.0, and the states of deliveries. See parts 2 to 5 of the specification."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, ClassVar, Self, TypeAlias, TypeVar, dataclass_transform

from pgqueue.gateway.amqp import types
from pgqueue.gateway.amqp.types import DecodeError, Described, Symbol

SENDER, RECEIVER = False, True

#: Settle modes of senders and receivers.
SETTLED_BY_SENDER = 1
SECOND = 1

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


class Performative:
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
KINDS: dict[Any, type[Performative]] = {}

P = TypeVar("P", bound=type[Performative])


@dataclass_transform()
def performative(code: int, name: str) -> Callable[[P], P]:
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


@performative(0x1D, "error")
class Error(Performative):
    """Why something was refused or ended."""

    condition: Symbol
    description: str | None = None
    info: Map | None = None


@performative(0x10, "open")
class Open(Performative):
    """Opens a connection."""

    container_id: str
    hostname: str | None = None
    max_frame_size: UInt | None = None
    channel_max: UShort | None = None
    idle_time_out: UInt | None = None
    outgoing_locales: Symbols | None = None
    incoming_locales: Symbols | None = None
    offered_capabilities: Symbols | None = None
    desired_capabilities: Symbols | None = None
    properties: Map | None = None


@performative(0x11, "begin")
class Begin(Performative):
    """Begins a session."""

    remote_channel: UShort | None
    next_outgoing_id: UInt
    incoming_window: UInt
    outgoing_window: UInt
    handle_max: UInt | None = None
    offered_capabilities: Symbols | None = None
    desired_capabilities: Symbols | None = None
    properties: Map | None = None


@performative(0x12, "attach")
class Attach(Performative):
    """Attaches a link."""

    name: str
    handle: UInt
    role: bool
    snd_settle_mode: UByte | None = None
    rcv_settle_mode: UByte | None = None
    source: Any | None = None
    target: Any | None = None
    unsettled: Map | None = None
    incomplete_unsettled: bool | None = None
    initial_delivery_count: UInt | None = None
    max_message_size: ULong | None = None
    offered_capabilities: Symbols | None = None
    desired_capabilities: Symbols | None = None
    properties: Map | None = None


@performative(0x13, "flow")
class Flow(Performative):
    """The state of a session, and of a link: its credit."""

    next_incoming_id: UInt | None
    incoming_window: UInt
    next_outgoing_id: UInt
    outgoing_window: UInt
    handle: UInt | None = None
    delivery_count: UInt | None = None
    link_credit: UInt | None = None
    available: UInt | None = None
    drain: bool | None = None
    echo: bool | None = None
    properties: Map | None = None


@performative(0x14, "transfer")
class Transfer(Performative):
    """A message, or a part of one: the payload follows."""

    handle: UInt
    delivery_id: UInt | None = None
    delivery_tag: bytes | None = None
    message_format: UInt | None = None
    settled: bool | None = None
    more: bool | None = None
    rcv_settle_mode: UByte | None = None
    state: Any | None = None
    resume: bool | None = None
    aborted: bool | None = None
    batchable: bool | None = None


@performative(0x15, "disposition")
class Disposition(Performative):
    """The states of deliveries."""

    role: bool
    first: UInt
    last: UInt | None = None
    settled: bool | None = None
    state: Any | None = None
    batchable: bool | None = None


@performative(0x16, "detach")
class Detach(Performative):
    """Detaches a link."""

    handle: UInt
    closed: bool | None = None
    error: Any | None = None


@performative(0x17, "end")
class End(Performative):
    """Ends a session."""

    error: Any | None = None


@performative(0x18, "close")
class Close(Performative):
    """Closes a connection."""

    error: Any | None = None


@performative(0x28, "source")
class Source(Performative):
    """Where messages come from."""

    address: Any | None = None
    durable: UInt | None = None
    expiry_policy: Symbol | None = None
    timeout: UInt | None = None
    dynamic: bool | None = None
    dynamic_node_properties: Map | None = None
    distribution_mode: Symbol | None = None
    filter: Map | None = None
    default_outcome: Any | None = None
    outcomes: Symbols | None = None
    capabilities: Symbols | None = None


@performative(0x29, "target")
class Target(Performative):
    """Where messages go."""

    address: Any | None = None
    durable: UInt | None = None
    expiry_policy: Symbol | None = None
    timeout: UInt | None = None
    dynamic: bool | None = None
    dynamic_node_properties: Map | None = None
    capabilities: Symbols | None = None


@performative(0x30, "coordinator")
class Coordinator(Performative):
    """The target of a link that controls transactions."""

    capabilities: Symbols | None = None


@performative(0x31, "declare")
class Declare(Performative):
    """Begins a transaction."""

    global_id: Any | None = None


@performative(0x32, "discharge")
class Discharge(Performative):
    """Ends a transaction."""

    txn_id: bytes
    fail: bool | None = None


@performative(0x33, "declared")
class Declared(Performative):
    """A transaction has begun."""

    txn_id: bytes


@performative(0x34, "transactional-state")
class TransactionalState(Performative):
    """The state of a delivery that is part of a transaction."""

    txn_id: bytes
    outcome: Any | None = None


@performative(0x23, "received")
class Received(Performative):
    """How much of a delivery has arrived."""

    section_number: UInt
    section_offset: ULong


@performative(0x24, "accepted")
class Accepted(Performative):
    """The delivery was processed."""


@performative(0x25, "rejected")
class Rejected(Performative):
    """The delivery is invalid."""

    error: Any | None = None


@performative(0x26, "released")
class Released(Performative):
    """The delivery was not processed, and does not count."""


@performative(0x27, "modified")
class Modified(Performative):
    """The delivery was not processed, and the message is changed."""

    delivery_failed: bool | None = None
    undeliverable_here: bool | None = None
    message_annotations: Map | None = None


@performative(0x40, "sasl-mechanisms")
class SaslMechanisms(Performative):
    """The ways in which a client may sign in."""

    mechanisms: Symbols


@performative(0x41, "sasl-init")
class SaslInit(Performative):
    """The way that the client has chosen."""

    mechanism: Symbol
    initial_response: bytes | None = None
    hostname: str | None = None


@performative(0x44, "sasl-outcome")
class SaslOutcome(Performative):
    """Whether it has signed in."""

    code: UByte
    additional_data: bytes | None = None


def performative_of(value: Any) -> Any:
    """The performative that a described list is. Raises DecodeError."""
    if not isinstance(value, Described) or not isinstance(value.value, list) or value.descriptor not in KINDS:
        raise DecodeError("this is no performative of AMQP")
    return KINDS[value.descriptor].of(value.value)


def part_of(value: Any) -> Any:
    """A performative within another one, such as a source or a state; None stays None. Raises DecodeError."""
    return None if value is None else performative_of(value)
