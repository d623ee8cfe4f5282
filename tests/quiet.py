"""A server on which no other test, and no autovacuum, has a transaction open: turns and histories wait for those."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

import psycopg
import pytest

from pgqueue.testing import Database, ThrowawayServer
from pgqueue.testing.database import create_template, created
from pgqueue.testing.hosts import binaries


@dataclass(frozen=True)
class QuietServer:
    """A server, and a migrated template on it."""

    dsn: str
    template: str

    def database(self, template: str | None = None) -> AbstractContextManager[Database]:
        """A new copy of a template, for as long as the block lasts."""
        return created(self.dsn, template or self.template)


@pytest.fixture(scope="session")
def quiet_server() -> Iterator[QuietServer]:
    """A server for this process of the test run alone, which runs one test after the other."""
    server = ThrowawayServer(binaries())
    try:
        server.create()
        server.start()
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute("alter system set autovacuum = off")
            connection.execute("select pg_reload_conf()")
        yield QuietServer(server.dsn(), create_template(server.dsn()))
    finally:
        server.remove()
