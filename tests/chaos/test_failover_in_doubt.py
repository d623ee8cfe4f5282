"""A COMMIT in doubt across a failover: a standby knows no outcome, and an id that is given out again proves nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from benchmarks.chaos.pair import Pair
from pgqueue import Message, QueueClient, ReceivedMessage, ReceiveState, process
from pgqueue.errors import CommitInDoubtError
from pgqueue.flows import Source
from pgqueue.model.encoding import encode
from pgqueue.statements import sending
from pgqueue.testing import Database
from pgqueue.testing.database import create_template
from pgqueue.testing.hosts import binaries
from pgqueue.testing.server import ThrowawayServer
from pgqueue.transports import drive, source_of
from tests.chaos.sources import BROKEN, TRANSACTIONS, source
from tests.patience import eventually

QUEUE = "orders"
LOCK_DURATION = timedelta(minutes=1)

GIVE_OUT_IDS = "do $$ begin for n in 1..300 loop perform pg_current_xact_id(); commit; end loop; end $$"
STATUS = "select pg_xact_status(%s::text::xid8)"


class Failover:
    """A pair with a queue, in which one message is under lock before the standby is there."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        pair.create()
        template = create_template(pair.primary.dsn())
        self.database = Database(pair.dsn(template))
        with self.on(pair.primary) as connection:
            connection.execute("create table effect (number int)")
        self.client = QueueClient(self.database.dsn)
        self.client.create_queue(QUEUE, lock_duration=LOCK_DURATION)
        self.queue = self.client.queue(QUEUE)
        self.queue.send(Message(1))
        (self.received,) = self.queue.receive()

    def on(self, server: ThrowawayServer, **kwargs: Any) -> psycopg.Connection[Any]:
        return psycopg.connect(self.dsn(server), autocommit=True, **kwargs)

    def dsn(self, server: ThrowawayServer) -> str:
        return make_conninfo(self.database.dsn, host=str(server.sockets), target_session_attrs="any")

    def store(self) -> sending.Stored:
        """Messages that a flush stored on the primary, committed."""
        statement = sending.store(QUEUE, [encode(Message(2))])
        with self.on(self.pair.primary) as connection:
            return statement.read(connection.execute(statement.sql, statement.parameters).fetchall())

    def outcome(self, server: ThrowawayServer, stored: sending.Stored) -> str:
        with asking(self.dsn(server)) as source:
            return drive(source.execute(sending.outcome(stored)))

    def fail_over(self) -> None:
        """The new primary gives out the latest ids again, and another receiver completes the message."""
        self.pair.fail_over()
        with self.on(self.pair.standby) as connection:
            connection.execute(GIVE_OUT_IDS)
        self.database.move_clock(2 * LOCK_DURATION)
        for message in self.queue.receive(max_messages=10):
            message.complete()

    def effects(self) -> int:
        with self.database.connect() as connection:
            return int(connection.execute("select count(*) from effect").fetchall()[0][0])


@contextmanager
def asking(dsn: str) -> Iterator[Source]:
    source = source_of(dsn, asynchronous=False)
    try:
        yield source
    finally:
        drive(source.close())


@pytest.fixture
def scene() -> Iterator[Failover]:
    pair = Pair(binaries())
    try:
        scene = Failover(pair)
        with scene.client:
            yield scene
    finally:
        pair.remove()


@pytest.fixture
def late(scene: Failover) -> Failover:
    """The standby has received all WAL, and replays none of it now."""
    scene.pair.follow(synchronous=True)
    with scene.on(scene.pair.standby) as connection:
        connection.execute("select pg_wal_replay_pause()")
        eventually(lambda: connection.execute("select pg_get_wal_replay_pause_state()").fetchone() == ("paused",))
    return scene


@pytest.fixture
def copied(scene: Failover) -> Failover:
    """The standby has missed all that happened since it was copied from the stopped primary."""
    scene.pair.copy()
    return scene


def test_a_standby_that_replays_late_knows_no_outcome_of_a_send(late: Failover) -> None:
    stored = late.store()
    assert late.outcome(late.pair.standby, stored) == "in progress"
    late.pair.fail_over()
    assert late.outcome(late.pair.standby, stored) == "unknown", "the id may be another transaction's"


@pytest.mark.parametrize("kind", TRANSACTIONS)
def test_a_standby_that_replays_late_leaves_a_settlement_open(late: Failover, kind: str) -> None:
    with QueueClient(late.dsn(late.pair.standby)) as client, source(kind, late.dsn(late.pair.primary)) as transaction:
        message = late.received
        message.complete(transaction=transaction)
        transaction.commit()
        message._source = client._source
        message.context.retract()  # the answer to the COMMIT was lost
        assert message.resolve() is ReceiveState.COMPLETING


def test_an_id_that_is_given_out_again_does_not_prove_that_a_send_was_committed(copied: Failover) -> None:
    stored = copied.store()
    copied.fail_over()
    with copied.on(copied.pair.standby) as connection:
        assert connection.execute(STATUS, [stored.transaction_id]).fetchone() == ("committed",), "another transaction's"
    assert copied.outcome(copied.pair.standby, stored) == "unknown"


def test_an_id_that_is_given_out_again_does_not_prove_that_work_was_committed(copied: Failover) -> None:
    def work(message: ReceivedMessage, transaction: Any) -> None:
        transaction.execute("insert into effect values (1)")
        copied.fail_over()

    with pytest.raises(CommitInDoubtError):
        process(copied.received, work)
    assert copied.received.resolve() is ReceiveState.FAULTED
    assert copied.effects() == 0


@pytest.mark.parametrize("kind", TRANSACTIONS)
def test_an_id_that_is_given_out_again_does_not_prove_that_the_callers_work_was_committed(
    copied: Failover, kind: str
) -> None:
    with source(kind, copied.dsn(copied.pair.primary)) as transaction:
        copied.received.complete(transaction=transaction)
        copied.fail_over()
        with pytest.raises(BROKEN):
            transaction.commit()
        assert copied.received.resolve() is ReceiveState.FAULTED


def test_a_message_whose_lock_the_new_primary_knows_is_worked_on_again(copied: Failover) -> None:
    """Its token proves that there was no COMMIT, even if the id is in use."""
    message, dsn = copied.received, copied.dsn(copied.pair.primary)
    with psycopg.connect(dsn) as transaction:
        message.complete(transaction=transaction)
        copied.pair.fail_over()
        with copied.on(copied.pair.standby) as connection:
            connection.execute(GIVE_OUT_IDS)
        with pytest.raises(BROKEN):
            transaction.commit()
    assert message.resolve() is ReceiveState.RECEIVED
    message.complete()


@pytest.mark.parametrize("end", ["commit prepared 'p'", "rollback prepared 'p'"])
def test_a_transaction_that_was_prepared_before_a_failover_is_open_until_it_is_decided(
    scene: Failover, end: str
) -> None:
    message = scene.received
    scene.pair.follow(synchronous=True)
    with closing(psycopg.connect(scene.dsn(scene.pair.primary))) as transaction:
        transaction.tpc_begin("p")
        message.complete(transaction=transaction)
        transaction.tpc_prepare()
        scene.pair.fail_over()
        assert message.resolve() is ReceiveState.COMPLETING
        with scene.on(scene.pair.standby) as connection:
            connection.execute(end)
        assert message.resolve() is (ReceiveState.RECEIVED if "rollback" in end else ReceiveState.FAULTED)


def test_after_a_crash_an_id_does_not_prove_that_work_was_committed(scene: Failover) -> None:
    """The server had not written down the transaction, and gives its id to another transaction, which commits."""
    message = scene.received
    server = scene.pair.primary
    with closing(psycopg.connect(scene.dsn(server))) as transaction:
        message.complete(transaction=transaction)
        server.kill()
        server.start()
        with scene.on(server) as connection:
            connection.execute(GIVE_OUT_IDS)
            assert connection.execute(STATUS, [message.context.transaction_id]).fetchone() == ("committed",)
        scene.database.move_clock(2 * LOCK_DURATION)
        (again,) = scene.queue.receive()
        again.complete()
        assert message.resolve() is ReceiveState.FAULTED
