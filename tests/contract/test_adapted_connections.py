"""The adapters that an application registers with its connections affect its own statements alone, not the library's.

Django has JSON read as text, others read times and ids as something else, rows as dictionaries, or set another
DateStyle.
"""

from __future__ import annotations

import functools
import json
import weakref
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import psycopg
import psycopg2.extensions
import psycopg2.extras
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
from pgqueue.transports.cursors import KEPT
from tests.contract.interpreter import meant
from tests.contract.sources import CALLERS, CLIENTS, WORKPLACES, AsyncSources, Sources, SyncSources, with_driver
from tests.contract.world import MINUTE, Mode, World

ARRAY_OF_INT8 = 1016
READ_AS_TEXT = (
    *("jsonb", "json", "uuid", "timestamptz", "interval", "numeric", "int8", "int4", "bool", "bytea"),
    ARRAY_OF_INT8,
)

#: Of bool, bytea, int8, int4, text, json, interval, numeric, uuid, jsonb, timestamptz, and of arrays.
OIDS = (16, 17, 20, 23, 25, 114, 1186, 1700, 2950, 3802, 1184, 1009, ARRAY_OF_INT8)
CODECS = (
    *("bool", "bytea", "int8", "int4", "text", "json", "interval", "numeric", "uuid", "jsonb", "timestamptz"),
    *("float8", "name", "varchar"),
)


class OddRecord(asyncpg.Record):  # type: ignore[misc]  # asyncpg has no types
    """A row as an application may want it."""

    def __getitem__(self, place: object) -> object:
        return "as the application reads it"

    def __iter__(self) -> Iterator[object]:
        return iter(["as the application reads it"])


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


def refusing(value: object) -> Any:
    raise AssertionError(f"{value!r} is written as the application wants it")


def as_nothing(value: object, *_: object) -> str:
    return "as the application reads it"


def adapt_psycopg2(connection: Any) -> None:
    """Everything that psycopg2 lets an application change on a connection; its dictionaries of rows come last."""
    with connection.cursor() as cursor:
        cursor.execute(SESSION)
    connection.commit()
    connection.set_client_encoding("LATIN1")
    psycopg2.extras.register_default_json(connection, loads=as_nothing)
    psycopg2.extras.register_default_jsonb(connection, loads=as_nothing)
    for oid in OIDS:
        psycopg2.extensions.register_type(psycopg2.extensions.new_type((oid,), f"T{oid}", as_nothing), connection)


async def adapt_asyncpg(connection: Any) -> None:
    """Codecs of its own for every type that we read or write."""
    await connection.execute(SESSION)
    for kind in CODECS:
        await connection.set_type_codec(kind, schema="pg_catalog", encoder=refusing, decoder=as_nothing)


class AdaptedSyncSources(SyncSources):
    def __init__(self, database: Database) -> None:
        super().__init__(database)
        other_engine = sqlalchemy.create_engine(with_driver(database, "psycopg2"))
        event.listen(other_engine, "connect", lambda connection, _: adapt_psycopg2(connection))
        self.other_engine = other_engine
        self._closing.append(other_engine.dispose)
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
        elif isinstance(source, psycopg2.extensions.connection):
            adapt_psycopg2(source)
            source.cursor_factory = psycopg2.extras.RealDictCursor
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
        self.other_engine = call(create_async_engine, with_driver(database, "asyncpg"))
        event.listen(
            meant(self.other_engine).sync_engine, "connect", lambda adapted, _: adapted.run_async(adapt_asyncpg)
        )
        self._closing.append(self.other_engine.dispose)
        self._closing += [self.pool.close, self.engine.dispose]

    def open(self, kind: str) -> Any:
        source = super().open(kind)
        if isinstance(meant(source), psycopg.AsyncConnection):
            self._interpreter.call(self._configure, source)
        elif isinstance(meant(source), asyncpg.Connection):
            self._interpreter.call(adapt_asyncpg, source)
        return source

    @functools.cached_property
    def other_pool(self) -> Any:
        pool = self._interpreter.call(
            asyncpg.create_pool, self.database.dsn, min_size=0, max_size=4, init=adapt_asyncpg, record_class=OddRecord
        )
        self._closing.append(pool.terminate)
        return pool

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
    source: Any = client._source
    (connection,) = source._pool._pool
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
