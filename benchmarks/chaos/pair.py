"""A primary and its standby, both temporary: what a failover does to transactions is seen on real servers only."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import psycopg

from pgqueue.testing.server import ThrowawayServer

REPLICATED = {"wal_level": "replica", "max_wal_senders": "4"}


class Pair:
    """Call ``create``, then ``follow`` or ``copy``; ``fail_over`` ends the primary and promotes the standby."""

    def __init__(self, binaries: Path) -> None:
        self.primary = ThrowawayServer(binaries)
        self.standby = ThrowawayServer(binaries)
        for server in (self.primary, self.standby):
            server.settings.update(REPLICATED)

    def create(self) -> None:
        """Create and start the primary."""
        self.primary.create()
        self.primary.start()

    def follow(self, *, synchronous: bool) -> None:
        """Start the standby, which receives the WAL from now on; a COMMIT waits for a ``synchronous`` one."""
        self.standby.receive_from(self.primary.dsn())
        self.standby.start()
        if synchronous:
            with psycopg.connect(self.primary.dsn(), autocommit=True) as connection:
                connection.execute("alter system set synchronous_standby_names = '*'")
                connection.execute("select pg_reload_conf()")

    def copy(self) -> None:
        """Start a standby that was copied from the stopped primary, and that misses all that happens from now on."""
        self.primary.stop()
        self.standby.copy(self.primary)
        self.primary.start()
        self.standby.start()

    def fail_over(self) -> None:
        """Kill the primary, and promote the standby."""
        self.primary.kill()
        self.standby.promote()

    def dsn(self, database: str) -> str:
        """The DSN of whichever of the two is the primary."""
        hosts = ",".join(quote(str(server.sockets), safe="") for server in (self.primary, self.standby))
        return f"postgresql://postgres@/{quote(database)}?host={hosts}&target_session_attrs=read-write"

    def remove(self) -> None:
        """Stop both, frozen or not, and delete their directories."""
        for server in (self.standby, self.primary):
            if server.is_running():
                server.kill()  # a frozen one ends in no other way
            server.remove()
