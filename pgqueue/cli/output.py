"""Output of commands: results on stdout, as text and tables or as JSON; hints on stderr."""

from __future__ import annotations

import base64
import json
import os
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from decimal import Decimal
from functools import singledispatch
from typing import Annotated, Any
from uuid import UUID

import typer
from rich import box
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from pgqueue.cli.choice import advised
from pgqueue.model.printable import printable, printable_json

#: In files and pipes, lines are not cut to fit a terminal.
WIDTH_OF_A_FILE = 200

#: Between two columns, and what a column that may be cut should show at least.
GAP, FEW_WORDS = 2, 12

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document, for programs.")]


def console(*, stderr: bool = False) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    fixed = None if stream.isatty() or "COLUMNS" in os.environ else WIDTH_OF_A_FILE
    return Console(stderr=stderr, width=fixed, markup=False, highlight=False, emoji=False)


class Number(int):
    """A number that is an identifier: written as it must be typed, without separators."""


def counted(number: int, noun: str) -> str:
    """``1 message``, ``2,000 messages``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def say(text: str) -> None:
    """Print what was done."""
    console().print(printable(advised(text)), soft_wrap=True)


def hint(text: str) -> None:
    """Print additional advice; not part of the result."""
    console(stderr=True).print(printable(advised(text)), soft_wrap=True)


def document(value: Any) -> None:
    """Print one JSON document."""
    sys.stdout.write(printable_json(json.dumps(value, ensure_ascii=False, indent=2, default=plain)) + "\n")


@singledispatch
def plain(value: Any) -> Any:
    """A value that JSON lacks, as JSON: times in ISO 8601, durations in seconds, bytes as base64, fields by name."""
    return {each.name: getattr(value, each.name) for each in fields(value)}


@plain.register
def _(value: datetime) -> str:
    return value.isoformat()


@plain.register
def _(value: timedelta) -> float:
    return value.total_seconds()


@plain.register(Decimal)
@plain.register(UUID)
def _(value: Decimal | UUID) -> str:
    return str(value)


@plain.register(bytes)
@plain.register(bytearray)
def _(value: bytes) -> str:
    return base64.b64encode(value).decode()


@dataclass(frozen=True)
class Result:
    """The output of a command: with --json a document, otherwise a line of text, and a picture or a hint."""

    value: Any
    text: str = ""
    picture: Callable[[Any], RenderableType] | None = None
    hint: str = ""
    """In place of the picture, where the value is empty."""
    note: str = ""
    """A last hint, with --json, too."""
    end: Exception | None = None
    """The error that ends the command once the result is printed."""

    def show(self, *, as_json: bool) -> None:
        if as_json:
            document(self.value)
        else:
            if self.text:
                say(self.text)
            if self.value and self.picture is not None:
                show(self.picture(self.value))
            elif self.hint:
                hint(self.hint)
        if self.note:
            hint(self.note)


def flush() -> None:
    """Return when the output has been written: a settlement that depends on it must not happen before."""
    sys.stdout.flush()


def table(
    columns: Sequence[str], rows: Sequence[Sequence[object]], *, wide: Collection[str] = (), spare: Collection[str] = ()
) -> Table:
    """Numbers to the right, text to the left, a row a line; what does not fit is cut, first in the columns ``wide``.

    The columns ``spare`` are left out where they are empty and, from the right, where there is no room for them beside
    the others and the whole of the first column.
    """
    grid = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    kept = _kept(columns, rows, wide, spare)
    for place in kept:
        numeric = bool(rows) and all(isinstance(row[place], int | None) for row in rows)
        grid.add_column(
            printable(columns[place]), justify="right" if numeric else "left", no_wrap=columns[place] not in wide
        )
    for row in rows:
        grid.add_row(*(cell(row[place], line=True) for place in kept))
    return grid


def _kept(
    columns: Sequence[str], rows: Sequence[Sequence[object]], wide: Collection[str], spare: Collection[str]
) -> list[int]:
    """The positions of the columns that are shown."""
    needed = {
        place: _needed(column, [row[place] for row in rows], FEW_WORDS if place and column in wide else sys.maxsize)
        for place, column in enumerate(columns)
        if column not in spare or any(row[place] is not None for row in rows)
    }
    for place in reversed([place for place in needed if columns[place] in spare]):
        if sum(needed.values()) + GAP * (len(needed) - 1) <= console().width:
            break
        del needed[place]
    return list(needed)


def _needed(column: str, values: Sequence[object], enough: int) -> int:
    """How many characters a column needs, or how many are enough for it."""
    widest = max((cell(value, line=True).cell_len for value in values), default=0)
    return max(cell_len(column), min(widest, enough))


def record(fields: Sequence[tuple[str, object]]) -> Table:
    """Print one object: a field a line."""
    grid = Table(box=None, show_header=False, pad_edge=False)
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in fields:
        grid.add_row(printable(name), cell(value))
    return grid


def show(picture: RenderableType) -> None:
    console().print(picture)


def cell(value: object, *, line: bool = False) -> Text:
    """A value as a table cell, in one line if required."""
    match value:
        case None:
            return Text("-", style="dim")
        case bool():
            return Text("yes" if value else "no")
        case Number():
            return Text(str(int(value)))
        case int():
            return Text(f"{value:,}")
    text = printable(str(value))
    return Text(" ".join(text.splitlines()), no_wrap=True, overflow="ellipsis") if line else Text(text)
