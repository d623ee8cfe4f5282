"""A check: what is asked of the database, and how the answer is judged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
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
    """Something that can be wrong.

    The query may use the parameters of :func:`pgqueue.doctor.examining.parameters`. Where nothing is wrong, the judge
    finds nothing.
    """

    name: str
    query: LiteralString
    judge: Callable[[Sequence[Row]], Iterable[Finding]]
    #: Whether it needs to know what the sessions of other roles do. Without the right PostgreSQL leaves that out, and
    #: raises no error, as it does for what only a monitor sees.
    looks_at_sessions: bool = False


def each(
    what: str, cost: str, mend: str, *, since: str | None = None, where: Callable[[Row], bool] = lambda _: True
) -> Callable[[Sequence[Row]], Iterable[Finding]]:
    """A judge that finds something in each row, or in some; the texts are formatted with the row."""

    def judge(rows: Sequence[Row]) -> Iterator[Finding]:
        for row in filter(where, rows):
            begin = None if since is None else getattr(row, since)
            yield Finding(what.format(row=row), cost.format(row=row), mend.format(row=row), begin)

    return judge
