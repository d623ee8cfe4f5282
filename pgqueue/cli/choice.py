"""The database that a command works on, from its options."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import typer

ENVIRONMENT = "PGQUEUE_DSN"
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


@dataclass(frozen=True)
class Choice:
    """The options for the database, before the command or after it."""

    dsn: str | None = field(default=None, repr=False)
    embedded: bool = False

    @classmethod
    def of(cls, context: typer.Context, dsn: str | None, embedded: bool = False) -> Choice:
        """The choice after the command, or else the one before it."""
        return cls(dsn, embedded).or_else(context.find_root().obj or cls())

    def or_else(self, other: Choice) -> Choice:
        return self if self.dsn is not None or self.embedded else other
