"""Functions and views after an upgrade are those of a fresh install, whatever an older version left behind."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine

from pgqueue import schema
from pgqueue.errors import PGQueueError
from pgqueue.model.schemas import DEFAULT, history_schema
from pgqueue.schema import definitions, files, indexes, revisions
from pgqueue.testing import Database
from tests.schema.dumps import dump, fresh

AN_OLDER_VERSION = """
update pgqueue.installation set definitions_digest = 'of an older version';

drop function pgqueue.clock() cascade;
create function pgqueue.clock() returns text language sql as 'select ''noon''';
create view pgqueue.forgotten as select pgqueue.clock();
create view pgqueue.forgotten_too as select * from pgqueue.forgotten;
create function pgqueue.forgotten_function() returns int language sql as 'select 1';
create function pgqueue.clock(zone text) returns text language sql as 'select ''noon''';
create procedure pgqueue.forgotten_procedure() language sql as 'select 1';
"""


@pytest.mark.core
def test_an_install_revision_by_revision_equals_one_at_once(
    empty_database: Database, another_empty_database: Database
) -> None:
    scripts = ScriptDirectory(str(files.folder("migrations")))
    engine = create_engine(another_empty_database.url)
    for script in reversed(list(scripts.walk_revisions())):
        with engine.begin() as connection:
            revisions.upgrade(connection, script.revision)
            assert revisions.current(connection, DEFAULT) == script.revision
    with engine.begin() as connection:
        definitions.replace_all(connection, DEFAULT)
    engine.dispose()
    indexes.build(another_empty_database.dsn, DEFAULT, lock_timeout=timedelta(seconds=5))
    assert dump(another_empty_database) == fresh(empty_database)


def test_the_functions_of_an_older_version_are_replaced_or_dropped(empty_database: Database) -> None:
    expected = fresh(empty_database)
    with empty_database.connect() as connection:
        connection.execute(AN_OLDER_VERSION)
    assert dump(empty_database) != expected
    schema.migrate(empty_database.dsn)
    assert dump(empty_database) == expected


def test_a_view_that_had_other_columns_takes_no_other_view_with_it(empty_database: Database) -> None:
    expected = fresh(empty_database)
    with empty_database.connect() as connection:
        connection.execute("update pgqueue.installation set definitions_digest = 'of an older version'")
        connection.execute("drop view pgqueue.queues")
        connection.execute("create view pgqueue.queues as select 1 as other")
    schema.migrate(empty_database.dsn)
    assert dump(empty_database) == expected


def test_the_days_of_the_history_do_not_fill_the_list_of_tables(database: Database) -> None:
    count = "select count(*) from pg_tables where schemaname = %s and tablename like 'settled_message%%'"
    with database.connect() as connection:
        counts = [connection.execute(count, [name]).fetchone() for name in (DEFAULT, history_schema(DEFAULT))]
    assert counts == [(1,), (64,)]


def test_a_view_of_an_application_is_not_dropped_with_the_view_it_depends_on(empty_database: Database) -> None:
    schema.migrate(empty_database.dsn)
    with empty_database.connect() as connection:
        connection.execute(AN_OLDER_VERSION)
        connection.execute("create view public.report as select * from pgqueue.forgotten")
    before = dump(empty_database)
    with pytest.raises(PGQueueError, match=r"view public\.report depends on view pgqueue\.forgotten"):
        schema.migrate(empty_database.dsn)
    assert dump(empty_database) == before


@pytest.mark.parametrize("definition", files.definitions(), ids=lambda definition: definition.name)
def test_a_file_defines_what_it_is_named_after_and_nothing_else(definition: files.Definition) -> None:
    created = [line for line in definition.sql.splitlines() if line.lower().startswith("create ")]
    kind = "function|procedure" if definition.kind == "functions" else "view"
    assert created
    assert all(re.match(rf"create or replace ({kind}) pgqueue\.{definition.name}\b", line) for line in created)


@pytest.mark.core
def test_every_file_is_applied() -> None:
    found = sorted(
        (path.relative_to(files.folder("sql")).parts[0], path.stem) for path in files.folder("sql").rglob("*.sql")
    )
    everything = (*files.definitions(), *files.indexes())
    applied = [(definition.kind, definition.name) for definition in everything]
    assert found == sorted(
        [*applied, ("comments.sql", "comments"), ("roles.sql", "roles"), ("triggers.sql", "triggers")]
    )
