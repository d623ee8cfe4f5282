"""``python -m benchmarks.peers.turn PEER prepare|send|drain DSN COUNT``: one turn of one peer, in its environment."""

from __future__ import annotations

import asyncio
import importlib
import sys

from benchmarks.peers.counter import AT_ONCE, BODY, Counter

PATIENCE = 60.0


async def main(peer: str, act: str, dsn: str, count: int) -> float:
    module = importlib.import_module(f"benchmarks.peers.{peer}")
    match act:
        case "prepare":
            await module.prepare(dsn)
            return 0.0
        case "send":
            seconds: float = await module.send(dsn, [BODY] * AT_ONCE, count // AT_ONCE)
            return count / seconds
    counter = Counter(count)
    await asyncio.wait_for(module.drain(dsn, counter), PATIENCE)
    return counter.rate


if __name__ == "__main__":
    print(asyncio.run(main(*sys.argv[1:4], int(sys.argv[4]))))
