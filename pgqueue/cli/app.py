"""The commands in one tree."""

from __future__ import annotations

from typing import Annotated

import typer

import pgqueue
from pgqueue.cli.choice import Choice, Dsn, Embedded, Schema
from pgqueue.cli.commands import Commands
from pgqueue.cli.group import Group

EPILOG = "Exit codes: 0 done, 1 failed, 2 wrong use, 130 interrupted. Write durations as 30s, 5m or 1h30m."

app = Group(
    name="pgqueue",
    cls=Commands,
    epilog=EPILOG,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"pgqueue {pgqueue.__version__}")
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    dsn: Dsn = None,
    embedded: Embedded = False,
    schema: Schema = None,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """A transactional work queue on PostgreSQL: receive a message, work, and delete it in your own transaction.

    Begin with `pgqueue demo`, which needs nothing but itself.
    """
    context.obj = Choice(dsn, embedded, schema)
