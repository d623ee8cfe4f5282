"""A ledger for tests that break things: every message must be in exactly one place, once.

Code that sends a message, or works on one, posts that in the same transaction. However processes, connections and
servers die, the books must balance afterwards: each message that was sent is completed, dead-lettered, purged or still
in the queue; in one of these places and once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import psycopg

from pgqueue import transports
from pgqueue.statements import Statement
from pgqueue.statements.statement import column
from pgqueue.transports import adrive, drive

INSTALL = """
create schema if not exists pgqueue_testing;
create table if not exists pgqueue_testing.posting (what text not null, sequence_number bigint not null);
create index if not exists posted on pgqueue_testing.posting (sequence_number);
create or replace function pgqueue_testing.post(what text, sequence_numbers bigint[]) returns setof bigint
    language sql as $$
    insert into pgqueue_testing.posting (what, sequence_number) select $1, unnest($2) returning sequence_number
$$;
"""

#: Statements of transports are queries, as all verbs are.
POST = "select pgqueue_testing.post(%(what)s::text, %(sequence_numbers)s::bigint[])"

FATES = """
select sequence_number,
       count(*) filter (where what = 'sent'),
       count(*) filter (where what = 'completed'),
       count(*) filter (where what = 'dead-lettered'),
       count(*) filter (where what = 'purged'),
       count(*) filter (where what = 'remaining')
  from (select what, sequence_number from pgqueue_testing.posting
         union all select 'dead-lettered', sequence_number from pgqueue.dead_letter
         union all select 'remaining', sequence_number from pgqueue.message
         union all select 'remaining', sequence_number from pgqueue.scheduled_message) as entry
 group by sequence_number
 order by sequence_number"""


@dataclass(frozen=True)
class Fate:
    """The ledger of one message: how often it was sent, and in how many places it is."""

    sequence_number: int
    sent: int
    completed: int
    dead_lettered: int
    purged: int
    remaining: int

    @property
    def is_in_order(self) -> bool:
        """Whether the message was sent once, and is in exactly one place."""
        return self.sent == 1 and self.completed + self.dead_lettered + self.purged + self.remaining == 1


@dataclass(frozen=True)
class Balance:
    """The ledger of all messages; ``wrong`` holds those that were lost, duplicated or never sent."""

    sent: int
    completed: int
    dead_lettered: int
    purged: int
    remaining: int
    wrong: tuple[Fate, ...]


class Ledger:
    """The ledger of one database.

    ``transaction`` is a psycopg connection, or a SQLAlchemy session or connection; with asynchronous ones use
    :meth:`acompleted`.
    """

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn

    def install(self) -> None:
        """Create the tables of the ledger."""
        with psycopg.connect(self._dsn) as connection:
            connection.execute(INSTALL)

    def sent(self, transaction: object, sequence_numbers: Iterable[int]) -> None:
        """Post the messages that a transaction sends."""
        self._post("sent", transaction, sequence_numbers)

    def completed(self, transaction: object, sequence_number: int) -> None:
        """Post the effect of a message: the work calls this in the transaction that completes the message."""
        self._post("completed", transaction, [sequence_number])

    async def acompleted(self, transaction: object, sequence_number: int) -> None:
        """Post the effect of a message, as :meth:`completed`, in an asynchronous transaction."""
        posting = _posting("completed", [sequence_number])
        await adrive(transports.shared(transaction, ANY_CLIENT, asynchronous=True).execute(posting))

    def purged(self, transaction: object, sequence_numbers: Iterable[int]) -> None:
        """Post the messages that a transaction purges."""
        self._post("purged", transaction, sequence_numbers)

    def balance(self) -> Balance:
        """Compare the ledger with the queues."""
        with psycopg.connect(self._dsn) as connection:
            fates = [Fate(*row) for row in connection.execute(FATES)]
        return Balance(
            sent=sum(fate.sent for fate in fates),
            completed=sum(fate.completed for fate in fates),
            dead_lettered=sum(fate.dead_lettered for fate in fates),
            purged=sum(fate.purged for fate in fates),
            remaining=sum(fate.remaining for fate in fates),
            wrong=tuple(fate for fate in fates if not fate.is_in_order),
        )

    def _post(self, what: str, transaction: object, sequence_numbers: Iterable[int]) -> None:
        posting = _posting(what, sequence_numbers)
        drive(transports.shared(transaction, ANY_CLIENT, asynchronous=False).execute(posting))


#: A client, of which a transaction takes the timeout of calls and the schema.
ANY_CLIENT: Any = SimpleNamespace(timeout=30.0, schema="pgqueue")


def _posting(what: str, sequence_numbers: Iterable[int]) -> Statement[list[int]]:
    return Statement(POST, {"what": what, "sequence_numbers": list(sequence_numbers)}, column)
