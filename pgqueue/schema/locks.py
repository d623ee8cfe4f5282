"""The locks of a migration, which takes all of them before it changes anything.

Transactions of applications lock tables in any order, so a migration that locked them one by one would deadlock with
some. PostgreSQL looks for deadlocks when a lock has been waited for as long as ``deadlock_timeout``. A migration holds
locks while it waits for others only half as long: then it gives all back, and tries again.
"""

from __future__ import annotations

from typing import LiteralString

from sqlalchemy import Connection

#: Tries for as long as ``lock_timeout`` allows, however many locks there are; forever if that is 0.
#: ``lock table`` of a view locks what it reads, system catalogs too; to reset an option that no view has locks only it.
#: Two tables are left out because another migration has read them when it waits for this one.
LOCK: LiteralString = """
do $$
declare
    patience constant text := current_setting('lock_timeout');
    deadline constant timestamptz := clock_timestamp() + nullif(patience::interval, interval '0');
    until     timestamptz;
    left_over integer;
    command   text;
begin
    loop
        until := least(deadline, clock_timestamp() + current_setting('deadlock_timeout')::interval / 2);
        begin
            for command in
                select format(case relkind when 'v' then 'alter view %s reset (check_option)' else 'lock table %s' end,
                              pg_class.oid::regclass)
                  from pg_class
                  join pg_namespace on pg_namespace.oid = relnamespace
                 where nspname = any ('{pgqueue,pgqueue_history}'::text[])
                   and relkind = any (:kinds)
                   and relname not in ('alembic_version', 'installation')
                 order by relkind desc, relname
            loop
                left_over := greatest(1, ceil(1000 * extract(epoch from until - clock_timestamp())));
                perform set_config('lock_timeout', left_over::text, true);
                execute command;
            end loop;
            perform set_config('lock_timeout', patience, true);
            return;
        exception when lock_not_available then
            if clock_timestamp() >= deadline then
                raise;
            end if;
        end;
        perform pg_sleep(random() / 10);                 -- those that wait go on
    end loop;
end
$$
"""


def take(connection: Connection, *, tables: bool) -> None:
    """Lock the views and, for a revision, the tables."""
    connection.exec_driver_sql(statement(tables=tables), execution_options={"no_parameters": True})


def statement(*, tables: bool) -> LiteralString:
    """The SQL that takes the locks."""
    return LOCK.replace(":kinds", "'{p,r,v}'" if tables else "'{v}'")
