"""Where the SQL and the revisions are: inside the package in a wheel, at the top of the repository in a checkout."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path

from pgqueue.errors import SchemaVersionError

PACKAGE = Path(__file__).resolve().parents[1]

# Functions first: views may call them, and no function needs a view before it is called itself.
REPEATABLE = ("functions", "views")

# The rights last: they are those of all that is there.
LAST = ("triggers.sql", "comments.sql", "roles.sql")


@dataclass(frozen=True)
class Definition:
    """A file that creates or replaces what it is named after."""

    kind: str
    name: str
    sql: str

    @property
    def header(self) -> str:
        """The comment that the file begins with."""
        lines = takewhile(lambda line: line.startswith("--"), self.sql.splitlines())
        return "\n".join(line.removeprefix("--").strip() for line in lines)


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
def last_steps() -> str:
    """The SQL after the functions and views: comments, the owner of the schema, and the rights in it."""
    return "\n".join((folder("sql") / name).read_text(encoding="utf-8") for name in LAST)


@cache
def digest() -> str:
    """Changes when, and only when, a definition, a comment or the rights do."""
    sha = hashlib.sha256(last_steps().encode())
    for definition in definitions():
        sha.update(repr(definition).encode())
    return sha.hexdigest()


@cache
def revisions() -> tuple[str, ...]:
    """The revisions of this version, oldest first. They are numbered, and their files are named after them."""
    found = sorted(path.stem for path in (folder("migrations") / "versions").glob("[0-9]*.py"))
    if not found:
        raise SchemaVersionError(f"this installation of pgqueue is broken: no revisions in {folder('migrations')}")
    return tuple(found)


def head() -> str:
    """The newest revision."""
    return revisions()[-1]


def revisions_after(revision: str | None) -> tuple[str, ...]:
    """The revisions that a database at ``revision`` lacks: all of them if it is None.

    Raises:
        SchemaVersionError: a newer version has migrated the database.
    """
    if revision is None:
        return revisions()
    if revision not in revisions():
        raise SchemaVersionError(
            f"the database is at revision {revision!r}, which this pgqueue does not know: its newest is"
            f" {head()!r}. A newer pgqueue migrated the database; install that version here. A database from before the"
            " first release must be made again: drop the schema of pgqueue."
        )
    return revisions()[revisions().index(revision) + 1 :]


def _read(kind: str) -> Iterator[Definition]:
    for path in sorted((folder("sql") / kind).rglob("*.sql")):
        yield Definition(kind=kind, name=path.stem, sql=path.read_text(encoding="utf-8"))
