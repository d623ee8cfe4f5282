"""``python -m benchmarks.topics``: sends to topics with few and many subscriptions, beside a queue, interleaved."""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path

import psycopg

from benchmarks.arguments import whole
from benchmarks.report import machine
from benchmarks.server import running, version
from pgqueue import CorrelationFilter, JsonPathFilter, Message, QueueClient

#: The way whose figure each other one is a multiple of.
FLOOR = "a queue"

BODY = {"id": 7, "kind": "order", "lines": [{"article": "4711", "count": 3}] * 3}

Send = Callable[[Message], object]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.topics", description=__doc__)
    parser.add_argument("--messages", type=whole, default=500, help="in each run of each way")
    parser.add_argument("--runs", type=whole, default=15)
    parser.add_argument("--markdown", type=Path, help="write the table to this file, too")
    options = parser.parse_args()
    with running() as server, QueueClient(server.dsn()) as client:
        client.migrate()
        compared = ways(client)
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            measured = measure(compared, connection, options.messages, options.runs)
        release = version(server)
    text = f"{machine()}, PostgreSQL {release}, synchronous_commit off, one client\n\n{table(measured)}"
    print(text)
    if options.markdown:
        options.markdown.write_text(f"# Topics\n\n`{'python ' + ' '.join(sys.orig_argv[1:])}`\n\n{text}\n")


def ways(client: QueueClient) -> dict[str, Send]:
    """A queue, and topics by how many subscriptions they have and how many of these match."""
    client.create_queue("queue")
    found: dict[str, Send] = {FLOOR: client.queue("queue").send}
    for count in (1, 10, 1000):
        filters = [CorrelationFilter(subject=f"subject {n}") for n in range(count)]
        found[f"a topic, 1 of {count:,} correlation filters matches"] = topic(client, f"equal-{count}", filters)
    for count in (10, 100):
        paths = [JsonPathFilter(f"$.body.id == {7 - n}") for n in range(count)]
        found[f"a topic, 1 of {count:,} JSON paths matches"] = topic(client, f"paths-{count}", paths)
    for count in (10, 100):
        found[f"a topic, all of {count:,} subscriptions match"] = topic(client, f"all-{count}", [None] * count)
    return found


def topic(client: QueueClient, name: str, filters: list[CorrelationFilter] | list[JsonPathFilter] | list[None]) -> Send:
    client.create_topic(name)
    for number, each in enumerate(filters):
        client.create_subscription(name, f"s{number}", filter=each)
    return partial(client.topic(name).send, require_subscription=True)


def measure(
    compared: dict[str, Send], connection: psycopg.Connection[tuple[object, ...]], messages: int, runs: int
) -> dict[str, list[float]]:
    """Microseconds a send of every way in every run; what was stored is gone before the next way has its turn."""
    times: dict[str, list[float]] = defaultdict(list)
    message = Message(BODY, subject="subject 0")
    for run in range(runs + 1):
        for title, send in compared.items():
            began = time.perf_counter()
            for _ in range(messages):
                send(message)
            if run:  # the first warms up
                times[title].append((time.perf_counter() - began) / messages * 1e6)
            connection.execute("truncate pgqueue.message")
        print(f"run {run} of {runs}", file=sys.stderr, flush=True)
    return times


def table(measured: dict[str, list[float]]) -> str:
    """Medians; the ratio is the median of those within each run, for what else a machine does comes and goes."""
    lines = ["| a send to | µs (median) | lowest to highest | ÷ a queue |", "| --- | ---: | ---: | ---: |"]
    for title, times in measured.items():
        ratio = statistics.median(each / floor for each, floor in zip(times, measured[FLOOR], strict=True))
        spread = f"{min(times):,.0f} to {max(times):,.0f}"
        lines.append(f"| {title} | {statistics.median(times):,.0f} | {spread} | {ratio:.2f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
