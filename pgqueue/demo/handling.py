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

from pgqueue import QueueClient, ReceivedMessage, RetryPolicy, Worker
from pgqueue.demo import business
from pgqueue.demo.business import Connection
from pgqueue.demo.flights import Flight
from pgqueue.demo.plan import QUEUE, Plan
from pgqueue.model.holder import this_process

#: The shares of flights whose first transaction aborts, and of those that take long.
ABORTED, SLOW = 0.02, 0.05
PAUSE = 0.03
CONFLICTS = (SerializationFailure, DeadlockDetected)

ABORT = "do $$ begin raise exception 'aborted on purpose' using errcode = 'serialization_failure'; end $$"


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
        flight = Flight.from_body(message.body)
        cause = self._aborted.pop(message.sequence_number, None)
        try:
            self._post(flight, message.delivery_count, transaction, cause)
        except CONFLICTS as conflict:
            self._aborted[message.sequence_number] = str(conflict).splitlines()[0]
            raise

    def _post(self, flight: Flight, delivery_count: int, transaction: Connection, cause: str | None) -> None:
        chance = Random(f"{self._seed} {flight.id}")
        aborts, is_slow = chance.random() < ABORTED, chance.random() < SLOW
        if cause is not None:
            business.note_retry(transaction, self._worker, cause)
        elif aborts:
            transaction.execute(ABORT)
        if is_slow:
            time.sleep(PAUSE)
        business.post(transaction, self._worker, flight, delivery_count)  # last: others wait for the lock of this row
