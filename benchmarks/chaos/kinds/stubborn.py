"""Receivers that hold a message through a disaster, and settle it on whatever server answers afterwards."""

from __future__ import annotations

from typing import Any, LiteralString

import psycopg

from benchmarks.chaos.evidence import EFFECT
from benchmarks.chaos.kinds.acting import Actor, Kind, failing
from benchmarks.chaos.kinds.sql import RECEIVE

#: A settlement takes up to so many seconds, and is tried again within so many when no server answered.
SLOW, AGAIN = 0.2, 3.0


class Stubborn:
    """Completes each message with its lock token, until the database accepts or refuses it."""

    complete: LiteralString = "select true from pgqueue.complete(%(queue)s, %(number)s, %(token)s)"

    def __init__(self, actor: Actor) -> None:
        self._actor = actor
        self._connection = psycopg.connect(actor.setting.dsn, autocommit=True)

    def step(self) -> None:
        self._connect()
        with self._actor.receiving() as operation:
            received = self._connection.execute(RECEIVE, [self._actor.queue]).fetchall()
            operation.facts["deliveries"] = [(message, str(token), *rest) for message, token, *rest, _ in received]
        for message, token, _, _, number in received:
            while not self._is_answered(message, token, number):
                pass
        if not received:
            self._actor.pause(0.2)

    def _is_answered(self, message: str, token: Any, number: int) -> bool:
        """Whether the database has accepted or refused the settlement."""
        if not self._actor.is_resting:
            self._actor.pause(self._actor.chance.uniform(0, SLOW))
        try:
            self._connect()
            self._settle(message, token, number)
        except psycopg.Error as error:
            if (error.sqlstate or "").startswith("PQ"):
                return True
            self._actor.pause(self._actor.chance.uniform(0, AGAIN))
            return False
        return True

    def _settle(self, message: str, token: Any, number: int) -> None:
        locks = [(message, str(token))]
        with (
            self._actor.operation("settle", how="complete", locks=locks, effect=True) as operation,
            self._connection.transaction(),
        ):
            self._connection.execute(EFFECT, [message, operation.name])
            found = self._connection.execute(
                self.complete, {"queue": self._actor.queue, "number": number, "token": token}
            ).fetchone()
            if found != (True,):
                failing(operation)
                raise psycopg.Rollback
            operation.doubt = True

    def _connect(self) -> None:
        if self._connection.closed:
            self._connection = psycopg.connect(self._actor.setting.dsn, autocommit=True)


class ById(Stubborn):
    """Settles by the sequence number alone: the control, which has to fail."""

    complete = """
        select coalesce((select pgqueue.cancel(queue.name, sequence_number)
                           from pgqueue.message join pgqueue.queue on queue.id = queue_id
                          where sequence_number = %(number)s), false)"""


RECEIVERS: dict[str, type[Kind]] = {"stubborn": Stubborn, "by-id": ById}
