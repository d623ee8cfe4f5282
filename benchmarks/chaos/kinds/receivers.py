"""Receivers that run in a thread: by hand, in batches, transacted, prefetched."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import psycopg
import tenacity

import pgqueue
from benchmarks.chaos.evidence import EFFECT
from benchmarks.chaos.history import Outcome
from benchmarks.chaos.kinds.acting import HELD, Actor, Kind, deliveries, failing, locks, remember
from pgqueue import ReceivedMessage, ReceiveMode

WAIT = timedelta(milliseconds=500)


class Receiver:
    """Peek-lock by hand on a connection of one's own. The others differ in how they complete."""

    at_once = 5

    def __init__(self, actor: Actor) -> None:
        self.actor = actor
        self.client = pgqueue.QueueClient(self.dsn(actor))
        self.queue = self.client.queue(actor.queue)
        self._connection: psycopg.Connection[Any] | None = None

    def dsn(self, actor: Actor) -> str:
        return actor.setting.dsn

    def step(self) -> None:
        for received in self.receive():
            self.settle(received)

    def receive(self) -> Sequence[ReceivedMessage]:
        with self.actor.receiving() as operation:
            received = self.queue.receive(max_messages=self.at_once, wait=WAIT)
            operation.facts["deliveries"] = deliveries(received)
        return received

    def settle(self, received: ReceivedMessage) -> None:
        """Mostly completes; now and then does anything else that may be done with a delivery."""
        actor = self.actor
        if actor.commits("hold", 0.01):
            time.sleep(actor.chance.uniform(*HELD))  # the lock runs out meanwhile
        if actor.commits("settle", 0.15):
            self._settle_otherwise(received)
        else:
            self.complete(received)

    def complete(self, received: ReceivedMessage) -> None:
        connection = self.connection()
        with self.actor.settling("complete", [received], effect=True) as operation:
            connection.execute(EFFECT, [received.body["id"], operation.name])
            remember(received, connection)
            received.complete(transaction=connection)
            if self.actor.commits("rollback", 0.05):
                failing(operation)
                connection.rollback()
            else:
                operation.doubt = True
                connection.commit()

    def connection(self) -> psycopg.Connection[Any]:
        """One's own, with no transaction open; another when it broke."""
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(self.dsn(self.actor))
        self._connection.rollback()
        return self._connection

    def close(self) -> None:
        self.client.close()
        if self._connection is not None:
            self._connection.close()

    def _settle_otherwise(self, received: ReceivedMessage) -> None:
        verbs: dict[str, Callable[[], object]] = {
            "abandon": received.abandon,
            "abandon later": lambda: received.abandon(delay=timedelta(seconds=1)),
            "dead_letter": lambda: received.dead_letter("Chaos"),
            "fault": received.fault,
            "renew": lambda: self._renew(received),
        }
        how = self.actor.chance.choice(list(verbs))
        if how == "renew":
            self._renew(received)
            self.complete(received)
            return
        with self.actor.settling(how, [received], doubt=True):
            verbs[how]()

    def _renew(self, received: ReceivedMessage) -> None:
        with self.actor.settling("renew", [received], doubt=True) as operation:
            operation.facts["states"] = [None]
            operation.facts["until"] = received.renew_lock().timestamp()


class Block(Receiver):
    """``with received.transaction()``: begun, completed and committed by the library."""

    def complete(self, received: ReceivedMessage) -> None:
        with (
            self.actor.settling("complete", [received], effect=True, doubt=True) as operation,
            received.transaction() as transaction,
        ):
            transaction.execute(EFFECT, [received.body["id"], operation.name])


class Process(Receiver):
    """``pgqueue.process``, which begins again on the same lock."""

    def complete(self, received: ReceivedMessage) -> None:
        stumbles = self.actor.commits("rollback", 0.1)

        def work(message: ReceivedMessage, transaction: Any) -> None:
            nonlocal stumbles
            transaction.execute(EFFECT, [message.body["id"], operation.name])
            if stumbles:
                stumbles = False
                raise psycopg.errors.SerializationFailure("stumbled")

        try:
            with self.actor.settling("complete", [received], effect=True, doubt=True) as operation:
                pgqueue.process(received, work, retry=tenacity.Retrying(stop=tenacity.stop_after_attempt(3)))
        except BaseException:
            self._note_abandoned(received)
            raise

    def _note_abandoned(self, received: ReceivedMessage) -> None:
        """When it gives up, it has abandoned the message, if it could."""
        with self.actor.operation("settle", how="abandon", locks=locks([received])) as operation:
            operation.outcome = Outcome.UNKNOWN


class Bare(Receiver):
    """Completes in a transaction of the library's own, without an effect: gone is all that is seen of it."""

    def complete(self, received: ReceivedMessage) -> None:
        with self.actor.settling("complete", [received], doubt=True):
            received.complete()


class Batches(Receiver):
    """``complete_batch`` in the caller's transaction, and ``abandon_batch``."""

    at_once = 20

    def step(self) -> None:
        received = self.receive()
        if received and self.actor.commits("settle", 0.1):
            with self.actor.settling("abandon", received, doubt=True) as operation:
                results = self.queue.abandon_batch(received)
                operation.facts["states"] = [None if each.is_settled else "lost" for each in results]
        elif received:
            self._complete(received)

    def _complete(self, received: Sequence[ReceivedMessage]) -> None:
        connection = self.connection()
        with self.actor.settling("complete", received, effect=True) as operation:
            for each in received:
                connection.execute(EFFECT, [each.body["id"], operation.name])
            self.queue.complete_batch(received, transaction=connection)
            operation.doubt = True
            connection.commit()


class Transacted(Receiver):
    """The traditional way: taken out in the caller's transaction, which is held open or rolled back now and then."""

    at_once = 20

    def step(self) -> None:
        actor, connection = self.actor, self.connection()
        with actor.operation("take", effect=True) as operation:
            taken = self.queue.receive_and_delete(max_messages=self.at_once, wait=WAIT, transaction=connection)
            operation.facts["ids"] = [each.body["id"] for each in taken]
            for each in taken:
                connection.execute(EFFECT, [each.body["id"], operation.name])
            if actor.commits("hold", 0.05):
                time.sleep(actor.chance.uniform(*HELD))
            if actor.commits("rollback", 0.1):
                failing(operation)
                connection.rollback()
            else:
                operation.doubt = True
                connection.commit()


class AtMostOnce(Receiver):
    """``receive_and_delete`` in a transaction of its own: what is lost on the way is lost."""

    def step(self) -> None:
        with self.actor.operation("take", doubt=True) as operation:
            taken = self.queue.receive_and_delete(max_messages=self.at_once, wait=WAIT)
            operation.facts["ids"] = [each.body["id"] for each in taken]


class Prefetching(Receiver):
    """An endless iterator, which locks ahead."""

    def step(self) -> None:
        with self.queue.receiver(receive_mode=ReceiveMode.PEEK_LOCK, prefetch=20) as receiver:
            while True:
                with self.actor.receiving() as operation:
                    received = next(receiver)
                    operation.facts["deliveries"] = deliveries([received])
                self.settle(received)  # type: ignore[arg-type]  # a receiver under peek-lock yields what it has locked


class Savepoints(Receiver):
    """Settles below savepoints, which are rolled back now and then: in raw SQL, unseen by the library."""

    def complete(self, received: ReceivedMessage) -> None:
        connection = self.connection()
        with self.actor.settling("complete", [received], effect=True) as operation:
            connection.execute("savepoint below")
            connection.execute(EFFECT, [received.body["id"], operation.name])
            received.complete(transaction=connection)
            if self.actor.commits("savepoints", 0.3):
                failing(operation)
                connection.execute("rollback to savepoint below")
            else:
                operation.doubt = True
            connection.commit()


class Pooled(Receiver):
    """By hand through PgBouncer, where sessions are shared."""

    def dsn(self, actor: Actor) -> str:
        assert actor.setting.pooled is not None
        return actor.setting.pooled


class Deferring(Receiver):
    """Sets messages aside, and takes them back by their numbers: those of others too, which it finds by looking."""

    def step(self) -> None:
        super().step()
        aside = [each.sequence_number for each in self.queue.peek(max_messages=200) if each.is_deferred]
        if not aside:
            return
        with self.actor.receiving() as operation:
            received = self.queue.receive_deferred(aside[: self.at_once])
            operation.facts["deliveries"] = deliveries(received)
        for each in received:
            self.complete(each)

    def settle(self, received: ReceivedMessage) -> None:
        if self.actor.commits("settle", 0.3):
            with self.actor.settling("defer", [received], doubt=True):
                received.defer()
        else:
            super().settle(received)


RECEIVERS: dict[str, type[Kind]] = {
    "by-hand": Receiver,
    "transaction": Block,
    "process": Process,
    "complete": Bare,
    "batches": Batches,
    "transacted": Transacted,
    "at-most-once": AtMostOnce,
    "prefetch": Prefetching,
    "savepoints": Savepoints,
    "pgbouncer": Pooled,
    "deferring": Deferring,
}
