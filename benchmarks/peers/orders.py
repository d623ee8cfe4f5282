"""The orders of the runner to an adapter, and the interface of an adapter.

Standard library only: peers have an environment of their own.
"""

from __future__ import annotations

import asyncio
import json
import mmap
import struct
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

#: How many messages one call sends in bulk.
AT_ONCE = 1_000
#: As JSON text, whatever the number.
BODY_BYTES = 200
COUNTER = struct.Struct("<q")

Settings = Mapping[str, Any]
Body = dict[str, Any]


def body(number: int) -> Body:
    """200 bytes as JSON text."""
    found = {"number": number, "note": ""}
    found["note"] = "x" * (BODY_BYTES - len(json.dumps(found)))
    return found


@dataclass(frozen=True)
class Order:
    """One act of one process. It travels as JSON, so that adapters in other languages read it, too."""

    act: str
    dsn: str
    #: Eight bytes in a file: how many messages were handled.
    counter: str
    settings: Settings = field(default_factory=dict)
    count: int = 0
    seconds: float = 0.0
    rate: float = 0.0
    #: The most messages that are sent and not handled yet.
    window: int = 0
    #: Each handler inserts a row.
    inserts: bool = False
    #: Messages come while they are consumed; a floor that knows its rows beforehand cannot do that.
    waits: bool = False
    #: Where to write when each message was sent, or handled.
    times: str = ""

    def as_json(self) -> str:
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class About:
    """Notes for a reader of the figures, and how many messages are left, as SQL."""

    version: str
    settings: str
    remaining: str
    #: Whether a message is completed in its handler's own transaction.
    is_atomic: bool = False


class Producer(Protocol):
    """Sends; what it sent is committed when it returns."""

    async def send(self, body: Body) -> None: ...

    async def send_batch(self, bodies: Sequence[Body]) -> None: ...


class Adapter(Protocol):
    """The interface of a module in ``adapters``."""

    def about(self, settings: Settings) -> About: ...

    async def prepare(self, dsn: str, settings: Settings) -> None: ...

    def producing(self, order: Order) -> AbstractAsyncContextManager[Producer]: ...

    async def consume(self, order: Order, work: Work) -> None: ...


class Counter:
    """A number that processes share without asking the database."""

    def __init__(self, path: str) -> None:
        with Path(path).open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), COUNTER.size)

    @property
    def value(self) -> int:
        return int(COUNTER.unpack_from(self._memory)[0])

    @value.setter
    def value(self, value: int) -> None:
        COUNTER.pack_into(self._memory, 0, value)


class Work:
    """Handlers report to it: ``begin`` is the first line of each. ``over`` and ``is_over`` decide when to end."""

    def __init__(self, order: Order) -> None:
        self.over = asyncio.Event()
        self.is_over = threading.Event()
        self._counter = Counter(order.counter)
        self._times: list[tuple[int, float]] | None = [] if order.times else None
        self._path = order.times
        self._lock = threading.Lock()
        self._begun = 0

    def begin(self, number: int) -> None:
        if self._times is not None:
            self._times.append((number, time.monotonic()))
        with self._lock:
            self._begun += 1
            self._counter.value = self._begun

    def ends(self, stop: Callable[[], object]) -> None:
        """``stop`` is called when it is over."""

        def wait() -> None:
            self.is_over.wait()
            stop()

        threading.Thread(target=wait, daemon=True).start()

    def end(self) -> None:
        if self._times is not None:
            Path(self._path).write_text(json.dumps(self._times))
