"""``python -m benchmarks.forwarding``: messages sent a second by the number of hops, beside a plain queue."""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import psycopg

from benchmarks.arguments import whole
from benchmarks.report import machine
from benchmarks.sending.ways import BODY, batch, send
from benchmarks.server import running, version
from pgqueue import Queue, QueueClient, schema

#: The queue that others forward to is as plain as the first: what differs is where a message is sent.
HOPS = {"a plain queue": 0, "a queue that others forward to": 0, "1 hop": 1, "4 hops": 4}
PLAIN = next(iter(HOPS))
WAYS: dict[str, tuple[Callable[[Queue, int], object], int]] = {
    "send": (lambda queue, count: send(queue, [BODY] * count), 1),
    "send_batch of 100": (lambda queue, count: batch(queue, 100, [BODY] * count), 10),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.forwarding", description=__doc__)
    parser.add_argument(
        "--messages", type=whole, default=1_000, help="in each run one by one; ten times as many in batches"
    )
    parser.add_argument("--runs", type=whole, default=25)
    parser.add_argument("--markdown", type=Path, help="write the table to this file, too")
    options = parser.parse_args()
    with running() as server:
        schema.migrate(server.dsn())
        with QueueClient(server.dsn()) as client, psycopg.connect(server.dsn(), autocommit=True) as connection:
            measured = measure(queues(client), connection, options.messages, options.runs)
        conditions = f"{machine()}, PostgreSQL {version(server)}, synchronous_commit off, one sender"
    text = f"{conditions}\n\n{table(measured)}\n"
    print(text)
    if options.markdown:
        options.markdown.write_text(f"# Forwarding\n\n`python -m benchmarks.forwarding`\n\n{text}")


def queues(client: QueueClient) -> dict[str, Queue]:
    """By title: a plain queue, the end of a chain, and the queues so many hops before it."""
    client.create_queue("plain")
    client.create_queue("hop-0")
    for hop in range(1, 5):
        client.create_queue(f"hop-{hop}", forward_to=f"hop-{hop - 1}")
    return {title: client.queue("plain" if title == PLAIN else f"hop-{hops}") for title, hops in HOPS.items()}


def measure(
    compared: dict[str, Queue], connection: psycopg.Connection[tuple[object, ...]], messages: int, runs: int
) -> dict[tuple[str, str], list[float]]:
    """Messages a second of every way and number of hops in every run; each begins with an empty table."""
    rates: dict[tuple[str, str], list[float]] = defaultdict(list)
    for run in range(runs + 1):
        for way, (store, factor) in WAYS.items():
            for title, queue in compared.items():
                connection.execute("truncate pgqueue.message")
                began = time.perf_counter()
                store(queue, messages * factor)
                if run:  # the first warms up
                    rates[way, title].append(messages * factor / (time.perf_counter() - began))
        print(f"run {run} of {runs}", file=sys.stderr, flush=True)
    return rates


def table(measured: dict[tuple[str, str], list[float]]) -> str:
    """Medians; the ratio is the median of those within each run, for what else a machine does comes and goes."""
    lines = ["| | to | messages/s (median) | lowest to highest | ÷ plain |", "| --- | --- | ---: | ---: | ---: |"]
    for (way, title), rates in measured.items():
        median = statistics.median(rates)
        ratio = statistics.median(rate / plain for rate, plain in zip(rates, measured[way, PLAIN], strict=True))
        lines.append(f"| {way} | {title} | {median:,.0f} | {min(rates):,.0f} to {max(rates):,.0f} | {ratio:.2f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
