"""Polling a queue that is mostly empty: a poll that finds nothing returns when to poll again."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Final, NamedTuple

from pgqueue.model.row import Row
from pgqueue.statements.statement import Statement

#: In seconds: how long a consumer that is notified pauses between two polls. pgqueue._due_in goes by the longest.
SHORTEST_PAUSE, LONGEST_PAUSE = 1.0, 4.0
#: In seconds: how long a consumer pauses while its queue is paused; a NOTIFY signals its end.
PAUSED = 1.0
#: In seconds: clocks differ, and a poll that is too early is repeated a second later.
MARGIN = 0.01

_DUE_IN: Final = "case when found is null then pgqueue._due_in(%(looked_at)s::text) end"


class Look(NamedTuple):
    """The result of a poll; if empty, in how many seconds a consumer that is notified should poll again, and why."""

    rows: list[Row]
    pause: float
    is_paused: bool = False


def look(statement: Statement[list[Row]], queue: str) -> Statement[Look]:
    """Run a statement that receives."""
    return Statement(
        f"select found.*, {_DUE_IN} from (select) as look left join ({statement.sql}) as found on true",
        {**statement.parameters, "looked_at": queue},
        _read,
    )


def turn_and_look(statement: Statement[list[Row]], queue: str) -> Statement[Look]:
    """Take a turn, then run a statement that receives but takes no turn itself."""
    return Statement(
        f"""select found.*, {_DUE_IN}
              from (select pgqueue.take_turn(%(looked_at)s::text)) as turn
              left join ({statement.sql}) as found on true""",
        {**statement.parameters, "looked_at": queue},
        _read,
    )


def turn(queue: str) -> Statement[float]:
    """Take a turn; return in how many seconds a consumer that is notified should poll again."""
    return Statement(
        """select pgqueue._due_in(%(looked_at)s::text)
             from (select pgqueue.take_turn(%(looked_at)s::text) as came_back) as turn
            where came_back is not null""",
        {"looked_at": queue},
        lambda rows: pause_until(rows[0][0]),
    )


def pause_until(due_in: float | None) -> float:
    """How long to pause if the next known message can be received in this many seconds."""
    if due_in == inf:
        return PAUSED
    return LONGEST_PAUSE if due_in is None else min(due_in + MARGIN, LONGEST_PAUSE)


def _read(rows: Sequence[Row]) -> Look:
    if rows[0][0] is None:
        return Look([], pause_until(rows[0][-1]), is_paused=rows[0][-1] == inf)
    return Look([row[:-1] for row in rows], SHORTEST_PAUSE)
