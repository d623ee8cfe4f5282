"""A temporary PgBouncer in transaction mode, in front of the server that holds the test databases."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import psutil
from psycopg.conninfo import conninfo_to_dict

from pgqueue.embedded.account import UNPRIVILEGED, unprivileged
from pgqueue.testing.database import dsn

PORT = 6432
START_SECONDS = 20

#: Few server connections for each database, so that clients have to share them.
SETTINGS = {
    "auth_type": "any",
    "default_pool_size": 8,
    "listen_port": PORT,
    "log_connections": 0,
    "log_disconnections": 0,
    "max_client_conn": 1000,
    "max_prepared_statements": 200,
    "pool_mode": "transaction",
    "query_wait_timeout": 30,
    "server_login_retry": 1,
}


def program() -> str | None:
    """The PgBouncer program that clients go through: PGQUEUE_TEST_PGBOUNCER."""
    return os.environ.get("PGQUEUE_TEST_PGBOUNCER") or None


class PgBouncer:
    """A proxy to every database of a server, on a Unix socket. Any process of the same account may start or stop it."""

    def __init__(self, program: str, directory: Path, server: str) -> None:
        self.program = program
        self.directory = directory
        self._server = server

    @property
    def dsn(self) -> str:
        """The DSN that leads through PgBouncer."""
        user = conninfo_to_dict(self._server).get("user") or "postgres"
        return dsn(f"host={self.directory} port={PORT} user={user}", "postgres")

    def start(self, **settings: object) -> None:
        """Start it, with these settings replacing the defaults; it is listening when this returns."""
        account = unprivileged()
        account.make_directory(self.directory)
        configuration = self.directory / "pgbouncer.ini"
        configuration.write_text(self._configuration(SETTINGS | settings))
        switch = [] if account.user_id is None else ["--user", UNPRIVILEGED]  # PgBouncer refuses to run as root
        log = self.directory / "start.log"
        with log.open("w") as output:
            outcome = subprocess.run(
                [self.program, "--daemon", *switch, str(configuration)],
                check=False,
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        if outcome.returncode != 0 or not self._listens():
            raise RuntimeError(f"{self.program} failed: {log.read_text()}")

    def stop(self) -> None:
        """Stop it at once, even if clients are connected."""
        try:
            process = psutil.Process(int((self.directory / "pid").read_text()))
        except (FileNotFoundError, psutil.NoSuchProcess):
            return
        process.send_signal(signal.SIGQUIT)  # SIGTERM waits for clients to disconnect
        process.wait(20)

    def _listens(self) -> bool:
        """Whether it accepts connections; it needs a moment after it has started."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            with socket.socket(socket.AF_UNIX) as client, suppress(OSError):
                client.connect(str(self.directory / f".s.PGSQL.{PORT}"))
                return True
            time.sleep(0.01)
        return False

    def _configuration(self, settings: dict[str, object]) -> str:
        server = conninfo_to_dict(self._server)
        wanted = {name: server[name] for name in ("host", "port", "user", "password") if server.get(name)}
        ours = settings | {
            "unix_socket_dir": self.directory,
            "logfile": self.directory / "log",
            "pidfile": self.directory / "pid",
        }
        return "\n".join(
            [
                "[databases]",
                "* = " + " ".join(f"{name}='{value}'" for name, value in wanted.items()),
                "[pgbouncer]",
                *(f"{name} = {value}" for name, value in ours.items()),
                "",
            ]
        )
