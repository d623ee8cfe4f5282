"""Functions and views: created or replaced as a whole, so that an upgrade ends where a fresh install does.

Functions that no file defines any more are dropped: one whose arguments changed would otherwise stay beside its
successor and make calls ambiguous.
"""

from __future__ import annotations

import json

from sqlalchemy import Connection, text

from pgqueue.model.schemas import in_schema
from pgqueue.schema.files import definitions, digest, last_steps

#: All in one round trip, because clients wait for the locks of this transaction. A function with another result, or a
#: view with other columns, must be dropped first; with a function all views, which are created again after it.
#: The header of each file becomes the comment of what the file defines.
#: A definition that was replaced has a new row version; this version has no file for one that keeps the old version.
REPLACE = """
do $$
declare
    definition record;
    routines   text[] := array (select oid::regprocedure || ' ' || xmin
                                  from pg_proc
                                 where pronamespace = 'pgqueue'::regnamespace);
    views      text[] := array (select ev_class::regclass || ' ' || pg_rewrite.xmin
                                  from pg_rewrite
                                  join pg_class on pg_class.oid = ev_class
                                 where relnamespace = 'pgqueue'::regnamespace and relkind = 'v');
begin
    for definition in
        select *
          from json_to_recordset(current_setting('pgqueue.definitions')::json)
            as each (kind text, name text, sql text, header text)
    loop
        begin
            execute definition.sql;
        exception when invalid_function_definition or invalid_table_definition then
            if definition.kind = 'views' then
                execute format('drop view pgqueue.%I', definition.name);
            else
                execute (select coalesce('drop view ' || string_agg(oid::regclass::text, ', '), '')
                           from pg_class
                          where relnamespace = 'pgqueue'::regnamespace and relkind = 'v');
                execute (select coalesce('drop routine ' || string_agg(oid::regprocedure::text, ', '), '')
                           from pg_proc
                          where pronamespace = 'pgqueue'::regnamespace and proname = definition.name);
            end if;
            execute definition.sql;
        end;
        execute (select string_agg(format('comment on routine %s is %L', oid::regprocedure, definition.header), ';')
                   from pg_proc
                  where pronamespace = 'pgqueue'::regnamespace
                    and proname = definition.name
                    and definition.kind = 'functions'
                  union all
                 select format('comment on view pgqueue.%I is %L', definition.name, definition.header)
                  where definition.kind = 'views'
                 order by 1 nulls last
                 limit 1);
    end loop;
    execute (select coalesce('drop view ' || string_agg(ev_class::regclass::text, ', '), '')
               from pg_rewrite
               join pg_class on pg_class.oid = ev_class
              where relnamespace = 'pgqueue'::regnamespace
                and relkind = 'v'
                and ev_class::regclass || ' ' || pg_rewrite.xmin = any (views));
    execute (select coalesce('drop routine ' || string_agg(oid::regprocedure::text, ', '), '')
               from pg_proc
              where pronamespace = 'pgqueue'::regnamespace and oid::regprocedure || ' ' || xmin = any (routines));
end
$$
"""

RECORD = """
insert into pgqueue.installation (definitions_digest)
values (:digest)
    on conflict on constraint one_installation do update
   set definitions_digest = excluded.definitions_digest, installed_at = clock_timestamp()
"""


def are_current(connection: Connection) -> bool:
    """Whether the database has the functions and views of this version."""
    return bool(connection.scalar(text("select definitions_digest from pgqueue.installation")) == digest())


def replace_all(connection: Connection, schema: str) -> None:
    """Replace all functions and views, drop those that this version lacks, comment on all, and set who may use it."""
    connection.execute(text("set local check_function_bodies = off"))
    connection.execute(text("select set_config('pgqueue.definitions', :json, true)"), {"json": as_json(schema)})
    connection.exec_driver_sql(REPLACE, execution_options={"no_parameters": True})
    connection.exec_driver_sql(last_steps(), execution_options={"no_parameters": True})
    connection.execute(text(RECORD), {"digest": digest()})


def as_json(schema: str) -> str:
    """All definitions, as REPLACE reads them from the setting ``pgqueue.definitions``."""
    return json.dumps(
        [
            {
                "kind": each.kind,
                "name": each.name,
                "sql": in_schema(each.sql, schema),
                "header": in_schema(each.header, schema),
            }
            for each in definitions()
        ]
    )
