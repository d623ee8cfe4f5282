"""A function of the engine with one piece of its text taken out or replaced."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType

import psycopg

from pgqueue.testing import Database

SQL = Path(__file__).parents[3] / "sql"
FUNCTIONS = SQL / "functions"


@dataclass(frozen=True)
class Twin:
    """A function or view, what of its text is replaced by what, and the test that must notice."""

    function: str
    text: str
    replacement: str
    caught_by: Callable[[Database], None]

    @property
    def is_caught_by_a_test(self) -> bool:
        """Whether pytest runs with the sound function what notices the broken one."""
        return isinstance(self.caught_by, FunctionType) and self.caught_by.__name__.startswith("test_")

    @property
    def original(self) -> str:
        return source(self.function)

    @property
    def broken(self) -> str:
        return self.original.replace(self.text, self.replacement)

    def is_caught(self, database: Database) -> bool:
        """Whether the test fails in a database that has the broken function."""
        with psycopg.connect(database.dsn) as connection:
            connection.execute(self.broken.encode())
        try:
            self.caught_by(database)
        except (AssertionError, ValueError):
            return True
        except psycopg.Error as error:
            if not (error.sqlstate or "").startswith("PQ"):
                raise
            return True
        return False

    def __str__(self) -> str:
        return f"{self.function}: {' '.join(self.text.split())}"


def source(function: str) -> str:
    (file,) = SQL.rglob(f"{function}.sql")
    return file.read_text()
