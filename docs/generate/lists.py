"""Lists of the fields of a message and of the settings of a queue, in files of SQL and in classes of Python.

They come from ``pgqueue.model.columns`` and ``pgqueue.model.queue_settings``.

A list names what it consists of in the comment before it, which may go on in lines that begin with three spaces::

    -- generated: queue_id, {body to application_properties}, expires_at, {from session_id: message.$name}
    queue_id, body, binary_body, …
    -- end

Lines are broken where they are full. ``generated rows`` begins one with every item, and aligns what bars separate;
``generated lines`` has no commas between them. In braces are the fields: ``all``, ``body to subject``,
``from session_id`` or ``after session_id``; or settings: ``all settings``, ``lock_duration to status``. ``if most and
is_staged`` chooses those that have these attributes; after the colon is what is written for each. A comma at either
end is left out where the list is empty.

``generated query: _deferred_messages(queue.id)`` writes the text of a function, a query, with these arguments; calls of
other such functions are replaced too. A view runs functions with the rights of its reader, who has none on tables.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from string import Template

from docs.generate.text import ROOT, table
from pgqueue.model.columns import MESSAGE, TEXTS, Column
from pgqueue.model.queue_settings import SETTINGS, Setting

WIDTH = 120

BLOCK = re.compile(
    r"(?P<begin>^(?P<indent> *)(?P<mark>--|#) generated(?P<how>| rows| lines| query): ?"
    r"(?P<what>.*\n(?: *(?:--|#)   .*\n)*))"
    r"(?P<text>(?:.*\n)*?)(?P<end> *(?:--|#) end\n)",
    re.MULTILINE,
)
TEXT = re.compile(
    r"\((?P<arguments>[^)]*)\)\nreturns (?:.*\n)+?(?:as \$\$|begin atomic)\n(?P<query>(?s:.*?));?\n(?:\$\$|end);"
)
CALLED = re.compile(r"(?<=from |eral )pgqueue\.(_\w+\([^()]*\))")
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
    if how == " query":
        return textwrap.indent(_query(what), indent)
    leading, trailing = what[:2] * what.startswith(", "), what[-1:] * what.endswith(",")
    items = [item for term in _terms(what.removeprefix(", ").removesuffix(",")) for item in _items(term, function)]
    if not items:
        return ""
    if how == " lines":
        return "".join(f"{indent}{line}\n" for item in items for line in item.splitlines())
    if how == " rows":
        rows = ",\n".join(f"{indent}{line}" for line in _aligned(items))
        return f"{rows}{trailing}\n"
    return "".join(f"{indent}{line}\n" for line in _wrapped(items, leading, trailing, WIDTH - len(indent)))


def _query(call: str) -> str:
    """The text of a function as a part of another query: it names its arguments with its own name in front."""
    name, _, given = call.partition("(")
    (path,) = (ROOT / "sql").rglob(f"{name}.sql")
    text = re.sub(r" *--.*", "", path.read_text(encoding="utf-8"))
    found = TEXT.search(text)
    assert found, f"{name} is no plain query"
    query = textwrap.dedent(found["query"]) + "\n"
    for argument, value in zip(found["arguments"].split(","), given.removesuffix(")").split(", "), strict=True):
        query = re.sub(rf"\b{name}\.{argument.split()[0]}\b", value, query)

    def inlined(call: re.Match[str]) -> str:
        line = query[query.rfind("\n", 0, call.start()) + 1 : call.start()]
        indent = " " * (len(line) - len(line.lstrip()) + 4)
        return f"(\n{textwrap.indent(_query(call[1]), indent)}{indent})"

    return CALLED.sub(inlined, query)


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


def _range(words: str) -> Sequence[Column | Setting]:
    match words.split():
        case ["all"]:
            return MESSAGE
        case ["all", "settings"]:
            return SETTINGS
        case ["from", first]:
            table, at = _place(first)
            return table[at:]
        case ["after", last_before]:
            table, at = _place(last_before)
            return table[at + 1 :]
        case [first, "to", last]:
            table, at = _place(first)
            return table[at : _place(last)[1] + 1]
    raise ValueError(f"no fields of a message, and no settings: {words}")


def _place(name: str) -> tuple[Sequence[Column | Setting], int]:
    table: Sequence[Column | Setting]
    for table in (MESSAGE, SETTINGS):
        names = [each.name for each in table]
        if name in names:
            return table, names.index(name)
    raise ValueError(f"no field of a message, and no setting: {name}")


def _has(each: Column | Setting, attributes: str | None) -> bool:
    return all(getattr(each, attribute) for attribute in (attributes or "name").split(" and "))


def _values(each: Column | Setting, function: str) -> Mapping[str, object]:
    """The names for a template: the attributes, and what follows from them in this function."""
    more = _of_field(each, function) if isinstance(each, Column) else _of_setting(each, function)
    return vars(each) | {"key": each.name, "name": each.identifier, "meaning": each.meaning.replace("'", "''")} | more


def _of_field(field: Column, function: str) -> dict[str, object]:
    """``given`` is the argument of the function: a list of columns beside it has the column under an ``alias``."""
    is_hidden = field.arrays == field.name
    optional = field.python if field.unset != "None" or field.python == "Any" else f"{field.python} | None"
    return {
        "arrays": field.arrays,
        "default": field.default,
        "given": f"{function}.{field.arrays}" if is_hidden else field.arrays,
        "alias": field.name.removeprefix("application_") if is_hidden else field.identifier,
        "optional": optional,
        "encoded": "str | None" if field.type == "jsonb" else optional,
    }


def _of_setting(setting: Setting, function: str) -> dict[str, object]:
    name, given = setting.name, f"{function}.{setting.name}"
    kept = setting.python.removesuffix(" | str")
    optional = "Any" if setting.python == "Any" else f"{setting.python} | None"
    merged = f"coalesce({given}, {name})"
    return {
        "or_default": f"coalesce({name}, {setting.default})" if setting.default else name,
        "of_topics": name if setting.is_of_topics else "null",
        "or_removed": f"nullif({given}, {setting.none})" if setting.none else given,
        "altered": f"nullif({merged}, {setting.none})" if setting.none else merged,
        "was": f"quote_literal({name})" if setting.type == "text" else f"{name}::text",
        "declared": f'{name}: {optional}\n"""{setting.doc}"""',
        "declared_of_topics": f'{name}: {optional}\n"""{setting.doc_of_topics or setting.doc}"""',
        "kept": optional if setting.none else kept,
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
