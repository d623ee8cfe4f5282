"""A message that is being worked on is cancelled: its handler notices, it does not come again, the worker goes on."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

import pgqueue
from pgqueue import Message
from pgqueue.errors import TransactionConflictError
from pgqueue.testing import Database
from tests.patience import eventually
from tests.worker.scene import FACES, Scene


@pytest.fixture(params=FACES)
def scene(request: pytest.FixtureRequest, database: Database) -> Iterator[Scene]:
    """A scene that bypasses PgBouncer, through which LISTEN does not work."""
    with Scene(replace(database, dsn=database.direct), request.param) as scene:
        yield scene


class Waiting:
    """A handler that waits until its lock is lost, for the messages called "slow"."""

    def __init__(self, scene: Scene) -> None:
        self.face = scene.face
        self.begun = threading.Event()
        self.noticed_at: float | None = None
        self.bodies: list[Any] = []

    async def __call__(self, message: Any) -> None:
        self.bodies.append(message.body)
        if message.body != "slow":
            return
        self.begun.set()
        try:
            while self.face == "tasks" or not message.lock_lost:
                await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            assert message.lock_lost
            raise
        finally:
            self.noticed_at = time.monotonic()


@pytest.mark.parametrize("reason", [None, "not wanted any more"])
@pytest.mark.parametrize("takes_sessions", [False, True])
@pytest.mark.core
def test_a_handler_notices_at_once_that_its_message_was_cancelled(
    scene: Scene, reason: str | None, takes_sessions: bool
) -> None:
    if takes_sessions:
        scene.client.delete_queue("q")
        scene.client.create_queue("q", requires_session=True, lock_duration=timedelta(hours=1))
    else:
        scene.client.update_queue("q", lock_duration=timedelta(hours=1))
    handler = Waiting(scene)
    number, _ = scene.queue.send_batch([Message("slow", session_id="a"), Message("next", session_id="a")])
    with scene.working(handler, concurrency=1) as running:
        assert handler.begun.wait(300)
        eventually(lambda: scene.queue.cancel(number, reason=reason))  # not while the worker renews the lock
        eventually(lambda: handler.noticed_at is not None)
        eventually(lambda: running.worker.tally.completed == 1)
    assert handler.bodies == ["slow", "next"]
    assert scene.left() == []
    assert [letter.dead_letter_error_description for letter in scene.dead()] == ([reason] if reason else [])


def unlocked(scene: Scene, number: int) -> bool:
    """Take the lock away, unless the worker is just renewing it."""
    try:
        scene.queue.unlock(number)
    except TransactionConflictError:
        return False
    return True


def test_an_unlocked_message_is_noticed_at_once_too(scene: Scene) -> None:
    scene.client.update_queue("q", lock_duration=timedelta(hours=1))
    handler = Waiting(scene)
    (number,) = scene.send("slow")
    with scene.working(handler, concurrency=1):
        assert handler.begun.wait(300)
        scene.client.pause_queue("q")
        eventually(lambda: unlocked(scene, number))
        eventually(lambda: handler.noticed_at is not None)
    assert scene.left() == ["slow"]


def test_without_notifications_it_is_noticed_at_the_next_renewal(scene: Scene) -> None:
    scene.client.update_queue("q", lock_duration=timedelta(seconds=1))
    handler = Waiting(scene)
    (number,) = scene.send("slow")
    with scene.working(handler, concurrency=1):
        assert handler.begun.wait(300)
        with scene.database.connect() as connection:
            connection.execute("set pgqueue.notify = off")
            cancel = "select pgqueue.cancel('q', %s)"  # false while the worker renews the lock
            eventually(lambda: connection.execute(cancel, [number]).fetchone() == (True,))
        eventually(lambda: handler.noticed_at is not None)
    assert handler.bodies == ["slow"]
    assert scene.left() == []


def test_a_message_in_the_transaction_of_its_handler_is_left_to_it(scene: Scene) -> None:
    begun, go_on = threading.Event(), threading.Event()

    async def handler(message: Any, tx: Any) -> None:
        begun.set()
        while not go_on.is_set():
            await asyncio.sleep(0.01)

    (number,) = scene.send("a")
    with scene.working(handler, concurrency=1, transaction="psycopg") as running:
        assert begun.wait(300)
        assert scene.queue.cancel(number, reason="too late") is False
        go_on.set()
        eventually(lambda: running.worker.tally.completed == 1)
    assert scene.dead() == []


def test_a_renewer_of_ones_own_loop_notices_too(scene: Scene) -> None:
    scene.client.update_queue("q", lock_duration=timedelta(hours=1))
    scene.send("a")
    (message,) = scene.queue.receive()
    with pgqueue.AutoLockRenewer() as renewer:
        renewer.register(message)
        eventually(
            lambda: scene.rows("select from pg_stat_activity where query ~ '^listen' and datname = current_database()")
        )
        eventually(lambda: scene.queue.cancel(message.sequence_number))  # not while a renewal holds it
        assert message.lock_lost.wait(300)


def test_a_second_worker_of_a_client_that_listens_already_notices_too(scene: Scene) -> None:
    scene.client.update_queue("q", lock_duration=timedelta(hours=1))
    first, second = Waiting(scene), Waiting(scene)
    with scene.working(first, concurrency=1):
        (number,) = scene.send("slow")
        assert first.begun.wait(300)
        with scene.working(second, concurrency=1):
            (another,) = scene.send("slow")
            assert second.begun.wait(300)
            assert scene.queue.cancel(another)
            eventually(lambda: second.noticed_at is not None)
            assert first.noticed_at is None
        assert scene.queue.cancel(number)
        eventually(lambda: first.noticed_at is not None)
