"""The server's comments on each function, view, table and column, as psql shows them."""

from __future__ import annotations

import re

import pytest

from pgqueue import schema
from pgqueue.schema import files
from pgqueue.testing import Database

UNCOMMENTED = """
select oid::regprocedure::text from pg_proc
 where pronamespace = 'pgqueue'::regnamespace and obj_description(oid, 'pg_proc') is null
 union all
select oid::regclass::text from pg_class
 where relnamespace = 'pgqueue'::regnamespace and relkind in ('r', 'p', 'v')
   and obj_description(oid, 'pg_class') is null
 union all
select format('%s.%s', relname, attname) from pg_attribute join pg_class on pg_class.oid = attrelid
 where relnamespace = 'pgqueue'::regnamespace and relkind in ('r', 'p', 'v', 'c') and attnum > 0 and not attisdropped
   and col_description(attrelid, attnum) is null
"""

COMMENTS = (files.folder("sql") / "comments.sql").read_text()

LISTED = re.compile(r"^ +\('(\w+)(?:\.(\w+))?', '", re.MULTILINE)
COLUMNS = """
select relname, coalesce(attname, '') from pg_class left join pg_attribute on attrelid = pg_class.oid and attnum > 0
 where relnamespace = 'pgqueue'::regnamespace and relkind in ('r', 'p', 'v', 'c')
"""

OLDER = """
update pgqueue.installation set definitions_digest = 'of an older version';
comment on view pgqueue.queues is 'old';
comment on function pgqueue.sweep is null;
comment on table pgqueue.message is null;
comment on column pgqueue.queue.name is null;
comment on column pgqueue.messages.state is null;
"""


@pytest.mark.core
def test_every_function_view_table_and_column_has_a_comment(database: Database) -> None:
    with database.connect() as connection:
        assert connection.execute(UNCOMMENTED).fetchall() == []


def test_no_comment_is_on_what_does_not_exist(database: Database) -> None:
    with database.connect() as connection:
        columns = connection.execute(COLUMNS).fetchall()
    there = {each for table, column in columns for each in ((table, ""), (column, ""), (table, column))}
    listed = LISTED.findall(COMMENTS)
    assert len(listed) > 100
    assert set(listed) - there == set()


def test_comments_that_are_there_already_take_no_lock_on_their_tables(database: Database) -> None:
    held = "select count(*) from pg_locks where mode = 'ShareUpdateExclusiveLock' and pid = pg_backend_pid()"
    with database.connect() as connection:
        connection.execute(COMMENTS.encode())
        assert connection.execute(held).fetchone() == (0,)


@pytest.mark.parametrize("definition", files.definitions(), ids=lambda definition: definition.name)
def test_every_file_begins_with_a_header(definition: files.Definition) -> None:
    assert definition.header.strip()


def test_an_upgrade_replaces_the_comments(empty_database: Database) -> None:
    schema.migrate(empty_database.dsn)
    with empty_database.connect() as connection:
        connection.execute(OLDER)
    schema.migrate(empty_database.dsn)
    with empty_database.connect() as connection:
        assert connection.execute(UNCOMMENTED).fetchall() == []
        said = connection.execute("select obj_description('pgqueue.queues'::regclass, 'pg_class')").fetchone()
    header = next(each.header for each in files.definitions() if each.name == "queues")
    assert said == (header,)
    assert header.startswith("Queues: how many messages each holds")
