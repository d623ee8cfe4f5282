"""Promotion behind a proxy or PgBouncer: clients know one address, and others decide where it leads."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from typing import ClassVar

import psycopg

from benchmarks.disasters.cluster import Cluster, dsn
from benchmarks.disasters.promoting import HAS_CAUGHT_UP, IS_NOT_RECEIVING, WRITTEN, Promotion, promote
from benchmarks.disasters.proxy import Proxied, address
from benchmarks.disasters.round import NAME, Disaster, Fate
from benchmarks.disasters.upgrading import ROOT
from pgqueue.testing.database import dsn as of_database
from pgqueue.testing.pgbouncer import SETTINGS, PgBouncer

#: The SQLSTATE of a statement that writes, on a standby.
READ_ONLY = "25006"
FIND = ROOT / ".ci" / "pgbouncer.py"


class BehindProxy(Proxied, Promotion):
    """The proxy leads to the standby before that is promoted, so clients meet a server that refuses to write."""

    name = "proxy"
    fault = "the primary behind a proxy killed, which leads to the synchronous standby a second before that is promoted"
    person = "lead the proxy to the standby, promote it"
    found = frozenset({"read-only"})
    expected = frozenset({READ_ONLY})

    def strike(self, fate: Fate) -> None:
        primary, standby = self.servers
        primary.kill()
        self.proxy.server = address(standby)
        fate.work(1)
        promote(standby, fate)


class BehindPgBouncer(Promotion):
    """Clients keep their connections to PgBouncer."""

    name = "pgbouncer"
    fault = "the primary behind PgBouncer killed, its synchronous standby promoted"
    person = "promote the standby, write it into `pgbouncer.ini`, `RELOAD`, `RECONNECT`"

    @classmethod
    def can_happen(cls) -> bool:
        return bool(program())

    def start(self) -> None:
        super().start()
        primary = self.servers[0]
        self.pooler = Pooler(program(), primary.directory / "pgbouncer", primary.dsn())
        self.pooler.begin()

    def dsn(self) -> str:
        return of_database(self.pooler.dsn, NAME)

    def doctor_dsn(self) -> str:
        return dsn(self.servers, NAME)

    def strike(self, fate: Fate) -> None:
        primary, standby = self.servers
        primary.kill()
        promote(standby, fate)
        self.pooler.lead_to(standby)
        self.pooler.command("RECONNECT")

    def remove(self) -> None:
        if hasattr(self, "pooler"):
            self.pooler.stop()
        super().remove()


class PlannedSwitchOver(BehindPgBouncer):
    """PgBouncer lets transactions end, and holds further ones back meanwhile."""

    name = "pgbouncer switch-over"
    fault = "a planned switch-over behind PgBouncer, which holds transactions back meanwhile"
    person = "`PAUSE`, stop the primary, promote the standby, write it into `pgbouncer.ini`, `RELOAD`, `RESUME`"

    def strike(self, fate: Fate) -> None:
        primary, standby = self.servers
        self.pooler.command("PAUSE")
        standby.wait_until(HAS_CAUGHT_UP, primary.execute(WRITTEN))
        primary.stop()
        standby.wait_until(IS_NOT_RECEIVING)
        promote(standby, fate)
        self.pooler.lead_to(standby)
        self.pooler.command("RESUME")


class Pooler(PgBouncer):
    """PgBouncer, as a person reconfigures it."""

    settings: ClassVar[dict[str, object]] = {"admin_users": "postgres", "default_pool_size": 60}

    def begin(self) -> None:
        self.start(**self.settings)

    def lead_to(self, server: Cluster) -> None:
        """Write another server into its configuration, which it then reads."""
        self._server = server.dsn()
        (self.directory / "pgbouncer.ini").write_text(self._configuration(SETTINGS | self.settings))
        self.command("RELOAD")

    def command(self, text: str) -> None:
        """Give a command at its console, and wait until it is done."""
        with psycopg.connect(of_database(self.dsn, "pgbouncer"), autocommit=True) as console:
            console.execute(text.encode())


@cache
def program() -> str:
    """A PgBouncer that is new enough; empty if there is none."""
    return subprocess.run([sys.executable, FIND], check=False, capture_output=True, text=True).stdout.strip()


DISASTERS: Sequence[type[Disaster]] = (BehindProxy, BehindPgBouncer, PlannedSwitchOver)
