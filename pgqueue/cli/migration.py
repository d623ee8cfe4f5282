"""``pgqueue migrate``: brings the schema in a database to this version."""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from functools import partial
from typing import Annotated

import typer

from pgqueue import schema as schemas
from pgqueue.cli.choice import ENVIRONMENT, Choice, Dsn, Embedded, Schema
from pgqueue.cli.connection import find
from pgqueue.cli.exit_codes import FAILED
from pgqueue.cli.failures import WrongUse
from pgqueue.cli.group import top
from pgqueue.cli.options import flag
from pgqueue.cli.output import AsJson, Result
from pgqueue.cli.progress import Step, working
from pgqueue.errors import PGQueueError
from pgqueue.statements.statement import Statement, rows
from pgqueue.transports.one_shot import ask_once

PATIENCE = timedelta(seconds=1)

INDEX_BUILD = """
select 'building an index: ' || phase,
       case when tuples_total > 0 then tuples_done else blocks_done end,
       case when tuples_total > 0 then tuples_total else blocks_total end
  from pg_catalog.pg_stat_progress_create_index
 where datname = current_database()
"""


@top.command("migrate", short_help="Install or upgrade the schema in a database.")
def migrate(
    context: typer.Context,
    check: Annotated[
        bool, flag("check", "Change nothing. Print what is left to do; exit code 1 if there is anything.")
    ] = False,
    sql: Annotated[
        bool,
        flag(
            "sql", "Change nothing. Print the migration as a script for psql; without a database, that of an empty one."
        ),
    ] = False,
    as_json: AsJson = False,
    dsn: Dsn = None,
    embedded: Embedded = False,
    schema: Schema = None,
) -> None:
    """Install the schema in a database, or bring it to this version of pgqueue.

    Any number of processes may do this at once, and while others send and receive. It waits five seconds at the most
    for a lock, so that no session is held up behind it, and tries again.
    """
    if sql and (check or as_json):
        raise WrongUse("--sql prints a script: use it without --check and --json")
    choice = Choice.of(context, dsn, embedded, schema)
    if sql:
        sys.stdout.write(schemas.script(_named(choice), schema=choice.schema))
    elif check:
        _check(find(choice), choice.schema, as_json=as_json)
    else:
        _migrate(find(choice), choice.schema, as_json=as_json)


def _migrate(dsn: str, schema: str, *, as_json: bool) -> None:
    before = schemas.current(dsn, schema=schema)
    with working("migrating", as_json=as_json, measure=partial(_index_build, dsn)):
        revision = schemas.migrate(dsn, schema=schema)
    done = f"the schema was brought from {before or 'nothing'} to revision {revision}"
    done = f"the schema is at revision {revision}" if before == revision else done
    Result({"revision": revision, "revision_before": before}, done).show(as_json=as_json)


def _index_build(dsn: str) -> Step | None:
    """How far the index has come that is being built; a table of millions takes minutes."""
    try:
        steps = ask_once(dsn, Statement(INDEX_BUILD, {}, rows), PATIENCE)
    except PGQueueError:  # it only shows how far we are
        return None
    return Step(*steps[0]) if steps else None


def _check(dsn: str, schema: str, *, as_json: bool) -> None:
    pending = schemas.pending(dsn, schema=schema)
    text = "\n".join(pending) or f"the schema is at revision {schemas.head()}, and nothing is left to do"
    how = "`pgqueue migrate` does this, `pgqueue migrate --sql` shows how" if pending else ""
    document = {"revision": schemas.current(dsn, schema=schema), "head": schemas.head(), "pending": pending}
    Result(document, text, hint=how).show(as_json=as_json)
    if pending:
        raise typer.Exit(FAILED)


def _named(choice: Choice) -> str | None:
    """The database that is named, if one is."""
    is_named = choice.dsn is not None or choice.embedded or os.environ.get(ENVIRONMENT)
    return find(choice) if is_named else None
