"""PostgreSQL servers with their tools: dumps, base backups, ``pg_upgrade`` and the like."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, LiteralString
from urllib.parse import quote

import psycopg
from psycopg import sql

from pgqueue.embedded.server import ServerError
from pgqueue.testing.hosts import binaries
from pgqueue.testing.server import ThrowawayServer

SETTINGS = {"wal_level": "replica", "max_wal_senders": "8", "wal_keep_size": "512MB", "full_page_writes": "on"}

TICK = 0.02
WRITING = "-c default_transaction_read_only=off"
CLIENTS: LiteralString = """
select pid from pg_stat_activity where datname = %s and backend_type = 'client backend' and pid <> pg_backend_pid()"""
END_CLIENTS = """
select pg_terminate_backend(pid) from pg_stat_activity where datname = %s and backend_type = 'client backend'"""


class Cluster(ThrowawayServer):
    """A server of any version."""

    def __init__(self, programs: Path | None = None, **settings: str) -> None:
        super().__init__(programs or binaries())
        self.settings.update(SETTINGS | settings)

    @property
    def programs(self) -> Path:
        """The directory of its programs, which its account can run."""
        return self._programs

    def tool(self, program: str, *arguments: str | Path) -> str:
        """Run a program of PostgreSQL, and return its output."""
        command = [str(self.programs / program), *map(str, arguments)]
        outcome = self.account.run(command, self.directory)
        if outcome.returncode != 0:
            raise ServerError(f"{shlex.join(command)} failed: {outcome.stderr.strip() or outcome.stdout.strip()}")
        return outcome.stdout

    def execute(self, statement: LiteralString | sql.Composed, *arguments: Any, database: str = "postgres") -> Any:
        """The first column of the first row, if there is any."""
        with closing(psycopg.connect(self.dsn(database), autocommit=True)) as connection:
            cursor = connection.execute(statement, arguments or None)
            row = cursor.fetchone() if cursor.description else None
        return row[0] if row else None

    def write(self, statement: LiteralString | sql.Composed, database: str = "postgres") -> None:
        """Execute a statement where transactions are read-only by default."""
        with psycopg.connect(self.dsn(database), autocommit=True, options=WRITING) as connection:
            connection.execute(statement)

    def wait_until(self, condition: LiteralString, *arguments: Any, database: str = "postgres") -> None:
        """Wait until a query returns true."""
        while not self.execute(condition, *arguments, database=database):
            time.sleep(TICK)

    def configure(self, **settings: str) -> None:
        """Append settings, for the next start."""
        with (self.data / "postgresql.conf").open("a") as configuration:
            configuration.writelines(f"{name} = '{value}'\n" for name, value in settings.items())

    def reload(self, **settings: str) -> None:
        """Change settings of the running server."""
        self.configure(**settings)
        self.execute("select pg_reload_conf()")

    def logged(self, text: str) -> int:
        """How often its log has this text."""
        return self.log.read_text(errors="replace").count(text)

    def clients(self, database: str, condition: LiteralString = "true") -> list[int]:
        """The process ids of a database's sessions, but for this one; only those for which a condition is true."""
        with closing(psycopg.connect(self.dsn(), autocommit=True)) as connection:
            found = connection.execute(f"{CLIENTS} and {condition} order by backend_start", [database])
            return [number for (number,) in found]

    def shut_out(self, database: str) -> None:
        """Refuse clients, and end their sessions."""
        self.execute(sql.SQL("alter database {} with allow_connections false").format(sql.Identifier(database)))
        self.execute(END_CLIENTS, database)

    def rename(self, old: str, new: str) -> None:
        """Shut out the clients of a database, and rename it."""
        self.shut_out(old)
        self.execute(sql.SQL("alter database {} rename to {}").format(sql.Identifier(old), sql.Identifier(new)))
        self.execute(sql.SQL("alter database {} with allow_connections true").format(sql.Identifier(new)))


def dsn(servers: Sequence[ThrowawayServer], database: str) -> str:
    """The DSN of whichever of the servers is the primary."""
    hosts = ",".join(quote(str(server.sockets), safe="") for server in servers)
    return f"postgresql://postgres@/{quote(database)}?host={hosts}&target_session_attrs=read-write&connect_timeout=2"
