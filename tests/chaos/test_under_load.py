"""Connections, consumers and the server itself are killed under load; afterwards the books must balance."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import pytest

from pgqueue import QueueClient, schema
from pgqueue.errors import ConnectionLostError
from pgqueue.testing import ThrowawayServer
from pgqueue.testing.clock import install
from pgqueue.testing.database import created
from tests.chaos.load import KINDS, load
from tests.chaos.scene import QUEUE, Scene, staged

pytestmark = pytest.mark.chaos

TERMINATE_SOMEBODY = """
select pg_terminate_backend(pid)
  from (select pid from pg_stat_activity
         where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'
         order by random() limit 2) as victim"""


@pytest.fixture
def fragile(throwaway_server: ThrowawayServer) -> Iterator[Scene]:
    """A scene on a server of its own, to be restarted."""
    with created(throwaway_server.dsn()) as database:
        schema.migrate(database.dsn)
        with database.connect() as connection:
            install(connection)
        with staged(database) as scene:
            yield scene


def test_connections_are_terminated_under_load(scene: Scene) -> None:
    with load(scene, batches=30) as running:
        for _ in range(25):
            running.deliveries(random.randint(1, 8))
            with scene.database.connect(autocommit=True) as connection:
                connection.execute(TERMINATE_SOMEBODY)
        running.drain()
    assert_balanced(scene)


def test_consumers_are_killed_under_load(scene: Scene) -> None:
    with load(scene, batches=25) as running:
        for place in range(len(KINDS)):
            running.deliveries(random.randint(10, 40))
            running.replace_consumer(place)
        running.drain()
    assert_balanced(scene)


def test_sweepers_are_at_work_and_terminated_under_load(scene: Scene) -> None:
    """A message has one chance: whose consumer is killed goes to the dead letters, by a sweep or by a receive."""
    with scene.database.connect() as connection:
        connection.execute("select pgqueue.alter_queue(%s, max_delivery_count => 1)", [QUEUE])
    with sweeping(scene), load(scene, batches=12) as running:
        for place in range(2):
            running.deliveries(random.randint(5, 20))
            running.replace_consumer(place)
            with scene.database.connect(autocommit=True) as connection:
                connection.execute(TERMINATE_SOMEBODY)
        running.drain()
    assert_balanced(scene)


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_the_server_is_restarted_under_load(fragile: Scene, throwaway_server: ThrowawayServer, mode: str) -> None:
    with load(fragile, batches=25) as running:
        for _ in range(2):
            running.deliveries(random.randint(10, 50))
            throwaway_server.restart(mode)
        running.drain()
    assert_balanced(fragile)


@contextmanager
def sweeping(scene: Scene) -> Iterator[None]:
    """Two sweep all the time. Nothing may come in their way but that their connections are gone."""
    over = threading.Event()

    def sweep() -> None:
        with QueueClient(scene.database.dsn) as client:
            while not over.wait(0.02):
                with suppress(ConnectionLostError):
                    client.sweep()

    with ThreadPoolExecutor(2) as threads:
        sweepers = [threads.submit(sweep) for _ in range(2)]
        try:
            yield
        finally:
            over.set()
    for sweeper in sweepers:
        sweeper.result()


def assert_balanced(scene: Scene) -> None:
    balance = scene.balance()
    assert balance.wrong == ()
    assert balance.remaining == 0
    assert balance.sent == balance.completed + balance.dead_lettered
    assert balance.completed > 0
    assert balance.dead_lettered > 0
