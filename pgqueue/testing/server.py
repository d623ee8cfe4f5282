"""A temporary PostgreSQL server for tests: small, fast, not durable, and easy to kill."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psutil

from pgqueue.embedded.server import SOCKET, Server

MEMORY = Path("/dev/shm")  # noqa: S108 (what is made there has a name of its own)
ROOM = 4 * 1024**3

SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "64MB",
    "max_connections": "200",
    "max_prepared_transactions": "10",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "1GB",
    "jit": "off",
    "log_line_prefix": "%m [%p] %d %a ",
}


class ThrowawayServer(Server):
    """Its data does not survive a crash of the machine, but does survive ``stop("immediate")`` and ``kill()``."""

    def __init__(self, binaries: Path, directory: Path | None = None) -> None:
        super().__init__(directory or short_directory(), binaries, settings=SETTINGS)

    def restart(self, mode: str = "fast") -> None:
        """Stop the server and start it again."""
        self.stop(mode)
        self.start()

    def kill(self) -> None:
        """Send SIGKILL to the server and all its processes; ``start`` then recovers as after a power failure."""
        family = self._processes()
        for process in family:
            _kill(process)
        while not all(_is_dead(process) for process in family):
            time.sleep(0.005)
        # The pid file of a dead server would be believed if another process has its process id.
        for claim in (self.data / "postmaster.pid", self.sockets / f"{SOCKET}.lock"):
            claim.unlink(missing_ok=True)

    def freeze(self) -> None:
        """Send SIGSTOP to the server and all its processes: it answers nothing, and closes no connection."""
        for process in self._processes():  # the postmaster first: it starts no more then
            with suppress(psutil.NoSuchProcess):
                process.suspend()

    def receive_from(self, primary: str) -> None:
        """Create the data directory as that of a standby, which receives WAL from a primary."""
        self._run("pg_basebackup", "-d", primary, "-R", "-X", "stream", "-c", "fast")

    def copy(self, stopped: ThrowawayServer) -> None:
        """Create the data directory as that of a standby, copied from a stopped server; it receives no WAL."""
        self.account.make_directory(self.directory)
        subprocess.run(["cp", "-a", stopped.data, self.data], check=True)
        self.account.run(["touch", str(self.data / "standby.signal")], self.directory)

    def promote(self) -> None:
        """Promote the standby; return when it accepts writes."""
        self._run("pg_ctl", "promote", "-w")

    def _processes(self) -> list[psutil.Process]:
        postmaster = psutil.Process(self.process_id())
        return [postmaster, *postmaster.children(recursive=True)]

    def remove(self) -> None:
        """Stop the server and delete its directory."""
        if self.directory.exists():
            self.stop("immediate")
        shutil.rmtree(self.directory, ignore_errors=True)


def short_directory(*, in_memory: bool = True) -> Path:
    """A temporary directory whose path is short enough for a Unix socket, and that every user may pass through.

    It is in memory if there is room: a database is hundreds of files, which a disk may take twenty times as long to
    create.
    """
    roomy = in_memory and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= ROOM
    directory = Path(tempfile.mkdtemp(prefix="pgqueue-", dir=MEMORY if roomy else None))
    directory.chmod(0o711)
    return directory


def _kill(process: psutil.Process) -> None:
    try:
        process.kill()
    except psutil.NoSuchProcess:
        return


def _is_dead(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
