"""What every handler does: counting. Nothing here needs this library, for peers have an environment of their own."""

from __future__ import annotations

import itertools
import time
from collections.abc import Awaitable, Callable

#: 200 bytes as JSON text.
BODY = {"id": 12345, "kind": "order.created", "customer": "c-98765", "note": "x" * 116, "at": "2013-01-01"}

#: How many are sent in one call.
AT_ONCE = 1_000


class Counter:
    """From the first message's handler to the last one's; ``over`` is called then."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.over: Callable[[], object] = lambda: None
        self._numbers = itertools.count(1)
        self._began = self._ended = 0.0

    def one(self) -> None:
        number = next(self._numbers)
        if number == 1:
            self._began = time.perf_counter()
        if number == self.count:
            self._ended = time.perf_counter()
            self.over()

    @property
    def rate(self) -> float:
        if not self._ended:
            raise RuntimeError(f"only {next(self._numbers) - 1} of {self.count} messages were handled")
        return self.count / (self._ended - self._began)


async def repeated(times: int, send: Callable[[], Awaitable[object]]) -> float:
    """How many seconds so many calls take; the connection is there already."""
    began = time.perf_counter()
    for _ in range(times):
        await send()
    return time.perf_counter() - began
