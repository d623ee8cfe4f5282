"""Server connections that are terminated: PgBouncer adds an error of its own to that of the server."""

from __future__ import annotations

from typing import Any

import pytest

from pgqueue import Message, QueueClient
from pgqueue.errors import PGQueueError
from pgqueue.flows.flow import source_of
from pgqueue.model.encoding import encode
from pgqueue.statements import Statement, sending
from pgqueue.testing import Database
from pgqueue.transports import drive
from tests.pgbouncer.conftest import Through

TERMINATE = """select pg_terminate_backend(pid, 10000) from pg_stat_activity
                where datname = current_database() and pid <> pg_backend_pid() and state = 'idle in transaction'"""


def test_a_commit_on_a_terminated_server_connection_is_not_taken_for_done(database: Database, through: Through) -> None:
    with QueueClient(through(database.name)) as client, database.connect(autocommit=True) as onlooker:
        client.create_queue("q")
        line = drive(source_of(client.queue("q")).line())
        store: Statement[Any] = sending.store("q", [encode(Message("a"))])
        drive(line.exchange(store, commit=False))
        assert onlooker.execute(TERMINATE).fetchall() == [(True,)]
        with pytest.raises(PGQueueError) as caught:
            drive(line.exchange(None, commit=True))
        drive(line.release())
        assert caught.value.is_transient
        assert client.queue("q").peek() == []
