"""``python -m benchmarks.engine``: the table of docs/engine.md, for this engine and two others, side by side."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import psycopg

from benchmarks.earlier import engine_at, existing_commit
from benchmarks.engine import measurements
from benchmarks.engine.design import BODY, Design
from benchmarks.engine.measurements import CLOSE, FULL, QUICK, Row, Scale
from benchmarks.engine.pgbench import Pgbench
from benchmarks.report import load, machine, table
from benchmarks.server import running, version
from pgqueue import schema
from pgqueue.testing.hosts import binaries
from pgqueue.testing.server import ThrowawayServer

#: The fastest engine so far: every comparison with earlier ones has it.
FASTEST = "983b3fb"

LABELS = {"pgqueue": "pgqueue", "front_scan": "front scan", "floor": "raw floor", "pgmq": "PGMQ"}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engine", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="about two minutes, for a look; figures are rough")
    parser.add_argument(
        "--beside",
        type=existing_commit,
        metavar="COMMIT",
        nargs="+",
        help=f"only this engine and those of {FASTEST} and of these commits",
    )
    parser.add_argument("--pgmq", type=Path, metavar="FILE", help="PGMQ itself, too: its pgmq-extension/sql/pgmq.sql")
    parser.add_argument("--markdown", type=Path, help="write the table to this file, too")
    options = parser.parse_args()
    scale = QUICK if options.quick else CLOSE if options.beside else FULL
    rows, busy = [], load()
    with running() as server, ExitStack() as stack:
        if options.beside:
            designs = list(_with_earlier_ones(server, options.beside, stack))
            measured = _compare(designs, scale)
        else:
            designs = [_made(server, name) for name in ("pgqueue", "front_scan", "floor")]
            if options.pgmq:
                designs.append(_made(server, "pgmq", installed=options.pgmq))
            measured = _measure(designs, scale)
        for row in measured:
            rows.append(row)
            print(f"{row.title}: {row.figures}", file=sys.stderr, flush=True)
        labels = {design.name: design.label for design in designs}
        conditions = f"{machine()}, PostgreSQL {version(server)}, synchronous_commit off, {busy}."
        text = f"{conditions}\n\n{table(labels, rows)}\n"
    print(text)
    if options.markdown:
        command = "make bench-engine" + (f' BESIDE="{" ".join(options.beside)}"' if options.beside else "")
        options.markdown.write_text(f"# The engine\n\n`{command}`\n\n{text}")


def _with_earlier_ones(server: ThrowawayServer, commits: Sequence[str], stack: ExitStack) -> Iterator[Design]:
    yield _made(server, "pgqueue")
    for nth, commit in enumerate(dict.fromkeys([FASTEST, *commits])):
        label = f"pgqueue at {commit[:7]}"
        migrate = stack.enter_context(engine_at(commit))
        yield _made(server, f"earlier_{nth}", label=label, folder="pgqueue", migrate=migrate)


def _compare(designs: list[Design], scale: Scale) -> Iterator[Row]:
    yield measurements.throughput(designs, scale, clients=1)
    yield measurements.throughput(designs, scale, clients=16)
    yield from measurements.claim_latencies(designs, scale)


def _measure(designs: list[Design], scale: Scale) -> Iterator[Row]:
    ours = designs[0]
    queues = [design for design in designs if design.name != "floor"]
    yield measurements.throughput(designs, scale, clients=16)
    yield measurements.throughput(designs, scale, clients=64)
    yield measurements.kept_up(designs, scale, clients=16)
    yield from measurements.claim_latencies(queues, scale)
    yield measurements.under_a_held_snapshot(queues, scale)
    yield measurements.under_an_open_sender(ours, scale)


def _made(
    server: ThrowawayServer,
    name: str,
    *,
    label: str | None = None,
    folder: str | None = None,
    migrate: Callable[[str], object] = schema.migrate,
    installed: Path | None = None,
) -> Design:
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute(f"create database {name}".encode())
    pgbench = Pgbench(binaries(), BODY)
    design = Design(name, label or LABELS[name], server.dsn(name), pgbench, folder or name, migrate, installed)
    design.set_up()
    return design


if __name__ == "__main__":
    main()
