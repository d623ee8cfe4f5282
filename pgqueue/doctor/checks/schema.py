"""The schema: installed, of this version, as it was installed, and with all its indexes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pgqueue.doctor.check import Check, Finding, Row
from pgqueue.errors import SchemaVersionError
from pgqueue.model.schemas import DEFAULT, in_schema
from pgqueue.schema.files import Definition, definitions, digest, head, indexes, revisions_after

#: Writes all functions, views and rights once more, where `pgqueue migrate` finds nothing left to do.
INSTALL_AGAIN = 'pgqueue migrate --sql | psql --set ON_ERROR_STOP=1 "$PGQUEUE_DSN"'

#: The body of a function as PostgreSQL keeps it, and the settings that it runs with; a body that begins with `return`
#: is kept in another form.
BODY = re.compile(r"^as \$\$(.*)\$\$;?\s*\Z", re.MULTILINE | re.DOTALL)
SETTING = re.compile(r"^(?:security definer )?set (\w+) = '?(.*?)'?$", re.MULTILINE)


def schema_version(rows: Sequence[Row]) -> Iterator[Finding]:
    """Find a schema that is older or newer than this code, or has the functions of another version."""
    (row,) = rows
    try:
        pending = revisions_after(row.revision)
    except SchemaVersionError:
        yield Finding(
            what=f"The schema is at revision {row.revision}; this version of pgqueue knows those up to {head()}.",
            cost="A newer version has migrated the database. This one may fail in untested ways.",
            mend="pip install --upgrade pgqueue-tx",
            since=row.installed_at,
        )
        return
    if pending:
        what = f"The schema is at revision {row.revision or 'none'}; this version of pgqueue needs {head()}."
    elif row.digest != digest():
        what = "The functions in the database are those of another version of pgqueue."
    else:
        return
    yield Finding(
        what=what,
        cost="New features of this version fail. Migrate with the newest version that you use: others run beside it.",
        mend="pgqueue migrate",
        since=row.installed_at,
    )


def changed_definitions(rows: Sequence[Row]) -> Iterator[Finding]:
    """Find functions that were changed or dropped since they were installed."""
    if any(row.digest != digest() for row in rows):
        return  # that is for schema_version to find
    installed = {row.name: (row.body, set(row.settings)) for row in rows}
    schema = rows[0].schema if rows else DEFAULT
    for function in definitions():
        body = BODY.search(in_schema(function.sql, schema))
        if body and installed.get(function.name) != (body[1], _settings(function)):
            change = "has been changed" if function.name in installed else "is missing"
            yield Finding(
                what=f"The function {function.name} {change} since it was installed.",
                cost="The queues may do something else than documented: lose messages, lock too much, or be slow.",
                mend=INSTALL_AGAIN,
            )


def _settings(definition: Definition) -> set[str]:
    declared = definition.sql.partition("\nas $$")[0]
    return {f"{name}={value}" for name, value in SETTING.findall(declared)}


def missing_indexes(rows: Sequence[Row]) -> Iterator[Finding]:
    """Find indexes that no migration has built yet, or whose build was broken off."""
    valid = {row.name for row in rows if row.indisvalid}
    for index in indexes():
        if index.name not in valid:
            yield Finding(
                what=f"The index {index.name} is not built.",
                cost="A sweep reads all messages of a queue to find the few that it looks for.",
                mend="pgqueue migrate",
            )


def claim_plan(rows: Sequence[Row]) -> Iterator[Finding]:
    """Find a claim that is not a scan of the primary key from the cursor on."""
    nodes = [row.line.strip().removeprefix("->").strip() for row in rows]
    others = [
        node
        for node in nodes
        if re.match(r"(Incremental )?Sort|Seq Scan|Bitmap|Index Scan using (?!message_pkey)", node)
    ]
    if others or not any(node.startswith("Index Scan using message_pkey") for node in nodes):
        yield Finding(
            what=f"A receive would not read the index message_pkey from its cursor on, but run: {', '.join(others)}.",
            cost="Each receive reads the whole queue, and a sort locks what it reads: consumers wait for each other.",
            mend=f"reindex index concurrently {rows[0].index};",
        )


NOT_INSTALLED = Check(
    "not-installed",
    """
    select current_database() as database
     where not exists (select from pg_class
                        where relname = 'alembic_version'
                          and relnamespace = (select to_regnamespace('pgqueue')::oid))
    """,
    "pgqueue is not installed in database {row.database}.",
    "It has no queues.",
    "pgqueue migrate",
)

SCHEMA_VERSION = Check(
    "schema-version",
    """
    select (select version_num from pgqueue.alembic_version) as revision,
           (select definitions_digest from pgqueue.installation) as digest,
           (select installed_at from pgqueue.installation) as installed_at
    """,
    judge=schema_version,
)

DEFINITIONS = Check(
    "changed-functions",
    """
    select nspname as schema, proname::text as name, prosrc as body, coalesce(proconfig, '{}') as settings,
           (select definitions_digest from pgqueue.installation) as digest
      from pg_proc
      join pg_namespace on pg_namespace.oid = pronamespace
     where pronamespace = (select to_regnamespace('pgqueue')::oid)
    """,
    judge=changed_definitions,
)

INDEXES = Check(
    "missing-index",
    """
    select relname::text as name, indisvalid
      from pg_index
      join pg_class on pg_class.oid = indexrelid
     where relnamespace = (select to_regnamespace('pgqueue')::oid)
    """,
    judge=missing_indexes,
)

SEQUENCES = Check(
    "sequence-behind",
    "select format('pgqueue.%%I', name) as name from pgqueue._sequences_behind() as name",
    "The sequence of {row.name} is behind the numbers in the table.",
    "A logical replication, or a restore of data alone, has left it behind. Numbers in use would be handed out again.",
    "pgqueue sweep",
)

CLAIM_PLAN = Check(
    "claim-plan",
    """
    select line, 'pgqueue.message_pkey'::regclass::text as index
      from pgqueue._claim_plan() as line
    """,
    judge=claim_plan,
)
