"""``manage.py pgqueue …``: the command line of pgqueue, on a database of the project."""

from __future__ import annotations

import sys
from argparse import REMAINDER
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.db import DEFAULT_DB_ALIAS

from pgqueue.cli.running import run
from pgqueue.django import dsn
from pgqueue.django.placing import program, schema


class Command(BaseCommand):
    """Runs a command of pgqueue after Django was set up, so that handlers may use its models."""

    help = "Runs a command of pgqueue on a database of this project, as in: manage.py pgqueue worker shop.handlers:app"

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the database, and leave everything else to the command line of pgqueue."""
        parser.add_argument("--database", default=DEFAULT_DB_ALIAS, help="The database, by its name in DATABASES.")
        parser.add_argument("arguments", nargs=REMAINDER, help="A command of `pgqueue` and its options.")

    def handle(self, *_: Any, database: str, arguments: list[str], **__: Any) -> None:
        """Run it, and exit with its code."""
        sys.exit(run(["--dsn", dsn(database), "--schema", schema(), *arguments], program(database)))
