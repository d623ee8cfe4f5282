"""Functions and views: created or replaced as a whole, so that an upgrade ends where a fresh install does.

What no file defines any more is dropped: a function whose arguments changed would otherwise stay beside its successor
and make calls ambiguous.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any, LiteralString

import psycopg
from sqlalchemy import Connection as SQLAlchemyConnection

from pgqueue.schema.files import definitions, digest

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

#: All in one round trip: whoever works waits for the locks of this transaction meanwhile. What exists with another
#: result or other columns has to be dropped first, and views may stand on it: all come back after the functions.
REPLACE = """
do $$
declare
    definition record;
begin
    for definition in
        select *
          from json_to_recordset(current_setting('pgqueue.definitions')::json) as each (kind text, name text, sql text)
    loop
        begin
            execute definition.sql;
        exception when invalid_function_definition or invalid_table_definition then
            execute (select coalesce('drop view ' || string_agg(oid::regclass::text, ', '), '')
                       from pg_class
                      where relnamespace = 'pgqueue'::regnamespace and relkind = 'v');
            if definition.kind = 'functions' then
                execute (select coalesce('drop routine ' || string_agg(oid::regprocedure::text, ', '), '')
                           from pg_proc
                          where pronamespace = 'pgqueue'::regnamespace and proname = definition.name);
            end if;
            execute definition.sql;
        end;
    end loop;
end
$$
"""


def are_current(connection: SQLAlchemyConnection) -> bool:
    """Whether the database has the functions and views of this version."""
    row = _raw(connection).execute("select definitions_digest from pgqueue.installation").fetchone()
    return row is not None and row[0] == digest()


def replace_all(connection: SQLAlchemyConnection) -> None:
    """Replace all functions and views, and drop those that this version does not have."""
    raw = _raw(connection)
    routines, views = _versions(raw, ROUTINE_VERSIONS), _versions(raw, VIEW_VERSIONS)
    raw.execute("set local check_function_bodies = off")
    raw.execute("select set_config('pgqueue.definitions', %s, true)", [_as_json()])
    raw.execute(REPLACE)
    _drop(raw, "view", views & _versions(raw, VIEW_VERSIONS))
    _drop(raw, "routine", routines & _versions(raw, ROUTINE_VERSIONS))
    _record(raw)


def _as_json() -> str:
    return json.dumps([{"kind": each.kind, "name": each.name, "sql": each.sql} for each in definitions()])


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
