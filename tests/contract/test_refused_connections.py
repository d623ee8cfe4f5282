"""A connection that the server refuses for good is no transient error; one that may come about is."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
import sqlalchemy
from psycopg.conninfo import make_conninfo

import pgqueue
import pgqueue.aio
from pgqueue.errors import ConnectionLostError
from pgqueue.model.policy import is_transient
from pgqueue.testing import Database

REFUSED = {"an unknown database": {"dbname": "no such database"}, "an unknown role": {"user": "no such role"}}
NOBODY_LISTENS: dict[str, Any] = {"host": "127.0.0.1", "port": 1, "hostaddr": ""}


@pytest.mark.parametrize("changed", REFUSED.values(), ids=REFUSED)
def test_a_refusal_for_good_is_not_transient(database: Database, changed: dict[str, Any]) -> None:
    with pgqueue.QueueClient(make_conninfo(database.direct, **changed)) as client:
        with pytest.raises(ConnectionLostError, match="does not exist") as refusal:
            client.list_queues()
        assert not refusal.value.is_transient


@pytest.mark.parametrize("changed", REFUSED.values(), ids=REFUSED)
async def test_a_refusal_for_good_is_not_transient_in_the_asynchronous_face(
    database: Database, changed: dict[str, Any]
) -> None:
    async with pgqueue.aio.QueueClient(make_conninfo(database.direct, **changed)) as client:
        with pytest.raises(ConnectionLostError, match="does not exist") as refusal:
            await client.list_queues()
        assert not refusal.value.is_transient


def test_errors_of_drivers_are_judged_in_the_same_way(database: Database) -> None:
    missing = make_conninfo(database.dsn, dbname="no such database")
    with pytest.raises(psycopg.OperationalError) as refusal:
        psycopg.connect(missing)
    assert not is_transient(refusal.value)
    engine = sqlalchemy.create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(missing))
    with pytest.raises(sqlalchemy.exc.OperationalError) as wrapped, engine.connect():
        pass
    assert not is_transient(wrapped.value)


def test_a_server_that_does_not_answer_may_do_so_later(database: Database) -> None:
    with pgqueue.QueueClient(make_conninfo(database.dsn, **NOBODY_LISTENS)) as client:
        with pytest.raises(ConnectionLostError) as refusal:
            client.list_queues()
        assert refusal.value.is_transient


def test_one_of_several_servers_that_may_come_back_is_waited_for() -> None:
    refused = 'connection failed: connection to server at "a", port 5432 failed: FATAL:  database "x" does not exist'
    down = 'connection failed: connection to server at "b", port 5432 failed: Connection refused'
    for text, expected in ((refused, False), (down, True), (f"{refused}\n- {down}", True), ("closed", True)):
        assert is_transient(psycopg.OperationalError(text)) is expected, text
