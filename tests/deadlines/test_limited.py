"""The blocks in which a connection has a deadline end in any order, and within each other."""

from __future__ import annotations

from datetime import timedelta
from itertools import permutations
from math import inf
from typing import Any

import psycopg
import pytest
from sqlalchemy import create_engine, event, text
from sqlalchemy.orm import Session

from pgqueue import Message, QueueClient
from pgqueue.errors import ConnectionLostError, OperationTimeoutError
from pgqueue.statements.statement import Statement, nothing
from pgqueue.testing import Database
from pgqueue.transports import ask_once
from pgqueue.transports.deadlines import Deadlines, Limited
from tests.patience import eventually


def limiting(connection: Any) -> Limited | None:
    """The block that limits a connection now."""
    wait = connection.__dict__.get("wait")
    return None if wait is None else wait.__self__


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
def test_the_last_block_that_is_not_over_limits_the_connection(database: Database, order: tuple[int, ...]) -> None:
    with database.connect(autocommit=True) as connection:
        blocks = [Deadlines().limited(connection, inf) for _ in range(3)]
        for block in blocks:
            block.__enter__()
        going_on = list(blocks)
        assert limiting(connection) is blocks[-1]
        for place in order:
            blocks[place].__exit__(None, None, None)
            going_on.remove(blocks[place])
            assert limiting(connection) is (going_on[-1] if going_on else None)
            connection.execute("select 1")


def test_the_server_ends_a_statement_with_its_deadline(database: Database) -> None:
    sleeping = "select from pg_stat_activity where datname = current_database() and query ~ '^select pg_sleep'"
    with database.connect(autocommit=True) as connection:
        with pytest.raises((ConnectionLostError, OperationTimeoutError)):  # whichever end notices first
            ask_once(database.dsn, Statement("select pg_sleep(1000)", {}, nothing), timedelta(seconds=0.5))
        eventually(lambda: not connection.execute(sleeping).fetchall())


def test_a_commit_during_which_a_hook_sends_a_message_keeps_its_deadline(database: Database) -> None:
    def send(session: Session) -> None:
        queue.send(Message("from the hook"), transaction=session)
        seen.append(limiting(session.connection().connection.driver_connection))

    seen: list[Limited | None] = []
    engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(database.dsn))
    with QueueClient(database.dsn) as client, Session(engine) as session:
        client.create_queue("q")
        queue = client.queue("q")
        queue.send(Message("first"))
        [received] = queue.receive()
        event.listen(session, "before_commit", send)
        with received.transaction(session) as tx:
            tx.execute(text("select 1"))
        assert len(seen) == 1
        assert seen[0] is not None
        assert [message.body for message in queue.peek()] == ["from the hook"]
    engine.dispose()
