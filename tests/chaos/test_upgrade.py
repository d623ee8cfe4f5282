"""An upgrade under load: processes of the earlier version go on, and those of the next version join them.

The earlier version is this one; the next version is a synthetic one.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import pytest

import pgqueue
from benchmarks.chaos import next_version
from pgqueue import Message, QueueClient, schema
from pgqueue.errors import SchemaVersionError
from pgqueue.testing import Database
from tests.chaos.ledger import Ledger
from tests.chaos.test_worker_processes import HANDLERS
from tests.patience import eventually
from tests.schema.dumps import dump
from tests.schema.test_migrate import MIGRATION_WAITS, only_it_gives_way

EARLIER = Path(pgqueue.__file__).parents[1]
QUEUE = "orders"

MIGRATE = "import sys; from pgqueue import schema; print(schema.migrate(sys.argv[1]))"
PATIENT = """
import sys
from datetime import timedelta
from pgqueue import schema
schema.migrate(sys.argv[1], lock_timeout=timedelta(days=1), attempts=1)
"""
PENDING = "import sys; from pgqueue import schema; print(*schema.pending(sys.argv[1]), sep='\\n')"

SEND = """
import pathlib, sys, time
import psycopg, pgqueue
from tests.chaos.ledger import Ledger

dsn, queue = sys.argv[1:]
was_refused = False
with psycopg.connect(dsn, autocommit=True) as connection, pgqueue.QueueClient(dsn) as client:
    orders = client.queue(queue)
    while not pathlib.Path("enough").exists():
        try:
            with connection.transaction():
                Ledger(dsn).sent(connection, [orders.send(pgqueue.Message("work"), transaction=connection)])
            with connection.transaction():
                Ledger(dsn).sent(connection, orders.send_batch([pgqueue.Message("work")] * 3, transaction=connection))
        except pgqueue.errors.SchemaVersionError:  # at most once: see OUT_OF_DATE
            if was_refused:
                raise
            was_refused = True
        time.sleep(0.005)
"""
ANOTHER_WAITS = (
    "select count(*) > 0 from pg_stat_activity where datname = current_database() and wait_event = 'advisory'"
)

#: A client settles batches in its caller's transaction, which is undone; then it settles what it may settle again.
SETTLE_BATCHES = """
import sys
from datetime import timedelta
import psycopg, pgqueue

dsn, queue = sys.argv[1:]
with psycopg.connect(dsn) as connection, pgqueue.QueueClient(dsn) as client:
    orders = client.queue(queue)
    received = orders.receive(max_messages=10, wait=timedelta(seconds=1))
    assert [message.priority for message in received] == [message.body % 3 for message in received]

    def settle():
        orders.complete_batch(received[:2], transaction=connection)
        orders.abandon_batch(received[2:4], transaction=connection)
        orders.dead_letter_batch(received[4:6], reason="Bad", transaction=connection)
        orders.defer_batch(received[6:8], transaction=connection)
        received[8].complete(transaction=connection)
        return orders.receive_and_delete(max_messages=3, transaction=connection)

    assert len(settle()) == 3
    connection.rollback()
    assert {message.resolve().name for message in received[:2] + received[4:]} == {"RECEIVED"}
    received = [message for message in received if message.state.name == "RECEIVED"]
    orders.complete_batch(received[:2], transaction=connection)
    orders.dead_letter_batch(received[2:4], reason="Bad", transaction=connection)
    orders.defer_batch(received[4:6], transaction=connection)
    assert len(orders.receive_and_delete(max_messages=3, transaction=connection)) == 3
    connection.commit()
    assert {message.resolve().name for message in received[:6]} == {"COMPLETED"}
    assert [message.is_deferred for message in orders.receive_deferred([received[4].sequence_number])] == [True]
    assert {dead.dead_letter_reason for dead in orders.dead_letters.receive(max_messages=9)} == {"Bad"}
    assert len(orders.peek(max_messages=99)) == 20 - 2 - 2 - 3
"""

#: A function that is under way when the migration commits may call another that is gone then. The earlier version's
#: worker ends with it, and its supervisor starts another; this version's worker tries again.
OUT_OF_DATE = "the pgqueue schema is missing in this database, or too old"

pytestmark = pytest.mark.chaos


@pytest.fixture
def following(tmp_path: Path) -> Path:
    return next_version.make(tmp_path)


def migrate(library: Path, database: Database) -> None:
    assert run(library, MIGRATE, database) == f"{next_version.REVISION}\n"


def run(library: Path, program: str, database: Database) -> str:
    command = [sys.executable, "-c", program, database.dsn]
    return subprocess.check_output(command, cwd="/", env={"PYTHONPATH": str(library)}, text=True)


@contextmanager
def running(library: Path, directory: Path, said: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    with said.open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=directory,
            env={**os.environ, "PYTHONPATH": f"{library}{os.pathsep}{EARLIER}"},  # the ledger is among the tests
            stderr=stderr,
        )
        with process:
            try:
                yield process
            finally:
                process.kill()


def worker(library: Path, directory: Path, said: Path, dsn: str) -> AbstractContextManager[subprocess.Popen[bytes]]:
    return running(library, directory, said, "-m", "pgqueue", "worker", "handlers:post", QUEUE, "--dsn", dsn)


def test_upgrade_under_load_loses_nothing_and_ends_no_client(
    following: Path, empty_database: Database, tmp_path: Path
) -> None:
    (tmp_path / "handlers.py").write_text(HANDLERS)
    schema.migrate(empty_database.dsn)
    ledger = Ledger(empty_database.dsn)
    ledger.install()
    with empty_database.connect() as connection:
        connection.execute("select pgqueue.create_queue(%s)", [QUEUE])

    def completed() -> int:
        balance = ledger.balance()
        assert balance.wrong == ()
        return balance.completed

    with ExitStack() as stack:
        said = [tmp_path / name for name in ("old", "new", "sender", "another old")]
        old = stack.enter_context(worker(EARLIER, tmp_path, said[0], empty_database.dsn))
        sender = stack.enter_context(running(EARLIER, tmp_path, said[2], "-c", SEND, empty_database.dsn, QUEUE))
        eventually(lambda: completed() > 50)
        migrate(following, empty_database)
        before = completed()
        new = stack.enter_context(worker(following, tmp_path, said[1], empty_database.dsn))
        another = stack.enter_context(worker(EARLIER, tmp_path, said[3], empty_database.dsn))
        eventually(lambda: completed() > before + 200)
        (tmp_path / "enough").touch()
        assert sender.wait(300) == 0, said[2].read_text()
        eventually(lambda: completed() == ledger.balance().sent)
        for process, output in ((old, said[0]), (new, said[1]), (another, said[3])):
            process.terminate()
            code = process.wait(300)
            is_out_of_date = process is old and OUT_OF_DATE in output.read_text()
            assert code in (0, -signal.SIGTERM) or is_out_of_date, f"{output.name}: {code}, {output.read_text()}"
    with QueueClient(empty_database.dsn) as client:
        assert client.queue(QUEUE).peek() == []
    with empty_database.connect() as connection:
        assert connection.execute("select to_regproc('pgqueue._complete_any')").fetchone() == (None,)


def test_messages_stay_as_they_are_in_an_upgrade(following: Path, empty_database: Database) -> None:
    schema.migrate(empty_database.dsn)
    with empty_database.connect() as connection:
        connection.execute(
            """
            select pgqueue.create_queue('orders');
            select pgqueue.send('orders', to_jsonb(n), message_id => 'm' || n, priority => n % 3)
              from generate_series(1, 20) as n;
            """
        )
        taken = connection.execute("select sequence_number, lock_token from pgqueue.receive('orders', 8)").fetchall()
        for number, token in taken[:2]:
            connection.execute("select pgqueue.dead_letter('orders', %s, %s, 'Bad')", [number, token])
        for number, token in taken[2:4]:
            connection.execute("select pgqueue.abandon('orders', %s, %s, interval '1 hour')", [number, token])
        for number, token in taken[4:6]:
            connection.execute("select pgqueue.abandon('orders', %s, %s)", [number, token])
    migrate(following, empty_database)
    with QueueClient(empty_database.dsn) as client:
        orders = client.queue("orders")
        counts = client.get_queue_runtime_properties("orders")
        assert (counts.ready, counts.locked, counts.scheduled, counts.dead_letters) == (14, 2, 2, 2)
        for number, token in taken[6:]:
            with empty_database.connect() as connection:
                connection.execute("select pgqueue.complete('orders', %s, %s)", [number, token])
        orders.cancel_scheduled([number for number, _ in taken[2:4]])
        assert sorted(orders.dead_letters.resubmit()) == sorted(number for number, _ in taken[:2])
        assert len(orders.receive(max_messages=20)) == 16
    with empty_database.connect() as connection:
        assert connection.execute("select * from pgqueue.broken_invariants()").fetchall() == []


def test_client_of_the_earlier_version_settles_batches_in_its_transaction_beside_a_newer_schema(
    following: Path, empty_database: Database, tmp_path: Path
) -> None:
    migrate(following, empty_database)
    with QueueClient(empty_database.dsn) as client:
        client.create_queue(QUEUE)
        client.queue(QUEUE).send_batch([Message(number, priority=number % 3) for number in range(20)])
    said = tmp_path / "said"
    with running(EARLIER, tmp_path, said, "-c", SETTLE_BATCHES, empty_database.dsn, QUEUE) as process:
        assert process.wait(300) == 0, said.read_text()
    with empty_database.connect() as connection:
        assert connection.execute("select * from pgqueue.broken_invariants()").fetchall() == []


def test_migration_gives_way_to_a_transaction_that_it_waits_for(following: Path, empty_database: Database) -> None:
    schema.migrate(empty_database.dsn)
    only_it_gives_way(empty_database)
    with ThreadPoolExecutor() as threads, empty_database.connect(options="-c lock_timeout=1min") as caller:
        caller.execute("lock table pgqueue.message in row exclusive mode")
        migration = threads.submit(run, following, PATIENT, empty_database)
        with empty_database.connect(autocommit=True) as observer:
            eventually(lambda: observer.execute(MIGRATION_WAITS).fetchone() == (True,))
            tables = observer.execute("select tablename from pg_tables where schemaname = 'pgqueue'").fetchall()
        for (name,) in tables:
            caller.execute(f"lock table pgqueue.{name} in row exclusive mode".encode())
        assert not migration.done()
        caller.commit()
        migration.result()
    assert schema.current(empty_database.dsn) == next_version.REVISION


def test_migration_does_not_wait_for_a_table_that_is_being_staged(following: Path, empty_database: Database) -> None:
    schema.migrate(empty_database.dsn)
    with empty_database.connect() as connection:
        connection.execute("select pgqueue.create_queue('orders'), pgqueue.stage('orders', 'job', '1', '{body}')")
    with empty_database.connect() as task:
        task.execute("lock table pgqueue.staged_job_1 in row exclusive mode")
        migrate(following, empty_database)


def test_two_migrations_at_once_do_not_wait_for_each_other(following: Path, empty_database: Database) -> None:
    schema.migrate(empty_database.dsn)
    with (
        ThreadPoolExecutor() as threads,
        empty_database.connect() as holder,
        empty_database.connect(autocommit=True) as observer,
    ):
        holder.execute("lock table pgqueue.queue in row exclusive mode")
        migrations = [threads.submit(run, following, PATIENT, empty_database) for _ in range(2)]
        eventually(lambda: observer.execute(MIGRATION_WAITS).fetchone() == (True,))
        eventually(lambda: observer.execute(ANOTHER_WAITS).fetchone() == (True,))
        holder.commit()
        for migration in migrations:
            migration.result(timeout=60)
    assert schema.current(empty_database.dsn) == next_version.REVISION


def test_upgraded_schema_equals_a_fresh_one_of_the_next_version(
    following: Path, empty_database: Database, another_empty_database: Database
) -> None:
    schema.migrate(empty_database.dsn)
    migrate(following, empty_database)
    migrate(following, another_empty_database)
    assert dump(empty_database) == dump(another_empty_database)
    with empty_database.connect() as connection:
        assert connection.execute("select to_regclass('pgqueue.message_note_2')").fetchone() != (None,)


def test_earlier_version_does_not_migrate_a_newer_schema(following: Path, empty_database: Database) -> None:
    migrate(following, empty_database)
    with pytest.raises(SchemaVersionError, match=rf"{next_version.REVISION}.*A newer pgqueue migrated the database"):
        schema.migrate(empty_database.dsn)


def test_next_version_reports_the_revision_that_is_not_applied(following: Path, empty_database: Database) -> None:
    schema.migrate(empty_database.dsn)
    pending = run(following, PENDING, empty_database)
    assert pending.splitlines() == [
        f"revision {next_version.REVISION} is not applied",
        "functions and views are not those of this version",
        "index message_note_2 is not built",
    ]
