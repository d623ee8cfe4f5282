"""An upgrade while everybody works: the earlier version's processes go on, this version's join them.

The earlier version is taken from the history of this repository, code and SQL.
"""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import psycopg
import pytest

import pgqueue
from pgqueue import Message, QueueClient, schema
from pgqueue.testing import Database
from pgqueue.testing.ledger import Ledger
from tests.chaos.test_worker_processes import HANDLERS
from tests.patience import eventually

REPOSITORY = Path(__file__).parents[2]
LIBRARY = Path(pgqueue.__file__).parents[1]
BEFORE_SETTLEMENT, BEFORE_FENCING, BEFORE_RECEIVED = "0b2d503", "983b3fb", "851859a"
QUEUE = "orders"

MIGRATE = "import sys; from pgqueue import schema; print(schema.migrate(sys.argv[1]))"

SEND = """
import pathlib, sys, time
import psycopg, pgqueue
from pgqueue.testing.ledger import Ledger

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
def earlier(tmp_path: Path) -> Path:
    return library_at(BEFORE_SETTLEMENT, tmp_path)


def library_at(commit: str, directory: Path) -> Path:
    """The library as it was; where git or the commit is missing, there is nothing to upgrade from."""
    archive = ["git", "archive", commit, "pgqueue", "sql", "migrations"]
    try:
        packed = subprocess.run(archive, cwd=REPOSITORY, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip(f"the repository's history has no commit {commit} here: a shallow clone, or no git")
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        tar.extractall(directory / "earlier", filter="data")
    return directory / "earlier"


def install(library: Path, database: Database) -> None:
    subprocess.run([sys.executable, "-c", MIGRATE, database.dsn], cwd="/", env={"PYTHONPATH": str(library)}, check=True)


@contextmanager
def running(library: Path, directory: Path, said: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    with said.open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=directory,
            env={**os.environ, "PYTHONPATH": str(library)},
            stderr=stderr,
        )
        with process:
            try:
                yield process
            finally:
                process.kill()


def worker(library: Path, directory: Path, said: Path, dsn: str) -> AbstractContextManager[subprocess.Popen[bytes]]:
    return running(library, directory, said, "-m", "pgqueue", "worker", "handlers:post", QUEUE, "--dsn", dsn)


def test_an_upgrade_under_load_loses_nothing_and_blocks_no_one(
    earlier: Path, empty_database: Database, tmp_path: Path
) -> None:
    (tmp_path / "handlers.py").write_text(HANDLERS)
    install(earlier, empty_database)
    ledger = Ledger(empty_database.dsn)
    ledger.install()
    with empty_database.connect() as connection:
        connection.execute("select pgqueue.create_queue(%s)", [QUEUE])
    # A statement that would have to wait for so long fails with an error. The migration holds its locks for some
    # hundredths of a second, and for a second or more on a busy machine.
    impatient = psycopg.conninfo.make_conninfo(empty_database.dsn, options="-c lock_timeout=10000")

    def completed() -> int:
        balance = ledger.balance()
        assert balance.wrong == ()
        return balance.completed

    with ExitStack() as stack:
        said = [tmp_path / name for name in ("old", "new", "sender", "another old")]
        old = stack.enter_context(worker(earlier, tmp_path, said[0], impatient))
        sender = stack.enter_context(running(earlier, tmp_path, said[2], "-c", SEND, impatient, QUEUE))
        eventually(lambda: completed() > 50)
        schema.migrate(empty_database.dsn)
        before = completed()
        new = stack.enter_context(worker(LIBRARY, tmp_path, said[1], impatient))
        another = stack.enter_context(worker(earlier, tmp_path, said[3], impatient))
        eventually(lambda: completed() > before + 200)
        (tmp_path / "enough").touch()
        assert sender.wait(300) == 0, said[2].read_text()
        eventually(lambda: completed() == ledger.balance().sent)
        for process, output in ((old, said[0]), (new, said[1]), (another, said[3])):
            process.terminate()
            code = process.wait(300)
            is_out_of_date = process is old and OUT_OF_DATE in output.read_text()
            assert code in (0, -signal.SIGTERM) or is_out_of_date, f"{output.name}: {code}, {output.read_text()}"
    for output in said:
        assert "lock timeout" not in output.read_text()
    with QueueClient(empty_database.dsn) as client:
        assert client.queue(QUEUE).peek() == []


def test_the_contents_of_the_tables_are_the_same_after_an_upgrade(earlier: Path, empty_database: Database) -> None:
    install(earlier, empty_database)
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
    schema.migrate(empty_database.dsn)
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


def test_a_consumer_from_before_epochs_settles_nothing_any_more_and_its_claim_goes_on(
    empty_database: Database, tmp_path: Path
) -> None:
    install(library_at(BEFORE_FENCING, tmp_path), empty_database)
    with empty_database.connect(autocommit=True) as old, empty_database.connect(autocommit=True) as new:
        old.execute("select pgqueue.create_queue('orders')")
        old.execute("select pgqueue.send('orders', '1')")
        old.execute("select pgqueue.attach_consumer('ledger', 'orders')")
        assert old.execute("select pgqueue.claim_batch('ledger', 0, 10)").fetchone() == (1,)
        schema.migrate(empty_database.dsn)
        for said in (
            "claim_batch('ledger', 1, 10)",
            "begin_claim('ledger', 1)",
            "renew_claim('ledger', interval '1 minute')",
            "complete_claim('ledger')",
            "release_claim('ledger')",
            "drop_consumer('ledger')",
        ):
            with pytest.raises(psycopg.Error, match="a pgqueue older than this schema names none") as refusal:
                old.execute(f"select pgqueue.{said}".encode())
            assert refusal.value.sqlstate == "PQ007"
        # The key of a consumer that attached before is not known any more; its epoch is over.
        row = new.execute("select settled_claim, epoch from pgqueue.attach_consumer('ledger', 'orders')").fetchone()
        assert row is not None
        settled, epoch = row
        claim = new.execute("select pgqueue.claim_batch('ledger', %s, 10, epoch => %s)", [settled, epoch]).fetchone()
        assert claim == (1,)
        assert new.execute("select pgqueue.complete_claim('ledger', 1, %s)", [epoch]).fetchone() == (True,)
        assert new.execute("select count(*) from pgqueue.message").fetchone() == (0,)


def test_a_client_of_the_version_before_settles_batches_in_its_transaction_beside_a_newer_schema(
    empty_database: Database, tmp_path: Path
) -> None:
    before = library_at(BEFORE_RECEIVED, tmp_path)
    schema.migrate(empty_database.dsn)
    with QueueClient(empty_database.dsn) as client:
        client.create_queue(QUEUE)
        client.queue(QUEUE).send_batch([Message(number, priority=number % 3) for number in range(20)])
    said = tmp_path / "said"
    with running(before, tmp_path, said, "-c", SETTLE_BATCHES, empty_database.dsn, QUEUE) as process:
        assert process.wait(300) == 0, said.read_text()
    with empty_database.connect() as connection:
        assert connection.execute("select * from pgqueue.broken_invariants()").fetchall() == []
