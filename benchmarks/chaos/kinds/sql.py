"""A receiver that knows no library: SQL through psycopg, as any language could."""

from __future__ import annotations

from typing import Any

import psycopg

from benchmarks.chaos.evidence import EFFECT
from benchmarks.chaos.kinds.acting import Actor, failing

RECEIVE = """
select body->>'id', lock_token, extract(epoch from locked_until)::float, delivery_count, sequence_number
  from pgqueue.receive(%s, 5)"""


class PlainSQL:
    """Receives in autocommit; completes in a transaction of its own."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor
        self._connection = psycopg.connect(actor.setting.dsn, autocommit=True)

    def step(self) -> None:
        if self._connection.closed:
            self._connection = psycopg.connect(self._actor.setting.dsn, autocommit=True)
        with self._actor.receiving() as operation:
            received = self._connection.execute(RECEIVE, [self._actor.queue]).fetchall()
            operation.facts["deliveries"] = [(message, str(token), *rest) for message, token, *rest, _ in received]
        for message, token, _, _, number in received:
            self._complete(message, token, number)
        if not received:
            self._actor.pause(0.2)

    def _complete(self, message: str, token: Any, number: int) -> None:
        connection = self._connection
        with self._actor.operation("settle", how="complete", locks=[(message, str(token))], effect=True) as operation:
            try:
                connection.execute("begin")
                connection.execute(EFFECT, [message, operation.name])
                connection.execute("select pgqueue.complete(%s, %s, %s)", [self._actor.queue, number, token])
                if self._actor.commits("rollback", 0.1):
                    failing(operation)
                    connection.execute("rollback")
                else:
                    operation.doubt = True
                    connection.execute("commit")
            except psycopg.Error:
                if not connection.closed:
                    connection.rollback()
                raise
