"""Every command that shows something, and every page, shows the same under settings that an application may have."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from fastapi.testclient import TestClient
from psycopg import sql

from pgqueue import Message, QueueClient, schema
from pgqueue.cli.places import PLACES
from pgqueue.dashboard.app import create_app
from pgqueue.dashboard.settings import Settings
from pgqueue.testing import Database
from pgqueue.testing.clock import install
from pgqueue.testing.database import drop, dsn
from pgqueue.testing.plugin import SharedServer
from tests.cli.command_line import CommandLine
from tests.dashboard.scene import fill, publish, recur

#: Settings that change how values are written and read; each command is run under some at a time.
ODD = {
    "German": {
        "DateStyle": "German",
        "IntervalStyle": "sql_standard",
        "bytea_output": "escape",
        "standard_conforming_strings": "off",
        "TimeZone": "Asia/Kathmandu",
        "search_path": "shadows",
    },
    "SQL": {
        "DateStyle": "SQL, DMY",
        "IntervalStyle": "postgres_verbose",
        "extra_float_digits": "-15",
        "default_transaction_isolation": "serializable",
        "row_security": "off",
        "TimeZone": "Australia/Lord_Howe",
    },
    "POSTGRES": {
        "DateStyle": "Postgres, MDY",
        "IntervalStyle": "iso_8601",
        "array_nulls": "off",
        "quote_all_identifiers": "on",
        "client_encoding": "LATIN1",
        "xmloption": "document",
    },
}

#: The number of a message that has a result.
SETTLED = 1_000_000
#: How commands are called that only show something.
SHOWING = {
    "migrate": ["migrate --check"],
    "queue": ["queue list", "queue list --json", "queue show orders", "queue show orders --json"],
    "peek": ["peek orders", "peek orders --json", "peek events/Subscriptions/large --json"],
    "find": ["find orders", "find orders --json"],
    "explain": ["explain orders 1"],
    "stats": ["stats", "stats --json", "stats --exact --json"],
    "sessions": ["sessions steps", "sessions steps --json"],
    "doctor": ["doctor", "doctor --json"],
    "result": [f"result totals {SETTLED}", f"result totals {SETTLED} --json"],
    "history": ["history orders", "history orders --json --since 1d"],
    "dead-letters": ["dead-letters list orders", "dead-letters list orders --json"],
    "schedule": ["schedule list", "schedule list --json"],
    "batch": ["batch list", "batch list --json"],
    "topic": ["topic list", "topic list --json"],
    "subscription": ["subscription list events", "subscription list events --json"],
    "rule": ["rule list events large", "rule list events large --json"],
    "sweep": ["sweep --dry-run", "sweep --dry-run --json"],
    "grants": ["grants", "grants --json"],
}

#: The clock of a database whose states do not change while the commands run.
STANDING = """
do $$
begin
    execute format(
        'create or replace function pgqueue.clock() returns timestamptz language sql volatile parallel safe
         set search_path = pg_catalog, pg_temp as ''select to_timestamp(%s)''', extract(epoch from pgqueue.clock()));
end
$$
"""

#: Differences that are allowed: ages and rates, and the width of tables with them, quotes around names, and zones.
PASSING = re.compile(r"(\d+([.,:]\d+)*|[-+\s]|\\?\")+")


@pytest.fixture(scope="module")
def shop(database_server: SharedServer) -> Iterator[Database]:
    """A database with something in every state, whose clock stands still."""
    with database_server.database(database_server.template) as database:
        with QueueClient(database.dsn) as client:
            recur(client)
            publish(client)
            fill(database, client)
            client.create_queue("steps", requires_session=True)
            client.queue("steps").send(Message(1, session_id="customer-7"))
            client.create_queue("totals", result_retention=timedelta(days=1))
            with database.connect(autocommit=True) as connection:
                connection.execute("select setval('pgqueue.sequence_number', %s, false)", [SETTLED])
            assert client.queue("totals").send(Message(1)) == SETTLED
            client.queue("totals").receive()[0].complete(result={"total": 1.5})
        with database.connect() as connection:
            connection.execute(STANDING)
        yield database


@pytest.fixture
def pgqueue(shop: Database, tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path, PGQUEUE_DSN=shop.dsn)


def shown(command: str, pgqueue: CommandLine) -> tuple[int, str]:
    ended = pgqueue(*command.split())
    assert ended.code in {0, 1}, ended.err
    assert "bug of pgqueue" not in ended.err, ended.err
    if command.startswith(("doctor", "grants")):  # findings and roles depend on other activity of the server
        assert "could not be examined" not in ended.out
        return 0, ""
    return ended.code, PASSING.sub(" ", ended.out)


def pages(shop: Database) -> dict[str, str]:
    """Each page and answer of the dashboard that needs no argument, and some that do."""
    app = create_app(Settings(shop.dsn))
    paths = [path for route in app.routes if "{" not in (path := getattr(route, "path", "")) and "static" not in path]
    paths += ["/queues/orders", "/topics/events", "/queues/orders/messages", "/api/queues/orders"]
    with TestClient(app, base_url="http://localhost", follow_redirects=False) as site:
        answers = {path: site.get(path) for path in paths if "events" not in path or path == "/topics/events"}
    for path, answer in answers.items():
        assert answer.status_code < 500, (path, answer.text)
    return {path: PASSING.sub(" ", answer.text) for path, answer in answers.items()}


@pytest.fixture(params=ODD)
def odd(request: pytest.FixtureRequest, shop: Database) -> Iterator[None]:
    name = sql.Identifier(shop.name)
    with shop.connect() as connection:
        for setting, value in ODD[request.param].items():
            change = sql.SQL("alter database {} set {} to {}")
            connection.execute(change.format(name, sql.Identifier(setting), sql.Literal(value)))
    yield
    with shop.connect() as connection:
        connection.execute(sql.SQL("alter database {} reset all").format(name))


@pytest.fixture(scope="module")
def usual(shop: Database, tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """The output of commands and pages under the server's own settings."""
    pgqueue = CommandLine(tmp_path_factory.mktemp("usual"), PGQUEUE_DSN=shop.dsn)
    return {**{command: shown(command, pgqueue) for command in COMMANDS}, **pages(shop)}


def change(usual: str, found: str) -> tuple[str, str]:
    """Where two texts begin to differ."""
    at = next((place for place, (one, other) in enumerate(zip(usual, found, strict=False)) if one != other), 0)
    at = max(at - 30, 0)
    return usual[at : at + 100], found[at : at + 100]


COMMANDS = [command for commands in SHOWING.values() for command in commands]

#: With these a summary begins of a command that shows something; a demo shows it to people.
VERBS = {"Count", "Explain", "Find", "List", "Look", "Show"}


def test_every_command_that_shows_something_is_tried() -> None:
    showing = {name for name, (_, summary) in PLACES.items() if re.findall(r"\w+", summary)[0] in VERBS}
    assert showing - {"demo", "dashboard"} <= SHOWING.keys() <= PLACES.keys()


def test_commands_and_pages_show_the_same_under_odd_settings(
    usual: dict[str, object], shop: Database, pgqueue: CommandLine, odd: None
) -> None:
    found = {**{command: shown(command, pgqueue) for command in COMMANDS}, **pages(shop)}
    assert {what: change(str(usual[what]), str(found[what])) for what in found if found[what] != usual[what]} == {}


DATABASES = {
    "SQL_ASCII": "encoding 'SQL_ASCII' locale 'C'",
    "C": "encoding 'UTF8' locale 'C'",
    "Turkish": "encoding 'UTF8' locale_provider icu icu_locale 'tr-TR' locale 'C'",
}


@pytest.mark.parametrize("kind", DATABASES)
def test_commands_and_pages_work_in_databases_of_any_encoding_and_collation(
    database_server: SharedServer, tmp_path: Path, kind: str
) -> None:
    name = f"pgqueue_odd_{kind.lower()}_{os.getpid()}"
    with psycopg.connect(database_server.dsn, autocommit=True) as server:
        try:
            server.execute(f"create database {name} template template0 {DATABASES[kind]}")
        except (psycopg.errors.FeatureNotSupported, psycopg.errors.SyntaxError) as refusal:
            pytest.skip(f"PostgreSQL 14, or a build without ICU, has no such collations: {refusal}")
    try:
        database = Database(dsn(database_server.dsn, name))
        schema.migrate(database.dsn)
        with database.connect() as connection:
            install(connection)
        with QueueClient(database.dsn) as client:
            recur(client)
            publish(client)
            fill(database, client)
            client.create_queue("steps", requires_session=True)
            client.create_queue("INFO-I", max_concurrent=1)
        pgqueue = CommandLine(tmp_path, PGQUEUE_DSN=database.dsn)
        for command in COMMANDS:
            shown(command, pgqueue)
        assert pgqueue("bench", "--messages", "2", "--json").document["fsync"] in ("on", "off")
        pages(database)
    finally:
        drop(database_server.dsn, name)
