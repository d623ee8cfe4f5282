"""Logical replication into another server, and the switch-over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import LiteralString

from psycopg import sql

from benchmarks.disasters.cluster import Cluster
from benchmarks.disasters.promoting import WRITTEN
from benchmarks.disasters.round import NAME, Disaster, Fate
from pgqueue import QueueClient

SUBSCRIBE = "create subscription moving connection {} publication moving"
#: The publisher is gone, and its slot with it.
UNSUBSCRIBE: tuple[LiteralString, ...] = (
    "alter subscription moving disable",
    "alter subscription moving set (slot_name = none)",
    "drop subscription moving",
)
ALL_ARE_READY = "select bool_and(srsubstate = 'r') from pg_subscription_rel"
HAS_ARRIVED = "select bool_and(latest_end_lsn >= %s::pg_lsn) from pg_stat_subscription where subname = 'moving'"


class SwitchOver(Disaster):
    """All tables are published; sequences are not replicated."""

    name = "logical replication"
    fault = "all tables replicated logically under load, then a switch-over to the subscriber"
    person = (
        "shut clients out, wait until all has arrived, drop the subscription, `pgqueue sweep --thorough`,"
        " point clients at the new one"
    )
    found = frozenset({"sequence-behind"})

    def make(self) -> Sequence[Cluster]:
        return [Cluster(wal_level="logical"), Cluster()]

    def prepare(self) -> None:
        old, new = self.servers
        new.create()
        new.configure(default_transaction_read_only="on")
        new.start()
        script = new.directory / "script"
        new.tool("pg_dumpall", "--roles-only", "--dbname", old.dsn(), "--file", script)
        _run(new, "postgres", script)
        new.write(f"create database {NAME}")
        new.tool("pg_dump", "--schema-only", "--dbname", old.dsn(NAME), "--file", script)
        _run(new, NAME, script)
        old.execute("create publication moving for all tables", database=NAME)

    def strike(self, fate: Fate) -> None:
        old, new = self.servers
        new.write(sql.SQL(SUBSCRIBE).format(sql.Literal(old.dsn(NAME))), NAME)
        new.wait_until(ALL_ARE_READY, database=NAME)
        fate.work(2)
        old.shut_out(NAME)
        new.wait_until(HAS_ARRIVED, old.execute(WRITTEN), database=NAME)
        old.stop()
        for statement in UNSUBSCRIBE:
            new.write(statement, NAME)
        fate.look(new)
        fate.examine(new.dsn(NAME))
        with QueueClient(f"{new.dsn(NAME)}&options=-cdefault_transaction_read_only%3Doff") as client:
            client.sweep(thorough=True)
        new.reload(default_transaction_read_only="off")


def _run(server: Cluster, database: str, script: object) -> None:
    writing = f"{server.dsn(database)}&options=-cdefault_transaction_read_only%3Doff"
    server.tool("psql", "--quiet", "--dbname", writing, "--file", str(script))


DISASTERS: Sequence[type[Disaster]] = (SwitchOver,)
