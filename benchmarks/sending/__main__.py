"""``python -m benchmarks.sending``: messages a second, of each way to store them, interleaved."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections import defaultdict
from pathlib import Path

import psycopg

from benchmarks.arguments import whole
from benchmarks.report import machine
from benchmarks.sending.ways import BODY, TABLE, Way, ways
from benchmarks.server import SETTINGS, running, version
from pgqueue import QueueClient

#: The way whose figure each other one is a multiple of.
FLOOR = "raw: insert, one by one"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sending", description=__doc__)
    parser.add_argument("--messages", type=whole, default=10_000, help="in each run of a fast way; a tenth one by one")
    parser.add_argument("--runs", type=whole, default=25)
    parser.add_argument("--durable", action="store_true", help="with synchronous_commit on, as PostgreSQL has it")
    parser.add_argument("--markdown", type=Path, help="write the table to this file, too")
    options = parser.parse_args()
    commit = "on" if options.durable else "off"
    text = json.dumps(BODY, separators=(",", ":"))
    with running(SETTINGS | {"synchronous_commit": commit}) as server, QueueClient(server.dsn()) as client:
        client.migrate()
        client.create_queue("bench")
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute(TABLE)
            compared = ways(client.queue("bench"), server.dsn(), connection, text)
            measured = measure(compared, connection, options.messages, options.runs)
        release = version(server)
    conditions = f"{machine()}, PostgreSQL {release}, synchronous_commit {commit}, {len(text)} bytes a body"
    print(f"{conditions}\n\n{table(measured)}")
    if options.markdown:
        options.markdown.write_text(
            f"# Sending\n\n`{'python ' + ' '.join(sys.orig_argv[1:])}`\n\n{conditions}\n\n{table(measured)}\n"
        )


def measure(
    compared: list[Way], connection: psycopg.Connection[tuple[object, ...]], messages: int, runs: int
) -> dict[str, list[float]]:
    """Messages a second of every way in every run; what was stored is gone before the next way has its turn."""
    rates: dict[str, list[float]] = defaultdict(list)
    for run in range(runs + 1):
        for way in compared:
            bodies = [BODY] * int(messages * way.share)
            began = time.perf_counter()
            way.run(bodies)
            rate = len(bodies) / (time.perf_counter() - began)
            if run:  # the first warms up
                rates[way.title].append(rate)
            connection.execute("truncate pgqueue.message, floor")
        print(f"run {run} of {runs}", file=sys.stderr, flush=True)
    return rates


def table(measured: dict[str, list[float]]) -> str:
    """Medians; the ratio is the median of those within each run, for what else a machine does comes and goes."""
    lines = ["| | messages/s (median) | lowest to highest | ÷ raw insert |", "| --- | ---: | ---: | ---: |"]
    for title, rates in measured.items():
        median = statistics.median(rates)
        ratio = statistics.median(rate / floor for rate, floor in zip(rates, measured[FLOOR], strict=True))
        lines.append(f"| {title} | {median:,.0f} | {min(rates):,.0f} to {max(rates):,.0f} | {ratio:.2f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
