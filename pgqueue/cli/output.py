"""How commands speak: results on stdout, for people as text and tables or for programs as JSON; hints on stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection, Sequence
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

#: Where nobody looks at a terminal, lines are not cut to fit one.
WIDTH_OF_A_FILE = 200

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document, for programs.")]


def console(*, stderr: bool = False) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    fixed = None if stream.isatty() or "COLUMNS" in os.environ else WIDTH_OF_A_FILE
    return Console(stderr=stderr, width=fixed, markup=False, highlight=False, emoji=False)


class Number(int):
    """A number that counts nothing: it is written as it must be typed."""


def counted(number: int, noun: str) -> str:
    """``1 message``, ``2,000 messages``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def say(text: str) -> None:
    """What was done."""
    console().print(text, soft_wrap=True)


def hint(text: str) -> None:
    """What is worth knowing besides; not part of the result."""
    console(stderr=True).print(text, soft_wrap=True)


def document(value: Any) -> None:
    """One JSON document."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def flush() -> None:
    """Returns when what was said has left us: before that, nothing may be settled that depends on it."""
    sys.stdout.flush()


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, wide: Collection[str] = ()) -> Table:
    """Numbers to the right, text to the left, a row a line; what does not fit is cut, first in the columns ``wide``."""
    grid = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for place, column in enumerate(columns):
        numeric = bool(rows) and all(isinstance(row[place], int | None) for row in rows)
        grid.add_column(
            column,
            justify="right" if numeric else "left",
            no_wrap=column not in wide,
        )
    for row in rows:
        grid.add_row(*(cell(value, line=True) for value in row))
    return grid


def record(fields: Sequence[tuple[str, object]]) -> Table:
    """One thing: a field a line."""
    grid = Table(box=None, show_header=False, pad_edge=False)
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in fields:
        grid.add_row(name, cell(value))
    return grid


def show(picture: Table) -> None:
    console().print(picture)


def cell(value: object, *, line: bool = False) -> Text:
    """A value as it stands in a table, in one line if it must."""
    match value:
        case None:
            return Text("-", style="dim")
        case Number():
            return Text(str(int(value)))
        case int():
            return Text(f"{value:,}")
    text = printable(str(value))
    return Text(" ".join(text.splitlines()), no_wrap=True, overflow="ellipsis") if line else Text(text)


def printable(text: str) -> str:
    """Text that cannot command a terminal: what is not printable is written as an escape."""
    return "".join(
        character if character.isprintable() or character == "\n" else repr(character)[1:-1] for character in text
    )
