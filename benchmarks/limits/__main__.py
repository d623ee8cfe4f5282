"""``python -m benchmarks.limits``: receives and completions of queues with limits beside one without, interleaved."""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.arguments import whole
from benchmarks.report import load, machine
from benchmarks.server import SETTINGS, running, version
from pgqueue import QueueClient, QueueSettings

#: The queue whose figure each other one is a multiple of.
PLAIN = "without limits"

QUEUES: Mapping[str, QueueSettings] = {
    PLAIN: {},
    "max_receive_rate": {"max_receive_rate": 10_000},
    "max_concurrent of 20": {"max_concurrent": 20},
    "max_concurrent of 1,000": {"max_concurrent": 1_000},
    "both": {"max_receive_rate": 10_000, "max_concurrent": 20},
}

FILL = "select count(*) from pgqueue.send_batch(%s, array(select to_jsonb(n) from generate_series(1, %s) as n))"
RECEIVE = "select sequence_number, lock_token from pgqueue.receive(%s, %s)"
COMPLETE = "select from pgqueue.complete_batch(%s, %s, %s)"

#: Messages in a batch, and clients.
WAYS = [(1, 1), (10, 1), (10, 2)]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.limits", description=__doc__)
    parser.add_argument("--batches", type=whole, default=300, help="in each run, by each client")
    parser.add_argument("--runs", type=whole, default=15)
    parser.add_argument("--markdown", type=Path, help="write the table to this file, too")
    options = parser.parse_args()
    conditions = f"{machine()}, {load()}"
    with running(SETTINGS) as server:
        measured = measure(server.dsn(), options.batches, options.runs)
        conditions += f", PostgreSQL {version(server)}, synchronous_commit {SETTINGS['synchronous_commit']}"
    print(f"{conditions}\n\n{table(measured)}")
    if options.markdown:
        command = f"`{'python ' + ' '.join(sys.orig_argv[1:])}`"
        options.markdown.write_text(f"# Limits of a queue\n\n{command}\n\n{conditions}\n\n{table(measured)}\n")


def measure(dsn: str, batches: int, runs: int) -> dict[tuple[int, int], dict[str, list[float]]]:
    """Microseconds for a batch, of every queue in every run; the first run warms up."""
    with QueueClient(dsn) as client:
        client.migrate()
        for name, settings in QUEUES.items():
            client.create_queue(_queue(name), **settings)
    figures: dict[tuple[int, int], dict[str, list[float]]] = {way: defaultdict(list) for way in WAYS}
    clients = max(clients for _, clients in WAYS)
    connections = [psycopg.connect(dsn, autocommit=True, prepare_threshold=0) for _ in range(clients)]
    with ThreadPoolExecutor(clients) as threads:
        for run in range(runs + 1):
            for size, clients in WAYS:
                for name in QUEUES:
                    connections[0].execute(FILL, [_queue(name), batches * size * clients])
                    connections[0].execute(
                        "select pgqueue._set_full_at(id, '1970-01-02') from pgqueue.queue where max_receive_rate > 0"
                    )
                    taken = threads.map(partial(work, _queue(name), size, batches), connections[:clients])
                    figure = statistics.median([lasted for each in taken for lasted in each])
                    if run:
                        figures[size, clients][name].append(figure * 1_000_000)
                    connections[0].execute("select pgqueue.purge_queue(%s)", [_queue(name)])
            print(f"run {run} of {runs}", file=sys.stderr, flush=True)
    for connection in connections:
        connection.close()
    return figures


def work(queue: str, size: int, batches: int, connection: psycopg.Connection[Any]) -> Sequence[float]:
    """How long each batch took, from its receive to its completion. Time without tokens or slots does not count."""
    lasted: list[float] = []
    while len(lasted) < batches:
        began = time.perf_counter()
        locks = connection.execute(RECEIVE, [queue, size]).fetchall()
        if len(locks) == size:
            numbers, tokens = zip(*locks, strict=True)
            connection.execute(COMPLETE, [queue, list(numbers), list(tokens)])
            lasted.append(time.perf_counter() - began)
        elif locks:
            numbers, tokens = zip(*locks, strict=True)
            connection.execute("select from pgqueue.release_batch(%s, %s, %s)", [queue, list(numbers), list(tokens)])
    return lasted


def table(measured: Mapping[tuple[int, int], Mapping[str, Sequence[float]]]) -> str:
    """Medians; the ratio is the median of those within each run, for what else a machine does comes and goes."""
    lines = [
        "| | batch | clients | µs for a batch (median) | ÷ without limits |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for (size, clients), figures in measured.items():
        for name, lasted in figures.items():
            ratio = statistics.median(one / plain for one, plain in zip(lasted, figures[PLAIN], strict=True))
            lines.append(f"| {name} | {size} | {clients} | {statistics.median(lasted):,.0f} | {ratio:.2f} |")
    return "\n".join(lines)


def _queue(name: str) -> str:
    return name.replace(" ", "_").replace(",", "")


if __name__ == "__main__":
    main()
