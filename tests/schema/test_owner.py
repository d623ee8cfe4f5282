"""The owner of the schema after a migration, whichever role ran it, and the rights on the tables afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from pgqueue import Message, QueueClient, schema
from pgqueue.errors import AccessDeniedError
from pgqueue.testing import Database

OWNER = "select nspowner::regrole::text from pg_namespace where nspname = 'pgqueue'"


@pytest.fixture
def role(empty_database: Database) -> Iterator[str]:
    """A role that owns the database; it and what it owns is gone after the test."""
    name = f"test_{uuid4().hex[:12]}"
    with empty_database.connect(autocommit=True) as connection:
        connection.execute(f"create role {name}; alter database {empty_database.name} owner to {name}".encode())
        yield name
        connection.execute(f"alter database {empty_database.name} owner to current_user".encode())
        connection.execute(f"drop owned by {name} cascade".encode())
        connection.execute("drop schema if exists pgqueue, pgqueue_history cascade")
        connection.execute(f"drop role {name}".encode())


def as_role(database: Database, role: str) -> str:
    return make_conninfo(database.dsn, options=f"-c role={role}")


def owner_of(database: Database) -> str:
    with database.connect() as connection:
        row = connection.execute(OWNER).fetchone()
    assert row is not None
    return str(row[0])


@pytest.mark.core
def test_a_role_that_may_create_roles_makes_an_owner_and_becomes_a_member_of_it(
    empty_database: Database, role: str
) -> None:
    with empty_database.connect(autocommit=True) as connection:
        connection.execute(f"alter role {role} createrole".encode())
        connection.execute(f"grant pgqueue_owner to {role} with admin option".encode())
    schema.migrate(as_role(empty_database, role))
    assert owner_of(empty_database) == "pgqueue_owner"
    with QueueClient(as_role(empty_database, role)) as client:
        client.create_queue("q")
        client.grant_send("q", "public")


def test_a_role_that_may_not_create_roles_stays_the_owner_with_a_warning(
    empty_database: Database, role: str, caplog: pytest.LogCaptureFixture
) -> None:
    schema.migrate(as_role(empty_database, role))
    assert owner_of(empty_database) == role
    assert f"pgqueue belongs to {role}, because it may not create roles" in caplog.text
    assert "Let a role with CREATEROLE that owns the database run pgqueue migrate" in caplog.text
    with QueueClient(as_role(empty_database, role)) as client:
        client.create_queue("q")
        client.grant_send("q", "public")
        client.queue("q").send(Message({}))
    with QueueClient(as_role(empty_database, "pgqueue_monitor")) as stranger:
        stranger.queue("q").send(Message({}))
        with pytest.raises(AccessDeniedError, match=r"may not call pgqueue\.receive"):
            stranger.queue("q").receive()


def test_a_superuser_gives_it_to_the_owner_later(empty_database: Database, role: str) -> None:
    schema.migrate(as_role(empty_database, role))
    with empty_database.connect() as connection:
        connection.execute("update pgqueue.installation set definitions_digest = 'of an older version'")
    schema.migrate(empty_database.dsn)
    assert owner_of(empty_database) == "pgqueue_owner"


def test_a_grant_survives_a_migration(database: Database) -> None:
    with QueueClient(database.dsn) as client:
        client.create_queue("q")
        client.grant_receive("q", "public")
        before = client.list_grants()
        with psycopg.connect(database.dsn) as connection:
            connection.execute("update pgqueue.installation set definitions_digest = 'of an older version'")
        client.migrate()
        assert [each for each in client.list_grants() if each.queue == "q"] == [
            each for each in before if each.queue == "q"
        ]
    with QueueClient(as_role(database, "pgqueue_monitor")) as anybody:
        assert anybody.queue("q").receive() == []
