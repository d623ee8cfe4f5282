"""Every failure is reported in one line, with an exit code, and never with a traceback."""

from __future__ import annotations

import re
import signal
import socket
import time

import pytest
from psycopg.conninfo import make_conninfo

from pgqueue import Message, QueueClient, QueueStatus
from pgqueue.errors import QueueNotFoundError
from pgqueue.testing import Database
from tests.cli.command_line import CommandLine
from tests.contract.sources import libpq_variables
from tests.patience import eventually


def test_a_command_without_a_database_lists_the_ways_to_name_one(unconfigured: CommandLine) -> None:
    ended = unconfigured("stats")
    assert ended.code == 2
    for way in ("--dsn", "PGQUEUE_DSN", "PGHOST", "--embedded"):
        assert way in ended.only_error


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://postgres:geheim@127.0.0.1:1/nothing",
        "host=/nonexistent dbname=nothing password=geheim",
        "postgresql://postgres:geheim@127.0.0.1:99999/nothing",
        "postgresql+psycopg://postgres:geheim@127.0.0.1:1/nothing",
    ],
)
def test_a_database_that_is_not_there_is_a_failure_at_once(unconfigured: CommandLine, dsn: str) -> None:
    started = time.monotonic()
    ended = unconfigured("stats", "--dsn", dsn)
    assert ended.code == 1
    assert "cannot be reached" in ended.only_error
    assert "geheim" not in ended.only_error
    assert time.monotonic() - started < 28  # half a minute, were it tried again


@pytest.mark.parametrize("dsn", ["nonsense", "oracle+psycopg://postgres:geheim@localhost/shop"])
def test_a_dsn_that_cannot_be_read_is_wrong_use(unconfigured: CommandLine, dsn: str) -> None:
    ended = unconfigured("stats", "--dsn", dsn)
    assert ended.code == 2
    assert "postgresql://user:password@host:5432/name" in ended.only_error
    assert "geheim" not in ended.only_error


def test_the_dsn_stands_before_the_command_or_after_it(
    unconfigured: CommandLine, client: QueueClient, database: Database
) -> None:
    for arguments in (("--dsn", database.dsn, "queue", "list"), ("queue", "list", "--dsn", database.dsn)):
        assert "orders" in unconfigured(*arguments).out


def test_a_dsn_may_be_written_for_sqlalchemy(
    unconfigured: CommandLine, client: QueueClient, database: Database
) -> None:
    assert "orders" in unconfigured("--dsn", database.url, "queue", "list").out
    assert "orders" in unconfigured("queue", "list", PGQUEUE_DSN=database.url).out


def test_the_variables_of_libpq_name_a_database(
    unconfigured: CommandLine, client: QueueClient, database: Database
) -> None:
    assert "orders" in unconfigured("queue", "list", **libpq_variables(database)).out


def test_options_override_the_environment(pgqueue: CommandLine) -> None:
    assert pgqueue("stats", "--dsn", "postgresql://127.0.0.1:1/nothing").code == 1


def test_two_databases_are_one_too_many(pgqueue: CommandLine, database: Database) -> None:
    ended = pgqueue("stats", "--dsn", database.dsn, "--embedded")
    assert ended.code == 2
    assert "give one of them" in ended.only_error


@pytest.mark.parametrize(
    "arguments",
    [
        ("--frobnicate",),
        ("frobnicate",),
        ("queue", "frobnicate"),
        ("queue", "create"),
        ("peek", "orders", "--from", "x"),
    ],
)
def test_unknown_commands_and_options_are_wrong_use(pgqueue: CommandLine, arguments: tuple[str, ...]) -> None:
    ended = pgqueue(*arguments)
    assert ended.code == 2
    assert "--help" in ended.only_error


def test_a_role_without_rights_gets_an_error_that_names_them(pgqueue: CommandLine, database: Database) -> None:
    role = f"stranger_of_{database.name}"
    with database.connect(autocommit=True) as connection:
        connection.execute(f"create role {role}; select pgqueue.create_queue('orders')".encode())
        ended = pgqueue("queue", "list", "--dsn", make_conninfo(database.dsn, options=f"-c role={role}"))
        connection.execute(f"drop role {role}".encode())
    assert ended.code == 1
    assert f"role {role} may not call pgqueue.queue_settings" in ended.only_error
    assert ended.only_error.endswith(f"an administrator allows it with `pgqueue grant monitor {role}`")


def test_a_worker_without_rights_gets_an_error_with_the_right_that_a_worker_needs(
    pgqueue: CommandLine, client: QueueClient, database: Database
) -> None:
    role = f"worker_of_{database.name}"
    with database.connect(autocommit=True) as connection:
        connection.execute(f"create role {role}".encode())
        try:
            dsn = make_conninfo(database.dsn, options=f"-c role={role}")
            ended = pgqueue("queue", "show", "orders", "--dsn", dsn)
            assert ended.code == 1
            assert ended.only_error.endswith(
                f": an administrator allows it with `pgqueue grant receive orders {role}`,"
                f" or to look only with `pgqueue grant monitor {role}`"
            )
            for command in re.findall(r"`pgqueue (.*?)`", ended.only_error):
                assert pgqueue(*command.split()).code == 0, command
            assert pgqueue("receive", "orders", "--dsn", dsn).code == 0
        finally:
            connection.execute(f"drop owned by {role}; drop role {role}".encode())


def test_a_remedy_names_the_queue_and_the_message_of_the_error(pgqueue: CommandLine, client: QueueClient) -> None:
    client.create_queue("shop/orders-1", max_queue_length=1, max_message_size=100)
    assert pgqueue("send", "shop/orders-1", "1").code == 0
    assert "`pgqueue queue update shop/orders-1 --max-queue-length " in pgqueue("send", "shop/orders-1", "2").only_error
    assert "`pgqueue queue update shop/orders-1 --max-message-size " in (
        pgqueue("send", "shop/orders-1", f'"{"x" * 200}"').only_error
    )
    missing = pgqueue("reschedule", "orders", "7", "--at", "1h").only_error
    assert missing.endswith("`pgqueue explain orders 7` shows where it is")
    client.update_queue("orders", status=QueueStatus.DISABLED)
    assert "`pgqueue queue update orders --status ACTIVE`" in pgqueue("send", "orders", "1").only_error


def test_a_refused_connection_is_reported_with_its_cause(unconfigured: CommandLine, database: Database) -> None:
    def told(**changed: str) -> str:
        return unconfigured("stats", "--dsn", make_conninfo(database.dsn, **changed)).only_error

    assert told(dbname="nowhere").endswith("create it with `createdb`, or name another in the DSN")
    assert told(user="nobody_here").endswith("create it with `createuser`, or name another in the DSN")
    assert told(port="1").endswith("is the server running, and is the DSN right?")


def test_advice_for_programs_is_given_as_commands(pgqueue: CommandLine, client: QueueClient) -> None:
    client.create_topic("events")
    assert pgqueue("queue", "create", "events", "--exist-ok").only_error.endswith(": choose another name")
    assert pgqueue("peek", "nowhere").only_error.endswith("`pgqueue queue create` makes one")
    with pytest.raises(QueueNotFoundError, match=r"Create it with client\.create_queue"):
        client.queue("nowhere").peek()


def test_a_port_that_is_taken_is_named(pgqueue: CommandLine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = pgqueue("dashboard", "--port", port)
        assert (ended.code, ended.only_error) == (
            1, f"pgqueue: port {port} is taken: choose another with --port, or 0 for any that is free"
        )  # fmt: skip


def test_an_interrupt_ends_a_command_quietly(pgqueue: CommandLine, client: QueueClient, database: Database) -> None:
    with pgqueue.start("receive", "orders", "--wait", "10m") as waiting:
        _wait_until_connected(database)
        waiting.send_signal(signal.SIGINT)
        out, said = waiting.communicate(timeout=300)
    assert (waiting.returncode, out, said) == (130, b"", b"")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_has_gone_is_no_reason_to_complain(
    pgqueue: CommandLine, client: QueueClient, unbuffered: str
) -> None:
    pgqueue.environment["PYTHONUNBUFFERED"] = unbuffered
    client.queue("orders").send_batch([Message("x" * 100) for _ in range(1500)])
    for form in ((), ("--json",)):
        with pgqueue.start("peek", "orders", "-n", "1500", *form) as peeking:
            assert peeking.stdout is not None
            peeking.stdout.read(10)
            peeking.stdout.close()
            _, said = peeking.communicate(timeout=300)
        assert (peeking.returncode, said) == (1, b"")


def test_a_terminal_that_lacks_a_character_still_gets_the_rest(pgqueue: CommandLine, client: QueueClient) -> None:
    client.queue("orders").send(Message("Straße"))
    assert "Stra\\xdfe" in pgqueue("peek", "orders", PYTHONIOENCODING="ascii").out


def _wait_until_connected(database: Database) -> None:
    with database.connect(autocommit=True) as connection:
        question = """select 1 from pg_stat_activity
                       where datname = current_database() and application_name = 'pgqueue' and query ~ 'pgqueue.receive'
                         and state = 'idle'"""
        eventually(lambda: connection.execute(question).fetchone())
