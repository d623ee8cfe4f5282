"""The verdict finds whatever is wrong: each of these tests spoils one thing after a run that was right."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Any

import psycopg
import pytest
from psycopg_pool import ConnectionPool

from pgqueue import Message, QueueClient
from pgqueue.demo import business
from pgqueue.demo.conductor import set_the_stage
from pgqueue.demo.consumer import Consumer
from pgqueue.demo.plan import QUEUE, Plan
from pgqueue.demo.sender import send_departures
from pgqueue.demo.verdict import Verdict, judge
from pgqueue.testing import Database
from pgqueue.testing.database import created
from pgqueue.testing.plugin import SharedServer

FLIGHTS = 300
KILLS = 1


class BadLuck(Random):
    """Every transaction is strict, and aborted the first time."""

    def random(self) -> float:
        return 0.0


@dataclass(frozen=True)
class Run:
    client: QueueClient
    connection: psycopg.Connection[Any]

    def verdict(self) -> Verdict:
        return judge(self.client, self.connection, flights=FLIGHTS, kills=KILLS)

    def failed(self) -> set[str]:
        return {check.name for check in self.verdict().checks if not check.holds}


@pytest.fixture(scope="module")
def finished(database_server: SharedServer) -> Iterator[str]:
    """The database of a run in this process, with a kill that was none, but left the same behind."""
    with created(database_server.dsn, database_server.template) as database:
        with QueueClient(database.dsn) as client, database.connect(autocommit=True) as connection:
            set_the_stage(client, connection)
            send_departures(Plan(database.dsn, flights=FLIGHTS))
            client.queue(QUEUE).receive(max_messages=10)  # by a receiver that dies
            _undone_transaction(connection)
            _consume(database, client)
        yield database.name


@pytest.fixture
def run(database_server: SharedServer, finished: str) -> Iterator[Run]:
    """A copy of it, to be spoilt."""
    with (
        created(database_server.dsn, finished) as database,
        QueueClient(database.dsn) as client,
        database.connect(autocommit=True) as connection,
    ):
        yield Run(client, connection)


def _undone_transaction(connection: psycopg.Connection[Any]) -> None:
    with connection.transaction(force_rollback=True):
        row = connection.execute("select pg_current_xact_id()::text").fetchone()
        assert row is not None
    business.note_kill(connection, "nobody", row[0])


def _consume(database: Database, client: QueueClient) -> None:
    with (
        ConnectionPool(database.dsn, min_size=1, max_size=1) as pool,
        closing(Consumer("somebody", pool, BadLuck())) as consumer,
    ):
        while _messages(client):
            consumer.turn()
            database.move_clock(timedelta(seconds=1))


def _messages(client: QueueClient) -> int:
    counts = client.get_queue_runtime_properties(QUEUE)
    return counts.ready + counts.locked + counts.scheduled


def test_a_run_that_was_right_is_found_right(run: Run) -> None:
    verdict = run.verdict()
    assert run.failed() == set()
    assert verdict.holds
    assert verdict.messages_per_second > 0


@pytest.mark.parametrize(
    ("spoil", "found"),
    [
        ("update pgqueue_demo.ledger set minutes = minutes + 1 where airport = 'EWR' and carrier = 'UA'", "minutes of"),
        ("update pgqueue_demo.ledger set late = late + 1 where airport = 'EWR' and carrier = 'UA'", "that equal"),
        ("insert into pgqueue_demo.ledger values ('ZZZ', 'ZZ', 0, 0, 0, 0)", "lines of the ledger in all"),
        ("insert into pgqueue_demo.posting select * from pgqueue_demo.posting limit 1", "postings in all"),
        ("insert into pgqueue_demo.posting select * from pgqueue_demo.posting limit 1", "posted exactly once"),
        ("delete from pgqueue_demo.posting where flight_id = 7", "posted exactly once"),
        ("delete from pgqueue_demo.flight where id = 7", "entered in the books"),
        ("update pgqueue_demo.posting set delivery_count = 1", "delivered again"),
        ("truncate pgqueue_demo.retry", "retried"),
        ("update pgqueue_demo.kill set transaction_id = pg_current_xact_id()", "nothing is left"),
        ("truncate pgqueue_demo.kill", "killed in mid-transaction"),
        ("update pgqueue.dead_letter set delivery_count = 2", "MaxDeliveryCountExceeded"),
        ("update pgqueue.dead_letter set dead_letter_reason = 'UnknownAirport'", "MaxDeliveryCountExceeded"),
        ("update pgqueue.dead_letter set dead_letter_reason = 'Whatever'", "on demand"),
        ("delete from pgqueue.dead_letter where dead_letter_reason = 'UnknownAirport'", "dead letters in all"),
    ],
)
def test_damage_is_found(run: Run, spoil: str, found: str) -> None:
    run.connection.execute(spoil.encode())
    assert [name for name in run.failed() if found in name]
    assert not run.verdict().holds


def test_a_message_that_was_left_is_found(run: Run) -> None:
    run.client.queue(QUEUE).send(Message("left"))
    assert run.failed() == {"messages left in the queue"}
