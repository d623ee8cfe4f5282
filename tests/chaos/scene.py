"""Where the consumers are killed: a database with a queue and its ledger, which can be made slow to commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from pgqueue import Message, Queue, QueueClient, ReceivedMessage
from pgqueue.testing import Database
from tests.chaos.ledger import Balance, Ledger

QUEUE = "chaos"
LOCK_DURATION = timedelta(minutes=1)
A_MOMENT = timedelta(seconds=10)

# A COMMIT of work notifies that it has begun, and goes on when the advisory lock is free.
SLOW_COMMIT = """
create function slow_commit() returns trigger language plpgsql as $$
begin
    raise notice 'committing';
    perform pg_advisory_xact_lock_shared(1);
    return null;
end
$$;
create constraint trigger slow_commit after insert on pgqueue_testing.posting
    deferrable initially deferred for each row when (new.what = 'completed') execute function slow_commit()"""

TERMINATE_COMMITTING = """
select pg_terminate_backend(pid, 10000)
  from pg_stat_activity
 where datname = current_database() and state = 'active' and pid <> pg_backend_pid()
   and (query like 'COMMIT%' or query like 'commit%' or query like '%; commit%')"""


@dataclass
class Scene:
    """One database, one queue, one ledger."""

    database: Database
    client: QueueClient
    queue: Queue
    ledger: Ledger

    def send(self, count: int = 1, body: Any = None) -> Sequence[int]:
        with self.database.connect() as connection:
            numbers = self.queue.send_batch([Message(body) for _ in range(count)], transaction=connection)
            self.ledger.sent(connection, numbers)
        return numbers

    def receive(self) -> ReceivedMessage:
        """The next message, which comes within a moment."""
        [received] = self.queue.receive(wait=A_MOMENT)
        return received

    def finish(self, received: ReceivedMessage) -> None:
        with received.transaction() as transaction:
            self.ledger.completed(transaction, received.sequence_number)

    def complete(self, sequence_number: int, lock_token: str) -> None:
        """Completes with a kept token."""
        with self.database.connect() as connection:
            connection.execute("select pgqueue.complete(%s, %s, %s)", [QUEUE, sequence_number, UUID(lock_token)])

    def pass_a_lock_duration(self) -> None:
        self.database.move_clock(LOCK_DURATION)

    def balance(self) -> Balance:
        return self.ledger.balance()

    def await_workers(self) -> None:
        """Waits until every transaction is over in which work was done."""
        with self.database.connect() as connection:
            connection.execute("lock table pgqueue_testing.posting")

    def terminate_committing(self) -> None:
        """Ends the sessions that are in the middle of a COMMIT, and waits for their end."""
        with self.database.connect(autocommit=True) as connection:
            ended = connection.execute(TERMINATE_COMMITTING).fetchall()
        assert ended == [(True,)]

    @contextmanager
    def slow_commits(self) -> Iterator[Callable[[], None]]:
        """The COMMIT of work takes until the function is called that this gives."""
        with self.database.connect(autocommit=True) as connection:
            connection.execute(SLOW_COMMIT)
            connection.execute("select pg_advisory_lock(1)")
            yield lambda: _let_go(connection)


@contextmanager
def staged(database: Database) -> Iterator[Scene]:
    ledger = Ledger(database.dsn)
    ledger.install()
    with QueueClient(database.dsn) as client:
        client.create_queue(QUEUE, lock_duration=LOCK_DURATION)
        yield Scene(database, client, client.queue(QUEUE), ledger)


def _let_go(connection: Any) -> None:
    connection.execute("select pg_advisory_unlock(1)")
