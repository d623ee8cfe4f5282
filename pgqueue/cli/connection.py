"""The database that a command works on: its options, and the client for it."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from inspect import Parameter
from typing import Annotated, Any

import psycopg
import typer
from psycopg.conninfo import conninfo_to_dict

from pgqueue import QueueClient, embedded
from pgqueue.cli.failures import WrongUse
from pgqueue.errors import ConnectionLostError

ENVIRONMENT = "PGQUEUE_DSN"
PANEL = "Which database"
CONNECT_SECONDS = 10

Dsn = Annotated[
    str | None,
    typer.Option(
        "--dsn",
        metavar="DSN",
        help=f"Where the database is: postgresql://user:password@host:5432/name, or host=… dbname=…  "
        f"Without it, the environment variable {ENVIRONMENT} says.",
        show_default=False,
        rich_help_panel=PANEL,
    ),
]
Embedded = Annotated[
    bool,
    typer.Option(
        "--embedded",
        help="Use the PostgreSQL that pip installed; it is started for as long as the command runs.",
        rich_help_panel=PANEL,
    ),
]

CONTEXT = Parameter("context", Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
OPTIONS = [
    Parameter("dsn", Parameter.KEYWORD_ONLY, annotation=Dsn, default=None),
    Parameter("embedded", Parameter.KEYWORD_ONLY, annotation=Embedded, default=False),
]


@dataclass(frozen=True)
class Choice:
    """What the command line says about the database, before the command or after it."""

    dsn: str | None = None
    embedded: bool = False

    def or_else(self, other: Choice) -> Choice:
        return self if self.dsn is not None or self.embedded else other


@dataclass(frozen=True)
class Database:
    """The database of a command."""

    dsn: str
    client: QueueClient

    def now(self) -> datetime:
        """The time by the database's clock: clocks differ, and locks expire by this one."""
        with self.transaction() as connection:
            row = connection.execute("select pgqueue.clock()").fetchone()
        assert row is not None
        moment: datetime = row[0]
        return moment

    @contextmanager
    def transaction(self) -> Iterator[psycopg.Connection[Any]]:
        """A transaction of the command's own; an error rolls it back."""
        with psycopg.connect(self.dsn) as connection:
            yield connection


def on_database(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that choose a database to a command, and pass it that database as the first argument."""
    signature = inspect.signature(command, eval_str=True)
    own = [parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in signature.parameters.values()][1:]

    @functools.wraps(command)
    def connected(context: typer.Context, *, dsn: str | None, embedded: bool, **arguments: Any) -> None:
        chosen = choose(context, dsn, embedded)
        with QueueClient(chosen) as client:
            command(Database(chosen, client), **arguments)

    connected.__signature__ = signature.replace(parameters=[CONTEXT, *own, *OPTIONS])  # type: ignore[attr-defined]  # inspect reads it
    return connected


def choose(context: typer.Context, dsn: str | None, use_embedded: bool) -> str:
    """The DSN of a reachable database: from the options after the command, before it, or from the environment."""
    said = Choice(dsn, use_embedded).or_else(context.find_root().obj or Choice())
    if said.dsn is not None and said.embedded:
        raise WrongUse("--dsn and --embedded name two databases: say one of them")
    if said.embedded:
        return _start_embedded()
    named = said.dsn if said.dsn is not None else os.environ.get(ENVIRONMENT)
    if not named:
        raise WrongUse(f"no database was named: say --dsn DSN, set {ENVIRONMENT}, or use the built-in one: --embedded")
    knock(named)
    return named


def knock(dsn: str) -> None:
    """Check that the database answers: a pool would keep trying for long without giving the reason."""
    try:
        patience = int(conninfo_to_dict(dsn).get("connect_timeout") or CONNECT_SECONDS)
    except psycopg.ProgrammingError:  # its text contains the DSN, and with it the password
        raise WrongUse("the DSN cannot be read: write postgresql://user:password@host:5432/name") from None
    try:
        psycopg.connect(dsn, connect_timeout=patience).close()
    except psycopg.OperationalError as error:
        raise ConnectionLostError(_reason(error), sqlstate=error.sqlstate) from error


def _start_embedded() -> str:
    dsn = embedded.start()
    from pgqueue import schema

    schema.migrate(dsn)
    return dsn


def _reason(error: psycopg.OperationalError) -> str:
    first, *_ = str(error).splitlines() or ["no reason given"]
    return f"the database cannot be reached: {first}"
