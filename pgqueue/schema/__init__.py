"""Bringing a database to this version of pgqueue: its tables by revision, its functions and views as a whole."""

from __future__ import annotations

from datetime import timedelta

from pgqueue.schema import installed
from pgqueue.schema.files import head as head
from pgqueue.schema.installed import current as current


def migrate(conninfo: str, *, lock_timeout: timedelta = timedelta(seconds=5), attempts: int = 5) -> str:
    """Bring the database to head and return the revision it is at: all in one transaction, but for indexes on tables
    that may be large, which are built while everybody works.

    Any number of processes may do this at once: one works, the others find it done. Where a lock is not to be had
    within ``lock_timeout`` everything is rolled back, so that applications are not held up, and tried again.
    """
    if installed.is_current(conninfo, lock_timeout):
        return head()
    from pgqueue.schema import migration

    return migration.migrate(conninfo, lock_timeout, attempts)
