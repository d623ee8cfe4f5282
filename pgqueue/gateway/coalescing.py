"""Many small calls in few large ones: what arrives while a call is in flight goes into the next one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")

logger = logging.getLogger("pgqueue.gateway")


class Coalescer(Generic[T]):
    """Runs one call at a time for all items that have arrived meanwhile, at most ``most`` of them."""

    def __init__(self, run: Callable[[list[T]], Awaitable[None]], most: int = 500) -> None:
        self._run = run
        self._most = most
        self._waiting: list[T] = []
        self._task: asyncio.Task[None] | None = None

    def add(self, item: T) -> None:
        """Take care of an item. The call handles its own errors."""
        self._waiting.append(item)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._empty())

    async def finish(self) -> None:
        """Wait until nothing is left."""
        while self._task is not None and not self._task.done():
            await asyncio.wait({self._task})

    async def _empty(self) -> None:
        while self._waiting:
            taken, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
            try:
                await self._run(taken)
            except Exception:  # those that come later are taken care of
                logger.exception("a call for %s items has failed", len(taken))
