"""A throw-away PostgreSQL of a benchmark's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psycopg

from pgqueue.testing.hosts import binaries
from pgqueue.testing.server import ThrowawayServer, short_directory

SETTINGS = {
    "shared_buffers": "1GB",
    "synchronous_commit": "off",
    "fsync": "on",
    "full_page_writes": "on",
    "max_wal_size": "8GB",
}


class LoopbackServer(ThrowawayServer):
    """One that drivers without Unix sockets reach, too; nothing else may be at port 5432 of this machine."""

    listen_addresses = "127.0.0.1"

    def address(self) -> str:
        return "127.0.0.1:5432/postgres"


@contextmanager
def running(
    settings: Mapping[str, str] = SETTINGS, kind: type[ThrowawayServer] = ThrowawayServer
) -> Iterator[ThrowawayServer]:
    server = kind(binaries(), short_directory(in_memory=False))
    try:
        server.create()
        server.start()
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            for setting, value in settings.items():
                connection.execute(f"alter system set {setting} = '{value}'".encode())
        server.restart()
        yield server
    finally:
        server.remove()


def version(server: ThrowawayServer) -> str:
    with psycopg.connect(server.dsn()) as connection:
        return str(connection.info.parameter_status("server_version"))


def busy_for(pid: int) -> int:
    """How many nanoseconds a process has computed."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])
