"""``python -m benchmarks.soak``: a steady rate through one worker; ends with 1 when anything grows."""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import sys
import threading
import time
from pathlib import Path

import psutil
import psycopg

import pgqueue
from benchmarks.arguments import positive, whole
from benchmarks.report import machine
from benchmarks.server import running, version
from benchmarks.soak.growth import Sample, growing, interval, table
from benchmarks.working.pickup import send_at_a_rate

#: The application name of the observer's connection, as opposed to a worker's.
OBSERVER = "soak observer"

BACKENDS = (
    "select pid from pg_stat_activity"
    " where datname = current_database() and backend_type = 'client backend' and application_name <> %s"
)
DEAD = "select coalesce(sum(n_dead_tup), 0)::bigint from pg_stat_user_tables where schemaname = 'pgqueue'"
EFFECT = "create table effect (sequence_number bigint, at timestamptz default now())"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--minutes", type=positive, default=30.0)
    parser.add_argument("--rate", type=whole, default=200, help="messages a second")
    parser.add_argument("--every", type=positive, default=60.0, help="seconds between looks, at most a 16th of all")
    parser.add_argument("--markdown", type=Path, help="write the table to this file, too")
    options = parser.parse_args()
    with running() as server:
        seconds = options.minutes * 60
        samples = soak(server.dsn(), options.rate, seconds, interval(options.every, seconds))
        conditions = f"{machine()}, PostgreSQL {version(server)}, {options.rate} messages/s"
    found = growing(samples)
    verdict = "\n".join(found) or "Nothing grows."
    print(f"{conditions}\n\n{table(samples)}\n\n{verdict}")
    if options.markdown:
        command = " ".join(["python", *sys.orig_argv[1:]])
        options.markdown.write_text(f"# Soak\n\n`{command}`\n\n{conditions}\n\n{table(samples)}\n\n{verdict}\n")
    sys.exit(1 if found else 0)


def soak(dsn: str, rate: int, seconds: float, every: float, concurrency: int = 8) -> list[Sample]:
    """Sends from another process, works in this one, each message with an insert, and looks at regular times."""
    delays: list[float] = []

    def handler(message: pgqueue.ReceivedMessage, tx: psycopg.Connection[object]) -> None:
        tx.execute("insert into effect (sequence_number) values (%s)", [message.sequence_number])
        delays.append((time.monotonic() - message.body["sent"]) * 1000)

    with (
        pgqueue.QueueClient(dsn) as client,
        psycopg.connect(dsn, autocommit=True, application_name=OBSERVER) as observer,
    ):
        client.migrate()
        client.create_queue("bench")
        observer.execute(EFFECT)
        worker = pgqueue.Worker(client.queue("bench"), handler, transaction="psycopg", concurrency=concurrency)
        working = threading.Thread(target=worker.run)
        sender = multiprocessing.get_context("spawn").Process(
            target=send_at_a_rate, args=(dsn, rate, int(rate * seconds))
        )
        working.start()
        sender.start()
        began = time.monotonic()
        samples = []
        try:
            while time.monotonic() - began < seconds:
                time.sleep(every)
                seen, delays[:] = delays[:], []
                samples.append(_look(observer, (time.monotonic() - began) / 60, seen))
        finally:
            worker.stop()
            working.join()
            sender.join()
    return samples


def _look(observer: psycopg.Connection[tuple[object, ...]], minutes: float, delays: list[float]) -> Sample:
    process = psutil.Process()
    backends = [int(str(number)) for (number,) in observer.execute(BACKENDS, [OBSERVER]).fetchall()]
    dead = observer.execute(DEAD).fetchall()[0][0]
    cuts = statistics.quantiles(delays, n=100) if len(delays) > 1 else [float("nan")] * 99
    return Sample(
        minutes=minutes,
        memory=process.memory_info().rss / 1e6,
        threads=process.num_threads(),
        connections=len(backends),
        backend_memory=sum(_private(number) for number in backends),
        dead_rows=int(str(dead)),
        p50=cuts[49],
        p99=cuts[98],
    )


def _private(number: int) -> float:
    """Megabytes that are a backend's own; a connection's prepared statements and plans are there."""
    try:
        return float(psutil.Process(number).memory_full_info().uss) / 1e6
    except psutil.NoSuchProcess:
        return 0.0


if __name__ == "__main__":
    main()
