"""``python -m benchmarks.batches``: transactions that settle members of a batch, by the stripes of its counter."""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.arguments import whole
from benchmarks.report import load, machine
from benchmarks.server import SETTINGS, running, version
from pgqueue import QueueClient

PLAIN, NO_MEMBERS = "a plain queue", "a queue with members, these messages are none"

#: How many stripes a batch has; None: no batch.
WAYS: Mapping[str, int | None] = {
    PLAIN: None,
    NO_MEMBERS: None,
    "members, 1 stripe": 1,
    "members, 4 stripes": 4,
    "members, 16 stripes": 16,
}
CLIENTS = (1, 16)

SEND = "select array(select pgqueue.send_batch(%s, array(select to_jsonb(n) from generate_series(1, %s) as n)))"
CREATE = "select pgqueue.create_batch('end', pgqueue.schedule('end', '1', pgqueue.batch_end()))"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.batches", description=__doc__)
    parser.add_argument("--transactions", type=whole, default=1000, help="in each run")
    parser.add_argument("--runs", type=whole, default=9)
    parser.add_argument("--markdown", type=Path, help="write the table to this file, too")
    options = parser.parse_args()
    conditions = f"{machine()}, {load()}"
    with running({**SETTINGS, "synchronous_commit": "on"}) as server:
        measured = measure(server.dsn(), options.transactions, options.runs)
        conditions += f", PostgreSQL {version(server)}, synchronous_commit on"
    print(f"{conditions}\n\n{table(measured)}")
    if options.markdown:
        command = f"`{'python ' + ' '.join(sys.orig_argv[1:])}`"
        options.markdown.write_text(f"# Members of batches\n\n{command}\n\n{conditions}\n\n{table(measured)}\n")


def measure(dsn: str, transactions: int, runs: int) -> dict[tuple[str, int], list[float]]:
    """Transactions in a second, of each way in every run; the first run warms up."""
    with QueueClient(dsn) as client:
        client.migrate()
        for queue in ("plain", "q", "end"):
            client.create_queue(queue)
    figures: dict[tuple[str, int], list[float]] = defaultdict(list)
    connections = [psycopg.connect(dsn, autocommit=True, prepare_threshold=0) for _ in range(max(CLIENTS))]
    with ThreadPoolExecutor(max(CLIENTS)) as threads:
        for run in range(runs + 1):
            for clients in CLIENTS:
                for way, stripes in WAYS.items():
                    queue = "plain" if way == PLAIN else "q"
                    locks = fill(connections[0], queue, transactions, stripes)
                    began = time.perf_counter()
                    list(threads.map(complete, connections[:clients], [queue] * clients, deal(locks, clients)))
                    if run:
                        figures[way, clients].append(transactions / (time.perf_counter() - began))
            print(f"run {run} of {runs}", file=sys.stderr, flush=True)
    for connection in connections:
        connection.close()
    return figures


def fill(connection: psycopg.Connection[Any], queue: str, count: int, stripes: int | None) -> list[tuple[Any, ...]]:
    """Sends messages, as members of a batch if it has stripes, and receives them."""
    with connection.transaction():
        ((numbers,),) = connection.execute(SEND, [queue, count])
        if stripes is not None:
            connection.execute(f"alter table pgqueue.batch alter column open_stripes set default {stripes}")
            ((batch,),) = connection.execute(CREATE)
            connection.execute("select pgqueue.add_to_batch(%s, %s, %s)", [batch, queue, numbers])
            connection.execute("select pgqueue.close_batch(%s)", [batch])
    return connection.execute(
        "select sequence_number, lock_token from pgqueue.receive(%s, %s)", [queue, count]
    ).fetchall()


def deal(locks: Sequence[tuple[Any, ...]], clients: int) -> list[Sequence[tuple[Any, ...]]]:
    return [locks[nth::clients] for nth in range(clients)]


def complete(connection: psycopg.Connection[Any], queue: str, locks: Sequence[tuple[Any, ...]]) -> None:
    for number, token in locks:
        connection.execute("select pgqueue.complete(%s, %s, %s)", [queue, number, token])


def table(measured: Mapping[tuple[str, int], Sequence[float]]) -> str:
    """Medians; the ratio is the median of those within each run, for what else a machine does comes and goes."""
    lines = ["| | clients | transactions/s (median) | ÷ plain |", "| --- | ---: | ---: | ---: |"]
    for (way, clients), rates in measured.items():
        ratio = statistics.median(one / plain for one, plain in zip(rates, measured[PLAIN, clients], strict=True))
        lines.append(f"| {way} | {clients} | {statistics.median(rates):,.0f} | {ratio:.2f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
