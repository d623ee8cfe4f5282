"""The connection of a sender breaks, wherever it is: every message is stored exactly once, and its number known."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import product

import psycopg
import pytest

from pgqueue import Message, QueueClient
from pgqueue.errors import PGQueueError
from pgqueue.model.encoding import encode
from pgqueue.statements import sending
from pgqueue.testing import Database, ThrowawayServer
from pgqueue.testing.database import create
from pgqueue.transports import drive, source_of
from tests.chaos.proxy import Cut, Proxy
from tests.chaos.scene import TERMINATE_COMMITTING
from tests.chaos.senders import FACES, Send, stored

QUEUE = "chaos"

# A COMMIT of a flush goes on when the advisory lock is free.
SLOW_COMMIT = """
create function slow_commit() returns trigger language plpgsql as $$
begin
    perform pg_advisory_xact_lock_shared(1);
    return null;
end
$$;
create constraint trigger slow_commit after insert on pgqueue.message
    deferrable initially deferred for each row execute function slow_commit()"""

IS_KNOWN = "select %s::text::xid8 < pg_snapshot_xmax(pg_current_snapshot())"


@pytest.fixture(params=FACES)
def send(request: pytest.FixtureRequest) -> Send:
    return FACES[request.param]


@pytest.fixture
def proxy(database: Database) -> Iterator[Proxy]:
    with QueueClient(database.dsn) as client:
        client.create_queue(QUEUE)
    with Proxy(database.dsn) as proxy:
        yield proxy


@pytest.mark.parametrize(
    ("at", "max_in_flight"),
    [
        *product([b"begin; select", b"commit"], [1, 10, 100]),
        *product([b"commit; begin"], [10, 100]),  # with one in flight no COMMIT has company
    ],
)
@pytest.mark.parametrize("cut", Cut)
def test_every_message_is_stored_once_wherever_the_connection_breaks(
    database: Database, proxy: Proxy, send: Send, cut: Cut, at: bytes, max_in_flight: int
) -> None:
    proxy.cut(cut, at)
    bursts = [send(proxy.dsn, QUEUE, 30, max_in_flight)]
    while not proxy.has_cut:  # by chance all of a burst went at once, and no COMMIT had company
        assert len(bursts) < 20
        bursts.append(send(proxy.dsn, QUEUE, 30, max_in_flight))
    sent = [message for numbers in bursts for message in enumerate(numbers)]
    assert stored(database) == sorted(sent, key=lambda message: message[1])
    assert len(sent) == 30 * len(bursts)


@pytest.mark.parametrize("let_it", ["go through", "be terminated"])
def test_a_commit_that_is_still_under_way_is_waited_for(
    database: Database, proxy: Proxy, send: Send, let_it: str
) -> None:
    with database.connect(autocommit=True) as gate, ThreadPoolExecutor() as thread:
        gate.execute(SLOW_COMMIT)
        gate.execute("select pg_advisory_lock(1)")
        proxy.cut(Cut.DURING, b"commit")
        in_progress = proxy.answered(b"in progress")
        sent = thread.submit(send, proxy.dsn, QUEUE, 30, 10)
        assert in_progress.wait(300)
        if let_it == "be terminated":
            ended = gate.execute(TERMINATE_COMMITTING)
            assert ended.fetchall() == [(True,)]
        gate.execute("select pg_advisory_unlock(1)")
        numbers = sent.result()
    assert stored(database) == sorted(enumerate(numbers), key=lambda message: message[1])


def test_after_a_crash_a_transaction_id_proves_nothing(throwaway_server: ThrowawayServer) -> None:
    """The server had not written it down, and gives it to another transaction, which commits."""
    database = create(throwaway_server.dsn())
    with QueueClient(database.dsn) as client:
        client.migrate()
        client.create_queue(QUEUE)
    stored = stored_and_forgotten(throwaway_server, database)
    asked = source_of(database.dsn, asynchronous=False)
    try:
        with pytest.raises(PGQueueError) as unknown:
            drive(asked.execute(sending.outcome(stored)))
        assert unknown.value.sqlstate == "22023", "it is in the future"
        with database.connect(autocommit=True) as somebody:
            somebody.execute("do $$ begin for n in 1..100 loop perform pg_current_xact_id(); commit; end loop; end $$")
            trap = somebody.execute("select pg_xact_status(%s::text::xid8)", [stored.transaction_id]).fetchone()
        assert trap == ("committed",)
        assert drive(asked.execute(sending.outcome(stored))) == "unknown"
    finally:
        drive(asked.close())


def stored_and_forgotten(server: ThrowawayServer, database: Database) -> sending.Stored:
    """A transaction that had stored messages when the server crashed before writing any of it to disk, even its id."""
    statement = sending.store(QUEUE, [encode(Message(1))])
    while True:
        with closing(psycopg.connect(database.dsn)) as connection:
            stored = statement.read(connection.execute(statement.sql, statement.parameters).fetchall())
            server.kill()
            server.start()
        with database.connect(autocommit=True) as connection:
            if connection.execute(IS_KNOWN, [stored.transaction_id]).fetchone() == (False,):
                return stored  # a busy server writes down some
