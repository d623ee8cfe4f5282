"""Few sessions for many clients, with and without prepared statements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import psycopg
import psycopg_pool
import pytest
import sqlalchemy

from pgqueue import Message, QueueClient, RetryPolicy, Worker
from pgqueue.doctor import examine
from pgqueue.errors import PGQueueError
from pgqueue.testing import Database
from tests.patience import eventually
from tests.pgbouncer.conftest import Through
from tests.worker.scene import Running

URL = "postgresql+psycopg://"
UNPREPARED = {"prepare_threshold": None}
MANY = 300


def over_a_pool(dsn: str, closing: ExitStack, **options: Any) -> QueueClient:
    return QueueClient(closing.enter_context(psycopg_pool.ConnectionPool(dsn, min_size=0, max_size=4, kwargs=options)))


def over_an_engine(dsn: str, closing: ExitStack, **options: Any) -> QueueClient:
    engine = sqlalchemy.create_engine(dsn.replace("postgresql://", URL), connect_args=options)
    closing.callback(engine.dispose)
    return QueueClient(engine)


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    with ExitStack() as closing:
        yield closing


@pytest.mark.parametrize("made", [over_a_pool, over_an_engine])
@pytest.mark.parametrize(("statements", "options"), [(200, {}), (0, UNPREPARED)], ids=["prepared", "unprepared"])
def test_every_verb_of_clients_that_share_two_sessions(
    database: Database,
    through: Through,
    closing: ExitStack,
    made: Callable[..., QueueClient],
    statements: int,
    options: dict[str, Any],
) -> None:
    dsn = through(database.name, default_pool_size=2, max_prepared_statements=statements)
    clients = [made(dsn, closing, **options) for _ in range(3)]
    clients[0].create_queue("q")

    def work(client: QueueClient) -> Counter[str]:
        queue, bodies = client.queue("q"), Counter[str]()
        with queue.sender(max_in_flight=10) as sender:
            for number in range(30):
                sender.send(Message(f"sent by {id(client)}: {number}"))
        while received := queue.receive(max_messages=4):
            first, *rest = received
            bodies.update(message.body for message in (first, *rest[:2]))
            first.renew_lock()
            with first.transaction():
                pass
            for message in rest[2:]:
                message.abandon()
            with psycopg.connect(dsn, **options) as connection:
                queue.complete_batch(rest[:2], transaction=connection)
        return bodies

    with ThreadPoolExecutor(3) as threads:
        bodies = sum(threads.map(work, clients), Counter[str]())
    assert len(bodies) == 90
    assert set(bodies.values()) == {1}


def test_workers_on_few_sessions_lose_nothing_and_do_nothing_twice(database: Database, through: Through) -> None:
    with database.connect() as connection:
        connection.execute("create table effect (number int)")
    dsn = through(database.name, default_pool_size=3)

    def handler(message: Any, tx: Any) -> None:
        tx.execute("insert into effect values (%s)", [message.body])
        if message.body % 7 == message.delivery_count:
            raise ValueError("this time it fails")

    with QueueClient(dsn) as client:
        client.create_queue("q")
        queue = client.queue("q")
        queue.send_batch([Message(number, priority=number % 3) for number in range(MANY)])
        policy = RetryPolicy(first_delay=RetryPolicy().first_delay * 0)
        workers = [Worker(queue, handler, concurrency=4, transaction="psycopg", retry=policy) for _ in range(2)]
        running = [Running(worker) for worker in workers]
        eventually(lambda: sum(worker.tally.completed for worker in workers) == MANY)
        for each in running:
            each.stop()
        assert queue.peek() == []
    with database.connect() as connection:
        assert connection.execute("select number from effect order by 1").fetchall() == [(n,) for n in range(MANY)]


@pytest.mark.parametrize("statements", [200, 0], ids=["prepared", "unprepared"])
def test_the_schema_is_migrated_again_and_again(empty_database: Database, through: Through, statements: int) -> None:
    dsn = through(empty_database.name, default_pool_size=1, max_prepared_statements=statements)
    for _ in range(3):
        with QueueClient(dsn) as client:
            client.migrate()
    with empty_database.connect() as connection:
        assert connection.execute("select count(*) from pgqueue.queue").fetchone() == (0,)


def test_a_missing_index_is_built_past_it_only(
    database: Database, through: Through, caplog: pytest.LogCaptureFixture
) -> None:
    there = "select indisvalid from pg_index where indexrelid = to_regclass('pgqueue.message_expiry')"
    with database.connect(autocommit=True) as connection:
        connection.execute("drop index pgqueue.message_expiry")
        for dsn, found in ((through(database.name), []), (database.direct, [(True,)])):
            with QueueClient(dsn) as client:
                client.migrate()
            assert connection.execute(there).fetchall() == found
    assert "message_expiry were not built, because sessions of PgBouncer are shared" in caplog.text


def test_nothing_is_prepared_over_a_pool_that_forbids_it(
    database: Database, through: Through, closing: ExitStack
) -> None:
    dsn = through(database.name, default_pool_size=1, max_prepared_statements=0)
    client = over_a_pool(dsn, closing, **UNPREPARED)
    client.create_queue("q")
    for number in range(20):
        client.queue("q").send(Message(number))
        client.queue("q").receive()[0].complete()
    with psycopg.connect(dsn) as connection:
        assert connection.execute("select name from pg_prepared_statements").fetchall() == []


def test_a_pgbouncer_that_mixes_statements_up_is_named_with_the_remedy(database: Database, through: Through) -> None:
    dsn = through(database.name, default_pool_size=1, max_prepared_statements=0)
    with QueueClient(dsn) as ann, QueueClient(dsn) as bob:
        ann.create_queue("q")

        def send_by_turns() -> None:
            for client in [ann, bob] * 10:
                client.queue("q").send(Message(1))

        with pytest.raises(PGQueueError, match="max_prepared_statements"):
            send_by_turns()


def test_the_doctor_finds_it_in_the_way_of_listen(database: Database, through: Through) -> None:
    dsn = through(database.name)
    for source, found in ((dsn, ["pgbouncer"]), (database.direct, [])):
        assert [result.check for result in examine(source).results if result.findings] == found


def test_a_transaction_leaves_the_settings_of_the_client(through: Through, database: Database) -> None:
    seen = set()
    with QueueClient(through(database.name)) as client:
        client.create_queue("q")
        queue = client.queue("q")
        queue.send_batch([Message(number) for number in range(3)])
        for received in queue.receive(max_messages=3):
            with received.transaction() as tx:
                tx.execute("set client_encoding = latin1")
                tx.execute("set application_name = 'the handler'")
            seen.add((tx.info.parameter_status("application_name"), tx.info.encoding))
    assert seen == {("pgqueue", "utf-8")}
