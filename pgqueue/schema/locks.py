"""The locks of a migration, which takes all of them before it changes anything, and gives way.

Transactions of applications lock tables in any order, so a migration sooner or later waits for one that waits for it.
PostgreSQL ends one of the two with an error, after ``deadlock_timeout``. Another connection looks for that earlier, and
then has the migration give back all of its locks, and try again.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from math import ceil
from typing import LiteralString

from psycopg.errors import QueryCanceled
from sqlalchemy import Connection, text
from sqlalchemy.exc import OperationalError

from pgqueue.errors import TransactionConflictError
from pgqueue.transports.readable import connect

#: Seconds between two looks: far less than a ``deadlock_timeout``, which is a second by default.
LOOK_EVERY = 0.05
#: For how many seconds the one that cancels a statement may take to note that it has; else someone else did.
NOTING = 5.0

#: The queue's table is the first, as with most verbs: those that have it go on, others wait and have nothing.
#: ``lock table`` of a view locks what it reads, system catalogs too; to reset an option that no view has locks only it.
#: Left out are two tables that another migration has read when it waits for this one, and staged ones: they are not
#: logged. A partition is locked with its table.
LOCK: LiteralString = """
do $$
declare
    command text;
begin
    for command in
        select format(case relkind when 'v' then 'alter view %s reset (check_option)' else 'lock table %s' end,
                      pg_class.oid::regclass)
          from pg_class
          join pg_namespace on pg_namespace.oid = relnamespace
         where nspname = any ('{pgqueue,pgqueue_history}'::text[])
           and relkind = any (:kinds)
           and relname not in ('alembic_version', 'installation')
           and relpersistence = 'p'
           and not relispartition
         order by relname <> 'queue', relname
    loop
        execute command;
    end loop;
end
$$
"""

#: Cancels the statement of a session that waits for one that waits for it, whatever the caller's search_path has.
GIVE_WAY = """
with recursive blocking (pid) as (
    select pg_catalog.unnest(pg_catalog.pg_blocking_pids(%(pid)s::integer))
     union
    select pg_catalog.unnest(pg_catalog.pg_blocking_pids(pid)) from blocking)
select pg_catalog.pg_cancel_backend(pid) from blocking where pid operator(pg_catalog.=) %(pid)s::integer
"""


def take(conninfo: str, patience: timedelta, connection: Connection, *, tables: bool) -> None:
    """Lock the views and, for a revision, the tables: all within this time, for which others wait, or none.

    Raises:
        TransactionConflictError: transactions stood in its way, or it gave way to one after the other.
    """
    deadline = time.monotonic() + patience.total_seconds()
    with _watched(conninfo, connection.scalar(text("select pg_backend_pid()"))) as gave_way:
        while True:
            try:
                with connection.begin_nested(), _limited(connection, deadline if patience else None):
                    return execute(connection, tables=tables)
            except OperationalError as error:
                if not isinstance(error.orig, QueryCanceled):
                    raise
                if time.monotonic() > deadline:
                    raise TransactionConflictError("transactions held what a migration locks") from error
                if not gave_way.wait(NOTING):
                    raise
            gave_way.clear()
            time.sleep(random.uniform(0, 2 * LOOK_EVERY))  # noqa: S311 - those that have waited go on


def execute(connection: Connection, *, tables: bool) -> None:
    """Lock them, however long others wait."""
    connection.exec_driver_sql(statement(tables=tables), execution_options={"no_parameters": True})


def statement(*, tables: bool) -> LiteralString:
    """The SQL that takes the locks."""
    return LOCK.replace(":kinds", "'{p,r,v}'" if tables else "'{v}'")


@contextmanager
def _limited(connection: Connection, deadline: float | None) -> Iterator[None]:
    """Have a statement end at a time: ``lock_timeout`` is the limit of each lock that it waits for."""
    if deadline is None:
        yield
        return
    limit = text("select set_config('statement_timeout', :limit, true)")
    before = connection.scalar(text("select current_setting('statement_timeout')"))
    connection.execute(limit, {"limit": str(max(ceil((deadline - time.monotonic()) * 1000), 0) + 1)})
    yield
    connection.execute(limit, {"limit": before})


@contextmanager
def _watched(conninfo: str, pid: int | None) -> Iterator[threading.Event]:
    """Cancel what the session executes as often as it stands in another's way; the event is set then."""
    gave_way, ended = threading.Event(), threading.Event()

    def watch() -> None:
        while not ended.wait(LOOK_EVERY):
            if watcher.execute(GIVE_WAY, {"pid": pid}).fetchone():
                gave_way.set()

    with connect(conninfo, autocommit=True) as watcher, ThreadPoolExecutor() as threads:
        watching = threads.submit(watch)
        try:
            yield gave_way
        finally:
            ended.set()
        watching.result()
