"""A check: a query, and what each of its rows means."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString

#: A row of a query: a named tuple with its columns.
Row = Any


@dataclass(frozen=True)
class Finding:
    """Something that is wrong, and what to do about it."""

    what: str
    cost: str
    #: A command for a shell where it begins with ``pgqueue``, else SQL.
    mend: str
    since: datetime | None = None


@dataclass(frozen=True)
class Check:
    """Something that can be wrong: the query finds it, and the texts of a finding are formatted with its row.

    The query may use the thresholds as parameters. Its column ``since``, if it has one, is the begin of a finding.
    """

    name: str
    query: LiteralString
    what: str = ""
    cost: str = ""
    mend: str = ""
    #: Makes the findings of a check that takes more than a query.
    judge: Callable[[Sequence[Row]], Iterable[Finding]] | None = None
    #: Whether it needs to know what the sessions of other roles do. Without the right PostgreSQL leaves that out, and
    #: raises no error, as it does for what only a monitor sees.
    looks_at_sessions: bool = False

    def findings(self, rows: Sequence[Row]) -> Iterable[Finding]:
        """The findings in the rows of the query; none where all is well."""
        if self.judge is not None:
            return self.judge(rows)
        return [
            Finding(
                self.what.format(row=row),
                self.cost.format(row=row),
                self.mend.format(row=row),
                getattr(row, "since", None),
            )
            for row in rows
        ]
