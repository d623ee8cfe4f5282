"""Verbs and views of SQL, from the headers of their files, and who calls whom."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from docs.generate.text import ROOT, code, formatted, markdown, table

SQL = ROOT / "sql"
SIGNATURES = ROOT / "pgqueue" / "statements" / "signatures.py"
SIGNATURES_BEGIN = '''# Written by `make generate` from sql/functions: change it there.
"""The verbs of SQL: the type of each argument."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, LiteralString

SIGNATURES: Final[Mapping[str, Mapping[str, LiteralString]]] = '''
LABEL = re.compile(r"-- (Returns|Raises|Locks) {2,}")


@dataclass(frozen=True)
class File:
    """One function or view: a header of comments, and what it creates."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.stem

    @cached_property
    def text(self) -> str:
        return self.path.read_text()

    @cached_property
    def header(self) -> dict[str, str]:
        """Its purpose, under the empty name, and the text under each label."""
        said, label = {"": ""}, ""
        for line in self.text.partition("create or replace")[0].splitlines():
            if begun := LABEL.match(line):
                label = begun[1]
            said[label] = f"{said.get(label, '')}\n{LABEL.sub('-- ', line).removeprefix('--').strip()}"
        return {label: text.strip() for label, text in said.items()}

    @property
    def purpose(self) -> str:
        """The first paragraph of the header."""
        return _prose(self.header[""].split("\n\n")[0])

    @property
    def returns(self) -> str:
        return _prose(self.header.get("Returns", "")).removesuffix(".")

    @property
    def raises(self) -> str:
        """The SQLSTATEs, or the words where none is named."""
        said = self.header.get("Raises", "")
        states = re.findall(r"\b(?:PQ\d{3}|\d{5})\b", said)
        return code(dict.fromkeys(states)) or _prose(said).removesuffix(".")

    @property
    def body(self) -> str:
        return re.sub(r"--.*", "", self.text)

    @property
    def arguments(self) -> list[list[str]]:
        """The words of each argument: its name, its type, and its default."""
        found = re.search(
            r"create or replace (?:function|procedure) pgqueue\.\w+\((.*?)\)\s*(?:returns|language)\b",
            self.body,
            re.DOTALL,
        )
        assert found, f"{self.path} creates no function"
        arguments = [argument.split() for argument in found[1].split(",")]
        return [argument for argument in arguments if argument and argument[0] != "out"]

    @property
    def types(self) -> dict[str, str]:
        """The type of each argument by its name."""
        return {
            name.strip('"'): re.sub(" default .*", "", " ".join(type_and_default))
            for name, *type_and_default in self.arguments
        }

    @property
    def signature(self) -> str:
        """As PostgreSQL's manual has it: what may be left out is in brackets."""
        needed = ", ".join(argument[0] for argument in self.arguments if "default" not in argument)
        optional = ", ".join(argument[0] for argument in self.arguments if "default" in argument)
        if not optional:
            return f"{self.name}({needed})"
        return f"{self.name}({needed} [, {optional}])" if needed else f"{self.name}([{optional}])"


@cache
def functions() -> dict[str, File]:
    return {path.stem: File(path) for path in sorted(SQL.glob("functions/*/*.sql"))}


def signatures() -> str:
    """The module of the library that has the types of the verbs' arguments."""
    types = {name: file.types for name, file in functions().items() if not name.startswith("_")}
    return formatted(SIGNATURES_BEGIN + repr(types), SIGNATURES)


def verbs(*names: str) -> str:
    """The verbs of these names; ``others`` are those that no list of the page names."""
    listed = " ".join(re.findall(r"<!-- generated: verbs (.*) -->", (SQL / "README.md").read_text())).split()
    others = [name for name in functions() if not name.startswith("_") and name not in listed]
    chosen = [functions()[name] for each in names for name in (others if each == "others" else [each])]
    return table(
        ["", "", "returns", "raises"],
        ([f"`{verb.signature}`", verb.purpose, verb.returns, verb.raises] for verb in chosen),
    )


def views() -> str:
    files = map(File, sorted(SQL.glob("views/[!_]*.sql")))
    return table(["", ""], ([f"`pgqueue.{view.name}`", view.purpose] for view in files))


@cache
def called(name: str) -> frozenset[str]:
    """The functions that one calls by itself."""
    return _functions_in(functions()[name].body) - {name}


def _functions_in(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\bpgqueue\.(\w+)\(", text)) & functions().keys()


def reached(name: str) -> set[str]:
    """The functions that one calls by itself or through others."""
    found: set[str] = set()
    waiting = [*called(name)]
    while waiting:
        helper = waiting.pop()
        if helper not in found:
            found.add(helper)
            waiting += called(helper)
    return found - {name}


def calls() -> str:
    """For each verb what it calls, and what that calls."""
    names = [name for name in functions() if not name.startswith("_")]
    return table(
        ["verb", "calls", "and through these"],
        ([f"`{name}`", _sorted(called(name)), _sorted(reached(name) - called(name))] for name in names),
    )


def callers() -> str:
    """For each helper where it is, and who calls it."""
    views = {f"pgqueue.{path.stem}": _functions_in(File(path).body) for path in sorted(SQL.glob("views/*.sql"))}
    python = _functions_in_python()
    rows = []
    for name, helper in functions().items():
        if name.startswith("_"):
            by = _sorted(each for each in functions() if name in called(each))
            looked_at = code(view for view, inside in views.items() if name in inside)
            seen = [by, f"the views {looked_at}" if looked_at else "", "Python" if name in python else ""]
            rows.append([f"`{name}`", f"`{helper.path.parent.name}`", "; ".join(filter(None, seen))])
    return table(["helper", "in `sql/functions/`", "called by"], rows)


def library() -> str:
    """The helpers that the library calls as it calls verbs, the views that it reads, and what each is for."""
    helpers = sorted(name for name in _functions_in_python() if name.startswith("_"))
    rows = [[f"`{functions()[name].signature}`", functions()[name].purpose] for name in helpers]
    views = map(File, sorted(SQL.glob("views/_*.sql")))
    return table(["", ""], rows + [[f"`pgqueue.{view.name}`", view.purpose] for view in views])


@cache
def called_from_outside() -> frozenset[str]:
    """The functions that Python or a view calls."""
    views = (_functions_in(File(path).body) for path in SQL.glob("views/*.sql"))
    return _functions_in_python().union(*views)


@cache
def _functions_in_python() -> frozenset[str]:
    return _functions_in("".join(path.read_text() for path in sorted((ROOT / "pgqueue").rglob("*.py"))))


def _sorted(names: Iterable[str]) -> str:
    return code(sorted(names))


def _prose(text: str) -> str:
    """Text of a header: names of functions and of dead letters' queues are code."""
    return re.sub(r"'<queue>/[^']*'|\bpgqueue\.\w+", r"`\g<0>`", markdown(text))
