"""The migration as a script for psql, for those who may not let a program change their schema."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from pgqueue.model.schemas import in_schema
from pgqueue.schema import definitions, locks
from pgqueue.schema.files import digest, folder, head, indexes, last_steps, revisions_after
from pgqueue.statements.statement import literal

VERSION_TABLE = """\
create table pgqueue.alembic_version (
    version_num varchar(32) not null,
    constraint alembic_version_pkc primary key (version_num)
);
"""

CHECK = """\
-- This script is for a database at revision {revision}.
do $$
begin
    if (select version_num from pgqueue.alembic_version) is distinct from {revision} then
        raise 'the database is not at revision % of pgqueue any more: make the script again', {revision};
    end if;
end
$$;
"""

#: The index that an interrupted build has left. Dropping it concurrently takes a statement of its own: psql's \gexec.
DROP_INVALID = """\
select 'drop index concurrently ' || indexrelid::regclass
  from pg_index
 where indexrelid = to_regclass({name}) and not indisvalid \\gexec
"""


def script(revision: str | None, schema: str, lock_timeout: timedelta) -> str:
    """A script from a revision to this version: one transaction, then the indexes.

    Raises:
        SchemaVersionError: the revision is one of a newer version.
    """
    before, after = _before(revision, revisions_after(revision), lock_timeout), _after()
    # The definitions have the names of the schema already: a name is not replaced within JSON.
    replaced = f"{literal(definitions.as_json(schema))}, true) as definitions \\gset\n"
    return in_schema("\n".join(before), schema) + replaced + in_schema("\n".join(after), schema)


def _before(revision: str | None, pending: tuple[str, ...], lock_timeout: timedelta) -> Iterator[str]:
    yield f"-- pgqueue: from {revision or 'nothing'} to revision {head()}. Run it with psql --set ON_ERROR_STOP=1."
    yield "set client_min_messages = warning;\nbegin;"
    yield f"set local lock_timeout = {round(lock_timeout.total_seconds() * 1000)};"
    yield "set local search_path = pg_catalog, pg_temp;\n"
    if revision is None:
        yield "create schema pgqueue;"
        yield VERSION_TABLE
        yield "insert into pgqueue.alembic_version (version_num) values ('');\n"
    else:
        yield CHECK.format(revision=literal(revision))
        yield locks.statement(tables=bool(pending)).strip() + ";\n"
    for each in pending:
        yield f"-- Revision {each}"
        yield (folder("migrations") / "versions" / f"{each}.sql").read_text(encoding="utf-8")
    yield f"update pgqueue.alembic_version set version_num = {literal(head())};\n"
    yield "-- Functions and views"
    yield "set local check_function_bodies = off;"
    yield "select set_config('pgqueue.definitions', "


def _after() -> Iterator[str]:
    yield definitions.REPLACE.strip() + ";"
    yield last_steps()
    yield definitions.RECORD.replace(":digest", literal(digest())).strip() + ";"
    yield "commit;\n"
    for index in indexes():
        yield DROP_INVALID.format(name=literal(f"pgqueue.{index.name}"))
        yield index.sql
