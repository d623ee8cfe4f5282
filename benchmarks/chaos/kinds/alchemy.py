"""Receivers that work in SQLAlchemy's transactions, and those that commit in two phases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import psycopg
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

from benchmarks.chaos.evidence import EFFECT
from benchmarks.chaos.history import Open
from benchmarks.chaos.kinds.acting import Actor, Kind, failing, known_state, remember
from benchmarks.chaos.kinds.receivers import Receiver
from pgqueue import ReceivedMessage


class Alchemy(Receiver):
    """A SQLAlchemy session of the caller's, and savepoints: the session's own, and in raw SQL."""

    def __init__(self, actor: Actor) -> None:
        super().__init__(actor)
        self.engine = create_engine(self.dsn(actor).replace("postgresql://", "postgresql+psycopg://", 1), pool_size=1)

    def complete(self, received: ReceivedMessage) -> None:
        with self.actor.settling("complete", [received], effect=True) as operation, Session(self.engine) as session:
            below = self.actor.chance.choice([self._below_its_own, self._below_a_raw_one])
            if self.actor.commits("savepoints", 0.2):
                failing(operation)
                below(session, received, operation.name)
                session.commit()
            else:
                work(session.connection(), received, operation.name, session)
                operation.doubt = True
                session.commit()

    def close(self) -> None:
        super().close()
        self.engine.dispose()

    def _below_its_own(self, session: Session, received: ReceivedMessage, attempt: str) -> None:
        nested = session.begin_nested()
        work(session.connection(), received, attempt, session)
        nested.rollback()

    def _below_a_raw_one(self, session: Session, received: ReceivedMessage, attempt: str) -> None:
        session.execute(text("savepoint below"))
        work(session.connection(), received, attempt, session)
        session.execute(text("rollback to savepoint below"))


class TwoPhase(Alchemy):
    """Two-phase commits: prepared, and committed or rolled back a moment later; with psycopg and with SQLAlchemy."""

    def complete(self, received: ReceivedMessage) -> None:
        if "two-phase" not in self.actor.setting.mischief:
            super().complete(received)
        elif self.actor.chance.random() < 0.5:
            self._with_psycopg(received)
        else:
            self._with_sqlalchemy(received)

    def _with_psycopg(self, received: ReceivedMessage) -> None:
        connection = self.connection()
        try:
            with self.actor.settling("complete", [received], effect=True) as operation:
                connection.tpc_begin(connection.xid(1, f"chaos-{uuid4().hex}", "two-phase"))
                work(connection, received, operation.name, connection)
                self._prepare(operation, received, connection.tpc_prepare)
                self._decide(operation, connection.tpc_commit, connection.tpc_rollback)
        except psycopg.Error:
            connection.close()
            raise

    def _with_sqlalchemy(self, received: ReceivedMessage) -> None:
        with (
            self.actor.settling("complete", [received], effect=True) as operation,
            self.engine.connect() as connection,
            connection.begin_twophase() as transaction,
        ):
            work(connection, received, operation.name, connection)
            self._prepare(operation, received, transaction.prepare)
            self._decide(operation, transaction.commit, transaction.rollback)

    def _prepare(self, operation: Open, received: ReceivedMessage, prepare: Callable[[], None]) -> None:
        operation.doubt = True  # a prepared transaction may be decided by others
        prepare()
        operation.facts["prepared_state"] = known_state(received)

    def _decide(self, operation: Open, commit: Callable[[], None], roll_back: Callable[[], None]) -> None:
        if self.actor.chance.random() < 0.2:
            roll_back()
            failing(operation)
        else:
            commit()


def work(connection: Any, received: ReceivedMessage, attempt: str, transaction: object) -> None:
    """The effect of a message, and its completion, in one transaction."""
    effect = (received.body["id"], attempt)
    if isinstance(connection, psycopg.Connection):
        connection.execute(EFFECT, effect)
    else:
        connection.exec_driver_sql(EFFECT, effect)
    remember(received, transaction)
    received.complete(transaction=transaction)


RECEIVERS: dict[str, type[Kind]] = {"two-phase": TwoPhase, "sqlalchemy": Alchemy}
