"""A handler's leftovers on its connection: the next message meets none of them."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg.rows import dict_row
from psycopg.types.numeric import FloatLoader
from psycopg_pool import AsyncConnectionPool, ConnectionPool
from sqlalchemy import Connection, text

import pgqueue
import pgqueue.aio
from pgqueue import Message, QueueClient, ReceiveState, RetryPolicy
from pgqueue.testing import Database
from tests.chaos.distance import Distance
from tests.patience import eventually
from tests.worker.scene import Running, Scene, plain

KINDS = ["psycopg", "sqlalchemy"]
PATIENT = RetryPolicy(first_delay=timedelta(minutes=5))

#: Statements that a handler may run, and the query that shows the effect to the next one.
OF_A_SESSION = {
    "search path": ("set search_path = pg_temp", "select current_setting('search_path')"),
    "read only": ("set default_transaction_read_only = on", "select current_setting('default_transaction_read_only')"),
    "timeout": ("set statement_timeout = '1h'", "select current_setting('statement_timeout')"),
    "isolation": (
        "set session characteristics as transaction isolation level serializable",
        "select current_setting('default_transaction_isolation')",
    ),
    "custom setting": ("set my.tenant = '42'", "select coalesce(current_setting('my.tenant', true), '')"),
    "role": ("set role pgqueue_owner", "select current_user::text"),
    "authorization": ("set session authorization pgqueue_owner", "select session_user::text"),
    "advisory lock": (
        "select pg_advisory_lock(42)",
        "select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()",
    ),
    "cursor": ("declare left_open cursor with hold for select 1", "select count(*) from pg_cursors where is_holdable"),
    "listen": ("listen elsewhere", "select count(*) from pg_listening_channels()"),
    "temporary table": ("create temporary table left_over ()", "select to_regclass('pg_temp.left_over')::text"),
    "sequence": ("select nextval('drawn')", "select last_drawn()"),
}

LAST_DRAWN = """
    create sequence drawn;
    create function last_drawn() returns bigint language plpgsql as $$
    begin
        return lastval();
    exception when object_not_in_prerequisite_state then
        return null;
    end
    $$
"""


async def _done(result: Any) -> Any:
    return await result if inspect.isawaitable(result) else result


async def value(tx: Any, statement: str) -> Any:
    """Runs SQL text on a connection or a session; returns the value of its one row, if it has any."""
    if isinstance(tx, psycopg.Connection | psycopg.AsyncConnection):
        cursor: Any = await _done(tx.execute(statement.encode()))
        rows = await _done(cursor.fetchall()) if cursor.description else []
        row = rows[0] if rows else (None,)
        return row if isinstance(row, dict) else row[0]
    result = await _done(tx.execute(text(statement)))
    return result.scalar() if result.returns_rows else None


@pytest.mark.parametrize("batch", [1, 2], ids=["alone", "batch"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fails", [False, True], ids=["completed", "failed"])
def test_nothing_of_a_session_reaches_the_next_message(scene: Scene, kind: str, batch: int, fails: bool) -> None:
    if kind == "sqlalchemy" and scene.database.dsn != scene.database.direct:
        pytest.skip("SQLAlchemy sends COMMIT alone: PgBouncer may carry out the reset after it in another session")
    seen = {}

    async def handler(message: Any, tx: Any) -> None:
        what, does = message.body
        if does == "leave":
            await value(tx, OF_A_SESSION[what][0])
            if fails:
                raise ValueError("with all that left")
        if does == "look":
            seen[what] = await value(tx, OF_A_SESSION[what][1])

    scene.run(LAST_DRAWN)
    expected = {what: scene.rows(probe)[0][0] for what, (_, probe) in OF_A_SESSION.items()}
    count = scene.send(*([what, does] for what in OF_A_SESSION for does in ("leave", "rest", "look", "rest")))
    options = {"transaction": kind, "concurrency": 1, "transaction_batch": batch, "retry": PATIENT}
    with scene.working(handler, **options) as running:
        eventually(lambda: running.worker.tally.completed + running.worker.tally.failed == len(count))
    assert seen == expected
    assert running.worker.tally.failed == (len(OF_A_SESSION) if fails else 0)


def set_row_factory(tx: Any) -> None:
    tx.row_factory = dict_row


def set_cursor_factory(tx: Any) -> None:
    is_asynchronous = isinstance(tx, psycopg.AsyncConnection)
    tx.cursor_factory = psycopg.AsyncClientCursor if is_asynchronous else psycopg.ClientCursor


def set_threshold(tx: Any) -> None:
    tx.prepare_threshold = None


def register_loader(tx: Any) -> None:
    tx.adapters.register_loader("int4", FloatLoader)


def add_notice_handler(tx: Any) -> None:
    tx.add_notice_handler(print)


#: Settings that a handler may make on a psycopg connection, and the function that shows them.
OF_A_CONNECTION: dict[str, tuple[Callable[[Any], None], Callable[[Any], Any]]] = {
    "row factory": (set_row_factory, lambda tx: tx.row_factory),
    "cursor factory": (set_cursor_factory, lambda tx: tx.cursor_factory.__name__.removeprefix("Async")),
    "prepare threshold": (set_threshold, lambda tx: tx.prepare_threshold),
    "adapters": (register_loader, lambda tx: tx.adapters.get_loader(psycopg.adapters.types["int4"].oid, 0)),
    "notice handlers": (add_notice_handler, lambda tx: list(tx._notice_handlers)),
    "attribute": (lambda tx: setattr(tx, "tenant", 42), lambda tx: getattr(tx, "tenant", None)),
}


@pytest.mark.parametrize("batch", [1, 2], ids=["alone", "batch"])
@pytest.mark.parametrize("fails", [False, True], ids=["completed", "failed"])
@pytest.mark.core
def test_nothing_of_a_connection_reaches_the_next_message(scene: Scene, batch: int, fails: bool) -> None:
    seen = {}

    async def handler(message: Any, tx: Any) -> None:
        what, does = message.body
        if does == "leave":
            OF_A_CONNECTION[what][0](tx)
            if fails:
                raise ValueError("with all that left")
        if does == "look":
            seen[what] = OF_A_CONNECTION[what][1](tx)

    with psycopg.connect(scene.database.dsn) as fresh:
        expected = {what: look(fresh) for what, (_, look) in OF_A_CONNECTION.items()}
    count = scene.send(*([what, does] for what in OF_A_CONNECTION for does in ("leave", "rest", "look", "rest")))
    options = {"transaction": "psycopg", "concurrency": 1, "transaction_batch": batch, "retry": PATIENT}
    with scene.working(handler, **options) as running:
        eventually(lambda: running.worker.tally.completed + running.worker.tally.failed == len(count))
    assert seen == expected


def test_nothing_of_a_connection_of_the_applications_pool_reaches_the_next_message(scene: Scene) -> None:
    """Settings of the session stay: the pool's own ``reset`` is for these."""

    async def handler(message: Any, tx: Any) -> None:
        if message.body == "leave":
            tx.row_factory = dict_row
            return
        cursor: Any = await _done(tx.execute("select 1"))
        seen.append(await _done(cursor.fetchone()))

    seen: list[Any] = []
    scene.send("leave", "look")
    kind: Any = ConnectionPool if scene.face == "threads" else AsyncConnectionPool
    pool = kind(scene.database.dsn, min_size=0, max_size=1, open=False, kwargs={"autocommit": True})
    running = Running(_opening(pool, scene.make(handler, transaction=pool, concurrency=1)))
    eventually(lambda: running.worker.tally.completed + running.worker.tally.failed == 2)
    running.stop()
    assert seen == [(1,)]


def _opening(pool: Any, worker: Any) -> Any:
    """The worker, whose run opens the pool and closes it."""
    run = worker.run

    async def arun() -> None:
        async with pool:
            await run()

    def opened() -> None:
        with pool:
            run()

    worker.run = arun if isinstance(pool, AsyncConnectionPool) else opened
    return worker


async def open_copy(tx: Any) -> Any:
    copying = tx.cursor().copy("copy pg_catalog.pg_class to stdout")
    return copying, await (copying.__aenter__() if hasattr(copying, "__aenter__") else _called(copying.__enter__))


async def open_copy_in(tx: Any) -> Any:
    await _done(tx.execute("create temporary table copied (number int)"))
    copying = tx.cursor().copy("copy copied from stdin")
    return copying, await (copying.__aenter__() if hasattr(copying, "__aenter__") else _called(copying.__enter__))


async def open_stream(tx: Any) -> Any:
    rows = tx.cursor().stream("select generate_series(1, 100000)")
    return rows, await (anext(rows) if hasattr(rows, "__anext__") else _called(rows.__next__))


async def hold_lock(tx: Any) -> Any:
    return await _done(tx.lock.acquire())


async def _called(function: Callable[[], Any]) -> Any:
    return function()


async def driver_of(tx: Any) -> Any:
    if isinstance(tx, psycopg.Connection | psycopg.AsyncConnection):
        return tx
    connection = await _done(tx.connection())
    if isinstance(connection, Connection):
        return connection.connection.driver_connection
    return (await connection.get_raw_connection()).driver_connection


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("occupy", [open_copy, open_copy_in, open_stream, hold_lock])
@pytest.mark.parametrize("fails", [False, True], ids=["returns", "raises"])
def test_a_connection_that_a_handler_occupies_is_closed(
    scene: Scene, kind: str, occupy: Callable[[Any], Any], fails: bool
) -> None:
    async def handler(message: Any, tx: Any) -> None:
        if message.body == "occupy":
            kept.append(await occupy(await driver_of(tx)))
            if fails:
                raise ValueError("with that left")

    kept: list[Any] = []
    scene.send("occupy", "next", "last")
    with scene.working(handler, transaction=kind, concurrency=1, retry=PATIENT) as running:
        eventually(lambda: running.worker.tally.completed + running.worker.tally.failed == 3)
    assert scene.left() == ["occupy"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_connection_is_used_again_with_the_settings_of_the_dsn(database: Database, kind: Any) -> None:
    async def handler(message: Any, tx: Any) -> None:
        seen.append(await value(tx, "select current_setting('statement_timeout')"))
        backends.add(await value(tx, "select pg_backend_pid()"))
        await value(tx, "set statement_timeout = '1h'")

    seen: list[Any] = []
    backends: set[int] = set()
    with Scene(database, "threads") as scene:
        scene.send(*range(3))
        with QueueClient(make_conninfo(database.direct, options="-c statement_timeout=77s")) as client:
            running = Running(pgqueue.Worker(client.queue("q"), plain(handler), transaction=kind, concurrency=1))
            eventually(lambda: running.worker.tally.completed == 3)
            running.stop()
    assert seen == ["77s"] * 3
    assert len(backends) == 1


@pytest.mark.parametrize("fails", [False, True], ids=["committed", "rolled back"])
def test_a_reset_takes_no_round_trip(database: Database, fails: bool) -> None:
    with (
        Distance(database.dsn, timedelta(0)) as distance,
        QueueClient(distance.dsn) as client,
    ):
        client.create_queue("q")
        queue = client.queue("q")
        queue.send_batch([Message(1), Message(2)])
        first, second = queue.receive(max_messages=2)
        with first.transaction() as tx:
            tx.execute("select 1")
        before = distance.round_trips
        with ExitStack() as stack:
            if fails:
                stack.enter_context(pytest.raises(ValueError, match="all that"))
            tx = stack.enter_context(second.transaction())
            tx.execute("set statement_timeout = '1h'")
            if fails:
                raise ValueError("after all that")
        assert distance.round_trips - before == 3  # begin and pin; the work; complete, commit and reset


def test_transactions_that_last_keep_no_connection_from_the_clients_statements(database: Database) -> None:
    with QueueClient(database.direct) as client, ExitStack() as stack:
        client.create_queue("q")
        queue = client.queue("q")
        queue.send_batch([Message(number) for number in range(10)])
        for received in queue.receive(max_messages=10):
            stack.enter_context(received.transaction())
        sending = threading.Thread(target=queue.send, args=[Message("meanwhile")], daemon=True)
        sending.start()
        sending.join(10)
        assert not sending.is_alive(), "it waits for a connection"


def test_a_transaction_has_the_isolation_level_of_the_session_as_it_is_reset(scene: Scene) -> None:
    async def handler(message: Any, tx: Any) -> None:
        seen.add(await value(tx, "select current_setting('transaction_isolation')"))
        await value(tx, "set session characteristics as transaction isolation level serializable")

    seen: set[str] = set()
    count = scene.send(*range(50))
    with scene.working(handler, transaction="psycopg", concurrency=1) as running:
        eventually(lambda: running.worker.tally.completed == len(count))
    assert seen == {"read committed"}


@pytest.mark.parametrize("settles", [False, True], ids=["completed by us", "completed by the work"])
def test_a_reset_that_fails_does_not_undo_the_commit(database: Database, settles: bool) -> None:
    unlock_all = "execute on function pg_advisory_unlock_all()"
    with database.connect(autocommit=True) as owner, ExitStack() as stack:
        owner.execute(f"revoke {unlock_all} from public".encode())
        role = f"{database.name}_resetter"  # roles belong to the server, where other tests run
        owner.execute(f"create role {role} login".encode())
        stack.callback(owner.execute, f"drop owned by {role}; drop role {role}".encode())
        with QueueClient(database.direct) as admin:
            admin.create_queue("q")
            admin.grant_send("q", role)
            admin.grant_receive("q", role)
        client = stack.enter_context(QueueClient(make_conninfo(database.direct, user=role)))
        queue = client.queue("q")
        queue.send_batch([Message(1), Message(2)])
        first, second = queue.receive(max_messages=2)
        for received in (first, second):
            with received.transaction() as tx:
                if settles:
                    received.complete(transaction=tx)
            assert received.context.state is ReceiveState.COMPLETED
            assert tx.closed
        assert queue.peek() == []
