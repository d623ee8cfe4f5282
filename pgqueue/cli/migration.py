"""``pgqueue migrate``: brings the schema in a database to this version."""

from __future__ import annotations

import typer

from pgqueue import schema
from pgqueue.cli import output
from pgqueue.cli.connection import Dsn, Embedded, choose
from pgqueue.cli.output import AsJson


def migrate(context: typer.Context, as_json: AsJson = False, dsn: Dsn = None, embedded: Embedded = False) -> None:
    """Install the schema in a database, or bring it to this version of pgqueue.

    Any number of processes may do this at once, and while others send and receive. It waits five seconds at the most
    for a lock, so that nobody is held up behind it, and tries again.
    """
    chosen = choose(context, dsn, embedded)
    before = schema.current(chosen)
    revision = schema.migrate(chosen)
    if as_json:
        output.document({"revision": revision, "revision_before": before})
    elif before == revision:
        output.say(f"the schema is at revision {revision}")
    else:
        output.say(f"the schema was brought from {before or 'nothing'} to revision {revision}")
