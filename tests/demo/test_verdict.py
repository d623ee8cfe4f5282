"""The verdict finds whatever is wrong: each of these tests spoils one thing after a run that was right."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from random import Random
from typing import Any

import psycopg
import pytest

from pgqueue import Message, QueueClient
from pgqueue.demo.handling import ABORTED, worker_on
from pgqueue.demo.plan import LOCK_DURATION, QUEUE, Plan, prepare
from pgqueue.demo.sender import send_departures
from pgqueue.demo.verdict import Verdict, judge
from pgqueue.demo.workers import note_kill
from pgqueue.testing import Database
from pgqueue.testing.database import created
from pgqueue.testing.plugin import SharedServer
from tests.patience import eventually

#: Whether another session has looked at how a killed transaction ended.
ASKED = "select exists (select from pg_stat_activity where pid <> pg_backend_pid() and query like '%pg_xact_status%')"

FLIGHTS = 300
KILLS = 1


@dataclass(frozen=True)
class Run:
    dsn: str
    client: QueueClient
    connection: psycopg.Connection[Any]

    def verdict(self) -> Verdict:
        return judge(self.connection, flights=FLIGHTS, kills=KILLS)

    def failed(self) -> set[str]:
        return {check.name for check in self.verdict().checks if not check.holds}


@pytest.fixture(scope="module")
def finished(database_server: SharedServer) -> Iterator[str]:
    """The database of a run in this process, with a kill that was none, but left the same behind."""
    with created(database_server.dsn, database_server.template) as database:
        with QueueClient(database.dsn) as client, database.connect(autocommit=True) as connection:
            prepare(client, connection)
            send_departures(Plan(database.dsn, flights=FLIGHTS))
            client.queue(QUEUE).receive(max_messages=10)  # by a receiver that dies
            database.move_clock(LOCK_DURATION)
            _killed_transaction(connection)
            _work(database, client)
        yield database.name


@pytest.fixture
def run(database_server: SharedServer, finished: str) -> Iterator[Run]:
    """A copy of it, to be spoilt."""
    with (
        created(database_server.dsn, finished) as database,
        QueueClient(database.dsn) as client,
        database.connect(autocommit=True) as connection,
    ):
        yield Run(database.dsn, client, connection)


def _killed_transaction(connection: psycopg.Connection[Any]) -> None:
    """Leave behind what a kill does: a transaction that was rolled back, and its id as pg_stat_activity shows it."""
    with connection.transaction(force_rollback=True):
        transaction_id = _transaction_id(connection)
    assert note_kill(connection, "somebody", transaction_id)


def _transaction_id(connection: psycopg.Connection[Any]) -> int:
    row = connection.execute("select pg_current_xact_id()::text::bigint % 4294967296").fetchone()
    assert row is not None
    return int(row[0])


def _work(database: Database, client: QueueClient) -> None:
    worker = worker_on(client, Plan(database.dsn))
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        eventually(lambda: not _messages(client))
    finally:
        worker.stop()
        thread.join()


def _messages(client: QueueClient) -> int:
    counts = client.get_queue_runtime_properties(QUEUE)
    return counts.ready + counts.locked + counts.scheduled


def test_a_run_that_was_right_is_found_right(run: Run) -> None:
    verdict = run.verdict()
    assert run.failed() == set()
    assert verdict.holds
    assert verdict.messages_per_second > 0


def test_each_transaction_that_the_seed_aborts_is_retried_once(run: Run) -> None:
    aborted = sum(Random(f"{Plan('').seed} {flight}").random() < ABORTED for flight in range(1, FLIGHTS + 1))
    causes = run.connection.execute("select cause, count(*) from pgqueue_demo.retry group by cause").fetchall()
    assert dict(causes)["aborted on purpose"] == aborted


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
        (
            "update pgqueue_demo.kill set transaction_id = (select xmin::text::xid8 from pgqueue_demo.posting limit 1)",
            "nothing is left",
        ),
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


@pytest.mark.parametrize(
    ("shown", "present", "whole"),
    [
        (1003, 1000, 1003),
        (998, 1000, 998),
        (2**32 - 6, 5 * 2**32 + 10, 5 * 2**32 - 6),
        (3, 5 * 2**32 - 5, 5 * 2**32 + 3),
    ],
)
def test_transaction_id_is_the_one_nearest_to_the_present(run: Run, shown: int, present: int, whole: int) -> None:
    query = "select pgqueue_demo.transaction_id(%s, %s::text::xid8)::text::bigint"
    assert run.connection.execute(query, [shown, present]).fetchone() == (whole,)


@pytest.mark.parametrize("is_killed", [True, False])
def test_a_kill_is_noted_once_the_server_has_ended_the_transaction(run: Run, is_killed: bool) -> None:
    with (
        psycopg.connect(run.dsn) as victim,
        psycopg.connect(run.dsn, autocommit=True) as observer,
        ThreadPoolExecutor(1) as thread,
    ):
        noting = thread.submit(note_kill, run.connection, "another", _transaction_id(victim))
        eventually(lambda: observer.execute(ASKED).fetchone() == (True,))
        assert not noting.done()
        victim.rollback() if is_killed else victim.commit()
        assert noting.result() == is_killed
    noted = run.connection.execute("select count(*) from pgqueue_demo.kill where worker = 'another'").fetchone()
    assert noted == (int(is_killed),)


def test_a_message_that_was_left_is_found(run: Run) -> None:
    run.client.queue(QUEUE).send(Message("left"))
    assert run.failed() == {"messages left in the queue"}
