"""A process that receives flights, posts them to the ledger, and completes them in the same transaction.

The work and the completion of a message are one commit. So it does not matter where this process is killed: either
both have happened, or neither, and then the message is delivered again after its lock has expired.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Any

import tenacity
from psycopg.errors import DeadlockDetected, SerializationFailure
from psycopg_pool import ConnectionPool

import pgqueue
from pgqueue import DeadLetter, LockLostError, PGQueueError, QueueClient, ReceivedMessage
from pgqueue.demo import business
from pgqueue.demo.business import Connection, Posting
from pgqueue.demo.flights import Flight, Malformed
from pgqueue.demo.plan import QUEUE, Plan
from pgqueue.errors import InvalidStateError, TransactionConflictError

AT_ONCE = 20
WAIT = timedelta(milliseconds=500)
CONFLICTS = (SerializationFailure, DeadlockDetected, TransactionConflictError)

STRICT = "set transaction isolation level repeatable read"
ABORT = "do $$ begin raise exception 'aborted on purpose' using errcode = 'serialization_failure'; end $$"


@dataclass(frozen=True)
class Fate:
    """The planned disturbance of a transaction; most have none."""

    strict: bool
    unlucky: bool
    pause: float

    @classmethod
    def draw(cls, chance: Random) -> Fate:
        """Choose a disturbance at random: some transactions risk a conflict, some abort, and some take long.

        A conflict arises at repeatable read, if another consumer has changed the ledger.
        """
        strict, unlucky, slow = (chance.random() < share for share in (0.1, 0.02, 0.1))
        return cls(strict, unlucky, pause=0.03 if slow else 0.0)


class Consumer:
    """One receiver of departures; ``turn`` is called in a loop."""

    def __init__(self, name: str, pool: ConnectionPool[Any], chance: Random) -> None:
        self.name = name
        self._pool = pool
        self._chance = chance
        self._client = QueueClient(pool)
        self._departures = self._client.queue(QUEUE)

    @classmethod
    def of(cls, plan: Plan, name: str, pool: ConnectionPool[Any]) -> Consumer:
        return cls(name, pool, Random(f"{plan.seed} {name}"))

    def close(self) -> None:
        """End the listener for notifications; the pool stays open."""
        self._client.close()

    def turn(self) -> None:
        """Receive some flights and post them: all in one transaction, or each in its own if one cannot be posted."""
        received = self._departures.receive(max_messages=AT_ONCE, wait=WAIT)
        if not received:
            return
        try:
            self._post_together(received)
        except (Malformed, DeadLetter, PGQueueError, *CONFLICTS):
            self._post_singly(received)

    def _post_together(self, received: Sequence[ReceivedMessage]) -> None:
        """Post all in one transaction. An aborted transaction is begun again, on the same locks."""
        causes: list[str] = []
        fate = Fate.draw(self._chance)
        for attempt in _tries(causes):
            with attempt, self._pool.connection() as transaction:
                if fate.strict:
                    transaction.execute(STRICT)
                self._post(transaction, received, causes, fate.pause)
                if fate.unlucky and not causes:
                    transaction.execute(ABORT)
                self._departures.complete_batch(received, transaction=transaction)

    def _post_singly(self, received: Sequence[ReceivedMessage]) -> None:
        """Post each in a transaction of its own: a poison message is abandoned or dead-lettered, without the others."""
        for message in received:
            try:
                self._post_one(message)
            except Malformed:
                continue  # it was abandoned, and is redelivered until the queue dead-letters it
            except (LockLostError, InvalidStateError):
                continue  # its lock expired, and another consumer has received it

    def _post_one(self, message: ReceivedMessage) -> None:
        causes: list[str] = []
        pgqueue.process(
            message, lambda _, transaction: self._post(transaction, [message], causes), retry=_tries(causes)
        )

    def _post(
        self, transaction: Connection, received: Sequence[ReceivedMessage], causes: Sequence[str], pause: float = 0
    ) -> None:
        postings = [Posting(Flight.from_body(message.body), message.delivery_count) for message in received]
        business.post(transaction, self.name, postings)
        business.note_retries(transaction, self.name, causes)
        time.sleep(pause)
        business.add_up(transaction, postings)  # last, because all consumers wait for the locks of these rows


def _tries(causes: list[str]) -> tenacity.Retrying:
    """A policy that retries a transaction after a conflict, and collects the causes."""

    def note(state: tenacity.RetryCallState) -> None:
        assert state.outcome is not None
        causes.append(str(state.outcome.exception()).splitlines()[0])

    return tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(CONFLICTS),
        stop=tenacity.stop_after_attempt(25),
        wait=tenacity.wait_random(0, 0.02),
        before_sleep=note,
        reraise=True,
    )
