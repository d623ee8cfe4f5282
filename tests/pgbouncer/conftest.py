"""A PgBouncer of the test's own, where PGQUEUE_TEST_PGBOUNCER names the program: `make test-pgbouncer`."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from pgqueue.testing.database import dsn
from pgqueue.testing.pgbouncer import PgBouncer, program
from pgqueue.testing.plugin import SharedServer
from pgqueue.testing.server import short_directory

#: The DSN of a database, by its name, through a PgBouncer with these settings.
Through = Callable[..., str]


@pytest.fixture
def through(database_server: SharedServer) -> Iterator[Through]:
    path = program()
    if path is None:
        pytest.skip("PGQUEUE_TEST_PGBOUNCER names no program: make test-pgbouncer")
    with ExitStack() as started:

        def start(database: str, **settings: object) -> str:
            directory = short_directory()
            started.callback(shutil.rmtree, directory)
            pgbouncer = PgBouncer(path, directory / "pgbouncer", database_server.dsn)
            pgbouncer.start(**settings)
            started.callback(pgbouncer.stop)
            return dsn(pgbouncer.dsn, database)

        yield start
