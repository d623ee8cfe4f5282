"""A process that receives flights, posts them to the ledger, and completes them in the same transaction.

The work of a delivery and its end are one commit. So it does not matter where this process is killed: either both have
happened, or neither, and then the message is delivered again when its lock has run out.
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
    """What befalls a transaction: most nothing."""

    strict: bool
    unlucky: bool
    pause: float

    @classmethod
    def draw(cls, chance: Random) -> Fate:
        """Draws how a transaction goes: some meet a conflict, some abort without one, and some take long.

        A conflict comes about at repeatable read, when somebody else has changed the ledger.
        """
        strict, unlucky, slow = (chance.random() < share for share in (0.1, 0.02, 0.1))
        return cls(strict, unlucky, pause=0.03 if slow else 0.0)


class Consumer:
    """One receiver of departures; ``turn`` is its life."""

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
        """The pool stays open, and what listens for messages ends."""
        self._client.close()

    def turn(self) -> None:
        """Receives some flights and posts them: all in one transaction, or each in its own if one is in the way."""
        received = self._departures.receive(max_messages=AT_ONCE, wait=WAIT)
        if not received:
            return
        try:
            self._post_together(received)
        except (Malformed, DeadLetter, PGQueueError, *CONFLICTS):
            self._post_singly(received)

    def _post_together(self, received: Sequence[ReceivedMessage]) -> None:
        """The fast way. A transaction that was aborted is begun again: the locks are still ours."""
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
        """The careful way: poison is abandoned and comes back later, or is dead-lettered, and harms nobody else."""
        for message in received:
            try:
                self._post_one(message)
            except Malformed:
                continue  # it was abandoned, and will come back until the queue has had enough of it
            except (LockLostError, InvalidStateError):
                continue  # we were too slow, and somebody else has it now

    def _post_one(self, message: ReceivedMessage) -> None:
        causes: list[str] = []
        pgqueue.process(message, lambda transaction: self._post(transaction, [message], causes), retry=_tries(causes))

    def _post(
        self, transaction: Connection, received: Sequence[ReceivedMessage], causes: Sequence[str], pause: float = 0
    ) -> None:
        postings = [Posting(Flight.from_body(message.body), message.delivery_count) for message in received]
        business.post(transaction, self.name, postings)
        business.note_retries(transaction, self.name, causes)
        time.sleep(pause)
        business.add_up(transaction, postings)  # last, since whoever holds these rows holds up everybody


def _tries(causes: list[str]) -> tenacity.Retrying:
    """Tries a transaction until the database has no conflict to report, and collects what the conflicts were."""

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
