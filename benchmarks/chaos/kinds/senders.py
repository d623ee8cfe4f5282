"""A sender that sends in every way there is, to every queue."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, suppress
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import psycopg
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

import pgqueue
from benchmarks.chaos.history import Open
from benchmarks.chaos.kinds.acting import EXPECTED, HELD, Actor, failing
from pgqueue import Message

MANY = 10
IN_SQL = "select pgqueue.send(%s, jsonb_build_object('id', %s::text), session_id => %s)"


class Sender:
    """Each step sends a message or some, in one of the ways."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor
        self._client = pgqueue.QueueClient(actor.setting.dsn)
        self._engine = create_engine(actor.setting.dsn.replace("postgresql://", "postgresql+psycopg://", 1))
        self._connection: psycopg.Connection[Any] | None = None
        self._session: str | None = None
        self._ways: list[Callable[[pgqueue.Queue], None]] = [
            self._send,
            self._batch,
            self._overlapped,
            self._schedule,
            self._in_a_transaction,
            self._in_a_session,
            self._in_sql,
            self._below_a_savepoint,
            *([self._prepared] if "two-phase" in actor.setting.mischief else []),
        ]

    def step(self) -> None:
        queue = self._client.queue(self._actor.chance.choice(self._actor.setting.queues))
        self._session = self._actor.a_session(queue.name)
        self._actor.chance.choice(self._ways)(queue)
        self._actor.pause(self._actor.chance.uniform(0, 0.12) * self._actor.setting.pace)

    def _send(self, queue: pgqueue.Queue) -> None:
        [message] = self._actor.new_messages()
        with self._sending(queue, [message], doubt=True):
            queue.send(self._message(message))

    def _batch(self, queue: pgqueue.Queue) -> None:
        messages = self._actor.new_messages(MANY)
        with self._sending(queue, messages, doubt=True):
            queue.send_batch(self._message(each) for each in messages)

    def _overlapped(self, queue: pgqueue.Queue) -> None:
        """Each is an operation of its own, which ends when its outcome is read."""
        with queue.sender(max_in_flight=5) as sender:
            out = []
            for message in self._actor.new_messages(MANY):
                operation = ExitStack()
                operation.enter_context(self._sending(queue, [message], doubt=True, overlapped=True))
                out.append((operation, sender.send(self._message(message))))
            for operation, pending in out:
                with suppress(*EXPECTED), operation:
                    pending.result()

    def _schedule(self, queue: pgqueue.Queue) -> None:
        [message] = self._actor.new_messages()
        with self._sending(queue, [message], doubt=True, scheduled=True):
            queue.schedule(self._message(message), at=datetime.now(UTC) + timedelta(seconds=1))

    def _in_a_transaction(self, queue: pgqueue.Queue) -> None:
        messages = self._actor.new_messages(2)
        connection = self._own_connection()
        with self._sending(queue, messages) as operation:
            for each in messages:
                queue.send(self._message(each), transaction=connection)
            self._commit(connection, operation)

    def _in_a_session(self, queue: pgqueue.Queue) -> None:
        [message] = self._actor.new_messages()
        with Session(self._engine) as session, self._sending(queue, [message]) as operation:
            queue.send(self._message(message), transaction=session)
            operation.doubt = True
            session.commit()

    def _in_sql(self, queue: pgqueue.Queue) -> None:
        [message] = self._actor.new_messages()
        connection = self._own_connection()
        with self._sending(queue, [message]) as operation:
            connection.execute(IN_SQL, [queue.name, message, self._session])
            self._commit(connection, operation)

    def _below_a_savepoint(self, queue: pgqueue.Queue) -> None:
        """One message below a savepoint that is rolled back, and one beside it, which is committed."""
        undone, kept = self._actor.new_messages(2)
        connection = self._own_connection()
        with self._sending(queue, [kept]) as operation:
            with self._sending(queue, [undone]) as below:
                failing(below)
                connection.execute("savepoint below")
                queue.send(self._message(undone), transaction=connection)
                connection.execute("rollback to savepoint below")
            queue.send(self._message(kept), transaction=connection)
            self._commit(connection, operation)

    def _prepared(self, queue: pgqueue.Queue) -> None:
        [message] = self._actor.new_messages()
        connection = self._own_connection()
        try:
            with self._sending(queue, [message]) as operation:
                connection.tpc_begin(connection.xid(1, f"chaos-{uuid4().hex}", "sender"))
                queue.send(self._message(message), transaction=connection)
                operation.doubt = True  # a prepared transaction may be decided by others
                connection.tpc_prepare()
                self._actor.pause(self._actor.chance.uniform(0, 0.5))
                connection.tpc_commit()
        except psycopg.Error:
            connection.close()
            raise

    def _commit(self, connection: psycopg.Connection[Any], operation: Open) -> None:
        """Commits, at once or after a while in which the transaction stays open; or rolls back."""
        if self._actor.commits("hold", 0.05):
            self._actor.pause(self._actor.chance.uniform(*HELD))
        if self._actor.commits("rollback", 0.1):
            connection.rollback()
            failing(operation)
        else:
            operation.doubt = True
            connection.commit()

    def _sending(
        self, queue: pgqueue.Queue, messages: list[str], *, doubt: bool = False, **facts: Any
    ) -> AbstractContextManager[Open]:
        session = self._session
        return self._actor.operation("send", queue.name, ids=messages, session=session, doubt=doubt, **facts)

    def _message(self, message: str) -> Message:
        return Message({"id": message}, session_id=self._session)

    def _own_connection(self) -> psycopg.Connection[Any]:
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(self._actor.setting.dsn)
        self._connection.rollback()
        return self._connection
