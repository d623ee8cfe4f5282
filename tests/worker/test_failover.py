"""The primary dies and its standby is promoted: what was acknowledged is there, and the worker goes on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from pgqueue import Message, QueueClient
from pgqueue.errors import ReadOnlyError
from pgqueue.testing import Database
from pgqueue.testing.database import create_template
from pgqueue.testing.hosts import binaries
from pgqueue.testing.server import ThrowawayServer
from tests.patience import eventually
from tests.worker.scene import FACES, Scene, effect

MANY = 300
REPLICATED = {"wal_level": "replica", "max_wal_senders": "4"}


@dataclass
class Pair:
    """A primary, and a standby that has what the primary has acknowledged."""

    primary: ThrowawayServer
    standby: ThrowawayServer

    def start(self) -> Database:
        self.primary.settings.update(REPLICATED)
        self.primary.create()
        self.primary.start()
        template = create_template(self.primary.dsn())
        self.standby._run("pg_basebackup", "-d", self.primary.dsn(), "-R", "-X", "stream", "-c", "fast")
        self.standby.start()
        with psycopg.connect(self.primary.dsn(), autocommit=True) as connection:
            connection.execute("alter system set synchronous_standby_names = '*'")
            connection.execute("select pg_reload_conf()")
        hosts = ",".join(quote(str(server.sockets), safe="") for server in (self.primary, self.standby))
        return Database(f"postgresql://postgres@/{template}?host={hosts}&target_session_attrs=read-write")

    def fail_over(self) -> None:
        self.primary.kill()
        self.standby._run("pg_ctl", "promote", "-w")


@pytest.fixture
def pair() -> Iterator[Pair]:
    pair = Pair(ThrowawayServer(binaries()), ThrowawayServer(binaries()))
    yield pair
    pair.standby.remove()
    pair.primary.remove()


@pytest.mark.parametrize("face", FACES)
def test_a_failover_to_a_standby_loses_and_doubles_nothing(pair: Pair, face: str) -> None:
    async def handler(message: Any, tx: Any) -> None:
        await effect(tx, message.body)

    with Scene(pair.start(), face) as scene:
        scene.send(*range(MANY))
        with scene.working(handler, transaction="psycopg", concurrency=2) as running:
            eventually(lambda: running.worker.tally.completed > 10)
            pair.fail_over()
            eventually(lambda: len(scene.effects()) == MANY)
        assert sorted(scene.effects()) == list(range(MANY))
        assert scene.left() == []


def test_a_standby_refuses_what_may_pass_when_it_is_promoted(pair: Pair) -> None:
    database = pair.start()
    with QueueClient(database.dsn) as client:
        client.create_queue("orders")
    dsn = make_conninfo(database.dsn, host=str(pair.standby.sockets), target_session_attrs="any")
    with QueueClient(dsn) as client:
        with pytest.raises(ReadOnlyError, match="on a standby") as refused:
            client.queue("orders").send(Message(1))
        assert refused.value.is_transient
        pair.fail_over()
        client.queue("orders").send(Message(1))
