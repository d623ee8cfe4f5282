"""``python -m benchmarks.engine``: the table of docs/engine.md, for this engine and two others, side by side."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg

from benchmarks.engine import measurements
from benchmarks.engine.design import BODY, Design
from benchmarks.engine.measurements import FULL, QUICK, Row, Scale
from benchmarks.engine.pgbench import Pgbench
from benchmarks.report import machine, table
from benchmarks.server import running, version
from pgqueue.testing.hosts import binaries
from pgqueue.testing.server import ThrowawayServer

LABELS = {"pgqueue": "pgqueue", "front_scan": "front scan", "floor": "raw floor"}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engine", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="about two minutes, for a look; figures are rough")
    parser.add_argument("--markdown", type=Path, help="write the table to this file, too")
    options = parser.parse_args()
    rows = []
    with running() as server:
        designs = [_made(server, name) for name in LABELS]
        for row in _measure(designs, QUICK if options.quick else FULL):
            rows.append(row)
            print(f"{row.title}: {row.figures}", file=sys.stderr, flush=True)
        text = f"{machine()}, PostgreSQL {version(server)}, synchronous_commit off\n\n{table(LABELS, rows)}\n"
    print(text)
    if options.markdown:
        options.markdown.write_text(f"# The engine\n\n`make bench-engine`\n\n{text}")


def _measure(designs: list[Design], scale: Scale) -> Iterator[Row]:
    ours, front_scan, _floor = designs
    yield measurements.throughput(designs, scale, clients=16)
    yield measurements.throughput(designs, scale, clients=64)
    yield from measurements.claim_latencies([ours, front_scan], scale)
    yield measurements.under_a_held_snapshot([ours, front_scan], scale)
    yield measurements.under_an_open_sender(ours, scale)


def _made(server: ThrowawayServer, name: str) -> Design:
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute(f"create database {name}".encode())
    design = Design(name, LABELS[name], server.dsn(name), Pgbench(binaries(), BODY))
    design.set_up()
    return design


if __name__ == "__main__":
    main()
