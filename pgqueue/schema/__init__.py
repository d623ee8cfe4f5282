"""Migration of a database to this version of pgqueue: tables by revision, functions and views as a whole."""

from __future__ import annotations

from datetime import timedelta

from pgqueue.schema import installed
from pgqueue.schema.files import head as head
from pgqueue.schema.installed import current as current


def migrate(conninfo: str, *, lock_timeout: timedelta = timedelta(seconds=5), attempts: int = 5) -> str:
    """Migrate the database to head; return its revision.

    The migration is one transaction. Indexes on tables that may be large are built after it, concurrently.

    Any number of processes may call this at once: one migrates, the others then find the schema current. If the
    migration cannot get a lock within ``lock_timeout``, it is rolled back, so that applications are not blocked, and
    retried: ``attempts`` times in all.
    """
    if installed.is_current(conninfo, lock_timeout):
        return head()
    from pgqueue.schema import migration

    return migration.migrate(conninfo, lock_timeout, attempts)
