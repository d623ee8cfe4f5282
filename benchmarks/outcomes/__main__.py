"""``python -m benchmarks.outcomes``: the cost of kept outcomes, and how soon those who wait for them know."""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from collections import defaultdict
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.arguments import whole
from benchmarks.report import load, machine
from benchmarks.server import busy_for, running, version
from pgqueue import Message, QueueClient, aio

DAY = timedelta(days=1)
RESULT = '{"total": 3, "lines": ["a line of forty characters, more or less"]}'
#: The queue of each way, and the result that its completions have.
WAYS: dict[str, tuple[str, str | None]] = {
    "a plain queue": ("plain", None),
    "outcomes are kept": ("kept", None),
    "… with a result": ("kept", RESULT),
}
SEND = "select array(select pgqueue.send_batch(%s, array_fill('1'::jsonb, array[%s::integer])))"
RECEIVE = "select sequence_number, lock_token from pgqueue.receive(%s, 100)"
COMPLETE = "select pgqueue.complete(%s, %s, %s, %s)"
COMPLETE_BATCH = "select count(*) from pgqueue.complete_batch(%s, %s, %s)"
WAITERS = (1, 100, 10_000)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.outcomes", description=__doc__)
    parser.add_argument("--completions", type=whole, default=3000, help="of each way")
    parser.add_argument("--answers", type=whole, default=500, help="by how many waiters")
    parser.add_argument("--markdown", type=Path, help="write the tables to this file, too")
    options = parser.parse_args()
    busy = load()
    with running() as server:
        with QueueClient(server.dsn()) as client:
            client.migrate()
            client.create_queue("plain")
            client.create_queue("kept", result_retention=DAY)
        text = "\n\n".join(
            [
                f"{machine()}, PostgreSQL {version(server)}, synchronous_commit off, {busy}",
                "## Processor time of the server for a completion, in turns: µs",
                completions(server.dsn(), options.completions),
                "## From the COMMIT of a completion to the caller of `wait_for`, in one process: ms",
                answers(server.dsn(), options.answers),
            ]
        )
    print(text)
    if options.markdown:
        command = f"`{'python ' + ' '.join(sys.orig_argv[1:])}`"
        options.markdown.write_text(f"# Outcomes\n\n{command}\n\n{text}\n")


def completions(dsn: str, count: int) -> str:
    taken: dict[str, list[float]] = defaultdict(list)
    with psycopg.connect(dsn, autocommit=True, prepare_threshold=0) as connection:
        pid = connection.info.backend_pid
        for nth in range(count // 100 + 1):
            for way, (queue, result) in WAYS.items():
                connection.execute(SEND, [queue, 100])
                for number, token in connection.execute(RECEIVE, [queue]).fetchall():
                    began = busy_for(pid)
                    connection.execute(COMPLETE, [queue, number, token, result])
                    if nth > 0:  # the first turn warms up
                        taken[way].append((busy_for(pid) - began) / 1000)
    medians = {way: statistics.median(each) for way, each in taken.items()}
    plain = medians["a plain queue"]
    lines = [f"| {way} | {each:.0f} | {each / plain:.1f} |" for way, each in medians.items()]
    return "\n".join(["| | µs | times |", "| --- | ---: | ---: |", *lines])


def answers(dsn: str, count: int) -> str:
    lines = [
        "| waiters | median | 99th percentile | all at once: s until the last knows |",
        "| ---: | ---: | ---: | ---: |",
    ]
    for waiters in WAITERS:
        delays, until_all = asyncio.run(_waited_for(dsn, waiters, count))
        cuts = statistics.quantiles(delays, n=100)
        lines.append(f"| {waiters:,} | {cuts[49] * 1000:.1f} | {cuts[98] * 1000:.1f} | {until_all:.2f} |")
    return "\n".join(lines)


async def _waited_for(dsn: str, waiters: int, count: int) -> tuple[list[float], float]:
    """How late the answers to so many waiters are, one at a time; and how long all take when settled at once."""
    async with (
        aio.QueueClient(dsn) as client,
        await psycopg.AsyncConnection.connect(dsn, autocommit=True, prepare_threshold=0) as worker,
    ):
        queue = client.queue("kept")
        known: dict[int, float] = {}

        async def wait(number: int) -> None:
            await queue.wait_for(number, timeout=timedelta(minutes=5))
            known[number] = time.perf_counter()

        async with asyncio.TaskGroup() as tasks:
            waiting: dict[int, Any] = {}

            async def more(wanted: int) -> None:
                for number in await queue.send_batch([Message(1)] * wanted):
                    waiting[number] = tasks.create_task(wait(number))

            await more(waiters)
            delays = []
            while len(delays) < count:
                rows = await (await worker.execute(RECEIVE, ["kept"])).fetchall()
                for number, token in rows:
                    await worker.execute(COMPLETE, ["kept", number, token, RESULT])
                    settled = time.perf_counter()
                    await waiting.pop(number)
                    delays.append(known[number] - settled)
                await more(len(rows))
            began = time.perf_counter()
            while rows := await (await worker.execute(RECEIVE, ["kept"])).fetchall():
                await worker.execute(COMPLETE_BATCH, ["kept", *map(list, zip(*rows, strict=True))])
        return delays, time.perf_counter() - began


if __name__ == "__main__":
    main()
