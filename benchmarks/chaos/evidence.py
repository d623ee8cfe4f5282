"""The contents of the database when a round is over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import psycopg

INSTALL = """
create schema chaos;
create table chaos.effect (
    message text        not null,
    attempt text        not null,
    at      timestamptz not null default clock_timestamp());
create index on chaos.effect (at);
"""

#: The effect of a message: written in the transaction that completes it.
EFFECT = "insert into chaos.effect (message, attempt) values (%s, %s)"

STORED = """
select body->>'id' as message, 'waiting' as place, queue.name as queue
  from pgqueue.message left join pgqueue.queue on queue.id = queue_id
 union all
select body->>'id', 'scheduled', queue.name
  from pgqueue.scheduled_message left join pgqueue.queue on queue.id = queue_id
 union all
select body->>'id', 'dead', queue.name
  from pgqueue.dead_letter left join pgqueue.queue on queue.id = queue_id"""

EFFECTS = "select message, attempt, extract(epoch from at)::float from chaos.effect order by at"

STATES = """
select queue.name, session_id, (state->>'done')::int, state->>'last'
  from pgqueue.session join pgqueue.queue on queue.id = queue_id
 where state is not null"""

#: The longest time without any effect, between the first and the last.
STALL = """
select coalesce(extract(epoch from max(gap)), 0)::float
  from (select at - lag(at) over (order by at) as gap from chaos.effect) as pause"""


@dataclass(frozen=True)
class Stored:
    """A message that is in the database; ``queue`` is None when its queue is not there any more."""

    message: str
    place: str
    queue: str | None


@dataclass(frozen=True)
class Stuck:
    """Messages that the only receiver of a queue did not get, though it kept polling and no other held them."""

    queue: str
    messages: tuple[str, ...]
    pulses: int
    given_to_another: int


@dataclass(frozen=True)
class State:
    """A session's state: how many of its messages were done, and which was the last."""

    queue: str
    session: str
    done: int
    last: str


@dataclass(frozen=True)
class Evidence:
    """``effects`` are the attempts that have left an effect, by message, one entry for each row; ``done_at`` is when
    the last one was written."""

    effects: Mapping[str, tuple[str, ...]]
    stored: tuple[Stored, ...] = ()
    stuck: tuple[Stuck, ...] = ()
    broken_invariants: tuple[str, ...] = ()
    longest_stall: float = 0.0
    done_at: Mapping[str, float] = field(default_factory=dict)
    sessions: tuple[State, ...] = ()
    by_message: dict[str, list[Stored]] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        for each in self.stored:
            self.by_message.setdefault(each.message, []).append(each)

    def places(self, message: str) -> list[str]:
        """Everywhere that a message is: once for each effect, and for each row."""
        return ["done"] * len(self.effects.get(message, ())) + [each.place for each in self.by_message.get(message, ())]


def collect(connection: psycopg.Connection[Any], stuck: tuple[Stuck, ...] = ()) -> Evidence:
    effects: dict[str, tuple[str, ...]] = {}
    done_at: dict[str, float] = {}
    for message, attempt, at in connection.execute(EFFECTS):
        effects[message] = (*effects.get(message, ()), attempt)
        done_at[message] = at
    return Evidence(
        effects=effects,
        stored=tuple(Stored(*row) for row in connection.execute(STORED)),
        stuck=stuck,
        broken_invariants=tuple(text for (text,) in connection.execute("select * from pgqueue.broken_invariants()")),
        longest_stall=next(_scalars(connection, STALL)),
        done_at=done_at,
        sessions=tuple(State(*row) for row in connection.execute(STATES)),
    )


def _scalars(connection: psycopg.Connection[Any], query: str) -> Iterator[Any]:
    return (row[0] for row in connection.execute(query.encode()))
