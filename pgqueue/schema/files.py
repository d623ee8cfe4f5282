"""Where the SQL and the revisions are: inside the package in a wheel, at the top of the repository in a checkout."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pgqueue.errors import SchemaVersionError

PACKAGE = Path(__file__).resolve().parents[1]

# Functions first: views may call them, and no function needs a view before it is called itself.
REPEATABLE = ("functions", "views")


@dataclass(frozen=True)
class Definition:
    """A file that creates or replaces what it is named after."""

    kind: str
    name: str
    sql: str


def folder(name: str) -> Path:
    """The directory ``sql`` or ``migrations``: inside the wheel, else in the source tree."""
    packed = PACKAGE / f"_{name}"
    return packed if packed.is_dir() else PACKAGE.parent / name


@cache
def definitions() -> tuple[Definition, ...]:
    """The functions and views of this version."""
    return tuple(definition for kind in REPEATABLE for definition in _read(kind))


@cache
def indexes() -> tuple[Definition, ...]:
    """The indexes that are built after the migration."""
    return tuple(_read("indexes"))


@cache
def digest() -> str:
    """Changes when, and only when, a definition does."""
    sha = hashlib.sha256()
    for definition in definitions():
        sha.update(repr(definition).encode())
    return sha.hexdigest()


@cache
def head() -> str:
    """The newest revision. Revisions are numbered, and their files are named after them."""
    revisions = sorted(path.stem for path in (folder("migrations") / "versions").glob("[0-9]*.py"))
    if not revisions:
        raise SchemaVersionError(f"this installation of pgqueue is broken: no revisions in {folder('migrations')}")
    return revisions[-1]


def _read(kind: str) -> Iterator[Definition]:
    for path in sorted((folder("sql") / kind).rglob("*.sql")):
        yield Definition(kind=kind, name=path.stem, sql=path.read_text(encoding="utf-8"))
