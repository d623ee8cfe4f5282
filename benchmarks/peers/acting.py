"""``python -m benchmarks.peers.acting ADAPTER ORDER``: one act of one adapter, in its own process and environment.

The last line of its output is the result, as JSON. A consumer runs until SIGTERM.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.peers.orders import AT_ONCE, Adapter, Counter, Order, Producer, Work, body

#: How many a closed loop sends in one call.
BATCH = 1_000
#: How long a consumer may take to end.
PATIENCE = 8.0


async def act(adapter: Adapter, order: Order) -> dict[str, Any]:
    match order.act:
        case "about":
            return asdict(adapter.about(order.settings))
        case "prepare":
            await adapter.prepare(order.dsn, order.settings)
            return {}
        case "consume":
            await _consume(adapter, order)
            return {}
    async with adapter.producing(order) as producer:
        began = time.perf_counter()
        sent = [each async for each in SENDING[order.act](producer, order)]
        return {"count": sum(sent), "seconds": time.perf_counter() - began}


async def _fill(producer: Producer, order: Order) -> AsyncIterator[int]:
    for start in range(0, order.count, AT_ONCE):
        bodies = [body(number) for number in range(start, min(start + AT_ONCE, order.count))]
        await producer.send_batch(bodies)
        yield len(bodies)


async def _send_batches(producer: Producer, order: Order) -> AsyncIterator[int]:
    bodies, until = [body(number) for number in range(AT_ONCE)], time.perf_counter() + order.seconds
    while time.perf_counter() < until:
        await producer.send_batch(bodies)
        yield len(bodies)


async def _send_singly(producer: Producer, order: Order) -> AsyncIterator[int]:
    number, until = 0, time.perf_counter() + order.seconds
    while time.perf_counter() < until:
        await producer.send(body(number))
        number += 1
        yield 1


async def _send_steadily(producer: Producer, order: Order) -> AsyncIterator[int]:
    """At a steady rate, each noted at the moment in which it is known to be committed."""
    began, sent = time.monotonic(), []
    for number in range(int(order.rate * order.seconds)):
        await asyncio.sleep(max(began + number / order.rate - time.monotonic(), 0))
        await producer.send(body(number))
        sent.append((number, time.monotonic()))
        yield 1
    Path(order.times).write_text(json.dumps(sent))  # noqa: ASYNC240 - nothing else runs


async def _keep_full(producer: Producer, order: Order) -> AsyncIterator[int]:
    """A closed loop at full speed: with a window of messages unhandled, the consumer never waits for the sender."""
    handled, sent, until = Counter(order.counter), 0, time.perf_counter() + order.seconds
    size = min(BATCH, order.window)
    while time.perf_counter() < until:
        if sent + size - handled.value > order.window:
            await asyncio.sleep(0.002)
            continue
        await producer.send_batch([body(number) for number in range(sent, sent + size)])
        sent += size
        yield size


SENDING = {
    "fill": _fill,
    "send_batches": _send_batches,
    "send_singly": _send_singly,
    "send_steadily": _send_steadily,
    "keep_full": _keep_full,
}


async def _consume(adapter: Adapter, order: Order) -> None:
    work, loop = Work(order), asyncio.get_running_loop()

    def end(*_: object) -> None:
        work.is_over.set()
        loop.call_soon_threadsafe(work.over.set)
        threading.Timer(PATIENCE, leave).start()

    def leave() -> None:
        work.end()
        os._exit(0)

    signal.signal(signal.SIGTERM, end)
    await adapter.consume(order, work)
    leave()


def main() -> None:
    adapter: Any = importlib.import_module(f"benchmarks.peers.adapters.{sys.argv[1]}")
    runner = getattr(adapter, "run", asyncio.run)
    print(json.dumps(runner(act(adapter, Order(**json.loads(sys.argv[2]))))))


if __name__ == "__main__":
    main()
