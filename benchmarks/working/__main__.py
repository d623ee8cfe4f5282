"""``python -m benchmarks.working``: what one worker process gets done, how soon it begins, and what it costs idle."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import psycopg

from benchmarks.arguments import positive, whole
from benchmarks.report import machine
from benchmarks.server import running, version
from benchmarks.working import draining, idling, pickup, snapshot
from benchmarks.working.scene import TABLES, Scene
from benchmarks.working.ways import ways
from pgqueue import QueueClient

PARTS = ("drain", "pickup", "idle", "snapshot")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.working", description=__doc__)
    parser.add_argument(
        "--messages", type=whole, default=40_000, help="in each run of a fast way; fewer in transactions"
    )
    parser.add_argument("--runs", type=whole, default=7)
    parser.add_argument("--seconds", type=positive, default=10.0, help="for how long pickup and idling are measured")
    parser.add_argument("--hold", type=positive, default=60.0, help="for how long a snapshot is held, in seconds")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--markdown", type=Path, help="write the tables to this file, too")
    options = parser.parse_args()
    with running() as server, QueueClient(server.dsn()) as client:
        client.migrate()
        client.create_queue("bench")
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute(TABLES)
            scene = Scene(server.dsn(), client.queue("bench"), connection)
            report = "\n\n".join(_parts(scene, options))
        conditions = f"{machine()}, PostgreSQL {version(server)}, synchronous_commit off, 200 bytes a body"
    print(f"{conditions}\n\n{report}")
    if options.markdown:
        command = " ".join(["python", *sys.orig_argv[1:]])
        options.markdown.write_text(f"# Workers\n\n`{command}`\n\n{conditions}\n\n{report}\n")


def _parts(scene: Scene, options: argparse.Namespace) -> list[str]:
    parts = []
    if "drain" in options.only:
        parts.append(
            "## Working off a full queue\n\n" + draining.measure(scene, ways(), options.messages, options.runs)
        )
    if "pickup" in options.only:
        parts.append("## From send to handler\n\n" + pickup.measure(scene, 200, options.seconds, min(options.runs, 3)))
    if "idle" in options.only:
        parts.append("## Nothing to do\n\n" + idling.measure(scene, 2 * options.seconds))
    if "snapshot" in options.only:
        parts.append("## While a snapshot is held\n\n" + snapshot.measure(scene, options.hold))
    return parts


if __name__ == "__main__":
    main()
