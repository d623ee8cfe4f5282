"""``python -m benchmarks.upgrading COMMIT``: how long a migration holds up those who work, while many messages wait."""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from benchmarks.arguments import whole
from benchmarks.earlier import engine_at, existing_commit
from benchmarks.report import machine
from benchmarks.server import running, version
from pgqueue import schema

QUEUE = "bench"
FILL = "select count(*) from pgqueue.send_batch(%s, array_fill(%s::jsonb, array[10000]))"
BODY = '{"id": 12345, "note": "' + "x" * 180 + '"}'
CYCLE = """
select pgqueue.send('bench', '{"id": 1}');
select count(pgqueue.complete('bench', sequence_number, lock_token)) from pgqueue.receive('bench');
"""


@dataclass
class Prober:
    """Sends, receives and completes one message after the other, and times each round."""

    dsn: str
    over: threading.Event
    rounds: list[tuple[float, float]] = field(default_factory=list)

    def run(self) -> None:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            while not self.over.is_set():
                began = time.monotonic()
                connection.execute(CYCLE)
                self.rounds.append((began, time.monotonic() - began))

    def longest(self, since: float) -> float:
        return max(took for began, took in self.rounds if began + took >= since)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.upgrading", description=__doc__)
    parser.add_argument(
        "commit", type=existing_commit, help="the commit of the schema before: with no revision unknown today"
    )
    parser.add_argument("--messages", type=whole, default=5_000_000)
    parser.add_argument("--markdown", type=Path, help="write the table to this file, too")
    options = parser.parse_args()
    with running() as server, engine_at(options.commit) as migrate_to_earlier:
        dsn = server.dsn()
        migrate_to_earlier(dsn)
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("select pgqueue.create_queue('bench')")
            for _ in range(options.messages // 10_000):
                connection.execute(FILL, [QUEUE, BODY])
        with probing(dsn) as probers:
            time.sleep(5)
            began = time.monotonic()
            schema.migrate(dsn)
            took = time.monotonic() - began
            time.sleep(5)
        before = max(took for prober in probers for start, took in prober.rounds if start + took < began)
        during = max(prober.longest(began) for prober in probers)
        text = (
            f"{machine()}, PostgreSQL {version(server)}, {options.messages:,} messages waiting, four clients\n\n"
            f"| | seconds |\n| --- | ---: |\n| the migration | {took:.2f} |\n"
            f"| the longest round of a client before it | {before:.2f} |\n"
            f"| … while it ran, and after | {during:.2f} |\n"
        )
    print(text)
    if options.markdown:
        options.markdown.write_text(
            f"# Upgrading under load\n\n`python -m benchmarks.upgrading {options.commit}`\n\n{text}"
        )


@contextmanager
def probing(dsn: str) -> Iterator[list[Prober]]:
    over = threading.Event()
    probers = [Prober(dsn, over) for _ in range(4)]
    threads = [threading.Thread(target=prober.run) for prober in probers]
    for thread in threads:
        thread.start()
    try:
        yield probers
    finally:
        over.set()
        for thread in threads:
            thread.join()


if __name__ == "__main__":
    main()
