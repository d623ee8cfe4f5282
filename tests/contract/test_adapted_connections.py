"""The adapters that an application registers with its connections affect its own statements alone, not the library's.

Django has JSON read as text, others read times and ids as something else, rows as dictionaries, or set another
DateStyle.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import psycopg_pool
import pytest
import sqlalchemy
from psycopg.adapt import Dumper
from psycopg.rows import dict_row
from psycopg.types.json import set_json_dumps, set_json_loads
from psycopg.types.string import TextBinaryLoader, TextLoader
from sqlalchemy import event
from sqlalchemy.ext.asyncio import create_async_engine

from pgqueue import Message, QueueClient
from pgqueue.testing import Database
from pgqueue.transports import drive
from pgqueue.transports.connections import PoolSource
from pgqueue.transports.cursors import KEPT
from tests.contract.interpreter import meant
from tests.contract.sources import CALLERS, CLIENTS, WORKPLACES, AsyncSources, Sources, SyncSources
from tests.contract.world import MINUTE, Mode, World

ARRAY_OF_INT8 = 1016
READ_AS_TEXT = (
    *("jsonb", "json", "uuid", "timestamptz", "interval", "numeric", "int8", "int4", "bool", "bytea"),
    ARRAY_OF_INT8,
)

SESSION = """set datestyle = 'German'; set intervalstyle = 'sql_standard';
             set bytea_output = 'escape'; set timezone = 'Asia/Tokyo'"""


class Refusing(Dumper):
    """Writes nothing that it is given."""

    def dump(self, obj: Any) -> bytes:
        raise AssertionError(f"{obj!r} is written as the application wants it")


def as_it_is(text: str | bytes) -> str | bytes:
    return text


def adapt(connection: Any) -> None:
    """As a framework might, for its own use, and worse."""
    for kind in READ_AS_TEXT:
        connection.adapters.register_loader(kind, TextLoader)
        connection.adapters.register_loader(kind, TextBinaryLoader)
    for written in (UUID, datetime, timedelta, list, bytes):
        connection.adapters.register_dumper(written, Refusing)
    set_json_loads(as_it_is, connection)
    set_json_dumps(repr, connection)


def adapt_factories(connection: Any) -> None:
    """Where only the application reads rows."""
    is_asynchronous = isinstance(connection, psycopg.AsyncConnection)
    connection.row_factory = dict_row
    connection.cursor_factory = psycopg.AsyncRawCursor if is_asynchronous else psycopg.RawCursor


class AdaptedSyncSources(SyncSources):
    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.pool = psycopg_pool.ConnectionPool(
            database.dsn, min_size=0, max_size=4, open=True, configure=self._configure
        )
        self.engine = sqlalchemy.create_engine(database.url)
        _adapt_engine(self.engine)
        self._closing += [self.pool.close, self.engine.dispose]

    def open(self, kind: str) -> Any:
        source = super().open(kind)
        if isinstance(source, psycopg.Connection):
            self._configure(source)
        return source

    def _configure(self, connection: psycopg.Connection[Any]) -> None:
        connection.execute(SESSION)
        if not connection.autocommit:
            connection.commit()
        adapt(connection)
        adapt_factories(connection)


class AdaptedAsyncSources(AsyncSources):
    def __init__(self, database: Database) -> None:
        super().__init__(database)
        call = self._interpreter.call
        self.pool = call(
            psycopg_pool.AsyncConnectionPool,
            database.dsn,
            min_size=0,
            max_size=4,
            open=False,
            configure=self._configure,
        )
        self.pool.open()
        self.engine = call(create_async_engine, database.url)
        _adapt_engine(meant(self.engine).sync_engine)
        self._closing += [self.pool.close, self.engine.dispose]

    def open(self, kind: str) -> Any:
        source = super().open(kind)
        if isinstance(meant(source), psycopg.AsyncConnection):
            self._interpreter.call(self._configure, source)
        return source

    async def _configure(self, connection: psycopg.AsyncConnection[Any]) -> None:
        await connection.execute(SESSION)
        if not connection.autocommit:
            await connection.commit()
        adapt(connection)
        adapt_factories(connection)


def _adapt_engine(engine: sqlalchemy.Engine) -> None:
    @event.listens_for(engine, "connect")
    def connected(connection: Any, _: object) -> None:
        cursor = connection.cursor()
        cursor.execute(SESSION)
        connection.commit()
        adapt(getattr(connection, "driver_connection", connection))


FACES: dict[str, type[Sources]] = {"sync": AdaptedSyncSources, "async": AdaptedAsyncSources}


@pytest.fixture(scope="module")
def adapted(shared_database: Database) -> Iterator[dict[str, Sources]]:
    """The sources of both faces, adapted; and JSON is read otherwise on every connection of this process."""
    set_json_loads(as_it_is)
    sources = {name: kind(shared_database) for name, kind in FACES.items()}
    yield sources
    for each in sources.values():
        each.close()
    set_json_loads(json.loads)


OWN = [Mode(face, client) for face in FACES for client in CLIENTS]
SHARED = [Mode(face, "dsn", caller) for face in FACES for caller in CALLERS]


@pytest.fixture(params=[*OWN, *SHARED], ids=str)
def world(request: pytest.FixtureRequest, adapted: dict[str, Sources]) -> World:
    return World(request.param, adapted[request.param.face])


@pytest.fixture(params=OWN, ids=str)
def own(request: pytest.FixtureRequest, adapted: dict[str, Sources]) -> World:
    return World(request.param, adapted[request.param.face])


BODY = {"id": 7, "price": 1.5, "lines": [None, True, "ü"]}
SOON = datetime.now(UTC).replace(microsecond=123456) + timedelta(days=10_000)  # clocks of tests are moved


def a_message(**fields: Any) -> Message:
    return Message(BODY, application_properties={"shop": "berlin"}, priority=-5, time_to_live=MINUTE, **fields)


def assert_read_as_always(message: Any) -> None:
    assert message.body == BODY
    assert message.application_properties == {"shop": "berlin"}
    assert message.priority == -5
    assert message.expires_at - message.enqueued_time == MINUTE


def test_messages_are_sent_and_received(world: World) -> None:
    with world.transaction() as transaction:
        sent = [world.queue.send(a_message(), transaction=transaction.handle)]
        batch = [Message(b"\x00\xff\\"), a_message(message_id="id", scheduled_enqueue_time=SOON)]
        sent += world.queue.send_batch(batch, transaction=transaction.handle)
        transaction.commit()
    first, second, third = world.queue.peek(max_messages=9)
    assert [message.sequence_number for message in (first, second, third)] == sent
    assert_read_as_always(first)
    assert second.body == b"\x00\xff\\"
    assert (third.message_id, third.scheduled_enqueue_time) == ("id", SOON)
    world.queue.cancel_scheduled([third.sequence_number])
    with world.transaction() as transaction:
        taken = world.queue.receive_and_delete(max_messages=9, transaction=transaction.handle)
        transaction.commit()
    assert_read_as_always(taken[0])
    assert world.found() == []


def test_messages_are_settled(world: World) -> None:
    world.queue.send_batch([a_message() for _ in range(5)])
    one, two, three, four, five = world.queue.receive(max_messages=9)
    assert_read_as_always(one)
    assert isinstance(one.lock_token, UUID)
    assert one.renew_lock() > one.enqueued_time
    with world.transaction() as transaction:
        handle = transaction.handle
        one.complete(transaction=handle)
        two.abandon(delay=MINUTE, properties={"tries": 1}, transaction=handle)
        three.postpone(MINUTE, body=BODY, transaction=handle)
        four.record_effect("mailed", result=BODY, transaction=handle)
        assert world.queue.dead_letter_batch([four], reason="Test", transaction=handle)[0].is_settled
        assert world.queue.complete_batch([five], transaction=handle)[0].is_settled
        transaction.commit()
    (effect,) = four.recorded_effects()
    assert effect.result == BODY
    assert [message.body for message in world.found()] == [BODY, BODY]
    (dead,) = world.dead()
    assert dead.application_properties == {"shop": "berlin"}
    assert isinstance(dead.dead_lettered_at, datetime)
    assert world.queue.dead_letters.resubmit(older_than=timedelta(0)) == [dead.sequence_number]


def test_queues_are_read_and_changed(own: World) -> None:
    own.client.update_queue(own.name, user_metadata=BODY, lock_duration=MINUTE, retain_history=timedelta(days=1))
    properties = own.client.get_queue(own.name)
    assert (properties.user_metadata, properties.lock_duration, properties.retain_history) == (
        BODY,
        MINUTE,
        timedelta(days=1),
    )
    assert isinstance(properties.created_at, datetime)
    assert properties in own.client.list_queues()
    own.locked().complete()
    (settled,) = own.queue.history(since=datetime.now(UTC) - timedelta(days=2))
    assert isinstance(settled.settled_at, datetime)
    own.send(1)
    assert own.client.get_queue_runtime_properties(own.name).ready == 1
    own.client.sweep()
    assert own.client.purge_queue(own.name) == 1


def test_sends_that_overlap(own: World) -> None:
    with own.queue.sender() as sender:
        pending = [sender.send(a_message(message_id=str(number))) for number in range(20)]
        numbers = [each.result() for each in pending]
    assert [message.sequence_number for message in own.found()] == numbers
    with own.queue.receiver(prefetch=5) as receiver:
        assert_read_as_always(next(iter(receiver)))


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("workplace", WORKPLACES)
def test_work_in_a_transaction(adapted: dict[str, Sources], face: str, workplace: str) -> None:
    world = World(Mode(face, "pool"), adapted[face])
    world.queue.send(a_message())
    received = world.receive()
    with world.sources.workplace(workplace) as source, received.transaction(source):
        assert_read_as_always(received)
    assert world.found() == []
    world.queue.send(a_message())
    with world.sources.workplace(workplace) as source:
        assert world.sources.process(world.receive(), lambda message, tx: message.body, source) == BODY


def the_only_connection(client: QueueClient) -> psycopg.Connection[Any]:
    """That of a client which has done one thing at a time: each statement has the session of the one before."""
    assert isinstance(client._source, PoolSource)
    (connection,) = client._source._pool._pool
    assert isinstance(connection, psycopg.Connection)
    return connection


def test_a_session_may_change_between_two_statements(shared_database: Database) -> None:
    with QueueClient(shared_database.dsn) as client:
        client.create_queue("changing")
        queue = client.queue("changing")
        for encoding, zone, hours in [("LATIN1", "Asia/Tokyo", 9), ("UTF8", "UTC", 0), ("LATIN1", "Asia/Tokyo", 9)]:
            session = f"set client_encoding = '{encoding}'; set timezone = '{zone}'"
            the_only_connection(client).execute(session.encode())
            queue.send(Message("ü", subject="ü"))
            (message,) = queue.receive_and_delete()
            assert (message.body, message.subject) == ("ü", "ü")
            assert message.enqueued_time.utcoffset() == timedelta(hours=hours)


def test_an_idle_connection_keeps_its_cursors_and_not_what_they_read(shared_database: Database) -> None:
    with QueueClient(shared_database.dsn) as client:
        client.create_queue("keeping")
        client.queue("keeping").send_batch([Message(number) for number in range(9)])
        assert len(client.queue("keeping").receive_and_delete(max_messages=9)) == 9
        kept = getattr(the_only_connection(client), KEPT).values()
        assert kept
        assert [cursor.pgresult for _, cursor in kept] == [None] * len(kept)


def test_a_connection_that_is_at_work_is_closed_with_the_last_reference_to_it(shared_database: Database) -> None:
    with QueueClient(shared_database.dsn) as client:
        client.create_queue("leaving")
        client.queue("leaving").send(Message(1))
        begun = drive(client._source.begin())
        left = weakref.ref(begun.handle)
        begun.handle._pool = None  # or psycopg warns of it
        del begun
        assert left() is None
