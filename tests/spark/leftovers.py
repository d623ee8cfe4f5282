"""Leftovers of Spark in the database or on its server, and the sweep that removes those of failed jobs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from pgqueue.testing import Database

TABLES = r"select relname from pg_class where relname like 'staged\_%' and relkind = 'r' and relname <> 'staged_batch'"


def left_over(database: Database) -> list[Any]:
    with database.connect() as connection:
        return (
            connection.execute(TABLES).fetchall() + connection.execute("select * from pgqueue.staged_batch").fetchall()
        )


def is_swept(database: Database) -> bool:
    """Whether nothing is left of jobs a week later. To be asked again: a task that is being stopped may still stage."""
    database.move_clock(timedelta(days=7))
    with database.connect(autocommit=True) as connection:
        connection.execute("select pgqueue.discard_staged()")
    return left_over(database) == []


def keepers(database: Database) -> int:
    """How many connections the keepers of snapshots have."""
    with database.connect() as connection:
        row = connection.execute(
            "select count(*) from pg_stat_activity"
            " where datname = current_database() and application_name = 'pgqueue snapshot'"
        ).fetchone()
    assert row is not None
    return int(row[0])
