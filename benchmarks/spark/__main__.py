"""``python -m benchmarks.spark``: rows a second through Spark, beside Spark's own JDBC and one process with psycopg."""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import psycopg

import pgqueue.spark
from benchmarks.arguments import whole
from benchmarks.report import machine, table
from benchmarks.server import LoopbackServer, running, version
from benchmarks.spark import memory, ways
from benchmarks.spark.ways import Scene
from pgqueue import QueueClient

JAR = Path("/usr/share/java/postgresql.jar")  # of Debian's libpostgresql-jdbc-java

WRITERS = {
    "pgqueue, a job": ways.write_as_a_job,
    "pgqueue, by task": ways.write_by_task,
    "JDBC, tuned": ways.write_by_jdbc,
    "JDBC": ways.write_by_default_jdbc,
    "one psycopg COPY": ways.write_by_psycopg,
}
READERS = {
    "pgqueue": ways.read_by_pgqueue,
    "JDBC": ways.read_by_jdbc,
    "one psycopg cursor": ways.read_by_psycopg,
}
ALL_COLUMNS_READERS = {"pgqueue": ways.read_all_by_pgqueue, "JDBC": ways.read_all_by_jdbc}
PARTS = ("write", "read", "drain", "memory")


@dataclass(frozen=True)
class Row:
    """Rows a second by each way, medians."""

    title: str
    unit: str
    figures: Mapping[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark", description=__doc__)
    parser.add_argument("--rows", type=whole, default=1_000_000)
    parser.add_argument("--runs", type=whole, default=5)
    parser.add_argument("--partitions", type=whole, default=2)
    parser.add_argument("--most", type=whole, default=10_000_000, help="rows of the larger load when memory is watched")
    parser.add_argument("--jdbc", type=Path, default=JAR, help="PostgreSQL's JDBC driver")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--markdown", type=Path, help="write the tables to this file, too")
    options = parser.parse_args()
    if not options.jdbc.exists():
        parser.error(
            f"{options.jdbc} is not there: apt-get install libpostgresql-jdbc-java, or name a driver with --jdbc"
        )
    with running(kind=LoopbackServer) as server:
        assert isinstance(server, LoopbackServer)
        scene = _set(server.address(), options)
        report = "\n\n".join(PARTS_MEASURED[part](scene, options) for part in options.only)
        scene.spark.stop()
        conditions = (
            f"{machine()}, PostgreSQL {version(server)}, TCP on the loopback, synchronous_commit off; "
            f"{options.rows:,} rows of some 200 bytes, {options.partitions} partitions, "
            f"medians of {options.runs} runs, interleaved"
        )
    print(f"{conditions}\n\n{report}")
    if options.markdown:
        command = " ".join(["python", *sys.orig_argv[1:]])
        options.markdown.write_text(f"# Spark\n\n`{command}`\n\n{conditions}\n\n{report}\n")


def _set(address: str, options: argparse.Namespace) -> Scene:
    spark = pgqueue.spark.session(
        master=f"local[{options.partitions}]", config={"spark.jars": str(options.jdbc), "spark.driver.memory": "2g"}
    )
    spark.sparkContext.setLogLevel("ERROR")
    scene = Scene(address, spark, options.partitions)
    with QueueClient(scene.dsn) as client:
        client.migrate()
        client.create_queue("bench")
    with psycopg.connect(scene.dsn, autocommit=True) as connection:
        connection.execute(ways.TABLE)
    return scene


def _write(scene: Scene, options: argparse.Namespace) -> str:
    load = scene.rows(options.rows).prepared()

    def once(way: Callable[..., str]) -> float:
        scene.clear()
        begun = time.monotonic()
        table = way(scene, load)
        lasted = time.monotonic() - begun
        assert scene.count(table) == options.rows
        return lasted

    figures = _medians({name: lambda way=way: once(way) for name, way in WRITERS.items()}, options)
    load.frame.unpersist()
    return "## Into a queue\n\n" + _table("write", figures)


def _read(scene: Scene, options: argparse.Namespace) -> str:
    scene.clear()
    ways.write_as_a_job(scene, scene.rows(options.rows))
    with psycopg.connect(scene.dsn, autocommit=True) as connection:
        connection.execute("vacuum analyze pgqueue.message")

    def once(way: Callable[[Scene], None]) -> float:
        begun = time.monotonic()
        way(scene)
        return time.monotonic() - begun

    five = _medians({name: lambda way=way: once(way) for name, way in READERS.items()}, options)
    every = _medians({name: lambda way=way: once(way) for name, way in ALL_COLUMNS_READERS.items()}, options)
    tables = [_table("five columns", five), _table("all columns", every)]
    return "## Out of it, nothing changed\n\n" + "\n\n".join(tables)


def _drain(scene: Scene, options: argparse.Namespace) -> str:
    def once() -> float:
        scene.clear()
        ways.write_as_a_job(scene, scene.rows(options.rows))
        begun = time.monotonic()
        ways.drain(scene)
        lasted = time.monotonic() - begun
        assert scene.count("pgqueue.message") == 0
        return lasted

    return "## Drained by a stream\n\n" + _table("drain", _medians({"pgqueue": once}, options))


def _memory(scene: Scene, options: argparse.Namespace) -> str:
    return "## Memory\n\n" + memory.measure(scene, [options.rows, options.most])


def _medians(ways: Mapping[str, Callable[[], float]], options: argparse.Namespace) -> dict[str, float]:
    """Rows a second; a first round warms everything up and does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(options.runs + 1):
        for name, way in ways.items():
            lasted = way()
            if turn:
                seconds[name].append(lasted)
                print(f"{name}: {options.rows / lasted:,.0f} rows/s", file=sys.stderr)
    return {name: options.rows / statistics.median(lasted) for name, lasted in seconds.items()}


def _table(title: str, figures: Mapping[str, float]) -> str:
    return table({name: name for name in figures}, [Row(title, "rows/s", figures)])


PARTS_MEASURED = {"write": _write, "read": _read, "drain": _drain, "memory": _memory}

if __name__ == "__main__":
    main()
