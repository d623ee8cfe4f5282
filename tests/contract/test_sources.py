"""The sources that a client, a verb and a block accept, and their refusal of everything else."""

from __future__ import annotations

import asyncio
import sys
import time
import types
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import psycopg_pool
import pytest
import sqlalchemy
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import dict_row
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import Session

import pgqueue.aio
from pgqueue import Message, QueueClient, ReceivedMessage, ReceiveState
from pgqueue.errors import (
    AccessDeniedError,
    ConnectionLostError,
    InvalidArgumentError,
    InvalidStateError,
    OperationTimeoutError,
    SchemaVersionError,
    TransactionRequiredError,
    UnsupportedSourceError,
)
from pgqueue.flows import Flow
from pgqueue.testing import Database
from pgqueue.transports import drive
from pgqueue.transports.connections import PoolSource
from pgqueue.transports.dsn import SERVICE, VARIABLES
from tests.contract.interpreter import meant
from tests.contract.sources import CALLERS, FACES, KEPT_OPEN, Sources, libpq_variables
from tests.contract.world import World
from tests.patience import eventually

OTHER = {"sync": "async", "async": "sync"}

NO_SOURCES: dict[str, Any] = {
    "nothing": None,
    "a number": 7,
    "bytes": b"postgresql://localhost",
    "a path": Path("/var/run/postgresql"),
    "a connection class": psycopg.Connection,
    "a list": ["postgresql://localhost"],
}


def verbs(world: World, received: ReceivedMessage) -> list[Callable[[Any], object]]:
    """Every verb that takes `transaction=`."""
    queue = world.queue
    return [
        lambda handle: queue.send(Message(1), transaction=handle),
        lambda handle: queue.send_batch([Message(1)], transaction=handle),
        lambda handle: queue.receive_and_delete(transaction=handle),
        lambda handle: queue.complete_batch([received], transaction=handle),
        lambda handle: queue.abandon_batch([received], transaction=handle),
        lambda handle: queue.dead_letter_batch([received], reason="Bad", transaction=handle),
        lambda handle: received.complete(transaction=handle),
        lambda handle: received.abandon(transaction=handle),
        lambda handle: received.dead_letter("Bad", transaction=handle),
    ]


@pytest.mark.parametrize("source", list(NO_SOURCES.values())[1:], ids=list(NO_SOURCES)[1:])
def test_an_unsupported_source_of_a_client_is_refused(either: World, source: Any) -> None:
    with pytest.raises(UnsupportedSourceError) as refusal:
        either.sources.made_of(source)
    assert "a client needs a DSN, a connection pool or an engine" in str(refusal.value)
    assert type(source).__name__ in str(refusal.value)
    assert isinstance(refusal.value, TypeError)


def test_a_client_without_a_source_takes_the_database_of_the_environment(
    either: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in (*VARIABLES, SERVICE):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(InvalidArgumentError, match=r"no database was named: give a DSN.*PGHOST.*QueueClient.embedded"):
        either.sources.made_of(None)
    for variable, value in libpq_variables(either.database).items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setenv("PGAPPNAME", "mine")
    with either.sources.made_of(None) as client:
        assert either.name in [each.name for each in client.list_queues()]
        client.migrate()
        assert "application_name" not in meant(client)._source.conninfo


def test_a_service_file_names_a_database(either: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    said = conninfo_to_dict(either.database.dsn).items()
    (tmp_path / "services").write_text("[shop]\n" + "".join(f"{name}={value}\n" for name, value in said))
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
    monkeypatch.setenv("PGSERVICE", "shop")
    monkeypatch.setenv("PGHOST", "/nonexistent")
    with either.sources.made_of(None) as client:
        assert either.name in [each.name for each in client.list_queues()]


@pytest.mark.parametrize("driver", ["psycopg", "psycopg_async", "asyncpg"])
def test_a_dsn_may_be_written_for_sqlalchemy(either: World, driver: str) -> None:
    dsn = either.database.url.replace("+psycopg", f"+{driver}")
    with either.sources.made_of(dsn) as client:
        assert either.name in [each.name for each in client.list_queues()]
        client.migrate()


@pytest.mark.parametrize("kind", CALLERS)
def test_a_transaction_is_no_client(either: World, kind: str) -> None:
    with either.sources.workplace(kind) as source, pytest.raises(UnsupportedSourceError, match="a client needs"):
        either.sources.made_of(source)


@pytest.mark.parametrize("source", [*NO_SOURCES.values(), "postgresql://localhost"], ids=[*NO_SOURCES, "a DSN"])
def test_a_source_without_a_transaction_is_refused_by_every_verb_and_nothing_happens(
    either: World, source: Any
) -> None:
    if source is None:
        return
    received = either.locked()
    for verb in verbs(either, received):
        with pytest.raises(UnsupportedSourceError) as refusal:
            verb(source)
        drivers = "psycopg or psycopg2" if either.mode.face == "sync" else "psycopg or asyncpg"
        assert f"transaction must be a connection of {drivers}, or a SQLAlchemy session or conn" in str(refusal.value)
        assert type(source).__name__ in str(refusal.value)
        assert received.context.state is ReceiveState.RECEIVED
    with pytest.raises(UnsupportedSourceError, match="a transaction needs a connection"):
        received.transaction(source).__enter__()
    assert either.is_ours(received)
    assert either.bodies() == ["work"]


@pytest.mark.parametrize("kind", KEPT_OPEN[1:])
def test_a_source_that_could_only_begin_a_transaction_cannot_share_one(either: World, kind: str) -> None:
    received = either.locked()
    for verb in verbs(either, received):
        with (
            either.sources.workplace(kind) as source,
            pytest.raises(UnsupportedSourceError, match="must be a connection of psycopg or"),
        ):
            verb(source)
    assert either.is_ours(received)


@pytest.mark.parametrize("kind", [*CALLERS, *KEPT_OPEN[1:]])
def test_the_error_for_a_source_of_the_other_face_names_that_face(
    either: World, faces: dict[str, Sources], kind: str
) -> None:
    received = either.locked()
    there = "the asynchronous face" if either.mode.face == "sync" else "the synchronous face"
    with faces[OTHER[either.mode.face]].workplace(kind) as source:
        stranger = meant(source)
        refused: list[Callable[[], object]] = [
            lambda: either.sources.made_of(stranger),
            lambda: received.transaction(stranger).__enter__(),
            *(lambda verb=verb: verb(stranger) for verb in verbs(either, received)),
        ]
        for call in refused:
            with pytest.raises(
                UnsupportedSourceError, match=rf"an? {type(stranger).__name__}( of \w+)? belongs with .*{there}"
            ):
                call()
    assert received.context.state is ReceiveState.RECEIVED
    assert either.is_ours(received)


def test_an_autocommit_connection_without_a_transaction_has_none_to_share(either: World) -> None:
    received = either.locked()
    with either.sources.workplace("autocommit connection") as connection:
        for verb in verbs(either, received):
            with pytest.raises(TransactionRequiredError, match="in autocommit mode"):
                verb(connection)
            assert received.context.state is ReceiveState.RECEIVED
    assert either.is_ours(received)
    assert either.bodies() == ["work"]


@pytest.mark.parametrize("driver", ["psycopg", "another"])
@pytest.mark.parametrize("kind", ["sqlalchemy connection", "session"])
def test_an_engine_in_autocommit_has_none_to_share_either(either: World, kind: str, driver: str) -> None:
    received = either.locked()
    made = either.sources.engine if driver == "psycopg" else either.sources.other_engine
    engine = made.execution_options(isolation_level="AUTOCOMMIT")
    handle = either.sources.session(engine) if kind == "session" else engine.connect()
    for verb in verbs(either, received):
        with pytest.raises(TransactionRequiredError, match="AUTOCOMMIT"):
            verb(handle)
        assert received.context.state is ReceiveState.RECEIVED
    handle.close()
    assert either.is_ours(received)


def test_an_engine_in_autocommit_is_good_enough_for_a_client(either: World) -> None:
    engine = either.sources.engine.execution_options(isolation_level="AUTOCOMMIT")
    queue = either.sources.made_of(engine).queue(either.name)
    queue.send(Message("work"))
    (received,) = queue.receive()
    received.complete()
    assert either.found() == []


FOREIGN: dict[str, tuple[str, str]] = {
    "pysqlite": ("sync", "sqlite://"),
    "psycopg2": ("sync", "postgresql+psycopg2://localhost/db"),
    "pg8000": ("sync", "postgresql+pg8000://localhost/db"),
    "asyncpg": ("async", "postgresql+asyncpg://localhost/db"),
}


@pytest.fixture
def foreign_driver(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """Passes for any driver while an engine is made, so that none needs to be installed."""
    driver, extras = types.ModuleType("psycopg2"), types.ModuleType("psycopg2.extras")
    driver.__dict__.update(paramstyle="pyformat", __version__="2.9.9", Error=Exception, extras=extras)
    monkeypatch.setitem(sys.modules, "psycopg2", driver)
    monkeypatch.setitem(sys.modules, "psycopg2.extras", extras)
    return driver


@pytest.mark.parametrize("driver", FOREIGN)
def test_an_engine_over_another_driver_is_refused_with_the_url_it_should_have(
    faces: dict[str, Sources], foreign_driver: types.ModuleType, driver: str
) -> None:
    face, url = FOREIGN[driver]
    create = sqlalchemy.create_engine if face == "sync" else create_async_engine
    engine: Any = create(url) if driver == "pysqlite" else create(url, module=foreign_driver)
    with pytest.raises(UnsupportedSourceError, match=rf"the driver {driver}: .*postgresql\+psycopg://"):
        faces[face].made_of(engine)


def test_a_session_over_another_driver_is_refused_before_anything_is_sent(faces: dict[str, Sources]) -> None:
    client = faces["sync"].client("dsn")
    engine = sqlalchemy.create_engine("sqlite://")
    with (
        Session(engine) as session,
        pytest.raises(UnsupportedSourceError, match=r"uses sqlite3: .*postgresql\+psycopg"),
    ):
        client.queue("any").send(Message(1), transaction=session)
    engine.dispose()


@pytest.mark.parametrize("dsn", ["nonsense", "oracle+psycopg://localhost/db", "host=/tmp no_such_option=1"])
def test_a_dsn_that_is_none_is_refused_when_the_client_is_made(either: World, dsn: str) -> None:
    with pytest.raises(InvalidArgumentError, match="the DSN must be one that libpq understands"):
        either.sources.made_of(dsn)


@pytest.mark.parametrize("dsn", ["postgresql://127.0.0.1:1/db", "host=/nonexistent dbname=db"])
def test_an_unreachable_database_raises_an_error_at_once_with_the_reason(either: World, dsn: str) -> None:
    client = either.sources.made_of(dsn)
    with closing(client):
        for call in (client.list_queues, lambda: client.queue("orders").send(Message(1))):
            with pytest.raises(ConnectionLostError, match=r"127\.0\.0\.1|nonexistent") as failure:
                call()
            assert failure.value.is_transient


def test_an_engine_with_an_unreachable_database_raises_the_reason_too(either: World) -> None:
    create = sqlalchemy.create_engine if either.mode.face == "sync" else create_async_engine
    client = either.sources.made_of(create("postgresql+psycopg://127.0.0.1:1/db"))
    with pytest.raises(ConnectionLostError, match=r"127\.0\.0\.1"):
        client.list_queues()


def test_an_exhausted_pool_raises_a_timeout_that_names_it(either: World) -> None:
    for source in ("pool", "engine"):
        with either.sources.narrow_client(source, timeout=0.2) as client:
            (received,) = [either.locked()]
            queue = client.queue(either.name)
            either.send("next")
            (held,) = queue.receive()
            with held.transaction():
                with pytest.raises(OperationTimeoutError, match="connection pool has no free connection") as failure:
                    queue.receive()
                assert failure.value.is_transient
            assert held.context.state is ReceiveState.COMPLETED
            received.complete()


def test_the_error_for_a_database_without_the_schema_names_the_remedy(empty_database: Database) -> None:
    with QueueClient(empty_database.dsn) as client:
        for call in (client.list_queues, lambda: client.create_queue("q"), client.queue("q").receive):
            with pytest.raises(SchemaVersionError, match="pgqueue migrate") as refusal:
                call()
            assert "LINE 1" not in str(refusal.value)


def test_the_error_for_a_role_without_rights_names_the_role_and_the_verb(either: World) -> None:
    role = f"stranger_{either.name.replace('-', '_')}"
    either.run(f"create role {role} login")
    client = QueueClient(psycopg.conninfo.make_conninfo(either.database.direct, user=role))
    with client, pytest.raises(AccessDeniedError, match=rf"role {role} may not call \S.*\.send for queue"):
        client.queue(either.name).send(Message(1))
    either.run(f"drop role {role}")


@pytest.mark.parametrize("face", FACES)
def test_connections_that_the_server_has_ended_are_replaced_unnoticed(database: Database, face: str) -> None:
    sources = FACES[face](database)
    client = sources.client("dsn")
    client.create_queue("orders")
    queue = client.queue("orders")
    queue.send_batch([Message(number) for number in range(8)])
    with ExitStack() as at_once:
        for received in queue.receive(max_messages=8):
            at_once.enter_context(received.transaction())
    with database.connect(autocommit=True) as operator:
        ended = operator.execute(
            """select pg_terminate_backend(pid, 5000) from pg_stat_activity
                where datname = current_database() and application_name = 'pgqueue'"""
        ).fetchall()
    assert len(ended) >= 8
    began = time.monotonic()
    queue.send(Message("after the restart"))
    assert [message.body for message in queue.peek()] == ["after the restart"]
    assert time.monotonic() - began < 25  # half a minute, were it the pool that had to find out
    sources.close()


def test_a_closed_client_is_closed_and_what_it_was_given_stays_open(either: World) -> None:
    for source in (either.sources.pool, either.sources.engine):
        client = either.sources.made_of(source)
        client.list_queues()
        client.close()
        client.list_queues()
    client = either.sources.made_of(either.database.dsn)
    with client:
        client.list_queues()
    with pytest.raises(InvalidStateError, match="the client is closed"):
        client.list_queues()


@pytest.mark.parametrize("autocommit", [False, True], ids=["", "autocommit"])
def test_a_pool_gets_its_connections_back_in_their_own_mode(database: Database, autocommit: bool) -> None:
    options = {"autocommit": autocommit}
    with (
        psycopg_pool.ConnectionPool(database.dsn, min_size=1, max_size=1, kwargs=options, open=True) as pool,
        QueueClient(pool) as client,
    ):
        client.list_queues()
        with pool.connection() as connection:
            assert connection.autocommit is autocommit


def test_a_client_that_was_never_used_can_be_closed(either: World) -> None:
    client = either.sources.made_of(either.database.dsn)
    client.close()
    with pytest.raises(InvalidStateError, match="the client is closed"):
        client.list_queues()


def test_a_wait_for_a_connection_ends_in_an_error_when_the_client_is_closed(shared_database: Database) -> None:
    client = QueueClient(shared_database.dsn)
    source: Any = client._source
    held = [drive(source._take()) for _ in range(10)]
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(client.list_queues)
        eventually(lambda: source._pool.get_stats().get("requests_waiting"))
        client.close()
        with pytest.raises(InvalidStateError, match="the client is closed"):
            waiting.result(60)
    for connection in held:
        connection.close()


def test_a_client_that_is_closed_during_its_first_call_leaves_no_pool_open(
    shared_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closing(self: PoolSource, until: float) -> Flow[None]:
        yield from original(self, until)
        client.close()

    client = QueueClient(shared_database.dsn)
    source: Any = client._source
    original = PoolSource._test_connection
    monkeypatch.setattr(PoolSource, "_test_connection", closing)
    with pytest.raises(InvalidStateError, match="the client is closed"):
        client.list_queues()
    assert source._pool.closed


def test_a_client_is_used_in_one_event_loop_after_another(database: Database) -> None:
    client = pgqueue.aio.QueueClient(database.dsn)

    async def send(name: str) -> list[str]:
        await client.create_queue(name)
        await asyncio.gather(*(client.queue(name).send(Message(body)) for body in range(3)))
        (received,) = await client.queue(name).receive()
        async with received.transaction() as transaction:
            await received.complete(transaction=transaction)
        return [queue.name for queue in await client.list_queues()]

    assert asyncio.run(send("a")) == ["a"]
    with database.connect(autocommit=True) as observer:
        others = "select pg_terminate_backend(pid, 20000) from pg_stat_activity where pid <> pg_backend_pid()"
        observer.execute(others + " and datname = current_database() and backend_type = 'client backend'")
    assert asyncio.run(send("b")) == ["a", "b"]
    asyncio.run(client.close())


def test_connections_beside_an_engine_lead_where_its_own_do(shared_database: Database) -> None:
    connect = partial(psycopg.connect, shared_database.dsn)
    for url, hosts in (("", None), ("?host=one,two&target_session_attrs=read-write", "one,two")):
        engine = sqlalchemy.create_engine(f"postgresql+psycopg://{url}", creator=connect)
        with QueueClient(engine) as client:
            client.list_queues()
            found = conninfo_to_dict(client._source.conninfo)
        engine.dispose()
        there = conninfo_to_dict(shared_database.dsn)
        assert (found["dbname"], found["host"]) == (there["dbname"], hosts or there["host"])
        assert "hostaddr" not in found


def test_how_the_application_likes_its_rows_makes_no_difference(either: World) -> None:
    with psycopg.connect(either.database.dsn, row_factory=dict_row) as connection:
        client = QueueClient(either.database.dsn)
        queue = client.queue(either.name)
        queue.send(Message("a"), transaction=connection)
        queue.send_batch([Message("b")], transaction=connection)
        connection.commit()
        (received,) = queue.receive()
        received.complete(transaction=connection)
        assert [message.body for message in queue.receive_and_delete(transaction=connection)] == ["b"]
        connection.commit()
        assert received.state is ReceiveState.COMPLETED
        client.close()
    with psycopg_pool.ConnectionPool(
        either.database.dsn, min_size=0, max_size=1, open=True, kwargs={"row_factory": dict_row}
    ) as pool:
        queue = QueueClient(pool).queue(either.name)
        queue.send(Message("c"))
        (received,) = queue.receive()
        with received.transaction() as tx:
            assert tx.execute("select 1 as one").fetchone() == {"one": 1}
    assert either.found() == []


def test_a_transaction_on_another_database_stores_nothing_here(either: World, empty_database: Database) -> None:
    received = either.locked()
    with empty_database.connect() as elsewhere, pytest.raises(SchemaVersionError):
        QueueClient(either.database.dsn).queue(either.name).send(Message(1), transaction=elsewhere)
    assert received.context.state is ReceiveState.RECEIVED
