"""One system in a fresh database, and the processes that play it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import psutil
import psycopg
from psycopg.conninfo import conninfo_to_dict

from benchmarks.peers.installing import NODE_MODULES, ROOT, command
from benchmarks.peers.orders import COUNTER, Counter, Order
from benchmarks.peers.systems import System
from pgqueue.testing.database import Database, create, drop

EFFECT = "create table effect (number bigint, note text)"
#: A database is copied while it has no connections.
LEAVE = "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s"
#: No act takes longer, and no consumer to end.
LONGEST_ACT, LONGEST_END = 300.0, 15.0
ENVIRONMENT = {**os.environ, "PEERS_NODE_MODULES": str(NODE_MODULES), "PYTHONPATH": str(ROOT)}


class ActError(Exception):
    """The last line of output of a system's process."""


@dataclass(frozen=True)
class Prepared:
    """A system in a database that is copied for each measurement."""

    server: str
    system: System
    database: str
    about: Mapping[str, Any]


def prepared(server: str, system: System, pgmq: Path | None = None) -> Prepared:
    """``server`` is the DSN of a role that may create databases; ``pgmq`` the file with PGMQ's functions, if given."""
    database = create(server)
    with psycopg.connect(database.dsn, autocommit=True) as connection:
        connection.execute(EFFECT)
        if system.needs_pgmq and pgmq:
            connection.execute(pgmq.read_bytes())
    dsn = _dsn(database.name, conninfo_to_dict(server))
    about = _result(system, Order("about", dsn, counter="", settings=system.settings))
    _result(system, Order("prepare", dsn, counter="", settings=system.settings))
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(LEAVE, [database.name])
    return Prepared(server, system, database.name, about)


class Stage:
    """A database of one measurement's own, and the processes that work in it."""

    def __init__(self, prepared: Prepared) -> None:
        self.system = prepared.system
        self._prepared = prepared
        self._server = prepared.server

    def __enter__(self) -> Self:
        self.folder = Path(tempfile.mkdtemp(prefix="peers-"))
        (self.folder / "counter").write_bytes(bytes(COUNTER.size))
        self._counter = Counter(str(self.folder / "counter"))
        self._database: Database = create(self._server, self._prepared.database)
        self.connection = psycopg.connect(self._database.dsn, autocommit=True)
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()
        drop(self._server, self._database.name)
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def handled(self) -> int:
        return self._counter.value

    @property
    def remaining(self) -> int:
        """How many messages are not completed."""
        return int(self.connection.execute(str(self._prepared.about["remaining"]).encode()).fetchall()[0][0] or 0)

    @property
    def database(self) -> str:
        return self._database.name

    def order(self, act: str, **wanted: Any) -> Order:
        return Order(act, self._dsn, counter=str(self.folder / "counter"), settings=self.system.settings, **wanted)

    def act(self, name: str, **wanted: Any) -> dict[str, Any]:
        """Waits for the act's end; answers with its result."""
        return _result(self.system, self.order(name, **wanted))

    @contextmanager
    def consumer(self, distance: Path | None = None, **wanted: Any) -> Iterator[subprocess.Popen[bytes]]:
        """A consumer for as long as the block lasts, at a distance if a directory of the proxy's socket is given."""
        self._counter.value = 0
        with self.acting("consume", distance, **wanted) as process:
            yield process
            if process.poll() is not None:
                raise ActError(f"the consumer has ended: {self.said}")

    @contextmanager
    def acting(self, name: str, distance: Path | None = None, **wanted: Any) -> Iterator[subprocess.Popen[bytes]]:
        """A process that acts while the block lasts."""
        order = self.order(name, **wanted)
        if distance is not None:
            order = replace(order, dsn=_dsn(self.database, {**self._reached, "host": str(distance)}))
        with (self.folder / "said").open("wb") as said:
            arguments = [*command(self.system), order.as_json()]
            process = subprocess.Popen(
                arguments, cwd=self.system.library or ROOT, env=ENVIRONMENT, stdout=said, stderr=said
            )
            try:
                yield process
            finally:
                _end(process)

    @property
    def said(self) -> str:
        return _last_line((self.folder / "said").read_text(errors="replace"))

    def tidy(self) -> None:
        self.connection.execute("vacuum analyze")
        self.connection.execute("checkpoint")

    @property
    def _reached(self) -> dict[str, Any]:
        return conninfo_to_dict(self._server)

    @property
    def _dsn(self) -> str:
        return _dsn(self.database, self._reached)


@contextmanager
def at_a_distance(server: str, milliseconds: float) -> Iterator[Path]:
    """A directory with a socket that leads to the server through a proxy."""
    folder = Path(tempfile.mkdtemp(prefix="far-"))
    there = str(conninfo_to_dict(server)["host"])
    arguments = [sys.executable, "-m", "benchmarks.peers.distance", there, str(folder), str(milliseconds)]
    process = subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield folder
    finally:
        process.kill()
        process.communicate()
        shutil.rmtree(folder)


def cpu_seconds(process_id: int) -> float:
    """Of a process and of all that it has started, also of those that have ended."""
    process = psutil.Process(process_id)
    while True:
        children = process.children(recursive=True)
        with suppress(psutil.NoSuchProcess):
            seconds = sum(sum(each.cpu_times()[:4]) for each in [process, *children])  # with those it has waited for
            if process.children(recursive=True) == children:  # else one that has ended is counted twice, or not at all
                return float(seconds)
        if not process.is_running():
            raise psutil.NoSuchProcess(process_id)


def _result(system: System, order: Order) -> dict[str, Any]:
    try:
        done = subprocess.run(
            [*command(system), order.as_json()],
            cwd=system.library or ROOT,
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            check=False,
            timeout=LONGEST_ACT,
        )
    except subprocess.TimeoutExpired:
        raise ActError(f"{order.act} took longer than {LONGEST_ACT:.0f} s") from None
    if done.returncode:
        raise ActError(f"{order.act}: {_last_line(done.stderr)}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def _dsn(database: str, reached: dict[str, Any]) -> str:
    """One that every driver understands: those of Node and Rust want no host before the path when it is a directory."""
    host = str(reached.get("host", "localhost"))
    if host.startswith("/"):
        return f"postgresql:///{database}?host={quote(host, safe='')}&user={reached['user']}"
    return f"postgresql://{reached['user']}:{reached.get('password', '')}@{host}:{reached.get('port', 5432)}/{database}"


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(LONGEST_END)
    process.kill()
    process.wait()


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "no output"
