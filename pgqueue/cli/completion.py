"""Shell completion of names from the database, as far as it answers soon."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, LiteralString

import typer

from pgqueue.cli.choice import Choice
from pgqueue.cli.connection import named_by
from pgqueue.statements.statement import Statement, column
from pgqueue.transports.one_shot import ask_once

#: How long a press of Tab waits for an answer.
PATIENCE = timedelta(seconds=1)


def _names_in(query: LiteralString) -> Callable[[typer.Context, str], list[str]]:
    sql: LiteralString = f"select name from ({query}) as names where starts_with(name, %(start)s) order by 1 limit 100"

    def names(context: typer.Context, incomplete: str) -> list[str]:
        """The first hundred names that begin so, or none where the database does not answer."""
        choice = _choice(context.params).or_else(_choice(context.find_root().params))
        database = None if choice.embedded else named_by(choice)  # the embedded one would have to be started
        if database is None:
            return []
        try:
            return ask_once(database, Statement(sql, {"start": incomplete}, column), PATIENCE, choice.schema)
        except Exception:  # noqa: BLE001 - the shell would print it into the command line
            return []

    return names


def _choice(given: Mapping[str, Any]) -> Choice:
    return Choice(given.get("dsn"), bool(given.get("embedded")), given.get("schema"))


queue_names = _names_in("select name from pgqueue.queue_settings()")
topic_names = _names_in("select name from pgqueue.topics")
schedule_names = _names_in("select name from pgqueue.schedules")
