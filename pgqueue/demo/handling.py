"""The work of the demo on a flight: it posts it to the ledger, in the transaction that completes it.

So it does not matter where the process is killed: either both have happened, or neither, and then the message is
delivered again after its lock has expired.
"""

from __future__ import annotations

import logging
import time
from datetime import timedelta
from random import Random

from psycopg.errors import DeadlockDetected, SerializationFailure

from pgqueue import DeadLetter, QueueClient, ReceivedMessage, RetryPolicy, Worker
from pgqueue.demo.flights import AIRPORTS, Flight
from pgqueue.demo.plan import QUEUE, Connection, Plan
from pgqueue.model.holder import this_process

#: The shares of flights whose first transaction aborts, and of those that take long.
ABORTED, SLOW = 0.02, 0.05
PAUSE = 0.03
CONFLICTS = (SerializationFailure, DeadlockDetected)

ABORT = "do $$ begin raise exception 'aborted on purpose' using errcode = 'serialization_failure'; end $$"

#: Adds a flight to the ledger, and records which worker did so, at which delivery.
POST = """
with posting as (
    insert into pgqueue_demo.posting (flight_id, delivery_count, worker)
    values (%(id)s, %(delivery_count)s, %(worker)s))
insert into pgqueue_demo.ledger as ledger (airport, carrier, flights, cancelled, late, minutes)
select %(origin)s, %(carrier)s, 1, (%(delay)s::int is null)::int, coalesce(%(delay)s > 0, false)::int,
       greatest(coalesce(%(delay)s, 0), 0)
    on conflict (airport, carrier) do update
   set flights   = ledger.flights   + excluded.flights,
       cancelled = ledger.cancelled + excluded.cancelled,
       late      = ledger.late      + excluded.late,
       minutes   = ledger.minutes   + excluded.minutes
"""


def work(plan: Plan, *_: object) -> None:
    """Run a worker until SIGTERM."""
    logging.getLogger("pgqueue").setLevel(logging.CRITICAL)  # the failures are on purpose
    with QueueClient(plan.dsn) as client:
        worker_on(client, plan).run()


def worker_on(client: QueueClient, plan: Plan) -> Worker:
    """A worker on the flights."""
    return Worker(
        client.queue(QUEUE),
        Handler(plan.seed),
        concurrency=4,
        transaction="psycopg",
        prefetch=20,  # so many flights are delivered again when it is killed
        retry=RetryPolicy(
            transaction_attempts=25, first_delay=timedelta(milliseconds=200), max_delay=timedelta(seconds=1)
        ),
        grace_period=timedelta(seconds=5),
    )


class Handler:
    """Posts flights; the seed decides for which of them the first transaction aborts, and which take long."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._worker = this_process()
        self._aborted: dict[int, str] = {}  # by sequence number: messages of one receive share a lock token

    def __call__(self, message: ReceivedMessage, transaction: Connection) -> None:
        cause = self._aborted.pop(message.sequence_number, None)
        try:
            self._post(message, transaction, cause)
        except CONFLICTS as conflict:
            self._aborted[message.sequence_number] = str(conflict).splitlines()[0]
            raise

    def _post(self, message: ReceivedMessage, transaction: Connection, cause: str | None) -> None:
        flight = Flight(**message.body)  # a TypeError, at each delivery, where the body is no flight
        if flight.origin not in AIRPORTS:
            raise DeadLetter("UnknownAirport", f"{flight.origin} is none of {', '.join(AIRPORTS)}")
        chance = Random(f"{self._seed} {flight.id}")
        aborts, is_slow = chance.random() < ABORTED, chance.random() < SLOW
        if cause is not None:
            transaction.execute("insert into pgqueue_demo.retry (worker, cause) values (%s, %s)", [self._worker, cause])
        elif aborts:
            transaction.execute(ABORT)
        if is_slow:
            time.sleep(PAUSE)
        posting = {"delivery_count": message.delivery_count, "worker": self._worker}
        transaction.execute(POST, {**message.body, **posting})  # last: others wait for the lock of this row
