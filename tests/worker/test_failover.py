"""The primary dies and its standby is promoted: what was acknowledged is there, and the worker goes on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from psycopg.conninfo import make_conninfo

from benchmarks.chaos.pair import Pair
from pgqueue import Message, QueueClient
from pgqueue.errors import ReadOnlyError
from pgqueue.testing import Database
from pgqueue.testing.database import create_template
from pgqueue.testing.hosts import binaries
from tests.patience import eventually
from tests.worker.scene import FACES, Scene, effect

MANY = 300


@pytest.fixture
def pair() -> Iterator[Pair]:
    pair = Pair(binaries())
    yield pair
    pair.remove()


def started(pair: Pair) -> Database:
    """A primary, and a standby that has what the primary has acknowledged."""
    pair.create()
    template = create_template(pair.primary.dsn())
    pair.follow(synchronous=True)
    return Database(pair.dsn(template))


@pytest.mark.parametrize("face", FACES)
@pytest.mark.core
def test_a_failover_to_a_standby_loses_and_doubles_nothing(pair: Pair, face: str) -> None:
    async def handler(message: Any, tx: Any) -> None:
        await effect(tx, message.body)

    with Scene(started(pair), face) as scene:
        scene.send(*range(MANY))
        with scene.working(handler, transaction="psycopg", concurrency=2) as running:
            eventually(lambda: running.worker.tally.completed > 10)
            pair.fail_over()
            eventually(lambda: len(scene.effects()) == MANY)
        assert sorted(scene.effects()) == list(range(MANY))
        assert scene.left() == []


def test_a_standby_refuses_a_send_with_a_transient_error_until_it_is_promoted(pair: Pair) -> None:
    database = started(pair)
    with QueueClient(database.dsn) as client:
        client.create_queue("orders")
    dsn = make_conninfo(database.dsn, host=str(pair.standby.sockets), target_session_attrs="any")
    with QueueClient(dsn) as client:
        with pytest.raises(ReadOnlyError, match="on a standby") as refused:
            client.queue("orders").send(Message(1))
        assert refused.value.is_transient
        pair.fail_over()
        client.queue("orders").send(Message(1))
