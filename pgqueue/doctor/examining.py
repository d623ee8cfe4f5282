"""Runs the checks, each in a read-only transaction of its own, so that the doctor holds no snapshot for long."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, LiteralString

import psycopg
from psycopg import sql
from psycopg.errors import InsufficientPrivilege, UndefinedColumn, UndefinedFunction, UndefinedTable
from psycopg.rows import namedtuple_row

from pgqueue.doctor import thresholds
from pgqueue.doctor.check import Check, Finding, Row
from pgqueue.doctor.registry import CHECKS, INVARIANTS, NOT_INSTALLED
from pgqueue.model.schemas import DEFAULT, check_schema, in_schema
from pgqueue.transports import dsn as dsns
from pgqueue.transports.readable import READABLE, connect
from pgqueue.transports.translation import translated

#: The database's clock, not pgqueue's, which may be missing.
WHERE = "select current_database() as database, current_user::text as role, clock_timestamp() as now"

#: The roles that see what a check may look at.
SEES_SESSIONS, SEES_QUEUES = "pg_read_all_stats", "pgqueue_monitor"

MAY_SEE = "select pg_has_role(current_user, %s, 'usage') as may"

#: A check waits neither for a migration nor for a slow disk; only the search for broken invariants may take long.
BOUNDS: LiteralString = (
    "set local search_path = pg_catalog, pg_temp; set local lock_timeout = '2s'; set local quote_all_identifiers = off"
)
PATIENCE: LiteralString = "; set local statement_timeout = '60s'"

#: Where a command for a shell begins.
SHELL = re.compile(r"^pgqueue (?=[a-z])")

#: The remedy of a check that an older schema does not support.
NEEDS_MIGRATION = "pgqueue migrate"


@dataclass(frozen=True)
class Result:
    """The findings of a check; ``unseen`` is the remedy of one that was skipped: a grant, or a migration."""

    check: str
    findings: tuple[Finding, ...] = ()
    unseen: str | None = None


@dataclass(frozen=True)
class Examination:
    """The findings of all checks, the most urgent first."""

    database: str
    examined_at: datetime
    results: tuple[Result, ...]

    @property
    def is_well(self) -> bool:
        """Whether no check has found anything; some may not have been able to look."""
        return not any(result.findings for result in self.results)


def examine(conninfo: str, *, invariants: bool = False, schema: str = DEFAULT) -> Examination:
    """Look for whatever is wrong with the queues of a database, and change nothing.

    It takes some seconds with 10,000 queues, however many messages wait. With ``invariants`` it reads all messages,
    too, and reports what contradicts the rules of the tables.

    A check that the role may not make is reported as unseen, with the right that it takes; a database where pgqueue was
    never installed gets only that check.

    ``schema`` is where pgqueue is installed.

    Raises:
        ConnectionLostError: the database cannot be reached.
        InvalidArgumentError: no instance can have this ``schema``.
    """
    with (
        translated(),
        connect(dsns.for_libpq(conninfo), schema=check_schema(schema)) as connection,
    ):
        connection.read_only = True
        return Doctor(connection, schema).examine(invariants=invariants)


class Doctor:
    """Examines the database of a connection."""

    def __init__(self, connection: psycopg.Connection[Any], schema: str) -> None:
        self._connection = connection
        self._schema = schema
        self._cursor = connection.cursor(row_factory=namedtuple_row)

    def examine(self, *, invariants: bool) -> Examination:
        """Run all checks."""
        (here,) = self._rows(WHERE)
        self._role = here.role
        return Examination(here.database, here.now, tuple(self._results(invariants=invariants)))

    def _results(self, *, invariants: bool) -> Iterator[Result]:
        installed = self._look(NOT_INSTALLED)
        yield installed
        if not installed.findings:
            yield from (self._look(check) for check in CHECKS)
            if invariants:
                yield self._look(INVARIANTS, patience="")

    def _look(self, check: Check, patience: LiteralString = PATIENCE) -> Result:
        try:
            if check.looks_at_sessions and not self._rows(MAY_SEE, [SEES_SESSIONS])[0].may:
                return self._unseen(check, SEES_SESSIONS)
            rows = self._rows(check.query, self._parameters(), patience)
            findings = check.findings(rows)
            return Result(check.name, tuple(replace(each, mend=self._command(each.mend)) for each in findings))
        except InsufficientPrivilege:
            return self._unseen(check, in_schema(SEES_QUEUES, self._schema))
        except (UndefinedColumn, UndefinedFunction, UndefinedTable):
            return Result(check.name, unseen=self._command(NEEDS_MIGRATION))
        except psycopg.Error as error:
            if self._connection.closed:
                raise
            return Result(check.name, (_failed(error),))

    def _rows(self, query: LiteralString, parameters: Any = None, patience: LiteralString = PATIENCE) -> list[Row]:
        try:
            self._cursor.execute(READABLE + BOUNDS + patience)
            return self._cursor.execute(query, parameters).fetchall()
        finally:
            self._connection.rollback()

    def _parameters(self) -> dict[str, object]:
        """The parameters of the queries of checks: the thresholds are among them, in lower case."""
        return {
            **{name.lower(): value for name, value in vars(thresholds).items() if name.isupper()},
            "backend_pid": self._connection.info.backend_pid,
            "local_time": datetime.now(UTC),
        }

    def _command(self, command: str) -> str:
        """A command for a shell, with the schema; SQL as it is."""
        return (
            command if self._schema == DEFAULT else SHELL.sub(f"pgqueue --schema {shlex.quote(self._schema)} ", command)
        )

    def _unseen(self, check: Check, lacking: str) -> Result:
        return Result(check.name, unseen=f"grant {lacking} to {sql.Identifier(self._role).as_string(None)};")


def _failed(error: psycopg.Error) -> Finding:
    return Finding(
        what=f"This could not be examined: {error.diag.message_primary or error}",
        cost="The problems that this check detects go unnoticed.",
        mend="pgqueue doctor",
    )
