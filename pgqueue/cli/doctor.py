"""``pgqueue doctor``: problems of the queues and their database, and the commands that fix them."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any

import typer

from pgqueue.cli import output
from pgqueue.cli.choice import advised_line
from pgqueue.cli.connection import Database, on_database
from pgqueue.cli.exit_codes import FAILED
from pgqueue.cli.failures import one_line
from pgqueue.cli.group import top
from pgqueue.cli.options import flag
from pgqueue.cli.output import AsJson
from pgqueue.cli.progress import working
from pgqueue.cli.quantities import format_duration
from pgqueue.doctor import Examination, Finding, Result, examine
from pgqueue.model.printable import printable

#: How many findings of a check are shown; the first are the worst.
SHOWN = 3

#: Longer lines are hard to read, however wide the terminal is.
WIDEST = 100


@on_database(top, "doctor", short_help="Find problems of the queues and their database.")
def doctor(
    database: Database,
    invariants: Annotated[
        bool, flag("invariants", "Read all messages, too, and check the rules of the tables. May take minutes.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Examine the queues and their database. Each finding shows since when, what it costs, and what fixes it.

    Changes nothing. Exit code 1 when anything is wrong, 0 when all is well. A check that the role may not make is
    listed with the grant that it takes.
    """
    with working("examining the queues and their database", as_json=as_json):
        examination = examine(database.dsn, invariants=invariants, schema=database.schema)
    if as_json:
        output.document(_document(examination))
    else:
        _print(examination)
    if not examination.is_well:
        raise typer.Exit(FAILED)


def _document(examination: Examination) -> dict[str, Any]:
    return {
        "database": examination.database,
        "examined_at": examination.examined_at,
        "findings": [
            {"check": result.check, **asdict(finding)} for result in examination.results for finding in result.findings
        ],
        "unseen": [{"check": result.check, "why": result.unseen} for result in examination.results if result.unseen],
        "well": [result.check for result in examination.results if _is_well(result)],
    }


def _is_well(result: Result) -> bool:
    return not result.findings and result.unseen is None


def _print(examination: Examination) -> None:
    first = examination.results[0]
    if first.findings:  # pgqueue is not installed
        (finding,) = first.findings
        output.say(one_line(f"{finding.what} Run `{advised_line(finding.mend)}`."))
        return
    for result in examination.results:
        for finding in result.findings[:SHOWN]:
            _print_finding(result.check, finding, examination.examined_at)
        if others := result.findings[SHOWN:]:
            output.say(f"{result.check}: {len(others):,} more, which --json lists\n")
    _print_unseen(examination.results)
    output.say(_summary(examination))


def _print_finding(check: str, finding: Finding, now: datetime) -> None:
    output.say(check if finding.since is None else f"{check}, {_since(finding.since, now)}")
    output.say(_indented(f"{finding.what} {finding.cost}"))
    output.say(f"  fix: {one_line(printable(advised_line(finding.mend)))}\n")


def _since(moment: datetime, now: datetime) -> str:
    local = moment.astimezone()
    when = f"{local:%H:%M:%S}" if local.date() == now.astimezone().date() else f"{local:%Y-%m-%d %H:%M}"
    return f"since {when} ({format_duration(now - moment)})"


def _indented(text: str) -> str:
    width = min(output.console().width, WIDEST)
    return textwrap.fill(printable(one_line(text)), width, initial_indent="  ", subsequent_indent="  ")


def _print_unseen(results: Sequence[Result]) -> None:
    """List the skipped checks, by the grant that they take."""
    checks: dict[str, list[str]] = {}
    for result in results:
        if result.unseen is not None:
            checks.setdefault(result.unseen, []).append(result.check)
    for why, names in checks.items():
        lacking = "a right" if why.startswith("grant ") else "this version's schema"
        output.say(f"not looked at, for lack of {lacking}\n{_indented(', '.join(names))}")
        output.say(f"  fix: {one_line(printable(advised_line(why)))}\n")


def _summary(examination: Examination) -> str:
    results = examination.results
    findings = sum(len(result.findings) for result in results)
    unseen = sum(result.unseen is not None for result in results)
    state = f": {output.counted(findings, 'finding')}," if findings else ":" if unseen else " is well:"
    more = f", {unseen} could not look" if unseen else ""
    well = output.counted(sum(map(_is_well, results)), "check")
    return f"Database {examination.database}{state} {well} found nothing{more}."
