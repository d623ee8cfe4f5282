"""Instances of pgqueue in schemas of other names, beside each other in one database. See docs/schemas.md."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import create_engine

import pgqueue
import pgqueue.aio
import pgqueue.schema
from pgqueue import Message, QueueClient, schema
from pgqueue.doctor import examine
from pgqueue.embedded import wheel_binaries
from pgqueue.errors import AccessDeniedError, InvalidArgumentError, LockLostError, SchemaVersionError
from pgqueue.model.schemas import DEFAULT, check_schema, history_schema, in_schema
from pgqueue.schema import files
from pgqueue.testing import Database
from pgqueue.transports.readable import connect
from tests.patience import eventually

ACME = "Jobs of Acme"

#: Names that are also part of those of another instance, or of SQL.
SCHEMAS = (ACME, DEFAULT, "pgqueue_b", "jobs", "order")

MINUTE = timedelta(minutes=1)


@pytest.fixture
def clients(empty_database: Database) -> Iterator[dict[str, QueueClient]]:
    """A client of each instance; each has a queue of the same name."""
    with ExitStack() as stack:
        clients = {name: stack.enter_context(QueueClient(empty_database.dsn, schema=name)) for name in SCHEMAS}
        for client in clients.values():
            client.migrate()
            client.create_queue("orders", result_retention=MINUTE)
        yield clients


def bodies(client: QueueClient) -> list[Any]:
    return [each.body for each in client.queue("orders").peek(max_messages=100)]


@pytest.mark.core
def test_each_instance_has_its_own_queues_and_messages(clients: dict[str, QueueClient]) -> None:
    for name, client in clients.items():
        client.queue("orders").send_batch([Message(name), Message([name])])
    clients[DEFAULT].create_queue("only-here")
    for name, client in clients.items():
        assert bodies(client) == [name, [name]]
        (received,) = client.queue("orders").receive(max_messages=1)
        received.complete()
        assert client.queue("orders").dead_letters.peek() == []
    clients[DEFAULT].delete_queue("orders")
    others = [name for name in SCHEMAS if name != DEFAULT]
    assert [bodies(clients[name]) for name in others] == [[[name]] for name in others]


def test_one_transaction_takes_part_in_two_instances(clients: dict[str, QueueClient], empty_database: Database) -> None:
    ours, theirs = clients[ACME].queue("orders"), clients["jobs"].queue("orders")
    ours.send(Message("passed on"))
    (received,) = ours.receive()
    with psycopg.connect(empty_database.dsn) as connection:
        theirs.send(Message(received.body), transaction=connection)
        received.complete(transaction=connection)
    assert (bodies(clients[ACME]), bodies(clients["jobs"])) == ([], ["passed on"])


def test_the_fence_holds_in_each(clients: dict[str, QueueClient], empty_database: Database) -> None:
    queue = clients[ACME].queue("orders")
    queue.send(Message(1))
    (received,) = queue.receive()
    with connect(empty_database.dsn, schema=ACME) as operator:
        operator.execute("select pgqueue.unlock('orders', %s)", [received.sequence_number])
    with pytest.raises(LockLostError), received.transaction():
        pytest.fail("the work began")


def test_waiting_receivers_and_callers_are_woken_in_their_own_instance(clients: dict[str, QueueClient]) -> None:
    """The channels of the instances differ."""
    for name in (ACME, "pgqueue_b"):
        queue = clients[name].queue("orders")
        number = queue.send(Message(name))
        (received,) = queue.receive(wait=MINUTE)
        received.complete(result=name)
        assert queue.wait_for(number, timeout=MINUTE).result == name
        listener: Any = clients[name]._source._listener  # type: ignore[attr-defined]
        assert listener is None or listener._schema == name


async def test_the_asynchronous_face_has_instances_too(
    clients: dict[str, QueueClient], empty_database: Database
) -> None:
    async with pgqueue.aio.QueueClient(empty_database.dsn, schema=ACME) as client:
        await client.migrate()
        queue = client.queue("orders")
        await queue.send(Message("a"))
        (received,) = await queue.receive(wait=MINUTE)
        async with received.transaction() as tx:
            await queue.send(Message("b"), transaction=tx)
        sender = queue.sender()
        async with sender:
            await sender.send(Message("c"))
    assert bodies(clients[ACME]) == ["b", "c"]


@pytest.mark.core
def test_no_function_view_or_right_of_one_names_another(
    clients: dict[str, QueueClient], empty_database: Database
) -> None:
    with psycopg.connect(empty_database.dsn) as connection:
        for name in ("Jobs of Acme", "jobs", "order"):
            bodies = connection.execute(
                """select prosrc from pg_proc where pronamespace = (select oid from pg_namespace where nspname = %s)
                   union all
                   select pg_get_viewdef(oid) from pg_class
                    where relkind = 'v' and relnamespace = (select oid from pg_namespace where nspname = %s)""",
                [name, name],
            ).fetchall()
            assert len(bodies) > 300
            named = {found for (body,) in bodies for found in re.findall(r"(?<!vnd\.)pgqueue[._]\w+", body)}
            assert named == set()
        owners = connection.execute(
            """select nspname, nspowner::regrole::text from pg_namespace
                where nspname !~ '^(pg_|information_schema|public)' order by 1"""
        ).fetchall()
    of = {ACME: "jobs_of_acme_owner", DEFAULT: "pgqueue_owner", "pgqueue_b": "pgqueue_b_owner"}
    expected = {(place, of.get(name, f"{name}_owner")) for name in SCHEMAS for place in (name, history_schema(name))}
    assert set(owners) == expected


def test_the_roles_of_one_have_no_rights_in_another(clients: dict[str, QueueClient], empty_database: Database) -> None:
    for group in ("jobs_of_acme_sender", "jobs_receiver"):
        role = f"test_{group}"
        with empty_database.connect(autocommit=True) as connection:
            connection.execute(f"create role {role}; grant {group} to {role}".encode())
            try:
                dsn = psycopg.conninfo.make_conninfo(empty_database.dsn, options=f"-c role={role}")
                with QueueClient(dsn, schema=ACME) as ours, QueueClient(dsn, schema="jobs") as theirs:
                    if group == "jobs_of_acme_sender":
                        ours.queue("orders").send(Message(1))
                    else:
                        assert theirs.queue("orders").receive() == []
                    with pytest.raises(AccessDeniedError, match=r'may not call ("Jobs of Acme"|jobs|"jobs")\.'):
                        (theirs if group == "jobs_of_acme_sender" else ours).queue("orders").send(Message(1))
            finally:
                connection.execute(f"drop role {role}".encode())


@pytest.mark.parametrize("name", [ACME, "order"])
def test_the_script_does_what_migrate_does(
    empty_database: Database, another_empty_database: Database, name: str
) -> None:
    schema.migrate(empty_database.dsn, schema=name)
    command = [str(wheel_binaries() / "psql"), "--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1"]
    script = schema.script(schema=name)
    ended = subprocess.run(
        [*command, another_empty_database.dsn], input=script, check=True, capture_output=True, text=True
    )
    assert ended.stdout == ""
    assert schema.pending(another_empty_database.dsn, schema=name) == []
    assert structure(another_empty_database) == structure(empty_database)
    assert schema.script(another_empty_database.dsn, schema=name) != script


def structure(database: Database) -> list[str]:
    command = [str(wheel_binaries() / "pg_dump"), "--schema-only", database.dsn]
    dumped = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [line for line in dumped.splitlines() if "restrict" not in line]


def test_alembic_compares_nothing_of_the_instance() -> None:
    ours = partial(schema.include_name, schema="jobs")
    assert [ours(name, "schema", {}) for name in ("jobs", "jobs_history", "pgqueue", "public")] == [
        False, False, True, True,
    ]  # fmt: skip


def test_a_migration_of_the_applications_own_installs_an_instance(empty_database: Database) -> None:
    engine = create_engine(empty_database.url)
    with engine.begin() as connection:
        assert schema.migrate_within(connection, schema=ACME) == schema.head()
        assert connection.exec_driver_sql("select 'pgqueue.message'").scalar() == "pgqueue.message"
    engine.dispose()
    assert schema.pending(empty_database.dsn, schema=ACME) == []


@pytest.mark.parametrize(
    "name",
    [
        "pg-jobs",
        "PLpgSQL",
        "jobs-history",
        "",
        "jobs!",
        '"',
        "a" * 41,
        "1st",
        "public",
        "pg_jobs",
        "Information_Schema",
        "jobs_history",
        "jöbs",
        7,
        None,
    ],
)
def test_a_schema_that_no_instance_can_have_is_refused(empty_database: Database, name: Any) -> None:
    takes: tuple[Callable[..., Any], ...] = (
        QueueClient,
        pgqueue.aio.QueueClient,
        schema.migrate,
        schema.script,
        examine,
    )
    for call in takes:
        with pytest.raises(InvalidArgumentError, match=f"^schema (must|cannot).*{re.escape(repr(name))}"):
            call(empty_database.dsn, schema=name)


@pytest.mark.parametrize(
    "foreign",
    [
        "create schema shop; create table shop.ordered ()",
        "create schema shop; create function shop.f() returns int return 1",
        "create schema shop; create type shop.queue as enum ('a')",
        'create schema shop; create collation shop.c from "C"',
        "create schema shop; create table shop.alembic_version as select 'x' as version_num",
        "create schema shop_history; create sequence shop_history.numbers",
    ],
)
def test_a_schema_with_anything_of_others_is_refused(empty_database: Database, foreign: str) -> None:
    """A migration gives what is there to another owner, and drops the functions that it does not know."""
    with empty_database.connect() as connection:
        connection.execute(foreign.encode())
    before = structure(empty_database)
    for migrate in (schema.migrate, migrate_within):
        with pytest.raises(InvalidArgumentError, match="'shop' and 'shop_history' must be empty, and have 1 table"):
            migrate(empty_database.dsn, schema="shop")
    assert structure(empty_database) == before


def migrate_within(dsn: str, *, schema: str) -> None:
    engine = create_engine(dsn.replace("postgresql://", "postgresql+psycopg://", 1))
    try:
        with engine.begin() as connection:
            pgqueue.schema.migrate_within(connection, schema=schema)
    finally:
        engine.dispose()


def test_a_role_of_others_does_not_become_a_group(empty_database: Database) -> None:
    name = f"shop-{empty_database.name[-12:]}"
    role = f"{name.replace('-', '_')}_admin"
    with empty_database.connect(autocommit=True) as connection:
        connection.execute(f"create role {role} login".encode())
        try:
            with pytest.raises(InvalidArgumentError, match=f"the role '{role}' would become a group of pgqueue's"):
                schema.migrate(empty_database.dsn, schema=name)
        finally:
            connection.execute(f"drop role {role}".encode())


def test_one_renewer_renews_in_two_instances(clients: dict[str, QueueClient]) -> None:
    received = []
    for name in (ACME, "jobs"):
        queue = clients[name].queue("orders")
        queue.send(Message(name))
        received += queue.receive(lock_duration=timedelta(seconds=1))
    with pgqueue.AutoLockRenewer() as renewer:
        for message in received:
            renewer.register(message)
        first = [message.locked_until for message in received]
        eventually(lambda: all(each.locked_until != was for each, was in zip(received, first, strict=True)))
        assert not any(message.lock_lost for message in received)
    for message in received:
        message.complete()


@pytest.mark.parametrize(("first", "second"), [("jobs", "Jobs"), (ACME, "jobs-of-acme"), ("pgqueue", "PGQueue")])
def test_two_schemas_with_the_same_roles_are_refused(empty_database: Database, first: str, second: str) -> None:
    schema.migrate(empty_database.dsn, schema=first)
    with pytest.raises(InvalidArgumentError, match=f"roles of the schema '{second}' would be those of '{first}'"):
        schema.migrate(empty_database.dsn, schema=second)
    schema.migrate(empty_database.dsn, schema=first)


def test_a_schema_where_pgqueue_is_not_installed_is_named(database: Database) -> None:
    with QueueClient(database.dsn, schema="jobs") as client, pytest.raises(SchemaVersionError, match=r'"jobs"'):
        client.list_queues()


def test_hints_name_methods_whatever_the_schema(clients: dict[str, QueueClient]) -> None:
    with pytest.raises(
        Exception, match=r"Create it with client\.create_queue, or list what exists in \"jobs\"\.queues"
    ):
        clients["jobs"].queue("none").send(Message(1))


def test_the_doctor_examines_the_instance(empty_database: Database, clients: dict[str, QueueClient]) -> None:
    assert [result.unseen for result in examine(empty_database.dsn, schema=ACME).results if result.unseen] == []
    assert examine(empty_database.dsn, schema=ACME, invariants=True).is_well
    with connect(empty_database.dsn, schema=ACME) as connection:
        connection.execute(
            "create or replace function pgqueue._full_at(queue_id int) returns timestamptz language sql return now()"
        )
        connection.execute("drop index pgqueue.message_expiry")
    found = {
        result.check: result.findings for result in examine(empty_database.dsn, schema=ACME).results if result.findings
    }
    assert found["changed-functions"][0].what.startswith("The function _full_at has been changed")
    assert found["missing-index"][0].mend == f"pgqueue --schema '{ACME}' migrate"
    assert examine(empty_database.dsn, schema="jobs").is_well
    schema.migrate(empty_database.dsn, schema=ACME)
    assert "missing-index" not in {
        result.check for result in examine(empty_database.dsn, schema=ACME).results if result.findings
    }


def test_an_unknown_schema_is_examined_as_one_without_pgqueue(database: Database) -> None:
    (result,) = examine(database.dsn, schema="jobs").results
    assert result.check == "not-installed"
    assert result.findings[0].mend == "pgqueue --schema jobs migrate"


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("select pgqueue.send('q', 'pgqueue.x')", 'select "J".send(\'q\', "J".x)'.replace('"J".x', "'\"J\".x'")),
        ("grant pgqueue_sender to ann", "grant j_sender to ann"),
        ("set local pgqueue.notify = off", "set local j.notify = off"),
        ("current_setting('pgqueue.scan_' || id)", "current_setting('j.scan_' || id)"),
        ("select from pgqueue.notifications", 'select from "J".notifications'),
        ("'pgqueue'::regnamespace", "'\"J\"'::regnamespace"),
        ("'{pgqueue,pgqueue_history}'", "'{\"J\",j_history}'"),
        ("'{pgqueue.message,pgqueue.queue}'", '\'{"\\"J\\".message","\\"J\\".queue"}\''),
        ("to_regclass('pgqueue.' || name)", "to_regclass('\"J\".' || name)"),
        ("application_name = 'pgqueue'", "application_name = 'pgqueue'"),
        ("'application/vnd.pgqueue.notification+json'", "'application/vnd.pgqueue.notification+json'"),
        ("run pgqueue migrate. The version of pgqueue.", "run pgqueue migrate. The version of pgqueue."),
        ('"pgqueue_b".message', '"pgqueue_b".message'),
    ],
)
def test_names_and_nothing_else_are_replaced(sql: Any, expected: str) -> None:
    assert in_schema(sql, "J") == expected
    assert in_schema(sql, DEFAULT) == sql


def test_every_setting_of_a_session_has_a_plain_name() -> None:
    """PostgreSQL refuses a setting whose name is not an identifier; such a one would be taken for a function's."""
    for path in Path(files.folder("sql")).rglob("*.sql"):
        text = in_schema(path.read_text(), ACME)
        assert not re.search(rf"(set_config|current_setting|concat)\(\s*'\"{ACME}\"", text), path
        assert not re.search(rf"memory .*'\"{ACME}\"", text), path


@pytest.mark.parametrize("name", [ACME, "jobs", "_", "A-1", "a" * 40])
def test_names_that_fit_are_taken_as_they_are(name: str) -> None:
    assert check_schema(name) == name
