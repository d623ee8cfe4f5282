"""The pytest plugin: one server for a whole test run, whatever its number of processes, and a database per test.

The first test that needs a database starts the server, in any process; the process that started the run stops it. The
same holds for a PgBouncer in front of it, if PGQUEUE_TEST_PGBOUNCER names the program.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pgqueue.embedded.locking import exclusive
from pgqueue.model.schemas import DEFAULT
from pgqueue.testing import hosts
from pgqueue.testing.clock import Clock
from pgqueue.testing.database import Database, create_template, created, drop
from pgqueue.testing.pgbouncer import PgBouncer, program
from pgqueue.testing.server import ThrowawayServer, short_directory

SHARED = "pgqueue_shared_directory"

#: The environment variable with the schema that pgqueue is installed in for the tests.
SCHEMA = "PGQUEUE_TEST_SCHEMA"

DIRECTORY = pytest.StashKey[Path]()


@dataclass(frozen=True)
class SharedServer:
    """The server of a test run, as its processes share it."""

    host: str
    handle: str
    dsn: str = field(repr=False)
    template: str
    pgbouncer: str | None = None
    through: str | None = None
    schema: str = DEFAULT

    @contextmanager
    def database(self, template: str | None = None) -> Iterator[Database]:
        """A new database, empty or a copy, for as long as the block lasts."""
        with created(self.dsn, template, self.through, self.schema) as database:
            yield database


def pytest_configure(config: pytest.Config) -> None:
    """Choose the directory that the processes of this test run share."""
    shared = getattr(config, "workerinput", {}).get(SHARED)
    config.stash[DIRECTORY] = Path(shared) if shared else short_directory()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Pass the shared directory to a worker of pytest-xdist."""
    node.workerinput[SHARED] = str(node.config.stash[DIRECTORY])


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the server at the end of the test run."""
    directory = config.stash.get(DIRECTORY, None)
    if hasattr(config, "workerinput") or directory is None:  # another plugin has refused the configuration
        return
    try:
        server = _known(directory)
        if server is not None:
            _stop(server, directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def database_server(pytestconfig: pytest.Config) -> SharedServer:
    """The server with all databases of this test run."""
    directory = pytestconfig.stash[DIRECTORY]
    with exclusive(directory / "lock"):
        return _known(directory) or _start(directory)


@pytest.fixture
def database(database_server: SharedServer) -> Iterator[Database]:
    """A database of this test's own, migrated, with a clock that can be moved."""
    with database_server.database(database_server.template) as database:
        yield database


@pytest.fixture
def empty_database(database_server: SharedServer) -> Iterator[Database]:
    """A database for one test, without pgqueue."""
    with database_server.database() as database:
        yield database


@pytest.fixture
def another_empty_database(database_server: SharedServer) -> Iterator[Database]:
    """A second empty database, to compare with."""
    with database_server.database() as database:
        yield database


@pytest.fixture
def clock(database: Database) -> Clock:
    """The time in ``database``: ``clock.move(timedelta(...))`` moves it for every process."""
    return database.clock


@pytest.fixture
def throwaway_server() -> Iterator[ThrowawayServer]:
    """A running server for one test, which may restart and kill it."""
    server = ThrowawayServer(hosts.binaries())
    try:
        server.create()
        server.start()
        yield server
    finally:
        server.remove()


def _start(directory: Path) -> SharedServer:
    host = hosts.choose()
    dsn, handle = hosts.start(host, directory)
    try:
        schema = os.environ.get(SCHEMA) or DEFAULT
        template = create_template(dsn, schema)
        pgbouncer, through = _put_before(dsn, directory)
        server = SharedServer(host, handle, dsn, template, pgbouncer, through, schema)
    except BaseException:
        hosts.stop(host, handle)
        raise
    (directory / "server.json").write_text(json.dumps(asdict(server)))
    return server


def _put_before(server: str, directory: Path) -> tuple[str, str] | tuple[None, None]:
    """Start the requested PgBouncer: its program, and how to reach it."""
    pgbouncer = program()
    if pgbouncer is None:
        return None, None
    started = PgBouncer(pgbouncer, directory / "pgbouncer", server)
    started.start()
    return pgbouncer, started.dsn


def _stop(server: SharedServer, directory: Path) -> None:
    try:
        if server.pgbouncer is not None:
            PgBouncer(server.pgbouncer, directory / "pgbouncer", server.dsn).stop()
        drop(server.dsn, server.template)
    finally:
        hosts.stop(server.host, server.handle)


def _known(directory: Path) -> SharedServer | None:
    known = directory / "server.json"
    return SharedServer(**json.loads(known.read_text())) if known.exists() else None
