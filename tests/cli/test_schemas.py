"""`pgqueue --schema NAME`: every command works on the instance in that schema."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pgqueue import Message, QueueClient
from pgqueue.cli import choice
from pgqueue.schema import head
from pgqueue.testing import Database
from tests.cli.command_line import CommandLine
from tests.cli.test_worker import worker
from tests.patience import eventually

ACME = "Jobs of Acme"


@pytest.fixture
def acme(database: Database) -> Iterator[QueueClient]:
    with QueueClient(database.dsn, schema=ACME) as client:
        client.migrate()
        client.create_queue("orders")
        yield client


def test_the_schema_stands_before_the_command_after_it_or_in_the_environment(
    pgqueue: CommandLine, client: QueueClient, acme: QueueClient
) -> None:
    client.create_queue("ours")
    acme.create_queue("theirs")
    named = [
        pgqueue("--schema", ACME, "queue", "list"),
        pgqueue("queue", "list", "--schema", ACME),
        pgqueue("queue", "list", PGQUEUE_SCHEMA=ACME),
        pgqueue("--schema", "pgqueue", "queue", "list", "--schema", ACME),
    ]
    assert all("theirs" in each.out and "ours" not in each.out for each in named)
    others = pgqueue("queue", "list"), pgqueue("--schema", "pgqueue", "queue", "list", PGQUEUE_SCHEMA=ACME)
    assert all("ours" in each.out and "theirs" not in each.out for each in others)


def test_migrate_installs_checks_and_prints_an_instance(empty_database: Database, unconfigured: CommandLine) -> None:
    where = ("--dsn", empty_database.dsn, "--schema", ACME)
    assert unconfigured("migrate", "--check", *where).code == 1
    assert unconfigured("migrate", "--json", *where).document == {"revision": head(), "revision_before": None}
    assert unconfigured("migrate", "--check", *where).code == 0
    assert f'create schema "{ACME}"' in unconfigured("migrate", "--sql", "--schema", ACME).out
    with empty_database.connect() as connection:
        assert connection.execute("select to_regnamespace('pgqueue')").fetchone() == (None,)


def test_commands_with_statements_of_their_own_follow(
    pgqueue: CommandLine, client: QueueClient, acme: QueueClient
) -> None:
    acme.queue("orders").send(Message({"a": 1}))
    assert pgqueue("stats", "--schema", ACME, "--json").document[0]["ready"] == 1
    assert pgqueue("sweep", "--schema", ACME).code == 0
    assert pgqueue("batch", "list", "--schema", ACME).code == 0
    explained = pgqueue("--schema", ACME, "explain", "orders", "1")
    assert "can be delivered now" in explained.out
    sent = pgqueue("send", "orders", "--file", "-", "--schema", ACME, stdin='{"b": 2}\n')
    assert sent.code == 0, sent.err
    assert len(acme.queue("orders").peek(max_messages=9)) == 2
    assert client.queue("orders").peek() == []


@pytest.mark.usefixtures("client")
def test_advice_names_the_schema_that_an_option_names(pgqueue: CommandLine, acme: QueueClient) -> None:
    said = f"`pgqueue --schema '{ACME}' queue list`"
    assert said in pgqueue("--schema", ACME, "queue", "show", "none").only_error
    assert "`pgqueue queue list`" in pgqueue("queue", "show", "none", PGQUEUE_SCHEMA=ACME).only_error
    acme.queue("orders").send(Message(1))
    acme.queue("orders").receive()
    assert f"`pgqueue --schema '{ACME}' unlock orders 1`" in pgqueue("--schema", ACME, "explain", "orders", "1").out
    missing = pgqueue("--schema", "none", "queue", "list").only_error
    assert missing.endswith("run `pgqueue --schema none migrate`")


def test_advice_that_names_a_schema_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "_beside", "--schema jobs ")
    given = "run `pgqueue migrate --schema other`, or `pgqueue queue list`"
    assert choice.advised(given) == "run `pgqueue migrate --schema other`, or `pgqueue --schema jobs queue list`"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (f"pgqueue --schema '{ACME}' migrate", "manage.py pgqueue migrate"),
        ("pgqueue --schema jobs migrate", "manage.py pgqueue migrate"),
        ("pgqueue queue list", "manage.py pgqueue queue list"),
        ("drop index pgqueue.message_expiry;", "drop index pgqueue.message_expiry;"),
    ],
)
def test_a_line_for_a_shell_names_the_program(monkeypatch: pytest.MonkeyPatch, line: str, says: str) -> None:
    assert choice.advised_line(line) == line
    monkeypatch.setattr(choice, "program", "manage.py pgqueue")
    assert choice.advised_line(line) == says


@pytest.mark.usefixtures("acme")
def test_the_doctor_names_the_schema_in_its_commands(pgqueue: CommandLine, database: Database) -> None:
    with database.connect() as connection:
        connection.execute(f'drop index "{ACME}".message_expiry'.encode())
    assert f"fix: pgqueue --schema '{ACME}' migrate\n" in pgqueue("doctor", "--schema", ACME).out
    assert pgqueue("doctor").code == 0


def test_a_worker_works_in_the_schema(pgqueue: CommandLine, acme: QueueClient) -> None:
    (pgqueue.directory / "shop.py").write_text("def note(message): pass")
    queue = acme.queue("orders")
    for options in ((), ("--processes", "2")):
        queue.send(Message("of Acme"))
        with worker(pgqueue, "shop:note", "orders", "--schema", ACME, *options):
            eventually(lambda: queue.peek() == [])


@pytest.mark.parametrize("name", ["public", "jobs!", ""])
def test_a_name_that_no_schema_can_have_is_wrong_use(pgqueue: CommandLine, name: str) -> None:
    in_environment = [pgqueue("queue", "list", PGQUEUE_SCHEMA=name)] if name else []
    for ended in (pgqueue("queue", "list", "--schema", name), *in_environment):
        assert ended.code == 2
        assert ended.only_error.startswith("pgqueue: schema ")
