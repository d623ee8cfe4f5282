"""The database that a command works on: its options, and the client for it."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from inspect import Parameter
from typing import Any, LiteralString

import psycopg
import typer
from psycopg.conninfo import conninfo_to_dict

from pgqueue import QueueClient, embedded
from pgqueue.cli.choice import ENVIRONMENT, Choice, Dsn, Embedded, Schema
from pgqueue.cli.encrypting import from_environment
from pgqueue.cli.failures import WrongUse
from pgqueue.cli.group import Group
from pgqueue.cli.options import Options
from pgqueue.cli.output import AsJson, Result
from pgqueue.errors import ConnectionLostError
from pgqueue.schema import migrate
from pgqueue.transports import dsn as dsns
from pgqueue.transports.readable import READABLE, connect

CONNECT_SECONDS = 10

CONTEXT = Parameter("context", Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
OPTIONS = [
    Parameter("dsn", Parameter.KEYWORD_ONLY, annotation=Dsn, default=None),
    Parameter("embedded", Parameter.KEYWORD_ONLY, annotation=Embedded, default=False),
    Parameter("schema", Parameter.KEYWORD_ONLY, annotation=Schema, default=None),
]
AS_JSON = Parameter("as_json", Parameter.KEYWORD_ONLY, annotation=AsJson, default=False)


@dataclass(frozen=True)
class Database:
    """The database of a command."""

    dsn: str = field(repr=False)
    client: QueueClient
    schema: str

    def now(self) -> datetime:
        """The time by the database's clock: clocks differ, and locks expire by this one."""
        moment: datetime
        (moment,) = self.row("select pgqueue.clock()")
        return moment

    def row(self, query: LiteralString) -> tuple[Any, ...]:
        """The first row of a query that has at least one."""
        with self.transaction() as connection:
            row: tuple[Any, ...] | None = connection.execute(query).fetchone()
        assert row is not None
        return row

    @contextmanager
    def transaction(self) -> Iterator[psycopg.Connection[Any]]:
        """A transaction of the command's own; an error rolls it back."""
        with connect(self.dsn, schema=self.schema) as connection:
            connection.execute(READABLE)
            yield connection


Command = Callable[..., Result | None]


def on_database(group: Group, name: str, **attributes: Any) -> Callable[[Command], Callable[..., None]]:
    """Make a command of a function of a database: with options that choose the database, and --json for its result.

    A parameter that is annotated with :class:`~pgqueue.cli.options.Options` becomes these options.
    """
    return lambda command: group.command(name, **attributes)(_on_database(command))


def _on_database(command: Command) -> Callable[..., None]:
    signature = inspect.signature(command, eval_str=True)
    _, *own = signature.parameters.values()
    groups = {each.name: group for each in own if (group := _options_of(each)) is not None}
    if signature.return_annotation is Result and AS_JSON.name not in signature.parameters:
        own.append(AS_JSON)
    parameters = [each for one in own for each in (groups[one.name].parameters() if one.name in groups else [one])]

    @functools.wraps(command)
    def run(context: typer.Context, *, dsn: str | None, embedded: bool, schema: str | None, **arguments: Any) -> None:
        arguments |= {name: group.taken_from(arguments) for name, group in groups.items()}
        as_json = arguments.get(AS_JSON.name, False)
        if AS_JSON.name not in signature.parameters:
            arguments.pop(AS_JSON.name, None)
        choice = Choice.of(context, dsn, embedded, schema)
        found = find(choice)
        with QueueClient(found, interceptors=from_environment(), schema=choice.schema) as client:
            result = command(Database(found, client, choice.schema), **arguments)
            if result is not None:
                result.show(as_json=as_json)
        if result is not None and result.end is not None:
            raise result.end

    keyword_only = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in [*parameters, *OPTIONS]]
    run.__doc__ = "\n\n".join([inspect.getdoc(command) or "", *(each.epilog for each in groups.values())]).rstrip()
    run.__signature__ = signature.replace(parameters=[CONTEXT, *keyword_only], return_annotation=None)  # type: ignore[attr-defined]  # inspect reads it
    return run


def _options_of(parameter: Parameter) -> Options | None:
    metadata = getattr(parameter.annotation, "__metadata__", ())
    return next((each for each in metadata if isinstance(each, Options)), None)


def find(choice: Choice) -> str:
    """The DSN of a database that was reached: the one that is chosen, or that of the environment."""
    if choice.dsn is not None and choice.embedded:
        raise WrongUse("--dsn and --embedded name two databases: give one of them")
    if choice.embedded:
        return _start_embedded(choice.schema)
    named = named_by(choice)
    if named is None:
        raise WrongUse(
            f"no database was named: give --dsn DSN, set {ENVIRONMENT}, or PGHOST and the like, or use the built-in"
            " one: --embedded"
        )
    check_reachable(named)
    return named


def named_by(choice: Choice) -> str | None:
    """The DSN of what is chosen, or of what the environment names, as libpq reads it."""
    named = choice.dsn if choice.dsn is not None else os.environ.get(ENVIRONMENT) or dsns.from_environment()
    return dsns.for_libpq(named) if named else None


def check_reachable(dsn: str) -> None:
    """Check that the database answers: a pool would keep trying for long without giving the reason."""
    try:
        named = conninfo_to_dict(dsn).get("connect_timeout") or os.environ.get("PGCONNECT_TIMEOUT")
        psycopg.connect(dsn, connect_timeout=named or CONNECT_SECONDS).close()
    except (psycopg.ProgrammingError, UnicodeError):  # its text contains the DSN, and with it the password
        raise WrongUse("the DSN cannot be read: write postgresql://user:password@host:5432/name") from None
    except psycopg.OperationalError as error:
        raise ConnectionLostError(_reason(error), sqlstate=error.sqlstate) from error


def _start_embedded(schema: str) -> str:
    dsn = embedded.start()
    migrate(dsn, schema=schema)
    return dsn


def _reason(error: psycopg.OperationalError) -> str:
    first, *_ = str(error).splitlines() or ["no reason given"]
    return f"the database cannot be reached: {first}"
