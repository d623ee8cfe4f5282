"""The verdict on a run, computed from its tables: the expected and the actual values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, LiteralString

from pgqueue import PeekedMessage, QueueClient
from pgqueue.demo.business import Connection
from pgqueue.demo.plan import MAX_DELIVERY_COUNT, QUEUE
from pgqueue.demo.poison import HOPELESS, POISON, REFUSED

ENTERED = "select count(*) from pgqueue_demo.flight"

POSTED_ONCE = """
select count(*)
  from (select flight.id
          from pgqueue_demo.flight
          join pgqueue_demo.posting on flight_id = flight.id
         group by flight.id
        having count(*) = 1) as posted_once
"""

POSTINGS = "select count(*) from pgqueue_demo.posting"

# The expected ledger, in one plain statement over the input.
RECKONED = """
select origin as airport, carrier, count(*) as flights, count(*) filter (where delay is null) as cancelled,
       count(*) filter (where delay > 0) as late, coalesce(sum(delay) filter (where delay > 0), 0) as minutes
  from pgqueue_demo.flight
 group by origin, carrier
"""

LEDGER = "select airport, carrier, flights, cancelled, late, minutes from pgqueue_demo.ledger"

KILLED = "select count(*) from pgqueue_demo.kill"

UNDONE = "select count(*) from pgqueue_demo.kill where pg_xact_status(transaction_id) = 'aborted'"

REDELIVERED = "select count(*) from pgqueue_demo.posting where delivery_count > 1"

RETRIED = "select count(*) from pgqueue_demo.retry"

RATE = """
select count(*)::numeric / extract(epoch from max(posted_at) - (select min(sent_at) from pgqueue_demo.flight))
  from pgqueue_demo.posting
"""


@dataclass(frozen=True)
class Check:
    """One check: the expected and the actual value."""

    name: str
    expected: int
    found: int
    at_least: bool = False

    @property
    def holds(self) -> bool:
        return self.found >= self.expected if self.at_least else self.found == self.expected


@dataclass(frozen=True)
class Verdict:
    """The results of the checks of a run."""

    checks: tuple[Check, ...]
    messages_per_second: float

    @property
    def holds(self) -> bool:
        return all(check.holds for check in self.checks)


def judge(client: QueueClient, connection: Connection, *, flights: int, kills: int) -> Verdict:
    """Compare the expected with the actual results of a run of this many flights and kills."""
    checks = (
        Check("flights entered in the books, each with its message", flights, _count(connection, ENTERED)),
        *_postings(connection, flights),
        *_ledger(connection),
        *_queue(client),
        *_disturbances(connection, kills),
    )
    return Verdict(checks, messages_per_second=float(_value(connection, RATE) or 0))


def _postings(connection: Connection, flights: int) -> tuple[Check, ...]:
    return (
        Check("flights posted exactly once", flights, _count(connection, POSTED_ONCE)),
        Check("postings in all", flights, _count(connection, POSTINGS)),
    )


def _ledger(connection: Connection) -> tuple[Check, ...]:
    reckoned, ledger = set(connection.execute(RECKONED)), set(connection.execute(LEDGER))
    return (
        Check("lines of the ledger that equal the reckoning", len(reckoned), len(reckoned & ledger)),
        Check("lines of the ledger in all", len(reckoned), len(ledger)),
        Check("minutes of delay in the ledger", _minutes(reckoned), _minutes(ledger)),
    )


def _queue(client: QueueClient) -> tuple[Check, ...]:
    dead = client.queue(QUEUE).dead_letters.peek(max_messages=1000)
    left = client.get_queue_runtime_properties(QUEUE)
    return (
        Check(
            f"poison dead-lettered after {MAX_DELIVERY_COUNT} deliveries (MaxDeliveryCountExceeded)",
            len(HOPELESS),
            sum(map(_was_given_up, dead)),
        ),
        Check("poison dead-lettered on demand (UnknownAirport)", 1, sum(map(_was_refused, dead))),
        Check("dead letters in all", len(POISON), left.dead_letters),
        Check("messages left in the queue", 0, left.ready + left.locked + left.scheduled),
    )


def _disturbances(connection: Connection, kills: int) -> tuple[Check, ...]:
    """Checks that disturbances happened: without them, the other checks would prove little."""
    killed = _count(connection, KILLED)
    return (
        Check("consumers killed in mid-transaction", min(kills, 1), killed, at_least=True),
        Check("killed transactions of which nothing is left", killed, _count(connection, UNDONE)),
        Check("flights delivered again", min(kills, 1), _count(connection, REDELIVERED), at_least=True),
        Check("transactions retried on the same lock", 1, _count(connection, RETRIED), at_least=True),
    )


def _was_given_up(message: PeekedMessage) -> bool:
    return (
        message.dead_letter_reason == "MaxDeliveryCountExceeded"
        and message.delivery_count == MAX_DELIVERY_COUNT
        and any(message.body == poison.body for poison in HOPELESS)
    )


def _was_refused(message: PeekedMessage) -> bool:
    return message.dead_letter_reason == "UnknownAirport" and message.body == REFUSED.body


def _minutes(lines: set[Any]) -> int:
    return int(sum(minutes for *_, minutes in lines))


def _count(connection: Connection, query: LiteralString) -> int:
    return int(_value(connection, query))


def _value(connection: Connection, query: LiteralString) -> Any:
    row = connection.execute(query).fetchone()
    assert row is not None
    return row[0]
