"""The database and the schema that a command works on, from its options."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass, field, replace
from typing import Annotated

import typer

from pgqueue.model.schemas import DEFAULT, check_schema

ENVIRONMENT = "PGQUEUE_DSN"
SCHEMA_ENVIRONMENT = "PGQUEUE_SCHEMA"
PANEL = "Which database"

Dsn = Annotated[
    str | None,
    typer.Option(
        "--dsn",
        metavar="DSN",
        help=f"The database: postgresql://user:password@host:5432/name, or host=… dbname=…  "
        f"By default, the environment variable {ENVIRONMENT}, or libpq's PGHOST, PGDATABASE and so on.",
        rich_help_panel=PANEL,
    ),
]
Embedded = Annotated[
    bool,
    typer.Option(
        "--embedded",
        help="Use the PostgreSQL that pip installed; it runs as long as the command. "
        "All projects of a user share its data, unless PGQUEUE_EMBEDDED_DIRECTORY names a directory.",
        rich_help_panel=PANEL,
    ),
]
Schema = Annotated[
    str | None,
    typer.Option(
        "--schema",
        metavar="NAME",
        help=f"The schema of pgqueue in the database. By default, {SCHEMA_ENVIRONMENT}, or {DEFAULT}.",
        rich_help_panel=PANEL,
    ),
]


#: Where an advised command begins, unless it names a schema.
ADVISED = re.compile(r"`pgqueue (?=[a-z])(?![^`]*--schema)")

#: The same for a command that is a line of its own.
LINE = re.compile(r"^pgqueue (?:--schema (?:'[^']*'|\S+) )?(?=[a-z])")

#: How advised commands name the program: as the process was started.
NAME = program = "pgqueue"

#: The option to insert into advised commands.
_beside = ""


def advised(text: str) -> str:
    """Name the program in the commands that a text advises, and --schema if this command was given it."""
    return ADVISED.sub(lambda _: f"`{program} {_beside}", text)


def advised_line(line: str) -> str:
    """Name the program in a line for a shell; ``manage.py`` has the schema from its settings. SQL stays as it is."""
    return line if program == NAME else LINE.sub(f"{program} ", line)


@dataclass(frozen=True)
class Choice:
    """The options for the database and the schema, before the command or after it."""

    dsn: str | None = field(default=None, repr=False)
    embedded: bool = False
    named_schema: str | None = None

    @classmethod
    def of(cls, context: typer.Context, dsn: str | None, embedded: bool = False, schema: str | None = None) -> Choice:
        """The choice after the command, or else the one before it."""
        choice = cls(dsn, embedded, schema).or_else(context.find_root().obj or cls())
        if choice.named_schema is not None and program == NAME:
            global _beside  # noqa: PLW0603 - a process runs one command
            _beside = f"--schema {shlex.quote(choice.named_schema)} "
        return choice

    def or_else(self, other: Choice) -> Choice:
        chosen = self if self.dsn is not None or self.embedded else other
        named = other.named_schema if self.named_schema is None else self.named_schema
        return replace(chosen, named_schema=named)

    @property
    def schema(self) -> str:
        """The schema of pgqueue."""
        named = os.environ.get(SCHEMA_ENVIRONMENT) or DEFAULT if self.named_schema is None else self.named_schema
        return check_schema(named)
