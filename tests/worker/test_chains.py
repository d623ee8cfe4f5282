"""The COMMIT of one message begins the transaction of the next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from pgqueue.testing import Database
from pgqueue.transports import cursors
from pgqueue.transports.connections import BegunConnection
from pgqueue.worker.pace import Pace
from tests.patience import eventually
from tests.worker.scene import FACES, Scene, effect
from tests.worker.test_leftovers import value


@pytest.fixture(autouse=True)
def _(monkeypatch: pytest.MonkeyPatch) -> None:
    """All messages are claimed at once."""
    monkeypatch.setattr(Pace, "demand", lambda _, running, waiting: 10 - running - waiting)


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[BegunConnection]:
    """The transactions that begin with the COMMIT of another."""

    def commit_and_begin(connection: BegunConnection, *arguments: Any) -> Any:
        begun.append(connection)
        return original(connection, *arguments)

    begun: list[BegunConnection] = []
    original = BegunConnection.commit_and_begin
    monkeypatch.setattr(BegunConnection, "commit_and_begin", commit_and_begin)
    return begun


@pytest.fixture(params=FACES)
def scene(request: pytest.FixtureRequest, database: Database) -> Iterator[Scene]:
    with Scene(database, request.param) as scene:
        scene.send(*range(5))
        yield scene


@pytest.mark.core
def test_messages_that_wait_are_begun_with_the_commit_before(scene: Scene, begun: list[BegunConnection]) -> None:
    async def handler(message: Any, tx: Any) -> None:
        await effect(tx, message.body)

    with scene.working(handler, concurrency=1, transaction="psycopg"):
        eventually(lambda: scene.left() == [])
    assert scene.effects() == list(range(5))
    assert len(begun) == 4


def test_settings_outlast_handlers_and_are_set_each_time_behind_a_pooler(
    scene: Scene, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def handler(message: Any, tx: Any) -> None:
        names.add(await value(tx, "select current_setting('application_name')"))
        await value(tx, "set application_name = 'the handler'")

    def run(connection: Any, commands: Sequence[str], *needed: int) -> Any:
        sent.append(commands)
        return original(connection, commands, *needed)

    names: set[str] = set()
    sent: list[Sequence[str]] = []
    original = cursors.run
    monkeypatch.setattr(cursors, "run", run)
    with scene.working(handler, concurrency=1, transaction="psycopg"):
        eventually(lambda: scene.left() == [])
    assert len(names) == 1
    is_pooled = database.dsn != database.direct
    commits = [commands for commands in sent if "commit" in commands]
    assert ["set client_encoding = 'UTF8'" in commands for commands in commits] == [True, *4 * [is_pooled]]
    assert not [commands for commands in sent if "rollback" in commands]


def test_a_message_that_was_begun_when_the_worker_stops_is_given_back_or_handled(
    scene: Scene, begun: list[BegunConnection]
) -> None:
    async def handler(message: Any, tx: Any) -> None:
        await effect(tx, message.body)
        if message.body == 1:
            running.worker.stop()

    with scene.working(handler, concurrency=1, transaction="psycopg") as running:
        running.ended()
    assert [*scene.effects(), *scene.left()] == list(range(5))
    assert {message.delivery_count for message in scene.queue.peek(max_messages=5)} <= {0}
    assert begun
