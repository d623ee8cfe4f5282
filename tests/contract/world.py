"""Where a test of the contract takes place: a queue, a face, and a transaction of one kind or none."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, LiteralString, NamedTuple

import psycopg
from psycopg.sql import SQL, Identifier

from pgqueue import Message, PeekedMessage, Queue, QueueClient, ReceivedMessage, SequenceNumber
from pgqueue.testing import Database
from pgqueue.testing.clock import MOVE
from tests.contract.sources import CALLERS, CLIENTS, Sources
from tests.contract.transactions import Own
from tests.patience import eventually

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


class Mode(NamedTuple):
    """A face, what the client is made of, and whose transaction the verbs take part in: None is their own."""

    face: str
    client: str
    caller: str | None = None

    def __str__(self) -> str:
        return f"{self.face} {self.caller or 'own'} {self.client if self.caller is None else ''}".strip()


OWN = [Mode(face, client) for face in ("sync", "async") for client in CLIENTS]
SHARED = [Mode(face, "dsn", caller) for face in ("sync", "async") for caller in CALLERS]


class World:
    """A queue of the test's own, and short names for what every test does."""

    def __init__(self, mode: Mode, sources: Sources) -> None:
        self.mode = mode
        self.sources = sources
        self.client: QueueClient = sources.client(mode.client)
        self.name = f"q-{uuid.uuid4().hex[:12]}"
        self.client.create_queue(self.name)
        self.queue: Queue = self.client.queue(self.name)

    @property
    def database(self) -> Database:
        return self.sources.database

    @property
    def is_own(self) -> bool:
        return self.mode.caller is None

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """A transaction of this mode's kind, begun and left to the test to end. In its own mode there is none."""
        transaction = Own() if self.mode.caller is None else self.sources.transaction(self.mode.caller)
        try:
            transaction.begin()
            yield transaction
        finally:
            transaction.close()

    def send(self, *bodies: Any) -> list[SequenceNumber]:
        return self.queue.send_batch([Message(body) for body in bodies])

    def receive(self) -> ReceivedMessage:
        """The one message that is there to be received."""
        (received,) = self.queue.receive()
        return received

    def locked(self, body: Any = "work") -> ReceivedMessage:
        """A new message, received."""
        self.send(body)
        return self.receive()

    def several_locked(self, count: int) -> list[ReceivedMessage]:
        self.send(*range(count))
        received = self.queue.receive(max_messages=count)
        assert len(received) == count
        return received

    def found(self) -> list[PeekedMessage]:
        """All messages in the queue, locked or not."""
        return self.queue.peek(max_messages=1000)

    def bodies(self) -> list[Any]:
        return [message.body for message in self.found()]

    def dead(self) -> list[PeekedMessage]:
        return self.queue.dead_letters.peek(max_messages=1000)

    def is_ours(self, received: ReceivedMessage) -> bool:
        """Whether the message is there, and locked by the token of this delivery."""
        token = "select lock_token from pgqueue.message where sequence_number = %s"
        return self.look(token, received.sequence_number) == [(received.lock_token,)]

    def move_clock(self, by: timedelta) -> None:
        self.run(MOVE, by // timedelta(microseconds=1))

    def look(self, statement: Any, *parameters: Any) -> list[tuple[Any, ...]]:
        """Queries the database from a session apart from the test's sources."""
        return self.run(statement, *parameters).fetchall()

    def wait_until_somebody_looked(self) -> None:
        """Returns once another connection has run a statement, and ended its transaction, since this was called."""
        looked = """select from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()
                       and state = 'idle' and query_start > %s"""
        with self.database.connect(autocommit=True) as observer:
            began = observer.execute("select clock_timestamp()").fetchone()
            eventually(lambda: observer.execute(looked, began).fetchall(), "nobody looked")

    def run(self, statement: Any, *parameters: Any) -> psycopg.Cursor[Any]:
        """Runs a statement from a session apart from the test's sources."""
        return self.sources.onlooker.execute(statement, parameters or None)

    def terminate(self, transaction: Any) -> None:
        """The server ends the session of a transaction, whose connection does not know it yet."""
        ((process,),) = transaction.execute("select pg_backend_pid()")
        assert self.look("select pg_terminate_backend(%s, 20000)", process) == [(True,)]

    @contextmanager
    def forgiving(self) -> Iterator[None]:
        """Ignores the errors of closing a dead connection, but not those of a test."""
        try:
            yield
        except AssertionError:
            raise
        except Exception as error:
            if "terminat" not in str(error) and "closed" not in str(error) and "lost" not in str(error):
                raise

    def wait_until_blocked(self, process: int) -> None:
        """Returns once a backend waits for another's lock."""
        eventually(lambda: self.look("select from unnest(pg_blocking_pids(%s))", process), "it does not wait")

    @contextmanager
    def statements(self) -> Iterator[list[str]]:
        """The statements that others run in the database meanwhile."""
        ran: list[str] = []
        running = """select query from pg_stat_activity where datname = current_database()
                        and pid <> pg_backend_pid() and query_start > %s"""
        ((began,),) = self.look("select clock_timestamp()")
        yield ran
        ran += [query for (query,) in self.look(running, began)]

    def effects(self) -> list[str]:
        """The effects that transactions of this test have written and committed, see `note`."""
        return [label for (label,) in self.look("select label from effect where place = %s order by id", self.name)]

    def note(self, label: str) -> str:
        """The SQL of an effect that is to be seen, once it is committed, among `effects`."""
        return f"insert into effect (place, label) values ('{self.name}', '{label}')"


BUSINESS: Sequence[LiteralString] = (
    "create table effect (id bigint generated always as identity, place text, label text)",
    "create table counter (place text primary key, n integer not null)",
    "create table checked_late (n integer unique deferrable initially deferred)",
)


def prepare(database: Database) -> None:
    """Tables of the application's own; and who waits for a lock for ever is to fail, not to hang."""
    with database.connect() as connection:
        for table in BUSINESS:
            connection.execute(table)
        connection.execute(SQL("alter database {} set lock_timeout = '20 s'").format(Identifier(database.name)))
