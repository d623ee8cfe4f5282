from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import psycopg
import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine

from pgqueue import CorrelationFilter, JsonPathFilter, Message, QueueClient, schema
from pgqueue.errors import ConnectionLostError, OperationTimeoutError, SchemaVersionError
from pgqueue.model.schemas import DEFAULT, history_schema
from pgqueue.schema import files, indexes, migration, revisions
from pgqueue.testing import Database
from tests.patience import eventually

MIGRATE_WHEN_TOLD = """
import sys
from datetime import timedelta
from pgqueue import schema
print("ready", flush=True)
sys.stdin.readline()
print(schema.migrate(sys.argv[1], lock_timeout=timedelta(minutes=1)))
"""

MIGRATION_WAITS = """
select count(*) > 0
  from pg_locks
  join pg_database on pg_database.oid = database
 where datname = current_database() and mode = 'AccessExclusiveLock' and not granted
"""


class Retries(logging.Handler):
    """Notices in the log that a migration tries again."""

    def __init__(self) -> None:
        super().__init__()
        self.began = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage().startswith("Retrying"):
            self.began.set()


@pytest.fixture
def retries() -> Iterator[Retries]:
    handler = Retries()
    migration.logger.addHandler(handler)
    migration.logger.setLevel(logging.INFO)
    yield handler
    migration.logger.setLevel(logging.NOTSET)
    migration.logger.removeHandler(handler)


def value(database: Database, query: str) -> object:
    with database.connect() as connection:
        row = connection.execute(query.encode()).fetchone()
    return None if row is None else row[0]


def forget_what_is_installed(database: Database) -> None:
    with database.connect() as connection:
        connection.execute("update pgqueue.installation set definitions_digest = 'of an older version'")


@pytest.mark.core
def test_an_empty_database_is_brought_to_head(empty_database: Database) -> None:
    assert schema.current(empty_database.dsn) is None
    assert schema.migrate(empty_database.dsn) == schema.head()
    assert schema.current(empty_database.dsn) == schema.head()
    assert value(empty_database, "select pgqueue.create_queue('orders')") is not None


def test_a_second_run_writes_nothing(database: Database) -> None:
    schema.migrate(psycopg.conninfo.make_conninfo(database.dsn, options="-c default_transaction_read_only=on"))


def test_a_current_schema_is_found_so_without_what_migrates(empty_database: Database) -> None:
    asked = ", ".join(f"{name!r} in sys.modules" for name in ("sqlalchemy", "alembic"))
    program = f"import sys, pgqueue; pgqueue.QueueClient(sys.argv[1]).migrate(); print({asked})"
    command = [sys.executable, "-c", program, empty_database.dsn]
    first, second = (subprocess.check_output(command, text=True).strip() for _ in range(2))
    assert (first, second) == ("True True", "False False")


def test_the_newest_revision_is_the_head_of_all() -> None:
    heads = ScriptDirectory(str(files.folder("migrations"))).get_heads()
    assert heads == [schema.head()]


@pytest.mark.parametrize(
    "flaw",
    [
        "update pg_index set indisvalid = false where indexrelid = 'pgqueue.message_expiry'::regclass",
        "drop index pgqueue.message_expiry",
    ],
)
def test_an_index_that_is_left_to_build_is_built_by_the_next_migration(empty_database: Database, flaw: str) -> None:
    schema.migrate(empty_database.dsn)
    with empty_database.connect() as connection:
        connection.execute(flaw.encode())
    schema.migrate(empty_database.dsn)
    is_valid = "select indisvalid from pg_index where indexrelid = 'pgqueue.message_expiry'::regclass"
    assert value(empty_database, is_valid) is True


def test_an_index_is_built_without_the_limit_of_statements(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    limited = psycopg.conninfo.make_conninfo(database.direct, options="-c statement_timeout=1500")
    with database.connect(autocommit=True) as connection:
        connection.execute("drop index pgqueue.message_expiry")
    with database.connect() as holder:
        holder.execute("lock table pgqueue.message")
        indexes.build(limited, "pgqueue", lock_timeout=timedelta(seconds=2))
    assert "message_expiry was not built because of an old transaction" in caplog.text
    indexes.build(limited, "pgqueue", lock_timeout=timedelta(seconds=2))


def test_no_extension_is_needed(database: Database) -> None:
    assert value(database, "select string_agg(extname, ', ') from pg_extension") == "plpgsql"


@pytest.mark.core
@pytest.mark.parametrize("isolation", ["read committed", "serializable"])
def test_of_eight_processes_at_once_one_migrates_and_all_succeed(empty_database: Database, isolation: str) -> None:
    with empty_database.connect(autocommit=True) as connection:
        setting = f"alter database {empty_database.name} set default_transaction_isolation = '{isolation}'"
        connection.execute(setting.encode())
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", MIGRATE_WHEN_TOLD, empty_database.dsn],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(8)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    outcomes = [(*process.communicate(), process.returncode) for process in processes]
    assert outcomes == [(f"{schema.head()}\n", "", 0)] * 8
    one_transaction = "select a.xmin::text = b.xmin::text from pgqueue.alembic_version as a, pgqueue.installation as b"
    assert value(empty_database, one_transaction) is True


def test_a_lock_that_is_held_is_waited_for_briefly_and_tried_again(database: Database, retries: Retries) -> None:
    forget_what_is_installed(database)
    with ThreadPoolExecutor() as threads, database.connect() as holder:
        holder.execute("lock table pgqueue.installation")
        migration = threads.submit(
            schema.migrate, database.dsn, lock_timeout=timedelta(milliseconds=500), attempts=1_000_000
        )
        assert retries.began.wait(timeout=300)
        assert not migration.done()
        holder.rollback()
        assert migration.result(timeout=300) == schema.head()
    assert value(database, "select definitions_digest from pgqueue.installation") != "of an older version"


def only_it_gives_way(database: Database) -> None:
    """PostgreSQL ends no deadlock in this database."""
    with database.connect(autocommit=True) as connection:
        connection.execute(f"alter database {database.name} set deadlock_timeout = '1h'".encode())


@pytest.mark.parametrize("lock_timeout", [timedelta(days=1), timedelta(0)], ids=["within an attempt", "in the next"])
def test_transaction_that_reads_views_is_in_no_deadlock_with_a_migration(
    database: Database, retries: Retries, lock_timeout: timedelta
) -> None:
    forget_what_is_installed(database)
    only_it_gives_way(database)
    with ThreadPoolExecutor() as threads, database.connect(options="-c lock_timeout=1min") as reader:
        reader.execute("select from pgqueue.topics limit 0")
        migration = threads.submit(schema.migrate, database.dsn, lock_timeout=lock_timeout, attempts=1_000_000)
        with database.connect(autocommit=True) as observer:
            eventually(lambda: observer.execute(MIGRATION_WAITS).fetchone() == (True,))
        reader.execute("select from pgqueue.batches limit 0")
        assert not migration.done()
        reader.commit()
        assert migration.result() == schema.head()
    assert retries.began.is_set() == (not lock_timeout)


def test_clients_wait_for_a_migration_no_longer_than_for_one_lock(database: Database) -> None:
    forget_what_is_installed(database)
    with ThreadPoolExecutor() as threads, database.connect() as first, database.connect() as second:
        first.execute("select from pgqueue.batches limit 0")
        second.execute("select from pgqueue.topics limit 0")
        migration = threads.submit(schema.migrate, database.dsn, lock_timeout=timedelta(seconds=1), attempts=1)
        with database.connect(autocommit=True) as observer:
            eventually(lambda: observer.execute(MIGRATION_WAITS).fetchone() == (True,))
        for reader in (first, second):  # each for less than a second
            time.sleep(0.6)
            reader.commit()
        with pytest.raises(OperationTimeoutError, match="not granted within 1 s"):
            migration.result()
    assert schema.migrate(database.dsn) == schema.head()


@pytest.mark.parametrize(
    "held", ["lock table pgqueue.installation", f"select pg_advisory_lock({migration.MIGRATION_LOCK})"]
)
def test_a_lock_that_stays_held_ends_in_an_error_that_names_it(database: Database, held: str) -> None:
    forget_what_is_installed(database)
    with database.connect() as holder:
        holder.execute(held.encode())
        with pytest.raises(
            OperationTimeoutError, match=r"in 2 attempts, a lock was not granted within 0\.02 s"
        ) as refusal:
            schema.migrate(database.dsn, lock_timeout=timedelta(milliseconds=20), attempts=2)
    assert refusal.value.is_transient
    assert "`pgqueue doctor` names those" in str(refusal.value)
    assert value(database, "select definitions_digest from pgqueue.installation") == "of an older version"


def test_a_schema_newer_than_the_code_is_refused_and_left_alone(database: Database) -> None:
    with database.connect() as connection:
        connection.execute("update pgqueue.alembic_version set version_num = '9999_future'")
    with pytest.raises(SchemaVersionError, match=r"9999_future.*A newer pgqueue migrated the database; install that"):
        schema.migrate(database.dsn)
    assert schema.current(database.dsn) == "9999_future"


def test_a_schema_that_lacks_a_field_of_messages_is_refused_by_name(database: Database) -> None:
    with database.connect() as connection:
        connection.execute("alter type pgqueue.received_message rename attribute partition_key to of_another_version")
    with QueueClient(database.dsn) as client:
        client.create_queue("orders")
        with pytest.raises(SchemaVersionError, match=r'"partition_key" does not exist.*run `pgqueue migrate`'):
            client.queue("orders").receive()


def test_a_missing_or_invalid_index_does_not_stop_a_role_that_may_not_build_it(
    empty_database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    schema.migrate(empty_database.dsn)
    user = f"{empty_database.name}_user"
    with empty_database.connect(autocommit=True) as connection:
        connection.execute(f"create role {user}".encode())
        try:
            connection.execute(f"grant usage on schema pgqueue to {user}".encode())
            connection.execute(f"grant select on all tables in schema pgqueue to {user}".encode())
            conninfo = psycopg.conninfo.make_conninfo(empty_database.dsn, options=f"-c role={user}")
            for flaw in (
                "update pg_index set indisvalid = false where indexrelid = 'pgqueue.message_expiry'::regclass",
                "drop index pgqueue.message_expiry",
            ):
                connection.execute(flaw.encode())
                caplog.clear()
                assert schema.migrate(conninfo) == schema.head()
                assert "message_expiry was not built: migrate as the owner" in caplog.text
        finally:
            connection.execute(f"drop owned by {user}".encode())
            connection.execute(f"drop role {user}".encode())


def test_owner_without_create_can_migrate_where_the_schema_of_the_history_exists(empty_database: Database) -> None:
    owner, name = f"{empty_database.name}_owner", empty_database.name
    engine = create_engine(empty_database.url)
    with empty_database.connect(autocommit=True) as connection:
        connection.execute(f"create role {owner}".encode())
        try:
            connection.execute(f"grant create on database {name} to {owner}".encode())
            with engine.begin() as installation:
                installation.exec_driver_sql(f"set local role {owner}")
                revisions.upgrade(installation, "0001_queues")
            connection.execute(f"revoke create on database {name} from {owner}".encode())
            connection.execute(f"create schema {history_schema(DEFAULT)} authorization {owner}".encode())
            schema.migrate(psycopg.conninfo.make_conninfo(empty_database.dsn, options=f"-c role={owner}"))
        finally:
            engine.dispose()
            connection.execute(f"drop owned by {owner} cascade".encode())
            connection.execute(f"drop role {owner}".encode())


def test_an_owner_who_is_no_superuser_can_migrate(empty_database: Database) -> None:
    owner = f"{empty_database.name}_owner"
    with empty_database.connect(autocommit=True) as connection:
        connection.execute(f"create role {owner}".encode())
        connection.execute(f"alter database {empty_database.name} owner to {owner}".encode())
        try:
            conninfo = psycopg.conninfo.make_conninfo(empty_database.dsn, options=f"-c role={owner}")
            schema.migrate(conninfo)
            with psycopg.connect(conninfo) as session:
                session.execute("select pgqueue.create_queue('orders')")
            assert value(empty_database, "select tableowner from pg_tables where tablename = 'message'") == owner
        finally:
            connection.execute(f"reassign owned by {owner} to current_user".encode())
            connection.execute(f"drop role {owner}".encode())


def test_a_server_that_is_not_there_is_named_in_the_error() -> None:
    with pytest.raises(ConnectionLostError, match="/nowhere"):
        schema.migrate("host=/nowhere dbname=orders")


def test_the_filter_of_an_older_subscription_becomes_its_rule(empty_database: Database) -> None:
    engine = create_engine(empty_database.url)
    with engine.begin() as installation:
        revisions.upgrade(installation, "0009_results")
        installation.exec_driver_sql("insert into pgqueue.topic (name, created_at) values ('events', now())")
        installation.exec_driver_sql(
            """
            insert into pgqueue.queue (name) values ('events/Subscriptions/a'), ('events/Subscriptions/b');
            insert into pgqueue.subscription (
                   queue_id, topic_id, name, correlation_filter, fields, equals, json_path_filter, path, set_properties,
                   created_at)
            values (1, 1, 'a', '{"subject": "x"}', '{subject}', '{"subject": "x"}', null, null, '{"n": 1}', now()),
                   (2, 1, 'b', null, null, null, '$.body > 1', '$.body > 1', null, now())"""
        )
    engine.dispose()
    schema.migrate(empty_database.dsn)
    with QueueClient(empty_database.dsn, listen=False) as client:
        a, b = client.list_subscriptions("events")
        assert (a.filter, b.filter) == (CorrelationFilter(subject="x"), JsonPathFilter("$.body > 1"))
        (rule,) = client.list_rules("events", "a")
        assert (rule.name, rule.set_properties) == ("$Default", {"n": 1})
        assert client.topic("events").send(Message(2, subject="x")) == 2
