"""The database goes away and comes back: no message is lost, none has its effect twice, and the worker lives."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from typing import Any

import psycopg
import pytest
from psycopg_pool import ConnectionPool

from pgqueue import QueueClient, RetryPolicy, Worker
from pgqueue.flows.locked import LockedMessage
from pgqueue.statements import settling
from pgqueue.testing import Database
from pgqueue.testing.database import create_template, created
from pgqueue.testing.server import ThrowawayServer
from pgqueue.transports import drive
from pgqueue.worker.dispatcher import Dispatcher
from tests.chaos.proxy import Proxy
from tests.patience import eventually
from tests.worker.scene import FACES, Running, Scene, effect

MANY = 300
TERMINATE = """
select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()
"""


@pytest.fixture(params=FACES)
def own_server(request: pytest.FixtureRequest, throwaway_server: ThrowawayServer) -> Iterator[Scene]:
    dsn = throwaway_server.dsn()
    with created(dsn, create_template(dsn)) as database, Scene(database, request.param) as scene:
        yield scene


def has_completed_more(running: Running, than: int) -> bool:
    return bool(running.worker.tally.completed > than)


def conserved(scene: Scene) -> None:
    """Each message had its effect once, or is still there or among the dead."""
    assert sorted([*scene.effects(), *scene.left(), *(dead.body for dead in scene.dead())]) == list(range(MANY))


@pytest.mark.parametrize("batch", [1, 7])
@pytest.mark.core
def test_backends_that_are_terminated_again_and_again(scene: Scene, batch: int) -> None:
    async def handler(message: Any, tx: Any) -> None:
        await effect(tx, message.body)

    scene.send(*range(MANY))
    with scene.working(handler, transaction="psycopg", transaction_batch=batch) as running:
        for already in range(0, MANY, MANY // 5):
            eventually(partial(has_completed_more, running, already))
            scene.rows(TERMINATE)
        eventually(lambda: len(scene.effects()) == MANY)
    conserved(scene)
    assert scene.effects() == list(range(MANY))


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_server_that_restarts(own_server: Scene, throwaway_server: ThrowawayServer, mode: str) -> None:
    async def handler(message: Any, tx: Any) -> None:
        await effect(tx, message.body)

    scene = own_server
    scene.send(*range(MANY))
    with scene.working(handler, transaction="psycopg", concurrency=2) as running:
        eventually(lambda: running.worker.tally.completed > 10)
        throwaway_server.restart(mode)
        eventually(lambda: len(scene.effects()) == MANY)
    conserved(scene)


def test_an_outage_is_waited_out_without_a_storm_of_logs(
    own_server: Scene, throwaway_server: ThrowawayServer, caplog: pytest.LogCaptureFixture
) -> None:
    async def handler(message: Any) -> None:
        """Nothing to do."""

    scene = own_server
    caplog.set_level(logging.WARNING, "pgqueue")
    with scene.working(handler) as running:
        eventually(lambda: running.worker.health().is_alive)
        throwaway_server.stop("immediate")
        eventually(lambda: bool(running.worker.health().failing))
        assert running.worker.health().is_alive
        throwaway_server.start()
        eventually(lambda: not running.worker.health().failing)
        scene.send("a")
        eventually(lambda: running.worker.tally.completed == 1)
    assert 1 <= len([record for record in caplog.records if record.name == "pgqueue"]) < 10


def test_a_completion_that_the_database_could_not_take_is_made_up_for(scene: Scene) -> None:
    scene.run(
        """create function refuse() returns trigger language plpgsql as $$
           begin raise exception 'not now' using errcode = '53100'; end $$"""
    )
    refusal = "create trigger refusal before delete on pgqueue.message for each row execute function refuse()"

    async def handler(_: Any) -> None:
        with psycopg.connect(scene.database.dsn) as connection:
            connection.execute(refusal)

    scene.send("a")
    with scene.working(handler) as running:
        eventually(lambda: bool(running.worker.health().failing))
        assert scene.left() == ["a"]
        scene.run("drop trigger refusal on pgqueue.message")
        eventually(lambda: running.worker.tally.completed == 1)
    assert scene.left() == []


def test_two_workers_share_a_queue(scene: Scene) -> None:
    async def handler(message: Any, tx: Any) -> None:
        await effect(tx, message.body)

    scene.send(*range(MANY))
    with (
        scene.working(handler, transaction="psycopg") as one,
        scene.working(handler, transaction="psycopg", transaction_batch=5) as other,
    ):
        eventually(lambda: one.worker.tally.completed + other.worker.tally.completed == MANY)
    assert scene.effects() == list(range(MANY))


def test_a_pool_that_is_exhausted_is_waited_for(database: Database) -> None:
    def handler(message: Any, tx: Any) -> None:
        tx.execute("insert into effect values (%s)", [message.body])

    policy = RetryPolicy(first_delay=timedelta(milliseconds=10), transaction_attempts=3)
    with (
        Scene(database, "threads") as scene,
        ConnectionPool(database.dsn, min_size=1, max_size=1, timeout=0.02) as pool,
    ):
        scene.client.update_queue("q", max_delivery_count=1000)
        scene.send(*range(40))
        with scene.working(handler, transaction=pool, concurrency=4, retry=policy) as running:
            with pool.connection():
                eventually(lambda: running.worker.tally.failed > 0)
            eventually(lambda: running.worker.tally.completed == 40)
        assert scene.effects() == list(range(40))


def test_a_worker_whose_database_answers_no_more_is_not_called_alive(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As behind a network that loses all packets, or a server that is frozen: nothing fails, and nothing comes."""
    monkeypatch.setattr("pgqueue.worker.health.STUCK_AFTER", timedelta(seconds=3))
    with (
        Scene(database, "threads") as scene,
        Proxy(database.dsn) as proxy,
        QueueClient(proxy.dsn, listen=False) as client,
    ):
        worker = Worker(client.queue("q"), lambda _: None)
        running = Running(worker)
        scene.send("a")
        eventually(lambda: worker.tally.completed == 1)
        eventually(lambda: worker.health().is_alive)
        with proxy.frozen():
            eventually(lambda: not worker.health().is_alive)
        eventually(lambda: worker.health().is_alive)
        scene.send("b")
        eventually(lambda: worker.tally.completed == 2)
        running.stop()


def claimed_twice(scene: Scene) -> tuple[Dispatcher, LockedMessage, LockedMessage]:
    """A dispatcher that has claimed its message again, and both deliveries."""
    scene.send("a")
    dispatcher = scene.make(lambda _: None)._driver.services[0].dispatcher
    (first,) = drive(dispatcher.claim(running=0, waiting=0))
    scene.database.clock.move(timedelta(minutes=1))
    (second,) = drive(dispatcher.claim(running=0, waiting=0))
    return dispatcher, first, second


def test_a_message_claimed_again_before_it_was_completed_is_completed_once(database: Database) -> None:
    with Scene(database, "threads") as scene:
        dispatcher, first, second = claimed_twice(scene)
        dispatcher.finish([first, second], {})
        drive(dispatcher.settle())
        assert (dispatcher.tally.completed, dispatcher.tally.lost) == (1, 1)
        assert scene.left() == []


def test_a_second_delivery_is_completed_before_what_was_handled_after_it(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Scene(database, "threads") as scene:
        dispatcher, first, second = claimed_twice(scene)
        scene.send("b")
        scene.send("c")
        later = drive(dispatcher.claim(running=0, waiting=0))
        complete, sent = settling.complete_batch, []

        def recorded(queue: str, locks: list[Any], *, atomic: bool) -> Any:
            sent.append(list(locks))
            return complete(queue, locks, atomic=atomic)

        monkeypatch.setattr(settling, "complete_batch", recorded)
        dispatcher.finish([first, second, *later], {})
        drive(dispatcher.settle())
        assert sent == [[first.lock], [second.lock, *(message.lock for message in later)]]
        assert scene.left() == []


def test_the_lock_of_a_message_that_was_claimed_again_is_kept(database: Database) -> None:
    with Scene(database, "threads") as scene:
        dispatcher, first, second = claimed_twice(scene)
        dispatcher.finish([first], {})
        drive(dispatcher.settle())
        assert len(dispatcher.renewals) == 1
        dispatcher.renewals.drop(second)
        assert len(dispatcher.renewals) == 0
