"""Lists of the fields of a message, from ``pgqueue.model.columns``, in files of SQL and in classes of Python.

A list names what it consists of in the comment before it, which may go on in lines that begin with three spaces::

    -- generated: queue_id, {body to application_properties}, expires_at, {from session_id: message.$name}
    queue_id, body, binary_body, …
    -- end

Lines are broken where they are full. ``generated rows`` begins one with every item, and aligns what bars separate;
``generated lines`` has no commas between them. In braces are the fields: ``all``, ``body to subject``,
``from session_id`` or ``after session_id``; ``if most and is_staged`` chooses those that have these attributes; after
the colon is what is written for each. A comma at either end is left out where the list is empty.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from string import Template

from docs.generate.text import ROOT, table
from pgqueue.model.columns import MESSAGE, TEXTS, Column

WIDTH = 120

BLOCK = re.compile(
    r"(?P<begin>^(?P<indent> *)(?P<mark>--|#) generated(?P<how>| rows| lines): ?(?P<what>.*\n(?: *(?:--|#)   .*\n)*))"
    r"(?P<text>(?:.*\n)*?)(?P<end> *(?:--|#) end\n)",
    re.MULTILINE,
)
FIELDS = re.compile(
    r"(?P<before>[^{}]*)\{(?P<range>[^:}]*?)(?: if (?P<has>[\w ]+))?(?:: (?P<template>[^}]*))?\}(?P<after>[^{}]*)"
)


def files() -> list[Path]:
    """The files that have such lists."""
    found = [*(ROOT / "sql").rglob("*.sql"), *(ROOT / "pgqueue").rglob("*.py")]
    return sorted(path for path in found if BLOCK.search(path.read_text(encoding="utf-8")))


def filled(path: Path) -> str:
    """The text of a file with its lists as they are in the table now."""

    def write(block: re.Match[str]) -> str:
        what = re.sub(r"\n *(?:--|#)  *", " ", block["what"]).strip()
        return f"{block['begin']}{_written(block['how'], what, block['indent'], path.stem)}{block['end']}"

    return BLOCK.sub(write, path.read_text(encoding="utf-8"))


def _written(how: str, what: str, indent: str, function: str) -> str:
    leading, trailing = what[:2] * what.startswith(", "), what[-1:] * what.endswith(",")
    items = [item for term in _terms(what.removeprefix(", ").removesuffix(",")) for item in _items(term, function)]
    if not items:
        return ""
    if how == " lines":
        return "".join(f"{indent}{line}\n" for line in items)
    if how == " rows":
        rows = ",\n".join(f"{indent}{line}" for line in _aligned(items))
        return f"{rows}{trailing}\n"
    return "".join(f"{indent}{line}\n" for line in _wrapped(items, leading, trailing, WIDTH - len(indent)))


def _wrapped(items: Sequence[str], leading: str, trailing: str, width: int) -> Iterator[str]:
    """Lines of items, none of which is broken."""
    line = leading + items[0]
    for item in items[1:]:
        if len(f"{line}, {item},") > width:
            yield f"{line},"
            line = item
        else:
            line += f", {item}"
    yield line + trailing


def _terms(what: str) -> list[str]:
    """Split at the commas that are not in brackets of any kind, nor in quotes."""
    return re.findall(r"(?:[^,(){}']|\{[^}]*\}|\((?:[^()]|\([^()]*\))*\)|'[^']*'|[()])+", what)


def _items(term: str, function: str) -> Iterator[str]:
    found = FIELDS.fullmatch(term.strip())
    if found is None:
        yield term.strip()
        return
    template = Template(found["template"] or "$name")
    chosen = [each for each in _range(found["range"]) if _has(each, found["has"])]
    written = [template.substitute(_values(each, function)) for each in chosen]
    if written:
        written[0] = found["before"] + written[0]
        written[-1] += found["after"]
    yield from written


def _range(words: str) -> Sequence[Column]:
    names = [column.name for column in MESSAGE]
    match words.split():
        case ["all"]:
            return MESSAGE
        case ["from", first]:
            return MESSAGE[names.index(first) :]
        case ["after", last_before]:
            return MESSAGE[names.index(last_before) + 1 :]
        case [first, "to", last]:
            return MESSAGE[names.index(first) : names.index(last) + 1]
        case [only]:
            return [MESSAGE[names.index(only)]]
    raise ValueError(f"no fields of a message: {words}")


def _has(column: Column, attributes: str | None) -> bool:
    return all(getattr(column, attribute) for attribute in (attributes or "name").split(" and "))


def _values(column: Column, function: str) -> Mapping[str, object]:
    """What a template may name; ``given`` is the argument of the function where a column has its name, too."""
    given = f"{function}.{column.arrays}" if column.arrays == column.name else column.arrays
    # A list beside such an argument has the column under another name.
    alias = column.name.removeprefix("application_") if column.arrays == column.name else column.identifier
    optional = column.python if column.unset != "None" or column.python == "Any" else f"{column.python} | None"
    quoted = column.meaning.replace("'", "''")
    return {
        **{name: getattr(column, name) for name in ("type", "python", "most", "arrays", "unset", "default")},
        "key": column.name,
        "name": column.identifier,
        "given": given,
        "alias": alias,
        "meaning": quoted,
        "encoded": "str | None" if column.type == "jsonb" else optional,
        "optional": optional,
    }


def _aligned(items: Sequence[str]) -> Iterator[str]:
    rows = [item.split(" | ") for item in items]
    widths = [max(map(len, column)) for column in zip_longest(*rows, fillvalue="")]
    for row in rows:
        yield " ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip()


def message_texts() -> str:
    """The fields that are texts, for a page."""
    rows = (
        [
            f"`{each.name}`",
            f"{each.most} characters",
            "yes" if each.is_filterable else "",
            "yes" if each.is_staged else "",
        ]
        for each in TEXTS
    )
    return table(["", "at most", "filters", "Spark"], rows)
