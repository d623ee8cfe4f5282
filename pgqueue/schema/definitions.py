"""Functions and views: created or replaced as a whole, so that an upgrade ends where a fresh install does.

What no file defines any more is dropped: a function whose arguments changed would otherwise stay beside its successor
and make calls ambiguous.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, LiteralString

import psycopg
from psycopg.errors import InvalidFunctionDefinition, InvalidTableDefinition
from sqlalchemy import Connection as SQLAlchemyConnection

from pgqueue.schema.files import Definition, definitions, digest

Connection = psycopg.Connection[Any]

# The row version that defines each routine or view: whatever was replaced has a new one.
ROUTINE_VERSIONS = """
    select oid::regprocedure::text, xmin::text
      from pg_proc
     where pronamespace = 'pgqueue'::regnamespace
"""

VIEW_VERSIONS = """
    select view.oid::regclass::text, rule.xmin::text
      from pg_class as view
      join pg_rewrite as rule on rule.ev_class = view.oid
     where view.relnamespace = 'pgqueue'::regnamespace and view.relkind = 'v'
"""

ROUTINES_NAMED = """
    select oid::regprocedure::text
      from pg_proc
     where pronamespace = 'pgqueue'::regnamespace and proname = %s
"""


def are_current(connection: SQLAlchemyConnection) -> bool:
    row = _raw(connection).execute("select definitions_digest from pgqueue.installation").fetchone()
    return row is not None and row[0] == digest()


def replace_all(connection: SQLAlchemyConnection) -> None:
    raw = _raw(connection)
    routines, views = _versions(raw, ROUTINE_VERSIONS), _versions(raw, VIEW_VERSIONS)
    raw.execute("set local check_function_bodies = off")
    for definition in definitions():
        _replace(raw, definition)
    _drop(raw, "view", views & _versions(raw, VIEW_VERSIONS))
    _drop(raw, "routine", routines & _versions(raw, ROUTINE_VERSIONS))
    _record(raw)


def _replace(connection: Connection, definition: Definition) -> None:
    try:
        with connection.transaction():
            connection.execute(definition.sql.encode())
    except (InvalidFunctionDefinition, InvalidTableDefinition):
        # It exists with another result or other columns, and only dropping it changes those. Views may stand on it,
        # so they go first: all come back after the functions.
        _drop(connection, "view", _versions(connection, VIEW_VERSIONS))
        if definition.kind == "functions":
            _drop(connection, "routine", connection.execute(ROUTINES_NAMED, [definition.name]).fetchall())
        connection.execute(definition.sql.encode())


def _versions(connection: Connection, query: LiteralString) -> set[tuple[str, str]]:
    return set(connection.execute(query).fetchall())


def _drop(connection: Connection, kind: str, found: Collection[tuple[str, ...]]) -> None:
    if found:
        connection.execute(f"drop {kind} {', '.join(name for name, *_ in sorted(found))}".encode())


def _record(connection: Connection) -> None:
    connection.execute(
        """
        insert into pgqueue.installation (definitions_digest)
        values (%s)
            on conflict on constraint one_installation do update
           set definitions_digest = excluded.definitions_digest, installed_at = clock_timestamp()
        """,
        [digest()],
    )


def _raw(connection: SQLAlchemyConnection) -> Connection:
    driver_connection = connection.connection.driver_connection
    assert isinstance(driver_connection, psycopg.Connection)
    return driver_connection
